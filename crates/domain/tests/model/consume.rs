//! The steps of consumers, owners and operators: done to the `Delivery`, checked by the model.

use std::time::Duration;

use domain::delivery::{
    AckOutcome, Effects, ExtendOutcome, Failure, Flow, Lease, LeaseRequest, LeaseStatus, Ordering,
    Settings,
};
use domain::{Now, Offset, OffsetRange, RetryPolicy};

use crate::naive::{Ack, LANES, Naive};
use crate::run::tell;
use crate::steps::Step;
use crate::world::{TICK, Urgency, World};

/// What is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) records: usize,
    pub(crate) bytes: usize,
    pub(crate) lasts: Duration,
}

impl Ask {
    /// As much as there is.
    pub(crate) const ALL: Self = Self { records: 10_000, bytes: usize::MAX, lasts: TICK };
}

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

/// Leases.
impl World {
    /// Lets a consumer ask, and wait as the broker lets it.
    pub(crate) fn ask(&mut self, consumer: usize, ask: Ask) -> LeaseStatus {
        self.line.remove(consumer);
        let (leases, status, effects) = self.lease(consumer, ask);
        self.finish_checked(effects, Urgency::Ride);
        let is_more = !leases.is_empty() && status != LeaseStatus::Drained;
        match status {
            _ if !leases.is_empty() => self.line.stay_awake(consumer),
            LeaseStatus::Full => self.line.wait_for_room(consumer),
            LeaseStatus::Drained => self.line.wait_for_records(consumer),
            LeaseStatus::More | LeaseStatus::Wanted(_) => self.line.stay_awake(consumer),
        }
        if is_more || status == LeaseStatus::Full {
            self.line.wake_one();
        }
        status
    }

    fn lease(&mut self, consumer: usize, ask: Ask) -> (Vec<Lease>, LeaseStatus, Effects) {
        self.naive.tick(self.now);
        let request = LeaseRequest {
            consumer: self.ids[consumer],
            records_max: ask.records,
            bytes_max: ask.bytes,
            ack_deadline: ask.lasts,
            retained_since: self.naive.retained_since,
            indexed_max: self.naive.indexed_max,
        };
        let (mut out, mut effects) = (Vec::new(), Effects::default());
        self.log.fetched = None;
        let mut fetches = 0;
        let status = loop {
            let now = self.now;
            let status = self.delivery.lease(now, &request, &mut self.log, &mut out, &mut effects);
            let LeaseStatus::Wanted(offset) = status else { break status };
            if !out.is_empty() {
                break status;
            }
            assert!(offset < self.log.end() && !self.log.is_at_hand(offset), "{offset} is here");
            self.log.fetched = Some(OffsetRange { from: offset, to: offset.plus(3) });
            fetches += 1;
            assert!(fetches < 1_000, "it wants {offset} again and again");
        };
        tell(|| {
            let leased: Vec<_> = out.iter().map(|l| (l.record.offset.0, l.attempt)).collect();
            format!("    {consumer} is leased {leased:?}, {status:?}")
        });
        // What expired first waits from then on.
        self.check_attempts(&effects);
        self.check_leases(consumer, ask, &out);
        self.check_status(consumer, ask, &out, status);
        (out, status, effects)
    }

    fn check_leases(&mut self, consumer: usize, ask: Ask, out: &[Lease]) {
        assert!(out.len() <= ask.records, "more than was asked for");
        let mut bytes = 0;
        for lease in out {
            let offset = usize::try_from(lease.record.offset.0).unwrap();
            let offers = self.naive.offers(consumer, self.now.wall);
            let spot = &self.naive.spots[offset];
            assert!(
                offers.iter().any(|offer| offer.offset == offset),
                "{consumer} must not be given {offset}: {spot:?}; but {offers:?}"
            );
            assert!(self.naive.fits(consumer, spot.bytes), "{offset} does not fit {consumer}");
            let noted = spot.noted.map_or(0, |attempt| attempt.count);
            let is_forgotten = self.naive.forgets() && spot.lane.is_some();
            assert!(
                lease.attempt == spot.failed + 1 || (is_forgotten && lease.attempt == noted + 1),
                "attempt {} of {offset}: {spot:?}",
                lease.attempt
            );
            bytes += lease.record.body.len();
            assert!(bytes <= ask.bytes || out.len() == 1, "more bytes than were asked for");
            self.naive.spots[offset].failed = lease.attempt - 1;
            self.naive.lease(offset, lease.ack_id, consumer, self.now.moment.plus(ask.lasts));
        }
    }

    /// The reason why there is no more is true.
    fn check_status(&self, consumer: usize, ask: Ask, out: &[Lease], status: LeaseStatus) {
        let offers = self.naive.offers(consumer, self.now.wall);
        let bytes: usize = out.iter().map(|lease| lease.record.body.len()).sum();
        let left = ask.bytes.saturating_sub(bytes) as u64;
        match status {
            LeaseStatus::Drained => {
                let missed = offers.iter().find(|offer| offer.is_sure);
                assert_eq!(missed, None, "{consumer} was told that there is nothing");
            }
            LeaseStatus::Full => assert!(
                !self.naive.fits(consumer, 1)
                    || offers.iter().any(|offer| !self.naive.fits(consumer, offer.bytes)),
                "{consumer} was told that it has no room"
            ),
            LeaseStatus::More => assert!(
                out.len() == ask.records
                    || (!out.is_empty() && offers.iter().any(|offer| offer.bytes > left)),
                "{consumer} was told that there is more than {}: {offers:?}",
                out.len()
            ),
            LeaseStatus::Wanted(_) => assert!(!out.is_empty(), "it was fetched"),
        }
    }
}

/// Acks, nacks, extensions, time.
impl World {
    pub(crate) fn ack(&mut self, lease: usize) {
        let given = self.naive.given[lease];
        let expected = self.naive.ack_outcomes(self.now.moment, lease);
        let mut effects = Effects::default();
        let (now, end) = (self.now.moment, self.log.end());
        let outcome = self.delivery.ack(now, &given.id, end, &mut effects);
        tell(|| format!("    ack {lease} of {}: {outcome:?}", given.offset));
        assert!(
            expected.contains(&outcome),
            "ack {lease} of {} is {outcome:?}, not one of {expected:?}: {:?}",
            given.offset,
            self.naive.spots[given.offset]
        );
        match outcome {
            AckOutcome::Settled => {
                self.naive.given[lease].is_confirmed = self.naive.settings.exactly_once;
                self.naive.settle(given.offset);
            }
            AckOutcome::Provisional => self.acked_provisionally(lease),
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
        let outcome = self.delivery.ack(now, &id, end, &mut effects);
        assert_eq!((outcome, &effects), (AckOutcome::Beyond, &Effects::default()));
        let text = id.to_string();
        let mut other = domain::delivery::Delivery::new(
            domain::delivery::Identity {
                subscription: domain::SubscriptionId(77),
                epoch: domain::Epoch(u64::MAX),
            },
            self.naive.settings.clone(),
            domain::Progress::default(),
        );
        let id = domain::delivery::AckId::parse(&text).unwrap();
        let outcome = other.ack(now, &id, self.log.end(), &mut effects);
        assert_eq!((outcome, &effects), (AckOutcome::Foreign, &Effects::default()));
    }

    fn nack(&mut self, lease: usize) {
        let is_current = self.naive.is_current(self.now.moment, lease);
        let (id, mut effects) = (self.naive.given[lease].id, Effects::default());
        let outcome = self.delivery.nack(self.now, &id, &Failure::NACK, &mut effects);
        tell(|| format!("    nack {lease} of {}: {outcome:?}", id.offset()));
        let expected = if is_current { ExtendOutcome::Returned } else { ExtendOutcome::Stale };
        assert_eq!(outcome, expected, "nack {lease} of {}", id.offset());
        if is_current {
            self.naive.nack(self.now, lease);
        }
        self.finish(effects, Urgency::Ride);
    }

    /// By nothing is a nack.
    fn extend(&mut self, lease: usize, ticks: u32) {
        let is_current = self.naive.is_current(self.now.moment, lease);
        let (id, by, mut effects) = (self.naive.given[lease].id, TICK * ticks, Effects::default());
        let outcome = self.delivery.extend(self.now, &id, by, &mut effects);
        tell(|| format!("    extend {lease} of {}: {outcome:?}", id.offset()));
        let expected = match ticks {
            _ if !is_current => ExtendOutcome::Stale,
            0 => ExtendOutcome::Returned,
            _ => ExtendOutcome::Extended,
        };
        assert_eq!(outcome, expected, "extend {lease} of {}", id.offset());
        match outcome {
            ExtendOutcome::Returned => self.naive.nack(self.now, lease),
            ExtendOutcome::Extended => self.naive.extend(self.now.moment, lease, by),
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

/// What owners and operators do.
impl World {
    fn operate(&mut self, step: &Step) {
        match *step {
            Step::Forward(place) => self.with_reported(place, Self::forward),
            Step::ForwardAll => self.forward_all(),
            Step::Spare(place) => self.with_reported(place, Self::spare),
            Step::Release(place) => self.with_blocked(place, Self::release),
            Step::Skip(place) => self.with_blocked(place, Self::skip),
            Step::ReleaseUnread(place) => {
                let unread = self.delivery.attempts_unread();
                if !unread.is_empty() {
                    let (offset, _) = unread[place % unread.len()];
                    self.release(usize::try_from(offset.0).unwrap());
                }
            }
            ref setting => self.change(setting),
        }
    }

    fn with_reported(&mut self, place: usize, act: impl FnOnce(&mut Self, usize)) {
        if let Some(&offset) = self.reported.iter().nth(place % self.reported.len().max(1)) {
            act(self, offset);
        }
    }

    /// The records that block their lanes.
    pub(crate) fn blocked(&self) -> Vec<usize> {
        let names = (0..LANES).map(Naive::lane_name);
        let blocked = names.filter_map(|name| self.delivery.blocked_by(name));
        let mut blocked: Vec<_> = blocked.map(|o| usize::try_from(o.0).unwrap()).collect();
        blocked.sort_unstable();
        blocked.dedup();
        blocked
    }

    fn with_blocked(&mut self, place: usize, act: impl FnOnce(&mut Self, usize)) {
        let blocked = self.blocked();
        if !blocked.is_empty() {
            act(self, blocked[place % blocked.len()]);
        }
    }

    fn forward(&mut self, offset: usize) {
        let (at, mut effects) = (Offset(offset as u64), Effects::default());
        let is_exhausted = self.delivery.is_exhausted(at);
        let is_settled = self.delivery.settle_exhausted(self.now, at, &mut effects);
        assert_eq!(is_settled, is_exhausted, "settle_exhausted of {offset}");
        self.reported.remove(&offset);
        if is_settled {
            self.naive.settle(offset);
        }
        self.finish(effects, Urgency::Durable);
    }

    pub(crate) fn forward_all(&mut self) {
        self.reported.clone().into_iter().for_each(|offset| self.forward(offset));
    }

    fn spare(&mut self, offset: usize) {
        let (at, mut effects) = (Offset(offset as u64), Effects::default());
        if self.delivery.is_exhausted(at) {
            let spot = &mut self.naive.spots[offset];
            spot.is_spared = true;
            spot.is_skipped = false;
        }
        self.delivery.spare(self.now, at, &mut effects);
        assert!(!self.delivery.is_exhausted(at), "{offset} was spared");
        self.reported.remove(&offset);
        self.finish(effects, Urgency::Ride);
    }

    pub(crate) fn release(&mut self, offset: usize) {
        let (at, mut effects) = (Offset(offset as u64), Effects::default());
        assert!(self.delivery.release(self.now, at, &mut effects), "{offset} is blocked");
        self.naive.release(offset);
        self.reported.remove(&offset);
        self.finish(effects, Urgency::Durable);
    }

    pub(crate) fn skip(&mut self, offset: usize) {
        let mut effects = Effects::default();
        assert!(self.delivery.skip(Offset(offset as u64), &mut effects), "{offset} is blocked");
        self.naive.spots[offset].is_skipped = true;
        self.finish(effects, Urgency::Durable);
        assert!(self.reported.contains(&offset), "nobody was told that {offset} is given up");
    }
}

/// Settings.
impl World {
    fn change(&mut self, step: &Step) {
        let mut settings = self.naive.settings.clone();
        match *step {
            Step::SetOrder(ordering, is_by_kind) => {
                settings.ordering = ordering;
                let is_by_kind = is_by_kind && ordering == Ordering::ByKey;
                settings.lane_by = is_by_kind.then(|| "kind".into());
                return self.reorder(settings);
            }
            Step::SetExactlyOnce(is_on) => settings.exactly_once = is_on,
            Step::SetRetry(policy) => {
                settings.retry =
                    policy.map(|(min, max)| RetryPolicy { min: TICK * min, max: TICK * max });
            }
            Step::SetAttempts(attempts) => settings.attempts_max = attempts,
            Step::SetPoison(poison) => settings.poison = poison,
            Step::SetPaused(is_paused) => settings.is_paused = is_paused,
            _ => return,
        }
        self.update(settings);
    }

    pub(crate) fn update(&mut self, settings: Settings) {
        let mut effects = Effects::default();
        self.delivery.update_settings(self.now, settings.clone(), &mut effects);
        self.naive.change(settings);
        let delivery = &self.delivery;
        self.reported.retain(|&offset| delivery.is_exhausted(Offset(offset as u64)));
        self.line.wake_all();
        self.finish(effects, Urgency::Ride);
    }

    /// Changes the order. What is leased stays so; whose lane it is in is not known before the log
    /// is read again, so that is done before anything else, but for some leases that end first.
    /// Where not everything may be read or indexed, all of them do.
    fn reorder(&mut self, settings: Settings) {
        self.pass(Duration::ZERO);
        let can_read = !settings.is_paused && !self.naive.forgets();
        let is_change = (settings.ordering, &settings.lane_by)
            != (self.naive.settings.ordering, &self.naive.settings.lane_by);
        self.naive.is_reordering = is_change;
        self.update(settings);
        let held: Vec<_> = self.naive.held().map(|(_, held)| held.lease).collect();
        for lease in held.into_iter().filter(|lease| !can_read || lease.is_multiple_of(4)) {
            if lease.is_multiple_of(8) { self.ack(lease) } else { self.nack(lease) }
        }
        self.forget_unjournaled();
        if is_change && self.naive.held().next().is_some() {
            let reader = self.open(Flow::default());
            let ask = Ask { lasts: 20 * TICK, ..Ask::ALL };
            while self.ask(reader, ask) != LeaseStatus::Drained {}
        }
        self.naive.is_reordering = false;
    }

    /// What came back before it was read again is known only as far as it is journaled.
    fn forget_unjournaled(&mut self) {
        let spots = self.naive.spots.iter_mut();
        for spot in spots.filter(|spot| spot.held.is_none() && !spot.is_known) {
            spot.failed = spot.noted.map_or(0, |attempt| attempt.count);
        }
    }
}

fn later(now: Now, by: Duration) -> Now {
    Now { moment: now.moment.plus(by), wall: now.wall.plus(by) }
}
