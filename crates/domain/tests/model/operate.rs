//! The steps of owners and operators: dead letters, lanes that are stuck, settings.

use std::time::Duration;

use domain::delivery::{Effects, Flow, LeaseStatus, Ordering, Settings};
use domain::{Backoff, Offset, RetryPolicy};

use crate::lease::Ask;
use crate::naive::{LANES, Naive};
use crate::steps::Step;
use crate::world::{TICK, Urgency, World};

/// What owners and operators do.
impl World {
    pub(crate) fn operate(&mut self, step: &Step) {
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
            Step::SkipUnread(place) => {
                let unread = self.delivery.attempts_unread();
                if !unread.is_empty() {
                    let offset = usize::try_from(unread[place % unread.len()].0.0).unwrap();
                    self.skip(offset);
                    self.forward(offset);
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
                settings.retry = policy.map(|(min, max)| {
                    Backoff::Exponential(RetryPolicy { min: TICK * min, max: TICK * max })
                });
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
        let is_unbounded = !self.naive.forgets() && self.naive.remembered_max == usize::MAX;
        let can_read = !settings.is_paused && is_unbounded;
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
