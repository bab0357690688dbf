//! Eight workers on one ordered subscription: three deliveries in ten fail, and a worker dies with
//! what it holds. `WORKER_SEEDS` runs more seeds.

use std::time::Duration;

use broker::Consumer;
use domain::Subscription;
use domain::delivery::{Flow, Lease};
use testkit::{Random, seed};

use crate::fixture::{Fixture, leases_now, settings, subscription_name};
use crate::pull_checker::{PullChecker, Seen};

const SEEDS: u64 = 200;
const WORKERS: usize = 8;
const MESSAGES: usize = 40;
const DEADLINE: Duration = Duration::from_secs(10);
/// A lease is over at most so long after its deadline.
const LATE: Duration = Duration::from_millis(20);

#[tokio::test]
async fn eight_workers_keep_the_order_though_they_fail_and_one_dies_holding_a_key() {
    for seed in seed::seeds(0..seed::number("WORKER_SEEDS").unwrap_or(SEEDS)) {
        let kind = seed % 4;
        let (fifo, exactly_once) = (kind % 2 == 0, kind / 2 == 0);
        let mut work = Work::begin(seed, fifo, exactly_once).await;
        work.run().await;
        let faults = &work.checker.faults;
        assert!(faults.is_empty(), "TEST_SEED={seed}\n{}", faults.join("\n"));
    }
}

struct Work {
    fixture: Fixture,
    random: Random,
    checker: PullChecker,
    workers: Vec<(u64, Consumer)>,
    /// What each lease is, and which worker has it.
    held: Vec<(u64, Lease)>,
}

impl Work {
    async fn begin(seed: u64, fifo: bool, exactly_once: bool) -> Self {
        let fixture = Fixture::new().await;
        let topic = fixture.topic().await;
        let settings =
            Subscription { message_ordering: !fifo, fifo, exactly_once, ..settings(&topic, "sub") };
        let mut checker = PullChecker::default();
        checker.add("sub", &settings, None);
        fixture.subscribe(settings).await;
        let mut random = Random::seeded(seed);
        for number in 0..MESSAGES {
            let (text, key) = (number.to_string(), ["ann", "bob", "cid"][random.index(3)]);
            checker.publish_begins(&text, key, "");
            let ids = fixture.publish_keyed(&topic, &[(key, &text)]).await;
            checker.published(&text, ids[0]);
        }
        let flow = Flow { messages_max: 6, bytes_max: 0 };
        let open = || fixture.broker.stream(&subscription_name("sub"), flow, DEADLINE).unwrap();
        let workers = (1..).zip(std::iter::repeat_with(open).take(WORKERS)).collect();
        Self { fixture, random, checker, workers, held: Vec::new() }
    }

    async fn run(&mut self) {
        let dies_at = self.random.below(60);
        for step in 0..10_000 {
            if step == dies_at {
                self.kill_one().await;
            }
            if self.checker.owed().is_empty() {
                break;
            }
            if self.random.one_in(2) {
                self.take().await;
            } else {
                self.settle().await;
            }
        }
        assert_eq!(self.checker.owed(), [], "L1 nothing is stuck");
    }

    async fn take(&mut self) {
        let at = self.random.index(self.workers.len());
        self.take_from(at).await;
    }

    async fn take_from(&mut self, at: usize) {
        let (number, worker) = &mut self.workers[at];
        for lease in leases_now(worker).await.unwrap() {
            self.checker.given("sub", *number, &Seen::of(&lease));
            self.held.push((*number, lease));
        }
    }

    async fn settle(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let (_, lease) = self.held.swap_remove(self.random.index(self.held.len()));
        let id = lease.ack_id.offset().0;
        if self.random.below(10) < 3 {
            self.fixture.nack("sub", &[lease]).await;
            let ended = self.checker.failed("sub", id);
            self.held.retain(|(_, other)| !ended.contains(&other.ack_id.offset().0));
        } else {
            self.fixture.ack("sub", &[lease]).await;
            self.checker.acked("sub", id, Ok(()));
        }
    }

    /// A worker dies with what it holds. Nobody gets that before its deadline, and anybody after.
    async fn kill_one(&mut self) {
        let at = self.random.index(self.workers.len());
        self.take_from(at).await;
        let (dead, _) = self.workers.swap_remove(at);
        let orphans: Vec<_> =
            self.held.iter().filter(|(holder, _)| *holder == dead).cloned().collect();
        self.fixture.clock.advance(DEADLINE / 2);
        // All others are done with what they have, and hold nothing that could expire.
        self.held.retain(|(holder, _)| *holder != dead);
        while !self.held.is_empty() {
            self.settle().await;
        }
        for at in 0..self.workers.len() {
            self.take_from(at).await;
        }
        let given = |lease: &Lease| self.held.iter().any(|(_, other)| is_same(other, lease));
        assert!(!orphans.iter().any(|(_, lease)| given(lease)), "an orphan came before its time");
        self.fixture.clock.advance(DEADLINE / 2 + LATE);
        for (_, lease) in orphans {
            self.checker.failed("sub", lease.ack_id.offset().0);
        }
    }
}

fn is_same(one: &Lease, other: &Lease) -> bool {
    one.ack_id.offset() == other.ack_id.offset()
}
