//! The steps of consumers: done to the `Delivery`, checked by the model.

use std::time::Duration;

use domain::delivery::{
    AckId, AckStatus, Delivery, Effects, ExtendStatus, Failure, Flow, Identity,
};
use domain::{Epoch, Now, Offset, Progress, SubscriptionId};

use crate::lease::Ask;
use crate::run::tell;
use crate::spot::Ack;
use crate::steps::Step;
use crate::world::{TICK, Urgency, World};

impl World {
    pub(crate) fn consume(&mut self, step: &Step) {
        match *step {
            Step::Lease { consumer, records, bytes, ticks } => {
                let ask = Ask { records, bytes, lasts: TICK * ticks };
                self.with_stream(consumer, |world, consumer| {
                    world.ask(consumer, ask);
                });
            }
            Step::Pull { records, ticks } => {
                let consumer = self.open(Flow::default());
                self.ask(consumer, Ask { records, bytes: 10_000, lasts: TICK * ticks });
                self.close(consumer);
            }
            Step::Rest => self.rest(Ask { records: 3, bytes: 300, lasts: 30 * TICK }),
            Step::AckHeld(place) => self.with_held(place, Self::ack),
            Step::AckAll => self.ack_all(),
            Step::AckAny(place) => self.with_given(place, Self::ack),
            Step::AckForeign(place) => self.with_given(place, Self::ack_foreign),
            Step::NackHeld(place) => self.with_held(place, |world, lease| world.extend(lease, 0)),
            Step::NackAny(place) => self.with_given(place, Self::nack),
            Step::GiveBack(place) => self.with_given(place, Self::give_back),
            Step::ExtendHeld(place, ticks) => {
                self.with_held(place, |world, lease| world.extend(lease, ticks));
            }
            Step::ExtendAny(place, ticks) => {
                self.with_given(place, |world, lease| world.extend(lease, ticks));
            }
            Step::Pass(ticks) => self.pass(TICK * ticks),
            Step::PassToWake => self.pass_to_wake(),
            Step::Drift(ticks) => self.now = later(self.now, TICK * ticks),
            ref other => self.operate(other),
        }
    }

    fn with_given(&mut self, place: usize, act: impl FnOnce(&mut Self, usize)) {
        if !self.naive.given.is_empty() {
            act(self, place % self.naive.given.len());
        }
    }

    fn with_held(&mut self, place: usize, act: impl FnOnce(&mut Self, usize)) {
        let held: Vec<_> = self.naive.held().map(|(_, held)| held.lease).collect();
        if !held.is_empty() {
            act(self, held[place % held.len()]);
        }
    }

    pub(crate) fn ack_all(&mut self) {
        let held: Vec<_> = self.naive.held().map(|(_, held)| held.lease).collect();
        held.into_iter().for_each(|lease| self.ack(lease));
    }
}

/// Acks, nacks, extensions, time.
impl World {
    pub(crate) fn ack(&mut self, lease: usize) {
        let given = self.naive.given[lease];
        let expected = self.naive.ack_statuses(self.now.moment, lease);
        let mut effects = Effects::default();
        let (now, end) = (self.now.moment, self.log.end());
        let status = self.delivery.ack(now, &given.id, end, &mut effects);
        tell(|| format!("    ack {lease} of {}: {status:?}", given.offset));
        assert!(
            expected.contains(&status),
            "ack {lease} of {} is {status:?}, not one of {expected:?}: {:?}",
            given.offset,
            self.naive.spots[given.offset]
        );
        match status {
            AckStatus::Settled => {
                self.naive.given[lease].is_confirmed = self.naive.settings.exactly_once;
                self.naive.settle(given.offset);
            }
            AckStatus::Provisional => self.acked_provisionally(lease),
            _ => assert_eq!(effects, Effects::default(), "nothing happened"),
        }
        let is_exactly_once = self.naive.settings.exactly_once;
        self.finish(effects, if is_exactly_once { Urgency::Durable } else { Urgency::Ride });
    }

    fn acked_provisionally(&mut self, lease: usize) {
        let is_of_now = self.naive.has_lease(lease);
        let spot = &mut self.naive.spots[self.naive.given[lease].offset];
        if is_of_now || spot.held.is_some() {
            spot.ack = Ack::Provisional;
            spot.held = None;
        } else if spot.ack == Ack::No {
            spot.ack = Ack::Early;
        }
    }

    /// Ids that nobody gave out, or for records that are not there, change nothing.
    fn ack_foreign(&mut self, lease: usize) {
        let (id, mut effects) = (self.naive.given[lease].id, Effects::default());
        let (now, end) = (self.now.moment, Offset(id.offset().0));
        let status = self.delivery.ack(now, &id, end, &mut effects);
        assert_eq!((status, &effects), (AckStatus::Beyond, &Effects::default()));
        let identity = Identity { subscription: SubscriptionId(77), epoch: Epoch(u64::MAX) };
        let mut other = Delivery::new(identity, self.naive.settings.clone(), Progress::default());
        // Ids travel as text.
        let id = AckId::parse(&id.to_string()).unwrap();
        let status = other.ack(now, &id, self.log.end(), &mut effects);
        assert_eq!((status, &effects), (AckStatus::Foreign, &Effects::default()));
    }

    pub(crate) fn nack(&mut self, lease: usize) {
        let is_current = self.naive.is_current(self.now.moment, lease);
        let (id, mut effects) = (self.naive.given[lease].id, Effects::default());
        let status = self.delivery.nack(self.now, &id, &Failure::NACK, &mut effects);
        tell(|| format!("    nack {lease} of {}: {status:?}", id.offset()));
        let expected = if is_current { ExtendStatus::Returned } else { ExtendStatus::Stale };
        assert_eq!(status, expected, "nack {lease} of {}", id.offset());
        if is_current {
            self.naive.nack(self.now, lease);
        }
        self.finish(effects, Urgency::Ride);
    }

    /// Like a nack that spends no attempt.
    fn give_back(&mut self, lease: usize) {
        let is_current = self.naive.is_current(self.now.moment, lease);
        let (id, mut effects) = (self.naive.given[lease].id, Effects::default());
        let status = self.delivery.give_back(self.now, &id, &mut effects);
        tell(|| format!("    give back {lease} of {}: {status:?}", id.offset()));
        let expected = if is_current { ExtendStatus::Returned } else { ExtendStatus::Stale };
        assert_eq!(status, expected, "give back {lease} of {}", id.offset());
        if is_current {
            self.naive.come_back(self.naive.given[lease].offset);
        }
        self.finish(effects, Urgency::Ride);
    }

    /// By nothing is a nack.
    fn extend(&mut self, lease: usize, ticks: u32) {
        let is_current = self.naive.is_current(self.now.moment, lease);
        let (id, by, mut effects) = (self.naive.given[lease].id, TICK * ticks, Effects::default());
        let status = self.delivery.extend(self.now, &id, by, &mut effects);
        tell(|| format!("    extend {lease} of {}: {status:?}", id.offset()));
        let expected = match ticks {
            _ if !is_current => ExtendStatus::Stale,
            0 => ExtendStatus::Returned,
            _ => ExtendStatus::Extended,
        };
        assert_eq!(status, expected, "extend {lease} of {}", id.offset());
        match status {
            ExtendStatus::Returned => self.naive.nack(self.now, lease),
            ExtendStatus::Extended => self.naive.extend(self.now.moment, lease, by),
            _ => assert_eq!(effects, Effects::default(), "nothing happened"),
        }
        self.finish(effects, Urgency::Ride);
    }

    pub(crate) fn pass(&mut self, by: Duration) {
        self.now = later(self.now, by);
        let mut effects = Effects::default();
        let expired = self.delivery.tick(self.now, &mut effects);
        assert_eq!(expired, self.naive.tick(self.now), "expired leases");
        self.finish(effects, Urgency::Ride);
    }

    pub(crate) fn pass_to_wake(&mut self) {
        let wake = self.delivery.next_wake().unwrap_or(self.now.moment);
        self.pass(wake.since(self.now.moment));
    }
}

fn later(now: Now, by: Duration) -> Now {
    Now { moment: now.moment.plus(by), wall: now.wall.plus(by) }
}
