//! A hundred thousand dead letters are replayed at a set rate while the power is cut: each comes
//! back once, and in order.

use std::sync::Arc;
use std::time::Duration;

use broker::{Broker, Clock, LetterPlace, Options, ReplayRequest, ReplayState};
use domain::Message;
use domain::delivery::AckId;
use domain::replay::{Criteria, Destination, Selection};
use storage::disk::{self, Handle};
use tempfile::TempDir;
use testkit::disk::Cut;
use testkit::{FakeClock, SimDisk};
use tokio::runtime::{self, Runtime};

use crate::fixture::{message, power_off, set_up_letters, subscription_name, topic_name, until};

const LETTERS: u64 = 100_000;
const PER_SECOND: u32 = 10_000;
/// One step of a replay at that rate.
const STEP: Duration = Duration::from_millis(50);
const PER_STEP: u64 = 500;
/// After so many letters the power goes.
const CUTS: [u64; 2] = [30_000, 70_000];

#[test]
fn each_letter_comes_back_once_in_order_and_at_its_rate_though_the_power_is_cut() {
    let mut lives = Lives {
        disk: SimDisk::new(),
        folder: tempfile::tempdir().unwrap(),
        clock: Arc::new(FakeClock::new()),
    };
    let life = lives.open();
    life.runtime.block_on(set_up(&life.broker));
    let name = life.runtime.block_on(begin(&life.broker));
    lives.run(&life, &name, CUTS[0]);
    lives.cut(life);

    let life = lives.open();
    let replayed = life.broker.replay(&name).unwrap().replayed;
    assert!(replayed.abs_diff(CUTS[0]) <= 2 * PER_STEP, "{replayed}");
    lives.run(&life, &name, CUTS[1]);
    lives.cut(life);

    let life = lives.open();
    lives.run(&life, &name, LETTERS);
    life.runtime.block_on(until(|| life.broker.replay(&name).unwrap().state == ReplayState::Done));
    let done = life.broker.replay(&name).unwrap();
    assert_eq!((done.total, done.replayed), (LETTERS, LETTERS));
    assert_eq!((done.skipped, done.failed), (0, 0));
    life.runtime.block_on(check_all(&life.broker));
    assert_eq!(life.broker.dead_letters_waiting(&subscription_name("sub")), 0);
    lives.close(life);
}

/// Lives of a broker on one disk.
struct Lives {
    disk: SimDisk,
    folder: TempDir,
    clock: Arc<FakeClock>,
}

struct Life {
    broker: Arc<Broker>,
    runtime: Runtime,
    handle: Handle,
}

impl Lives {
    fn open(&self) -> Life {
        let options = disk::Options {
            wal_segment_bytes: 1 << 20,
            wal_max_bytes: 8 << 20,
            tail_memory_bytes: 1 << 20,
            ..disk::Options::default()
        };
        let database = self.folder.path().join("definitions");
        let opened = disk::open_on(Arc::new(self.disk.clone()), &database, options).unwrap();
        let runtime =
            runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let opening = Broker::open(opened.engine, clock, Options::default());
        let broker = runtime.block_on(opening).unwrap();
        Life { broker, runtime, handle: opened.handle }
    }

    /// Lets time go on until so many letters are replayed, and watches the rate.
    fn run(&self, life: &Life, name: &str, letters: u64) {
        let replayed = || life.broker.replay(name).unwrap().replayed;
        let (first, from) = (replayed(), self.clock.now());
        while replayed() < letters {
            let before = replayed();
            self.clock.advance(STEP);
            life.runtime.block_on(until(|| replayed() > before));
        }
        let expected = self.clock.now().since(from).as_secs_f64() * f64::from(PER_SECOND);
        let went = u32::try_from(replayed() - first).unwrap();
        let ratio = f64::from(went) / expected;
        assert!((0.9..=1.1).contains(&ratio), "{went} letters in the time for {expected}");
    }

    /// The power goes in the middle of it all.
    fn cut(&mut self, life: Life) {
        self.disk.fail(power_off(3));
        let disk = self.disk.clone();
        life.runtime.block_on(until(|| {
            self.clock.advance(STEP);
            disk.is_off()
        }));
        self.close(life);
        self.disk = self.disk.power_cut_with(Cut::LosesUnsynced);
    }

    /// Ends a life as a crash does: no task goes on, nothing is saved.
    fn close(&self, life: Life) {
        let Life { broker, runtime, handle } = life;
        drop(runtime);
        drop(broker);
        handle.close();
    }
}

async fn set_up(broker: &Broker) {
    set_up_letters(broker).await;
    for first in (0..LETTERS).step_by(1_000) {
        let letters = (first..first + 1_000).map(letter).collect();
        broker.publish(&topic_name("dead"), letters).await.unwrap();
    }
}

fn letter(number: u64) -> Message {
    let source = ("original_subscription".to_owned(), subscription_name("sub").to_string());
    Message { attributes: [source].into(), ..message(&number.to_string()) }
}

async fn begin(broker: &Broker) -> String {
    let request = ReplayRequest {
        place: LetterPlace::Subscription(subscription_name("sub")),
        selection: Selection::Matching(Criteria::default()),
        to: Destination::Subscription,
        per_second: PER_SECOND,
        again: false,
    };
    broker.replay_letters(request).await.unwrap().name
}

/// Takes everything from the subscription: every letter once, and in order.
async fn check_all(broker: &Broker) {
    let name = subscription_name("sub");
    let subscription = broker.subscription(&name).unwrap();
    let mut next = 0;
    while next < LETTERS {
        let leases = broker.pull(&name, 1_000, Duration::ZERO).await.unwrap();
        assert!(!leases.is_empty(), "{next} came back, and no more");
        for lease in &leases {
            let data = domain::message::decode(&lease.record.body).unwrap().data;
            assert_eq!(data, next.to_string());
            next += 1;
        }
        let ids: Vec<AckId> = leases.iter().map(|lease| lease.ack_id).collect();
        subscription.acknowledge(&ids).await.unwrap();
    }
    assert!(broker.pull(&name, 10, Duration::ZERO).await.unwrap().is_empty());
}
