//! The power is cut again and again while messages are published and pushed, and a checker
//! watches every lane over all lives.
//!
//! The seed decides the choices, the scheduler of the machine the rest. `PUSH_ROUNDS` runs
//! more or fewer rounds.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use broker::{Broker, Options, SystemClock};
use domain::push::BatchPush;
use domain::{Message, OffsetRange, RetryPolicy, Subscription, TopicName};
use futures::FutureExt;
use parking_lot::Mutex;
use storage::disk::Handle;
use storage::{Commit, disk};
use tempfile::TempDir;
use testkit::disk::Cut;
use testkit::{Random, SimDisk, seed};
use tokio::runtime::{self, Runtime};
use tokio::sync::watch;

use crate::fixture::{message, power_off, settings, small_log, topic_name};
use crate::push_checker::{Outcome, PushChecker};
use crate::push_receiver::{Answer, Push, Receiver};
use crate::spy::SpyLog;

const ROUNDS: u64 = 20;
/// Every so many rounds everything owed must arrive before the power goes.
const DRAIN_EVERY: u64 = 5;
/// Publishing waits while a subscription is owed more.
const OWED_MAX: usize = 60;
const KEYS: [&str; 4] = ["ann", "bob", "cid", "dan"];
/// How long anything may take that is waited for.
const WAIT_MAX: Duration = Duration::from_secs(30);

#[test]
fn power_cuts_lose_nothing_and_repeat_only_what_was_in_flight_or_in_the_last_commit() {
    let mut rounds = Rounds::new(seed::seed());
    for number in 0..seed::number("PUSH_ROUNDS").unwrap_or(ROUNDS) {
        rounds.round(number);
    }
    rounds.end();
    let (published, taken_back) = rounds.checker.counts();
    let starts = rounds.failed_starts;
    println!("{published} messages, {taken_back} acks taken back, {starts} starts broken off");
    assert!(published > 100 && taken_back > 0, "so little happened that nothing is proven");
}

/// Lives of a broker, one after another, on what the power cut before left.
struct Rounds {
    random: Random,
    checker: Arc<PushChecker>,
    /// Outlives every life.
    outside: Runtime,
    receiver: Receiver,
    disk: SimDisk,
    folder: TempDir,
    /// How often the power went before a broker was up.
    failed_starts: usize,
}

impl Rounds {
    fn new(seed: u64) -> Self {
        let checker = Arc::new(PushChecker::default());
        let outside = runtime();
        let endpoint = endpoint(&checker, seed);
        let receiver = outside.block_on(Receiver::start(endpoint));
        let rounds = Self {
            checker,
            outside,
            receiver,
            disk: SimDisk::new(),
            folder: tempfile::tempdir().unwrap(),
            random: Random::seeded(seed),
            failed_starts: 0,
        };
        let life = rounds.open(Options::default()).expect("a fresh store");
        life.runtime.block_on(create(&life.broker, &rounds.receiver, &rounds.checker));
        rounds.close(life);
        rounds
    }

    /// One life, from its start to its power cut.
    fn round(&mut self, number: u64) {
        let drains = (number + 1).is_multiple_of(DRAIN_EVERY);
        let life = self.start(!drains);
        let seeds = [self.random.draw(), self.random.draw()];
        let moment = Duration::from_millis(20 + self.random.below(400));
        let calls = 1 + self.random.below(6);
        if drains {
            life.runtime.block_on(life.drain(&self.checker, seeds, number));
            self.disk.fail(power_off(1));
        } else {
            life.runtime.block_on(async {
                for seed in seeds {
                    life.publish_on(&self.checker, seed, number, u64::MAX);
                }
                // The random moment of the cut.
                tokio::time::sleep(moment).await;
                self.disk.fail(power_off(calls));
                until_off(&self.disk).await;
            });
        }
        self.close(life);
        self.cut();
        self.check();
    }

    /// Opens what is left; in some rounds the power goes again while it recovers, or soon after.
    fn start(&mut self, fails: bool) -> Life {
        loop {
            self.checker.begin_life();
            if fails && self.random.one_in(3) {
                let calls = 1 + self.random.below(40);
                self.disk.fail(power_off(calls));
            }
            let flushes = [20, 100, 5_000].map(Duration::from_millis);
            let progress_flush = flushes[self.random.index(flushes.len())];
            match self.open(Options { progress_flush, ..Options::default() }) {
                Ok(life) => return life,
                Err(why) => assert!(self.disk.is_off(), "what a power cut left: {why}"),
            }
            self.failed_starts += 1;
            self.cut();
        }
    }

    fn open(&self, options: Options) -> Result<Life, String> {
        let database: PathBuf = self.folder.path().join("definitions");
        let opened = disk::open_on(Arc::new(self.disk.clone()), &database, small_log());
        let opened = opened.map_err(|error| error.to_string())?;
        let log = SpyLog::new();
        let engine = log.watch(opened.engine);
        let (runtime, clock) = (runtime(), Arc::new(SystemClock::start()));
        match runtime.block_on(Broker::open(engine, clock, options)) {
            Ok(broker) => {
                let disk = self.disk.clone();
                Ok(Life { broker, log, runtime, handle: opened.handle, disk })
            }
            Err(error) => {
                drop(runtime);
                opened.handle.close();
                Err(error.to_string())
            }
        }
    }

    /// Ends a life as a crash does: no task goes on, nothing is saved. A disk whose power is off
    /// takes nothing of what the threads of the log still try to write. The database is a real
    /// one and trusted: all it holds was synced before it was told.
    fn close(&self, life: Life) {
        let Life { broker, log, runtime, handle, .. } = life;
        drop(runtime);
        drop((broker, log));
        handle.close();
        self.outside.block_on(self.receiver.quiet());
        self.receiver.forget();
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

    fn check(&self) {
        let faults = self.checker.faults();
        assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    }

    /// In the end all that was ever published has arrived everywhere.
    fn end(&mut self) {
        let life = self.start(false);
        life.runtime.block_on(self.checker.until_owed(0));
        life.runtime.block_on(life.sync(&self.checker));
        self.close(life);
        self.check();
    }
}

/// A broker, from its start to the power cut.
struct Life {
    broker: Arc<Broker>,
    log: Arc<SpyLog>,
    /// Its own, so that it ends with all its tasks at once.
    runtime: Runtime,
    handle: Handle,
    disk: SimDisk,
}

impl Life {
    /// Publishes from two sides for a while, then waits until all has arrived and is acked for
    /// good: whatever comes after this is a fault.
    async fn drain(&self, checker: &Arc<PushChecker>, seeds: [u64; 2], number: u64) {
        let publishers = seeds.map(|seed| self.publish_on(checker, seed, number, 10));
        for publisher in publishers {
            publisher.await;
        }
        checker.until_owed(0).await;
        self.sync(checker).await;
    }

    async fn sync(&self, checker: &PushChecker) {
        // The last answers are on their way to the broker: each gives the log an ack.
        let settled = async {
            while !checker.has_taken_all(self.log.take_commits()) {
                tokio::task::yield_now().await;
            }
        };
        let waited = tokio::time::timeout(WAIT_MAX, settled).await;
        waited.unwrap_or_else(|_| checker.fault("A1 an ack never reached the log".to_owned()));
        let count = checker.taken(Vec::new());
        storage::MessageLog::commit(&*self.log, Commit::barrier()).await.unwrap();
        checker.durable(count);
    }

    /// Publishes `times` times, or until the power is off.
    fn publish_on(
        &self,
        checker: &Arc<PushChecker>,
        seed: u64,
        number: u64,
        times: u64,
    ) -> broker::tasks::Task {
        let publisher = Publisher {
            broker: Arc::clone(&self.broker),
            log: Arc::clone(&self.log),
            checker: Arc::clone(checker),
            random: Random::seeded(seed),
            prefix: format!("{number}-{seed:x}"),
            topic: topic(),
        };
        let disk = self.disk.clone();
        broker::tasks::spawn("publisher", publisher.run(times, disk))
    }
}

struct Publisher {
    broker: Arc<Broker>,
    log: Arc<SpyLog>,
    checker: Arc<PushChecker>,
    random: Random,
    prefix: String,
    topic: TopicName,
}

impl Publisher {
    async fn run(mut self, times: u64, disk: SimDisk) {
        for number in 0..times {
            self.checker.until_owed(OWED_MAX).await;
            if let Err(error) = self.publish(number).await {
                if !disk.is_off() {
                    self.checker.fault(format!("D1 cannot publish: {error}"));
                }
                return;
            }
        }
    }

    async fn publish(&mut self, number: u64) -> broker::Result<()> {
        let count = [1, 1, 3, 10][self.random.index(4)];
        let prefix = &self.prefix;
        let names: Vec<(String, String)> = (0..count)
            .map(|at| (format!("{prefix}-{number}-{at}"), KEYS[self.random.index(4)].to_owned()))
            .collect();
        let messages = names.iter().map(|(text, key)| {
            let padding = ("padding".to_owned(), "x".repeat(self.random.index(500)));
            let attributes = [padding].into();
            Message { ordering_key: key.clone(), attributes, ..message(text) }
        });
        let messages = messages.collect();
        self.checker.publish_begins(&names);
        let before = self.checker.taken(self.log.take_commits());
        let ids: OffsetRange = self.broker.publish(&self.topic, messages).await?.offsets;
        // Commits become durable in the order in which the log took them.
        self.checker.durable(before);
        self.checker.publish_answered(&names, ids);
        Ok(())
    }
}

/// Tells the checker of every request. Those whose name begins with `flaky` fail one in five;
/// batches are sometimes acked only in part.
fn endpoint(
    checker: &Arc<PushChecker>,
    seed: u64,
) -> impl Fn(Push) -> futures::future::BoxFuture<'static, Answer> + Send + Sync + 'static {
    let (checker, random) = (Arc::clone(checker), Mutex::new(Random::seeded(!seed)));
    move |push| {
        let checker = Arc::clone(&checker);
        let (latency, fails, part) = {
            let mut random = random.lock();
            (random.below(1_500), random.one_in(5), random.draw())
        };
        async move {
            let name = &push.path[1..];
            checker.arrived(name, &push.messages);
            // A receiver takes its time: requests are in flight when the power goes.
            tokio::time::sleep(Duration::from_micros(latency)).await;
            if name.starts_with("flaky") && fails {
                checker.answers(name, &push.messages, Outcome::Failed);
                return (500, String::new());
            }
            let sent = push.messages.len() as u64;
            let acked = if part.is_multiple_of(4) { 1 + part / 4 % sent } else { sent };
            let count = usize::try_from(acked).unwrap();
            checker.answers(name, &push.messages, Outcome::Acked(count));
            (200, if sent > 1 { format!("{{\"acked\": {acked}}}") } else { String::new() })
        }
        .boxed()
    }
}

/// The topic, and each kind of subscription twice: at an endpoint that works and at a flaky one.
async fn create(broker: &Broker, receiver: &Receiver, checker: &PushChecker) {
    broker.create_topic(domain::Topic::new(topic())).await.unwrap();
    let plain = settings(&topic(), "plain");
    let keys = Subscription { message_ordering: true, ..settings(&topic(), "keys") };
    let fifo = Subscription { fifo: true, ..settings(&topic(), "fifo") };
    let batch = Some(BatchPush { messages: 20, ..BatchPush::default() });
    let batch = Subscription { fifo: true, batch, ..settings(&topic(), "batch") };
    let (min, max) = (Duration::from_millis(5), Duration::from_millis(20));
    for (kind, name) in [(plain, "plain"), (keys, "keys"), (fifo, "fifo"), (batch, "batch")] {
        for name in [name.to_owned(), format!("flaky-{name}")] {
            let settings = Subscription {
                name: crate::fixture::subscription_name(&name),
                push: receiver.push_to(&format!("/{name}")),
                retry_policy: Some(RetryPolicy { min, max }),
                ..kind.clone()
            };
            let ordering = settings.ordering();
            let id = broker.create_subscription(settings).await.unwrap().id();
            checker.add(&name, id, ordering);
        }
    }
}

fn topic() -> TopicName {
    topic_name("orders")
}

/// Waits until the power is off. Who reads may be the first to find out, and then nobody may write
/// any more, so the log is not asked.
async fn until_off(disk: &SimDisk) {
    let off = Arc::new(watch::Sender::new(false));
    let mut waiting = off.subscribe();
    disk.observe(move |_, call| {
        off.send_if_modified(|is_off| std::mem::replace(is_off, call.failed) != call.failed);
    });
    if !disk.is_off() {
        let waited = tokio::time::timeout(WAIT_MAX, waiting.wait_for(|is_off| *is_off)).await;
        waited.expect("nothing touches the disk any more").expect("it is observed");
    }
    disk.observe_no_more();
}

fn runtime() -> Runtime {
    runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}
