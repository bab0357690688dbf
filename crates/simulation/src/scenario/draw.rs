//! Draws a scenario from its seed.

use std::sync::Arc;
use std::time::Duration;

use domain::delivery::Ordering;
use storage::planted::Planted;
use testkit::Random;

use super::{Act, Consumer, Draft, Kind, Scenario, Step, Subscription, To, Wait};
use crate::executor::Manner;
use crate::history::Id;

const KEYS: [&str; 4] = ["", "ann", "bob", "cid"];
const KINDS: [&str; 2] = ["a", "b"];
/// Shards of a cluster's store.
pub(crate) const SHARDS: u32 = 4;
/// Steps of a history.
const STEPS: usize = 60;

pub(super) fn draw(kind: Kind, seed: u64) -> Scenario {
    let mut random = Random::seeded(seed ^ 0x5eed);
    let mut topics: Vec<Id> = (0..random.between(1, 4)).map(|n| id(format!("topic-{n}"))).collect();
    topics.push(id("letters"));
    let mut subscriptions: Vec<_> =
        (0..random.between(2, 6)).map(|n| subscription(&mut random, n, &topics)).collect();
    subscriptions.push(undertaker());
    let faulty = match kind {
        Kind::Cluster => random.pick(&[0, 0, 1, 5, 20]),
        Kind::Memory | Kind::Disk => 0,
    };
    let mut scenario = Scenario {
        kind,
        seed,
        planted: Planted::default(),
        manner: Manner {
            in_turn: random.pick(&[0, 0, 50, 95]),
            poll_micros: random.pick(&[0, 0, 5, 50]),
        },
        progress_flush: Duration::from_millis(random.pick(&[20, 100, 5_000])),
        faulty,
        topics,
        subscriptions,
        steps: Vec::new(),
    };
    let mut steps = Steps { random, numbers: 0, made: Vec::new() };
    let count = steps.random.between(STEPS / 2, STEPS * 2);
    // Some worlds are calm for most of the time, others are never.
    let calm = steps.random.pick(&[4, 10, 30]);
    scenario.steps = (0..count).map(|_| steps.step(&scenario, calm)).collect();
    scenario
}

fn id(text: impl Into<String>) -> Id {
    Arc::from(text.into())
}

fn subscription(random: &mut Random, number: usize, topics: &[Id]) -> Subscription {
    let (letters, topics) =
        topics.split_last().map_or((None, topics), |(last, rest)| (Some(Arc::clone(last)), rest));
    let is_sought = random.one_in(5);
    Subscription {
        id: id(format!("sub-{number}")),
        topic: Arc::clone(&topics[random.index(topics.len())]),
        ordering: random.pick(&[
            Ordering::None,
            Ordering::None,
            Ordering::ByKey,
            Ordering::ByKey,
            Ordering::Fifo,
        ]),
        exactly_once: random.percent(40),
        kind: random.one_in(5).then_some("a"),
        letters_to: letters.filter(|_| !is_sought && random.percent(40)),
        is_sought,
        consumers: (0..random.between(1, 4)).map(|_| consumer(random)).collect(),
        is_left_out: false,
    }
}

fn consumer(random: &mut Random) -> Consumer {
    Consumer { is_stream: random.percent(60), most: random.pick(&[1, 3, 10, 100]) }
}

pub(super) fn extra(number: u32) -> Subscription {
    Subscription {
        id: id(format!("extra-{number}")),
        topic: id(format!("extra-{number}")),
        ordering: Ordering::None,
        exactly_once: number.is_multiple_of(2),
        kind: None,
        letters_to: None,
        is_sought: false,
        consumers: vec![Consumer { is_stream: true, most: 10 }],
        is_left_out: false,
    }
}

/// Reads the dead letters, and has nothing else to do.
fn undertaker() -> Subscription {
    Subscription {
        id: id("undertaker"),
        topic: id("letters"),
        ordering: Ordering::None,
        exactly_once: true,
        kind: None,
        letters_to: None,
        is_sought: false,
        consumers: vec![Consumer { is_stream: true, most: 100 }],
        is_left_out: false,
    }
}

struct Steps {
    random: Random,
    numbers: u32,
    /// Topics and subscriptions that were made on the way.
    made: Vec<u32>,
}

impl Steps {
    fn step(&mut self, scenario: &Scenario, calm: u64) -> Step {
        let act = if self.random.one_in(calm) { self.fault(scenario) } else { self.load(scenario) };
        let random = &mut self.random;
        // A node that stops amid a call is what fences are for.
        let is_stop = matches!(act, Act::Pause(..) | Act::Kill(..) | Act::CutOff(..));
        let wait = match random.below(10) {
            _ if is_stop && random.percent(70) => Wait::Polls(random.below(40)),
            0..4 => Wait::Polls(random.below(200)),
            4..7 => Wait::Time(Duration::from_micros(random.below(5_000))),
            7..9 => Wait::Time(Duration::from_millis(random.below(500))),
            _ => Wait::Time(Duration::from_millis(random.below(8_000))),
        };
        Step { wait, act }
    }

    fn load(&mut self, scenario: &Scenario) -> Act {
        let random = &mut self.random;
        // The last topic and the last subscription are for letters.
        let topics = scenario.topics.len() - 1;
        let any = random.index(scenario.subscriptions.len() - 1);
        let sought: Vec<usize> = places(scenario, |one| one.is_sought);
        let lettered: Vec<usize> = places(scenario, |one| one.letters_to.is_some());
        match random.below(40) {
            0 if scenario.kind != Kind::Cluster => Act::List,
            1 => Act::Snapshot(any),
            2..4 if !sought.is_empty() => Act::Snapshot(random.pick(&sought)),
            4..6 if !sought.is_empty() => {
                let to = random.pick(&[To::Snapshot, To::Snapshot, To::Future, To::Past]);
                Act::Seek(random.pick(&sought), to)
            }
            6..8 if !lettered.is_empty() => Act::Replay(random.pick(&lettered)),
            8 => {
                self.numbers += 1;
                self.made.push(self.numbers);
                Act::Create(self.numbers, drafts(random))
            }
            9 if !self.made.is_empty() => {
                let at = self.random.index(self.made.len());
                Act::Delete(self.made.swap_remove(at))
            }
            _ => {
                self.numbers += 1;
                Act::Publish {
                    topic: random.index(topics),
                    number: self.numbers,
                    drafts: drafts(random),
                }
            }
        }
    }

    fn fault(&mut self, scenario: &Scenario) -> Act {
        let random = &mut self.random;
        let node = 1 + random.index(scenario.nodes());
        let short = Duration::from_millis(random.below(2_000));
        let most = random.pick(&[1_000, 5_000, 30_000]);
        let long = Duration::from_millis(100 + random.below(most));
        let jump = |random: &mut Random| {
            let sizes = [1_000, 1_000_000, 60_000_000, 3_000_000_000, 90_000_000_000];
            let most = random.pick(&sizes);
            let size = i64::try_from(random.below(most)).unwrap_or(0);
            Act::Jump(node, if random.one_in(2) { size } else { -size })
        };
        match scenario.kind {
            Kind::Memory => match random.below(4) {
                0 => Act::Close(node),
                1 => Act::Pause(node, long),
                2 => jump(random),
                _ => Act::Kill(node, short),
            },
            Kind::Disk => match random.below(8) {
                0 => Act::Close(node),
                1 => Act::Pause(node, long),
                2 => jump(random),
                3 => Act::Kill(node, short),
                4 => Act::FailWrite(1 + random.below(30)),
                _ => Act::PowerOff(1 + random.below(30), short),
            },
            Kind::Cluster => match random.below(10) {
                0 => Act::Close(node),
                1..4 => Act::Pause(node, long),
                4..6 => Act::Kill(node, short),
                6 => jump(random),
                7 => Act::CutOff(node, long),
                _ => {
                    let shard = u32::try_from(random.below(SHARDS.into())).unwrap_or(0);
                    Act::HandOver(shard, 1 + random.index(scenario.nodes()))
                }
            },
        }
    }
}

fn places(scenario: &Scenario, is_one: impl Fn(&Subscription) -> bool) -> Vec<usize> {
    let all = scenario.subscriptions.iter().enumerate();
    all.filter(|(_, subscription)| is_one(subscription)).map(|(at, _)| at).collect()
}

fn drafts(random: &mut Random) -> Vec<Draft> {
    let count = random.pick(&[1, 1, 1, 2, 5, 10]);
    // A batch of one key, or of many.
    let only = random.one_in(2).then(|| random.pick(&KEYS));
    (0..count)
        .map(|_| Draft {
            key: only.unwrap_or_else(|| random.pick(&KEYS)),
            kind: random.pick(&KINDS),
        })
        .collect()
}
