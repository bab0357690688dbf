//! `Delivery` against the naive model, over random sequences of everything that can happen.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is a failed test")]

#[path = "delivery/log.rs"]
mod log;
#[path = "delivery/naive.rs"]
mod naive;

use std::collections::BTreeSet;
use std::time::Duration;

use domain::delivery::{
    AckId, AckOutcome, ConsumerId, Delivery, Effects, Flow, Identity, Lease, LeaseRequest,
    LeaseStatus, Ordering, Settings,
};
use domain::{
    Epoch, Moment, Offset, OffsetRange, Progress, ProgressChange, SubscriptionId, Timestamp,
};
use log::{Log, Place};
use naive::{Budget, Naive, State, THIS};
use proptest::prelude::*;

/// Deadlines are exact to the tick of the wheel, so times are whole ticks here.
const TICK: Duration = Duration::from_micros(1 << 14);

#[derive(Clone, Debug)]
enum Step {
    Publish {
        bytes: Vec<usize>,
    },
    PublishTo(SubscriptionId),
    Gap(usize),
    /// A record is trimmed or found damaged.
    Lose {
        offset: usize,
        place: Place,
    },
    Evict(u64),
    Open(Flow),
    SetFlow(usize, Flow),
    Close(usize),
    Lease {
        consumer: usize,
        records: usize,
        bytes: usize,
        ticks: u32,
    },
    Ack(usize),
    /// Acks what was leased so long ago.
    AckRecent(usize),
    Nack(usize),
    Extend(usize, u32),
    Pass(u32),
    PassToWake,
    Settle(usize, usize),
    Commit,
    Crash,
}

fn any_flow() -> impl Strategy<Value = Flow> {
    let limit = |max| prop_oneof![Just(0), 1..max];
    (limit(6_u64), limit(200_u64))
        .prop_map(|(messages_max, bytes_max)| Flow { messages_max, bytes_max })
}

fn any_step() -> impl Strategy<Value = Step> {
    let sizes = proptest::collection::vec(1..120_usize, 1..6);
    let lost = prop_oneof![Just(Place::Gap), Just(Place::Damaged)];
    let ticks = prop_oneof![1..20_u32, 1..2_000_u32];
    prop_oneof![
        8 => sizes.prop_map(|bytes| Step::Publish { bytes }),
        1 => (1..3_u64).prop_map(|id| Step::PublishTo(SubscriptionId(id))),
        1 => (1..4_usize).prop_map(Step::Gap),
        1 => (0..60_usize, lost).prop_map(|(offset, place)| Step::Lose { offset, place }),
        1 => (0..60_u64).prop_map(Step::Evict),
        1 => any_flow().prop_map(Step::Open),
        1 => (0..9_usize, any_flow()).prop_map(|(consumer, flow)| Step::SetFlow(consumer, flow)),
        1 => (0..9_usize).prop_map(Step::Close),
        20 => (0..9_usize, 1..8_usize, 1..300_usize, ticks.clone()).prop_map(
            |(consumer, records, bytes, ticks)| Step::Lease { consumer, records, bytes, ticks }
        ),
        4 => (0..200_usize).prop_map(Step::Ack),
        12 => (0..6_usize).prop_map(Step::AckRecent),
        4 => (0..200_usize).prop_map(Step::Nack),
        4 => (0..200_usize, ticks).prop_map(|(lease, ticks)| Step::Extend(lease, ticks)),
        2 => (1..50_u32).prop_map(Step::Pass),
        2 => Just(Step::PassToWake),
        1 => (0..60_usize, 1..4_usize).prop_map(|(from, count)| Step::Settle(from, count)),
        3 => Just(Step::Commit),
        1 => Just(Step::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8 * ProptestConfig::default().cases))]

    #[test]
    fn delivery_does_what_the_naive_model_does(
        exactly_once: bool,
        steps in proptest::collection::vec(any_step(), 1..120),
    ) {
        let mut test = Test::new(exactly_once);
        for step in &steps {
            test.step(step);
            test.check();
        }
        test.drain();
    }
}

struct Test {
    log: Log,
    naive: Naive,
    delivery: Delivery,
    settings: Settings,
    epoch: Epoch,
    now: Moment,
    /// By number in the model.
    consumers: Vec<ConsumerId>,
    closed: Vec<usize>,
    ids: Vec<AckId>,
    /// Told `Full` and not freed since.
    full: BTreeSet<usize>,
    /// A record was lost, which nobody tells the `Delivery`: it finds out when it comes to it.
    has_lost: bool,
    journal: Vec<u8>,
    journal_frames: Vec<usize>,
    unsaved: Vec<ProgressChange>,
}

impl Test {
    fn new(exactly_once: bool) -> Self {
        let settings = Settings {
            ordering: Ordering::None,
            ack_deadline: Duration::from_secs(10),
            exactly_once,
        };
        let identity = Identity { subscription: THIS, epoch: Epoch(0) };
        let mut test = Self {
            log: Log::default(),
            naive: Naive { exactly_once, ..Naive::default() },
            delivery: Delivery::new(identity, settings.clone(), Progress::default()),
            settings,
            epoch: Epoch(0),
            now: Moment(0),
            consumers: Vec::new(),
            closed: Vec::new(),
            ids: Vec::new(),
            full: BTreeSet::new(),
            has_lost: false,
            journal: Vec::new(),
            journal_frames: Vec::new(),
            unsaved: Vec::new(),
        };
        test.open(Flow::default());
        test
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Publish { ref bytes } => {
                for &bytes in bytes {
                    self.append(Place::Record { bytes, addressee: None });
                }
            }
            Step::PublishTo(id) => self.append(Place::Record { bytes: 5, addressee: Some(id) }),
            Step::Gap(count) => (0..count).for_each(|_| self.append(Place::Gap)),
            Step::Lose { offset, ref place } => self.lose(offset, place),
            Step::Evict(below) => {
                self.log.memory_from = self.log.memory_from.max(Offset(below));
                self.log.fetched = None;
            }
            Step::Open(flow) => self.open(flow),
            Step::SetFlow(consumer, flow) => self.set_flow(consumer % self.consumers.len(), flow),
            Step::Close(consumer) => self.close(consumer % self.consumers.len()),
            Step::Lease { consumer, records, bytes, ticks } => {
                self.lease(consumer % self.consumers.len(), records, bytes, TICK * ticks);
            }
            Step::Ack(lease) => self.with_lease(lease, Self::ack),
            Step::AckRecent(back) => {
                let lease = self.ids.len().saturating_sub(back + 1);
                self.with_lease(lease, Self::ack);
            }
            Step::Nack(lease) => self.with_lease(lease, |test, lease| test.extend(lease, 0)),
            Step::Extend(lease, ticks) => {
                self.with_lease(lease, |test, lease| test.extend(lease, ticks));
            }
            Step::Pass(ticks) => self.pass_to(self.now.plus(TICK * ticks)),
            Step::PassToWake => self.pass_to(self.delivery.next_wake().unwrap_or(self.now)),
            Step::Settle(from, count) => self.settle(from, count),
            Step::Commit => self.commit(),
            Step::Crash => self.crash(),
        }
    }

    fn append(&mut self, place: Place) {
        self.log.places.push(place);
        self.naive.states.push(State::Fresh);
        self.naive.failed.push(0);
    }

    fn lose(&mut self, offset: usize, place: &Place) {
        // What is meant for others may be settled already, without the model knowing.
        if let Some(Place::Record { addressee: None, .. }) = self.log.places.get(offset) {
            self.log.set(Offset(offset as u64), place.clone());
            self.has_lost = true;
        }
    }

    fn open(&mut self, flow: Flow) {
        self.consumers.push(self.delivery.open_consumer(flow));
        self.naive.flows.push(flow);
    }

    fn set_flow(&mut self, consumer: usize, flow: Flow) {
        let mut effects = Effects::default();
        self.delivery.set_flow(self.consumers[consumer], flow, &mut effects);
        self.naive.flows[consumer] = flow;
        self.finish(effects, 0);
    }

    fn close(&mut self, consumer: usize) {
        self.delivery.close_consumer(self.consumers[consumer]);
        self.closed.push(consumer);
        self.full.remove(&consumer);
    }

    fn with_lease(&mut self, lease: usize, act: impl FnOnce(&mut Self, usize)) {
        if !self.ids.is_empty() {
            act(self, lease % self.ids.len());
        }
    }

    fn lease(&mut self, consumer: usize, records_max: usize, bytes_max: usize, last: Duration) {
        let expired = self.naive.tick(self.now);
        let request = LeaseRequest {
            consumer: self.consumers[consumer],
            records_max,
            bytes_max,
            ack_deadline: last,
            retained_since: Timestamp(0),
        };
        let (mut out, mut effects) = (Vec::new(), Effects::default());
        self.log.fetched = None;
        let mut status;
        loop {
            status = self.delivery.lease(self.now, &request, &mut self.log, &mut out, &mut effects);
            match status {
                LeaseStatus::Wanted(offset) if out.is_empty() => {
                    assert!(offset < self.log.end() && !self.log.is_at_hand(offset));
                    self.log.fetched = Some(OffsetRange { from: offset, to: offset.plus(3) });
                }
                _ => break,
            }
        }
        self.check_leases(consumer, &request, &out, status);
        self.finish(effects, expired);
    }

    fn check_leases(
        &mut self,
        consumer: usize,
        request: &LeaseRequest,
        out: &[Lease],
        status: LeaseStatus,
    ) {
        if self.closed.contains(&consumer) {
            assert_eq!((out, status), (&[][..], LeaseStatus::Drained));
            return;
        }
        let mut budget = Budget {
            consumer,
            records_max: request.records_max,
            bytes_max: request.bytes_max,
            records: 0,
            bytes: 0,
            deadline: self.now.plus(request.ack_deadline),
        };
        for lease in out {
            let offset = usize::try_from(lease.record.offset.0).unwrap();
            let expected = self.naive.next(&self.log, &mut budget);
            assert_eq!(expected, Ok((offset, lease.attempt)));
            self.ids.push(lease.ack_id);
        }
        self.full.remove(&consumer);
        if !matches!(status, LeaseStatus::Wanted(_)) {
            assert_eq!(self.naive.next(&self.log, &mut budget), Err(status));
            if status == LeaseStatus::Full {
                self.full.insert(consumer);
            }
        }
    }

    fn ack(&mut self, lease: usize) {
        let (id, mut effects) = (self.ids[lease], Effects::default());
        let outcome = self.delivery.ack(self.now, &id, self.log.end(), &mut effects);
        let expected = self.naive.ack(self.now, lease);
        // The model finds a lost record settled only when it comes to it.
        let is_lost = *self.log.place(id.offset()) == Place::Gap;
        if !(is_lost && outcome == AckOutcome::AlreadySettled) {
            assert_eq!(outcome, expected);
        }
        self.finish(effects, 0);
    }

    fn extend(&mut self, lease: usize, ticks: u32) {
        let (id, by, mut effects) = (self.ids[lease], TICK * ticks, Effects::default());
        let outcome = self.delivery.extend(self.now, &id, by, &mut effects);
        assert_eq!(outcome, self.naive.extend(self.now, lease, by));
        let returned = usize::from(outcome == domain::delivery::ExtendOutcome::Returned);
        self.finish(effects, returned);
    }

    fn pass_to(&mut self, now: Moment) {
        assert!(now >= self.now);
        self.now = now;
        let mut effects = Effects::default();
        let expired = self.delivery.tick(now, &mut effects);
        assert_eq!(expired, self.naive.tick(now));
        self.finish(effects, expired);
    }

    fn settle(&mut self, from: usize, count: usize) {
        let to = (from + count).min(self.log.places.len());
        let range = OffsetRange { from: Offset(from as u64), to: Offset(to as u64) };
        let mut effects = Effects::default();
        self.delivery.settle(range, &mut effects);
        for state in self.naive.states.iter_mut().take(to).skip(from) {
            if !matches!(state, State::Settled { .. }) {
                *state = State::Settled { is_durable: false };
            }
        }
        self.finish(effects, 0);
    }

    /// Frames are merged and written as the log does it.
    fn commit(&mut self) {
        let mut frame = ProgressChange::Settled(Vec::new());
        for change in self.unsaved.drain(..) {
            assert_eq!(frame.merge(change), None);
        }
        let before = self.journal.len();
        frame.encode(&mut self.journal);
        self.journal_frames.push(self.journal.len() - before);
        self.naive.commit();
    }

    fn crash(&mut self) {
        self.unsaved.clear();
        self.naive.crash();
        let mut progress = Progress::default();
        let mut rest = self.journal.as_slice();
        for &length in &self.journal_frames {
            let (frame, behind) = rest.split_at(length);
            progress.apply(&ProgressChange::decode(frame).unwrap());
            rest = behind;
        }
        self.epoch.0 += 1;
        let identity = Identity { subscription: THIS, epoch: self.epoch };
        self.delivery = Delivery::new(identity, self.settings.clone(), progress);
        self.full.clear();
        // All consumers of before are gone; others take their numbers.
        self.closed.clear();
        for (consumer, flow) in self.consumers.iter_mut().zip(&self.naive.flows) {
            *consumer = self.delivery.open_consumer(*flow);
        }
    }

    fn finish(&mut self, effects: Effects, returned: usize) {
        assert_eq!(effects.returned, returned);
        assert_eq!(effects.attempts, []);
        assert!(effects.settled.is_sorted_by(|a, b| a.to < b.from));
        for freed in effects.freed {
            let consumer = self.consumers.iter().position(|id| *id == freed).unwrap();
            assert!(self.full.remove(&consumer), "{consumer} was not told to wait");
        }
        self.unsaved.push(ProgressChange::Settled(effects.settled));
    }

    fn check(&self) {
        assert_eq!(self.delivery.outstanding(), self.naive.outstanding());
        self.check_full();
        match (self.delivery.next_wake(), self.naive.first_deadline()) {
            (Some(wake), Some(deadline)) => assert!(wake <= deadline),
            (wake, deadline) => assert_eq!(wake, deadline),
        }
        for (offset, state) in (0..).map(Offset).zip(&self.naive.states) {
            let is_acked = self.delivery.progress().is_acked(offset);
            match (state, self.log.place(offset)) {
                (State::Settled { .. }, _) => assert!(is_acked, "{offset} is settled"),
                (_, Place::Gap) | (_, Place::Record { addressee: Some(_), .. }) => {}
                _ => assert!(!is_acked, "{offset} is not settled"),
            }
        }
    }

    /// Whoever waits for room could indeed be given nothing.
    fn check_full(&self) {
        for &consumer in self.full.iter().filter(|_| !self.has_lost) {
            let mut naive = self.naive.clone();
            let mut budget = Budget {
                consumer,
                records_max: 1,
                bytes_max: 0,
                records: 0,
                bytes: 0,
                deadline: self.now,
            };
            let next = naive.next(&self.log, &mut budget);
            assert!(next.is_err(), "{consumer} could be given {next:?} and was not freed");
        }
    }

    /// When everybody acks what he gets, nothing is left but what is damaged.
    fn drain(&mut self) {
        self.open(Flow { messages_max: 3, bytes_max: 50 });
        let consumer = self.consumers.len() - 1;
        let mut rounds = 0;
        while self
            .naive
            .states
            .iter()
            .any(|state| matches!(state, State::Fresh | State::Waiting | State::Leased { .. }))
        {
            let before = self.ids.len();
            self.lease(consumer, 2, 100, TICK);
            (before..self.ids.len()).for_each(|lease| self.ack(lease));
            if let Some(wake) = self.delivery.next_wake() {
                self.pass_to(wake.max(self.now));
            }
            self.check();
            rounds += 1;
            assert!(rounds < 10_000, "it does not drain");
        }
        let backlog = self.naive.states.iter().filter(|state| **state == State::Passed).count();
        assert_eq!(self.delivery.backlog(self.log.end()), backlog as u64);
        assert_eq!(self.delivery.outstanding(), 0);
    }
}
