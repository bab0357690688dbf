//! Failed deliveries: counting them, backing off, giving up.

use std::sync::Arc;
use std::time::Duration;

use super::backoffs::Waiting;
use super::lane::{Hold, LaneId, Trouble};
use super::leases::{Held, Way};
use super::readiness::Readiness;
use super::returned::{Back, Standing};
use super::{Delivery, Effects, Settings};
use crate::backoff::Backoff;
use crate::limits::BACKOFF_MAX_DEFAULT;
use crate::offset::Offset;
use crate::progress::Attempt;
use crate::time::{Moment, Now, Timestamp};

/// How a delivery failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A word from a small fixed set.
    pub class: &'static str,
    /// The status of an HTTP answer.
    pub status: Option<u16>,
    /// What the consumer said, or what went wrong.
    pub message: Option<Arc<str>>,
    /// How long the consumer asked us to wait. Used if longer than the backoff, up to the longest
    /// backoff.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure of this class with no further details.
    pub const fn of(class: &'static str) -> Self {
        Self { class, status: None, message: None, retry_after: None }
    }

    /// The consumer nacked the record.
    pub const NACK: Self = Self::of("nack");
    /// The ack deadline passed.
    pub const EXPIRED: Self = Self::of("expired");
}

impl Settings {
    /// How long to wait when a consumer asks for `asked`: at most the longest backoff, or the
    /// default's longest if there is no backoff.
    pub fn retry_after_allowed(&self, asked: Duration) -> Duration {
        asked.min(self.retry.as_ref().map_or(BACKOFF_MAX_DEFAULT, Backoff::longest))
    }
}

/// A record that has used up its attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exhausted {
    /// The record.
    pub offset: Offset,
    /// How many deliveries of it failed.
    pub attempts: u32,
    /// How the last one failed, if still known.
    pub failure: Option<Failure>,
}

/// A delivery that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The record.
    pub offset: Offset,
    /// When it was published.
    pub publish_time: Timestamp,
    /// Which delivery of it this was, counted from 1.
    pub attempt: u32,
    /// How it failed.
    pub failure: Failure,
    /// Whether and when the record may be delivered again.
    pub readiness: Readiness,
}

impl Delivery {
    /// A lease, already removed, ended without an ack. This is the only place where a delivery
    /// fails.
    pub(super) fn fail(&mut self, now: Now, held: &Held, failure: &Failure, effects: &mut Effects) {
        debug_assert!(!self.progress.is_acked(held.offset), "a settled record was leased");
        self.consumers.lease_ended(held.consumer, u64::from(held.bytes), effects);
        let count = held.failed.saturating_add(1);
        self.note_attempt(now, held.offset, count, failure, effects);
        self.put_back(now, held, count, Some(failure), effects);
        effects.failed.push(Failed {
            offset: held.offset,
            publish_time: held.publish_time,
            attempt: count,
            failure: failure.clone(),
            readiness: self.readiness(now, held.offset, count, false, held.way.lane().is_some()),
        });
    }

    /// Undoes a lease, already removed, as if it had never been given.
    pub(super) fn take_back(&mut self, now: Now, held: &Held, effects: &mut Effects) {
        self.consumers.lease_ended(held.consumer, u64::from(held.bytes), effects);
        self.put_back(now, held, held.failed, None, effects);
    }

    /// Puts a record whose lease ended back to wait. `failure` is how its delivery failed, if it
    /// did.
    fn put_back(
        &mut self,
        now: Now,
        held: &Held,
        failed: u32,
        failure: Option<&Failure>,
        effects: &mut Effects,
    ) {
        match held.way {
            // It will be read again in its turn; only then do we know what it waits behind.
            Way::Adrift => {
                self.note_halted_unread(held.offset);
                effects.returned += 1;
            }
            Way::Freely => {
                let back = Back { failed, standing: Standing::Ready, is_spared: false };
                self.place_returned(now, held.offset, back, failure, effects);
            }
            Way::InLane(lane) => {
                self.put_back_in_lane(now, lane, held.offset, failed, failure, effects);
            }
        }
        self.consumers.next_record_changed(effects);
    }

    /// Ends a lease whose deadline passed. In a lane the lowest expired lease counts as the
    /// failure, whichever was found first: the ones behind it only come along.
    pub(super) fn expire(&mut self, now: Now, held: Held, effects: &mut Effects) {
        match self.expired_before(now.moment, &held) {
            Some(first) => {
                self.consumers.lease_ended(held.consumer, u64::from(held.bytes), effects);
                self.fail(now, &first, &Failure::EXPIRED, effects);
            }
            None => self.fail(now, &held, &Failure::EXPIRED, effects),
        }
    }

    /// Removes the lowest expired lease in front of `held` in its lane.
    fn expired_before(&mut self, now: Moment, held: &Held) -> Option<Held> {
        if self.settings.exactly_once {
            return None;
        }
        let leases = &self.leases;
        let is_over =
            |offset: &Offset| leases.get(*offset).is_some_and(|other| other.deadline <= now);
        let first = self.lanes.get(held.way.lane()?)?.leased_up_to(held.offset).find(is_over)?;
        self.leases.remove(first)
    }

    fn put_back_in_lane(
        &mut self,
        now: Now,
        id: LaneId,
        offset: Offset,
        failed: u32,
        failure: Option<&Failure>,
        effects: &mut Effects,
    ) {
        let mut ended = Vec::new();
        self.lanes.give_back(id, offset, failed, !self.settings.exactly_once, &mut ended);
        if self.lanes.pending() > self.indexed_max / 2 {
            self.lanes.forget_all_but_next(id);
        }
        // Acks from before a restart whose lanes are unknown: some may be behind this record.
        self.early.split_off(&offset);
        for offset in ended {
            if let Some(held) = self.leases.remove(offset) {
                self.consumers.lease_ended(held.consumer, u64::from(held.bytes), effects);
            }
        }
        if let Some(lane) = self.lanes.get_mut(id) {
            lane.spared = None;
            if let Some(failure) = failure {
                let known = lane.trouble().filter(|trouble| trouble.offset == offset);
                let since = known.map_or(now.wall, |trouble| trouble.since);
                let trouble = Trouble { offset, since, class: failure.class };
                self.lanes.set_trouble(id, Some(trouble));
            }
        }
        self.free_hold(id);
        self.consider(now, id, failure, effects);
    }

    /// Counts a failed delivery and decides when the next one may happen.
    fn note_attempt(
        &mut self,
        now: Now,
        offset: Offset,
        count: u32,
        failure: &Failure,
        effects: &mut Effects,
    ) {
        if !self.settings.journals_attempts() {
            return;
        }
        let retry = self.settings.retry.as_ref();
        let backoff = retry.map(|retry| retry.after(count, self.seed(offset, count)));
        let asked = failure.retry_after.map(|asked| self.settings.retry_after_allowed(asked));
        let due = match backoff.max(asked) {
            Some(wait) => now.wall.plus(wait),
            None => Timestamp(0),
        };
        let attempt = Attempt { count, due };
        self.progress.set_attempt(offset, attempt);
        effects.attempts.push((offset, attempt));
    }

    /// Spreads out the backoffs of records that failed together, deterministically.
    fn seed(&self, offset: Offset, count: u32) -> u64 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let numbers = [self.identity.subscription.0, offset.0, u64::from(count)];
        numbers.iter().fold(ODD, |mixed, number| (mixed ^ number).wrapping_mul(ODD).rotate_left(29))
    }

    /// Puts a record without a lane back to wait, for its turn or for its backoff.
    pub(super) fn place_returned(
        &mut self,
        now: Now,
        offset: Offset,
        mut back: Back,
        failure: Option<&Failure>,
        effects: &mut Effects,
    ) {
        back.standing = match self.readiness(now, offset, back.failed, back.is_spared, false) {
            Readiness::Ready => {
                effects.returned += 1;
                Standing::Ready
            }
            Readiness::BackingOff(until) => {
                Standing::BackingOff(self.backoffs.insert(Waiting::Record(offset), until))
            }
            Readiness::Exhausted(attempts) => {
                effects.exhausted.push(Exhausted { offset, attempts, failure: failure.cloned() });
                Standing::Exhausted
            }
            Readiness::Halted => Standing::Exhausted,
        };
        self.returned.insert(offset, back);
    }

    /// Checks whether the lane's next record may go, and holds the lane if not.
    pub(super) fn consider(
        &mut self,
        now: Now,
        id: LaneId,
        failure: Option<&Failure>,
        effects: &mut Effects,
    ) {
        let Some(lane) = self.lanes.get(id).filter(|lane| lane.hold() == Hold::Free) else {
            return;
        };
        if let Some((offset, failed)) = lane.next() {
            let is_spared = lane.spared == Some(offset);
            let hold = match self.readiness(now, offset, failed, is_spared, true) {
                Readiness::Ready => Hold::Free,
                Readiness::BackingOff(until) => {
                    Hold::BackingOff(self.backoffs.insert(Waiting::Lane(id), until))
                }
                Readiness::Exhausted(attempts) => {
                    let failure = failure.cloned();
                    effects.exhausted.push(Exhausted { offset, attempts, failure });
                    self.exhausted_lanes.insert(offset, id);
                    Hold::Exhausted(offset)
                }
                Readiness::Halted => Hold::Halted,
            };
            self.lanes.set_hold(id, hold);
        }
        self.make_ready(id, effects);
    }

    /// Ends a backoff whatever the wall clock says: it may have been set back.
    pub(super) fn end_backoff(&mut self, waiting: Waiting, effects: &mut Effects) {
        match waiting {
            Waiting::Record(offset) => {
                if let Some(back) = self.returned.get(offset) {
                    self.returned.insert(offset, Back { standing: Standing::Ready, ..back });
                    effects.returned += 1;
                }
            }
            Waiting::Lane(id) => {
                self.lanes.set_hold(id, Hold::Free);
                self.make_ready(id, effects);
            }
        }
        self.consumers.next_record_changed(effects);
    }

    /// The policies changed: an exhausted record may get another try, or the reverse.
    pub(super) fn consider_all_again(&mut self, now: Now, effects: &mut Effects) {
        for offset in self.returned.offsets() {
            if let Some(back) = self.returned.get(offset) {
                self.cancel(back.standing);
                self.place_returned(now, offset, back, None, effects);
            }
        }
        let waiting = self.lanes.all().filter(|(_, lane)| lane.next().is_some());
        for id in waiting.map(|(id, _)| id).collect::<Vec<_>>() {
            self.free_hold(id);
            self.consider(now, id, None, effects);
        }
    }
}
