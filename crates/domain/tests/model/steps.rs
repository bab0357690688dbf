//! What can happen, and a random sequence of it from a seed.

use domain::SubscriptionId;
use domain::delivery::{Flow, INDEXED_MAX, Ordering};
use domain::policy::Poison;
use testkit::Random;

/// Ordering keys; the first means none.
pub(crate) const KEYS: [&str; 5] = ["", "a", "b", "c", "d"];
/// Values of the attribute `kind`, by which lanes may go; the first means that it has none.
pub(crate) const KINDS: [&str; 3] = ["", "made", "gone"];
/// Values of the attribute `colour`, by which filters go.
pub(crate) const COLOURS: [&str; 3] = ["red", "green", "blue"];

/// One thing that happens. Places in lists are taken modulo their lengths, so that any part of a
/// sequence can be run by itself.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Publish {
        count: usize,
        key: usize,
        kind: usize,
        colour: usize,
        bytes: usize,
    },
    PublishTo {
        subscription: SubscriptionId,
        key: usize,
    },
    PublishGap(usize),
    PublishDamaged {
        key: usize,
    },
    Damage(usize),
    Trim(usize),
    Evict(usize),
    Open(Flow),
    SetFlow(usize, Flow),
    Close(usize),
    Lease {
        consumer: usize,
        records: usize,
        bytes: usize,
        ticks: u32,
    },
    /// A consumer that asks once and is gone.
    Pull {
        records: usize,
        ticks: u32,
    },
    /// Everybody who is awake asks, until nobody is.
    Rest,
    AckHeld(usize),
    AckAll,
    AckAny(usize),
    AckForeign(usize),
    NackHeld(usize),
    NackAny(usize),
    /// Of any lease ever given.
    GiveBack(usize),
    ExtendHeld(usize, u32),
    ExtendAny(usize, u32),
    Pass(u32),
    PassToWake,
    /// Time passes and nobody looks.
    Drift(u32),
    Forward(usize),
    ForwardAll,
    Spare(usize),
    Release(usize),
    Skip(usize),
    ReleaseUnread(usize),
    /// Given up before it was read again, and forwarded.
    SkipUnread(usize),
    SetOrder(Ordering, bool),
    SetExactlyOnce(bool),
    SetRetry(Option<(u32, u32)>),
    SetAttempts(Option<u32>),
    SetPoison(Poison),
    SetPaused(bool),
    Retain(usize),
    Seek(usize),
    TakeSnapshot,
    SeekSnapshot(usize),
    /// What was not flushed may be lost, from one of the last changes on. It takes a while, or the
    /// clock is set back.
    Crash {
        lost: usize,
        ticks: u32,
        is_set_back: bool,
    },
}

/// What one run starts with.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) filter: usize,
    pub(crate) indexed_max: usize,
    pub(crate) remembered_max: usize,
    pub(crate) read_max: u64,
    /// How many of the ordering keys there are, so that lanes are short or long.
    pub(crate) keys: usize,
    pub(crate) steps: Vec<Step>,
}

impl Plan {
    pub(crate) fn from_seed(seed: u64, length: usize) -> Self {
        let mut random = Random::seeded(seed);
        let filter = if random.percent(50) { 0 } else { random.index(crate::naive::FILTERS.len()) };
        let indexed_max = if random.percent(70) { INDEXED_MAX } else { random.between(8, 40) };
        let remembered_max = if random.percent(70) { usize::MAX } else { random.between(2, 20) };
        let read_max = if random.percent(60) { u64::MAX } else { random.between(1, 6) as u64 };
        let keys = random.between(2, KEYS.len() + 1);
        let mut steps = first_settings(&mut random);
        let kinds = Kinds::new(&mut random);
        while steps.len() < length {
            steps.push(kinds.step(&mut random));
        }
        Self { filter, indexed_max, remembered_max, read_max, keys, steps }
    }
}

/// Half of the settings are chosen at the start, so that short runs have any.
fn first_settings(random: &mut Random) -> Vec<Step> {
    let mut steps = Vec::new();
    if random.percent(75) {
        steps.push(any_order(random));
    }
    for setting in [any_exactly_once, any_retry, any_attempts, any_poison] {
        if random.percent(50) {
            steps.push(setting(random));
        }
    }
    steps
}

type Make = fn(&mut Random) -> Step;

/// The kinds of steps of one run and how often each comes.
struct Kinds(Vec<(usize, Make)>);

impl Kinds {
    /// A run leaves some kinds out and has more of others: what needs many of a kind, or none of
    /// another, then happens sooner or later.
    fn new(random: &mut Random) -> Self {
        let weigh = |&(weight, make): &(usize, Make)| {
            let times = [0, 1, 1, 1, 2, 4][random.index(6)];
            (weight * times, make)
        };
        let mut kinds: Vec<_> = KINDS_OF_STEPS.iter().map(weigh).collect();
        // Without these nothing happens at all.
        kinds.extend([(10, any_publish as Make), (10, any_lease), (6, |_| Step::Rest)]);
        Self(kinds)
    }

    fn step(&self, random: &mut Random) -> Step {
        let total = self.0.iter().map(|(weight, _)| weight).sum();
        let mut left = random.index(total);
        for (weight, make) in &self.0 {
            if left < *weight {
                return make(random);
            }
            left -= weight;
        }
        Step::Rest
    }
}

const KINDS_OF_STEPS: [(usize, Make); 43] = [
    (8, any_publish),
    (1, |random| Step::PublishTo {
        subscription: SubscriptionId(random.between(1, 3) as u64),
        key: random.index(KEYS.len()),
    }),
    (1, |random| Step::PublishGap(random.between(1, 4))),
    (1, |random| Step::PublishDamaged { key: random.index(KEYS.len()) }),
    (1, |random| Step::Damage(random.index(1_000))),
    (1, |random| Step::Trim(random.index(1_000))),
    (1, |random| Step::Evict(random.index(1_000))),
    (2, |random| Step::Open(any_flow(random))),
    (2, |random| Step::SetFlow(random.index(100), any_flow(random))),
    (2, |random| Step::Close(random.index(100))),
    (14, any_lease),
    (6, |random| Step::Pull { records: random.between(1, 5), ticks: any_ticks(random) }),
    (8, |_| Step::Rest),
    (14, |random| Step::AckHeld(random.index(1_000))),
    (2, |_| Step::AckAll),
    (6, |random| Step::AckAny(random.index(1_000))),
    (1, |random| Step::AckForeign(random.index(1_000))),
    (6, |random| Step::NackHeld(random.index(1_000))),
    (2, |random| Step::NackAny(random.index(1_000))),
    (3, |random| Step::GiveBack(random.index(1_000))),
    (3, |random| Step::ExtendHeld(random.index(1_000), any_ticks(random))),
    (1, |random| Step::ExtendAny(random.index(1_000), any_ticks(random))),
    (4, |random| Step::Pass(any_ticks(random))),
    (4, |_| Step::PassToWake),
    (1, |random| Step::Drift(any_ticks(random))),
    (3, |random| Step::Forward(random.index(100))),
    (1, |_| Step::ForwardAll),
    (2, |random| Step::Spare(random.index(100))),
    (2, |random| Step::Release(random.index(100))),
    (2, |random| Step::Skip(random.index(100))),
    (1, |random| Step::ReleaseUnread(random.index(100))),
    (1, |random| Step::SkipUnread(random.index(100))),
    (1, any_order),
    (1, any_exactly_once),
    (1, any_retry),
    (1, any_attempts),
    (1, any_poison),
    (1, |random| Step::SetPaused(random.percent(30))),
    (1, |random| {
        let place = random.index(1_000);
        Step::Retain(random.pick(&[0, 0, place]))
    }),
    (1, |random| Step::Seek(random.index(1_000))),
    (1, |_| Step::TakeSnapshot),
    (1, |random| Step::SeekSnapshot(random.index(100))),
    (2, any_crash),
];

fn any_publish(random: &mut Random) -> Step {
    Step::Publish {
        count: random.between(1, 5),
        key: random.index(KEYS.len()),
        kind: random.index(KINDS.len()),
        colour: random.index(COLOURS.len()),
        bytes: random.between(1, 120),
    }
}

fn any_lease(random: &mut Random) -> Step {
    Step::Lease {
        consumer: random.index(100),
        records: random.between(1, 8),
        bytes: random.between(1, 600),
        ticks: any_ticks(random),
    }
}

fn any_crash(random: &mut Random) -> Step {
    let (lost, ticks) = (random.index(4), any_ticks(random));
    Step::Crash { lost, ticks, is_set_back: random.percent(20) }
}

fn any_flow(random: &mut Random) -> Flow {
    let messages_max = if random.percent(50) { 0 } else { random.between(1, 6) as u64 };
    let bytes_max = if random.percent(60) { 0 } else { random.between(1, 400) as u64 };
    Flow { messages_max, bytes_max }
}

fn any_ticks(random: &mut Random) -> u32 {
    let end = random.pick(&[20, 20, 2_000]);
    u32::try_from(random.between(1, end)).expect("a small number")
}

fn any_order(random: &mut Random) -> Step {
    let order = random.pick(&[Ordering::None, Ordering::ByKey, Ordering::ByKey, Ordering::Fifo]);
    Step::SetOrder(order, random.percent(30))
}

fn any_exactly_once(random: &mut Random) -> Step {
    Step::SetExactlyOnce(random.percent(35))
}

fn any_retry(random: &mut Random) -> Step {
    let min = any_ticks(random);
    let policy = (min, min.saturating_mul(random.pick(&[1, 3, 10])));
    Step::SetRetry(random.pick(&[None, Some((0, 0)), Some(policy), Some(policy)]))
}

fn any_attempts(random: &mut Random) -> Step {
    Step::SetAttempts(random.pick(&[None, Some(1), Some(2), Some(2), Some(3)]))
}

fn any_poison(random: &mut Random) -> Step {
    Step::SetPoison(random.pick(&[Poison::Skip, Poison::Halt]))
}
