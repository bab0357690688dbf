//! The power is cut again and again while messages are published, leased, acked, nacked, given up,
//! replayed and sought, and a checker watches every delivery over all lives.
//!
//! One thing is done at a time, so that the checker knows what must be; what the broker does by
//! itself, dead letters and replays and chores, goes on beside it. The seed decides the choices.
//! `PULL_ROUNDS` runs more or fewer rounds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use broker::{Broker, Clock, Consumer, LetterPlace, Options, ReplayRequest, SeekTarget};
use domain::delivery::{Flow, Lease};
use domain::filter::Filter;
use domain::replay::{Destination, Selection};
use domain::{Message, Offset, SnapshotName, Subscription, TopicName};
use storage::disk::{self, Handle};
use tempfile::TempDir;
use testkit::disk::Cut;
use testkit::{FakeClock, Random, SimDisk, seed};
use tokio::runtime::{self, Runtime};

use crate::fixture::{
    ack_ids, dead_letters_to, decoded, leases_now, message, power_off, settings, small_log,
    subscription_name, topic_name,
};
use crate::pull_checker::{PullChecker, Seen, Standings};

const ROUNDS: u64 = 40;
/// Every so many rounds all that is owed must come before the power goes.
const DRAIN_EVERY: u64 = 8;
/// All consumers of all subscriptions are asked so often until nothing is owed any more.
const DRAIN_TRIES: usize = 5_000;
const KEYS: [&str; 4] = ["", "ann", "bob", "cid"];
const DEADLINE: Duration = Duration::from_secs(10);
/// Consumers of each subscription.
const STREAMS: usize = 3;
/// Those that give messages up.
const GIVING_UP: [&str; 2] = ["letters", "letters-keys"];
const SOUGHT: [&str; 2] = ["sought", "sought-keys"];

#[test]
fn power_cuts_keep_order_acks_letters_filters_seeks_and_replays() {
    let mut rounds = Rounds::new(seed::seed());
    for number in 0..seed::number("PULL_ROUNDS").unwrap_or(ROUNDS) {
        rounds.round((number + 1).is_multiple_of(DRAIN_EVERY));
        let faults = &rounds.checker.faults;
        assert!(faults.is_empty(), "round {number}\n{}", faults.join("\n"));
    }
    let PullChecker { delivered, taken_back, .. } = rounds.checker;
    println!("{delivered} deliveries, {taken_back} acks taken back");
    assert!(delivered > 1_000 && taken_back > 0, "so little happened that nothing is proven");
}

/// Lives of a broker, one after another, on what the power cut before left.
struct Rounds {
    random: Random,
    checker: PullChecker,
    disk: SimDisk,
    folder: TempDir,
    clock: Arc<FakeClock>,
    texts: u64,
    snapshots: BTreeMap<String, (SnapshotName, Standings)>,
}

/// A broker, from its start to the power cut.
struct Life {
    broker: Arc<Broker>,
    /// Its own, so that it ends with all its tasks at once.
    runtime: Runtime,
    handle: Handle,
}

/// What is held by the consumers of a life.
#[derive(Default)]
struct Held {
    /// Subscription → its consumers with their numbers.
    streams: BTreeMap<String, Vec<(u64, Consumer)>>,
    leases: Vec<(String, Lease)>,
    opened: u64,
}

/// The power went while this was asked for.
struct PowerOff;

type Step = Result<(), PowerOff>;

impl Rounds {
    fn new(seed: u64) -> Self {
        let mut rounds = Self {
            random: Random::seeded(seed),
            checker: PullChecker::default(),
            disk: SimDisk::new(),
            folder: tempfile::tempdir().unwrap(),
            clock: Arc::new(FakeClock::new()),
            texts: 0,
            snapshots: BTreeMap::new(),
        };
        let life = rounds.open().unwrap();
        life.runtime.block_on(create(&life.broker, &mut rounds.checker));
        life.end();
        rounds
    }

    /// One life, from its start to its power cut.
    fn round(&mut self, drains: bool) {
        let life = self.start(!drains);
        let runtime = life.runtime.handle().clone();
        runtime.block_on(async {
            let mut held = Held::default();
            let mut steps = 50 + self.random.below(150);
            while self.step(&life.broker, &mut held).await.is_ok() {
                steps = steps.saturating_sub(1);
                if steps == 0 && drains {
                    self.drain(&life.broker, &mut held).await;
                    break;
                }
                if steps == 0 {
                    self.disk.fail(power_off(1 + self.random.below(8)));
                }
                // Nothing but what the broker does by itself may touch the disk any more.
                if steps == 0 && self.disk.is_off() {
                    break;
                }
            }
        });
        life.end();
        self.cut();
        self.checker.cut();
    }

    /// Opens what is left; in some rounds the power goes again while it recovers.
    fn start(&mut self, fails: bool) -> Life {
        loop {
            if fails && self.random.one_in(3) {
                self.disk.fail(power_off(1 + self.random.below(40)));
            }
            match self.open() {
                Ok(life) => return life,
                Err(why) => assert!(self.disk.is_off(), "what a power cut left: {why}"),
            }
            self.cut();
        }
    }

    fn open(&mut self) -> Result<Life, String> {
        let database = self.folder.path().join("definitions");
        let opened = disk::open_on(Arc::new(self.disk.clone()), &database, small_log());
        let opened = opened.map_err(|error| error.to_string())?;
        let runtime =
            runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let flushes = [20, 100, 5_000].map(Duration::from_millis);
        let progress_flush = flushes[self.random.index(flushes.len())];
        let options = Options { progress_flush, ..Options::default() };
        match runtime.block_on(Broker::open(opened.engine, clock, options)) {
            Ok(broker) => Ok(Life { broker, runtime, handle: opened.handle }),
            Err(error) => {
                drop(runtime);
                opened.handle.close();
                Err(error.to_string())
            }
        }
    }

    /// What is synced stays; of what is not, any part.
    fn cut(&mut self) {
        let unsynced = self.disk.unsynced();
        let whole = self.random.index(unsynced.len() + 1);
        let torn = self.random.index(unsynced.get(whole).copied().unwrap_or_default() + 1);
        let cut = match self.random.below(4) {
            0 => Cut::LosesUnsynced,
            1 => Cut::LosesNothing,
            2 => Cut::Prefix { whole, torn },
            _ => Cut::Random(self.random.draw()),
        };
        self.disk = self.disk.power_cut_with(cut);
    }

    /// One thing that a client does.
    async fn step(&mut self, broker: &Broker, held: &mut Held) -> Step {
        self.clock.advance(Duration::from_millis(self.random.below(20)));
        match self.random.below(100) {
            0..30 => self.publish(broker).await,
            30..60 => self.take(broker, held).await,
            60..90 => self.settle(broker, held, true).await,
            90..93 => self.seek(broker, held).await,
            93..95 => self.snapshot(broker).await,
            95..97 => self.replay(broker).await,
            97 => {
                // Its leases last, and its lanes wait for them.
                let name = self.any(held.streams.keys().cloned().collect());
                name.and_then(|name| held.streams.remove(&name));
                Ok(())
            }
            98 => {
                self.expire(held);
                Ok(())
            }
            _ => self.read_letters(broker).await,
        }
    }

    fn any<T: Clone>(&mut self, of: Vec<T>) -> Option<T> {
        of.get(self.random.index(of.len())).cloned()
    }

    /// What the power took the answer from may have happened.
    fn answered<T>(&self, answer: broker::Result<T>, what: &str) -> Result<T, PowerOff> {
        answer.map_err(|error| {
            assert!(self.disk.is_off(), "{what}: {error}");
            PowerOff
        })
    }

    async fn publish(&mut self, broker: &Broker) -> Step {
        let count = [1, 1, 3, 8][self.random.index(4)];
        let mut texts = Vec::new();
        let mut messages = Vec::new();
        for _ in 0..count {
            self.texts += 1;
            let (text, key) = (self.texts.to_string(), KEYS[self.random.index(KEYS.len())]);
            let kind = ["a", "b"][self.random.index(2)];
            self.checker.publish_begins(&text, key, kind);
            let padding = ("padding".to_owned(), "x".repeat(self.random.index(500)));
            let attributes = [("kind".to_owned(), kind.to_owned()), padding].into();
            let ordering_key = key.to_owned();
            messages.push(Message { ordering_key, attributes, ..message(&text) });
            texts.push(text);
        }
        let published = self.answered(broker.publish(&topic(), messages).await, "publish")?;
        for (id, text) in (published.offsets.from.0..).zip(&texts) {
            self.checker.published(text, id);
        }
        Ok(())
    }

    /// One consumer takes what it is given.
    async fn take(&mut self, broker: &Broker, held: &mut Held) -> Step {
        let name = self.any(self.checker.subscriptions.keys().cloned().collect()).unwrap();
        let at = self.random.index(STREAMS);
        self.take_from(broker, held, &name, at).await
    }

    async fn take_from(&mut self, broker: &Broker, held: &mut Held, name: &str, at: usize) -> Step {
        let Held { streams, leases, opened } = held;
        let flow = Flow { messages_max: 12, bytes_max: 0 };
        let streams = streams.entry(name.to_owned()).or_default();
        while streams.len() < STREAMS {
            let stream = broker.stream(&subscription_name(name), flow, DEADLINE);
            *opened += 1;
            streams.push((*opened, self.answered(stream, "stream")?));
        }
        let (number, stream) = &mut streams[at];
        let given = self.answered(leases_now(stream).await, "lease")?;
        for lease in given {
            self.checker.given(name, *number, &Seen::of(&lease));
            leases.push((name.to_owned(), lease));
        }
        Ok(())
    }

    /// Acks or nacks one of the leases. In a drain nothing fails but poison.
    async fn settle(&mut self, broker: &Broker, held: &mut Held, may_fail: bool) -> Step {
        let Some((name, lease)) = self.any(held.leases.clone()) else { return Ok(()) };
        let (id, ids) = (lease.ack_id.offset().0, [lease.ack_id]);
        held.leases.retain(|(_, other)| other.ack_id != lease.ack_id);
        let subscription = broker.subscription(&subscription_name(&name)).unwrap();
        let seen = Seen::of(&lease);
        let is_poison = GIVING_UP.contains(&&*name) && seen.text.ends_with('7');
        let fails = is_poison || may_fail && self.random.one_in(4);
        // What was replayed is well by now.
        if fails && seen.original.is_none() {
            let nacked = subscription.modify_ack_deadline(&ids, Duration::ZERO).await;
            let ended = self.checker.failed(&name, id);
            let is_ended = |lease: &Lease| ended.contains(&lease.ack_id.offset().0);
            held.leases.retain(|(of, other)| *of != name || !is_ended(other));
            return self.answered(nacked, "nack").map(drop);
        }
        let acked = self.answered(subscription.acknowledge(&ids).await, "ack");
        if let Ok(report) = &acked {
            assert!(report.stale.is_empty(), "A2 {name} refused the ack of {id}");
        }
        self.checker.acked(&name, id, acked.as_ref().map(drop).map_err(drop));
        acked.map(drop)
    }

    /// Every lease is over.
    fn expire(&mut self, held: &mut Held) {
        self.clock.advance(DEADLINE + Duration::from_secs(1));
        held.leases.clear();
        self.checker.expired();
    }
}

/// Seeks, snapshots, letters.
impl Rounds {
    async fn snapshot(&mut self, broker: &Broker) -> Step {
        let name = SOUGHT[self.random.index(2)];
        self.texts += 1;
        let text = format!("projects/p/snapshots/snapshot-{}", self.texts);
        let snapshot = SnapshotName::parse("name", &text).unwrap();
        let standings = self.checker.snapshot(name);
        let of = subscription_name(name);
        let made =
            broker.create_snapshot(snapshot.clone(), &of, BTreeMap::new(), BTreeMap::new()).await;
        self.answered(made, "snapshot")?;
        if let Some((old, _)) = self.snapshots.insert(name.to_owned(), (snapshot, standings)) {
            self.answered(broker.delete_snapshot(&old).await, "deletion")?;
        }
        Ok(())
    }

    /// To the snapshot, or to a time to come: then all there is counts as acked.
    async fn seek(&mut self, broker: &Broker, held: &mut Held) -> Step {
        let name = SOUGHT[self.random.index(2)];
        let forward = self.random.one_in(3);
        let (target, standings) = match self.snapshots.get(name) {
            Some((snapshot, standings)) if !forward => {
                (SeekTarget::Snapshot(snapshot.clone()), standings.clone())
            }
            _ => {
                let all = self.checker.all_settled(name);
                (SeekTarget::Time(self.clock.wall().plus(DEADLINE)), all)
            }
        };
        held.leases.retain(|(of, _)| of != name);
        let sought = broker.seek(&subscription_name(name), target).await;
        let sought = self.answered(sought, "seek");
        self.checker.sought(name, &standings, sought.as_ref().map(drop).map_err(drop));
        if sought.is_ok() {
            self.checker.all_durable();
        }
        sought
    }

    /// Looks at the dead letter topic without taking anything from it.
    async fn read_letters(&mut self, broker: &Broker) -> Step {
        let name = subscription_name("undertaker");
        loop {
            let pulled = broker.pull(&name, 100, Duration::ZERO).await;
            let letters = self.answered(pulled, "letters")?;
            if letters.is_empty() {
                return Ok(());
            }
            for lease in &letters {
                let attributes = decoded(lease).attributes;
                let of = attributes["original_subscription"].rsplit('/').next().unwrap();
                let original = attributes["original_message_id"].parse().unwrap();
                self.checker.letter(of, original, lease.ack_id.offset().0);
            }
            let undertaker = broker.subscription(&name).unwrap();
            self.answered(undertaker.acknowledge(&ack_ids(&letters)).await, "ack of letters")?;
        }
    }

    /// Has a few letters replayed, or all of them.
    async fn replay(&mut self, broker: &Broker) -> Step {
        let name = GIVING_UP[self.random.index(2)];
        let letters = self.checker.letters_to_replay(name);
        let some = letters.into_iter().take(1 + self.random.index(5)).collect();
        self.replay_of(broker, name, some).await
    }

    async fn replay_of(&mut self, broker: &Broker, name: &str, letters: Vec<(u64, u64)>) -> Step {
        if letters.is_empty() {
            return Ok(());
        }
        let request = ReplayRequest {
            place: LetterPlace::Subscription(subscription_name(name)),
            selection: Selection::Messages(
                letters.iter().map(|(_, letter)| Offset(*letter)).collect(),
            ),
            to: Destination::Subscription,
            per_second: 0,
            again: false,
        };
        match broker.replay_letters(request).await {
            // As many run as may.
            Err(broker::Error::FailedPrecondition(_)) => Ok(()),
            other => self.answered(other, "replay").map(drop),
        }
    }

    /// All that is owed comes, and every letter is replayed: what comes after this is a fault.
    async fn drain(&mut self, broker: &Broker, held: &mut Held) {
        self.expire(held);
        for _ in 0..DRAIN_TRIES {
            let replays: Vec<_> =
                GIVING_UP.iter().map(|name| (name, self.checker.letters_to_replay(name))).collect();
            let is_replayed = replays.iter().all(|(_, letters)| letters.is_empty());
            if self.checker.owed().is_empty() && is_replayed {
                break;
            }
            for (name, letters) in replays {
                self.replay_of(broker, name, letters).await.ok().expect("the power is on");
            }
            for name in self.checker.subscriptions.keys().cloned().collect::<Vec<_>>() {
                for at in 0..STREAMS {
                    let taken = self.take_from(broker, held, &name, at).await;
                    taken.ok().expect("the power is on");
                }
            }
            while !held.leases.is_empty() {
                self.settle(broker, held, false).await.ok().expect("the power is on");
            }
            self.read_letters(broker).await.ok().expect("the power is on");
            tokio::task::yield_now().await;
        }
        let owed = self.checker.tell_owed();
        assert!(owed.is_empty(), "D1 owed: {owed:?}");
        let letters = GIVING_UP.map(|name| self.checker.letters_to_replay(name));
        assert!(letters.iter().all(Vec::is_empty), "X1 not replayed: {letters:?}");
        self.publish(broker).await.ok().expect("the power is on");
        // Snapshots of before would bring back what the checker forgets.
        self.snapshots.clear();
        self.checker.forget_settled();
    }
}

impl Life {
    /// Ends as a crash does: no task goes on, nothing is saved.
    fn end(self) {
        let Self { broker, runtime, handle } = self;
        drop(runtime);
        drop(broker);
        handle.close();
    }
}

async fn create(broker: &Broker, checker: &mut PullChecker) {
    for name in [topic(), topic_name("dead")] {
        broker.create_topic(domain::Topic::new(name)).await.unwrap();
    }
    let undertaker = settings(&topic_name("dead"), "undertaker");
    broker.create_subscription(undertaker).await.unwrap();
    for name in [
        "plain",
        "keys",
        "fifo",
        "once",
        "once-keys",
        "filtered",
        "letters",
        "letters-keys",
        "sought",
        "sought-keys",
    ] {
        let is = |word: &str| name.split('-').any(|part| part == word);
        let gives_up = is("letters").then(|| dead_letters_to("dead")).flatten();
        let subscription = Subscription {
            message_ordering: is("keys") || is("filtered"),
            fifo: is("fifo"),
            exactly_once: is("once") || is("sought"),
            retain_acked_messages: is("sought"),
            dead_letter_policy: gives_up,
            filter: is("filtered")
                .then(|| Filter::parse("filter", "attributes.kind = \"a\"").unwrap()),
            ack_deadline: DEADLINE,
            ..settings(&topic(), name)
        };
        checker.add(name, &subscription, is("filtered").then_some("a"));
        broker.create_subscription(subscription).await.unwrap();
    }
}

fn topic() -> TopicName {
    topic_name("orders")
}
