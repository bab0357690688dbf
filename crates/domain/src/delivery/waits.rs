//! What a subscription is waiting for, counted as things change, so that reading the counts scans
//! nothing.

use std::collections::BTreeSet;

use super::lane::{Hold, Trouble};
use super::{Delivery, Ordering, Settings};
use crate::offset::Offset;
use crate::policy::Poison;
use crate::time::{Now, Timestamp};

/// What a subscription is waiting for now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Lanes that wait for something other than consumers, including halted ones.
    pub lanes_blocked: usize,
    /// Lanes that wait for an operator.
    pub lanes_halted: usize,
    /// Of those, the ones that were halted when the server stopped and have not been read since.
    pub lanes_halted_unread: usize,
    /// Since when the longest-failing lane has been failing; `None` = none is, or the time is no
    /// longer known.
    pub lane_failing_since: Option<Timestamp>,
    /// Records without a lane, and lanes, that are backing off.
    pub backing_off: usize,
    /// When the first of these backoffs ends.
    pub backing_off_until: Option<Timestamp>,
}

/// The lanes that are held and those that are failing, counted as they change.
#[derive(Debug, Default)]
pub(super) struct Stuck {
    pub(super) blocked: usize,
    pub(super) halted: usize,
    /// Since when, and the lane's slot.
    failing: BTreeSet<(Timestamp, u32)>,
}

impl Stuck {
    /// Notes that a lane's hold changed.
    pub(super) fn note_hold(&mut self, before: Hold, after: Hold) {
        let count =
            |hold: Hold| (usize::from(hold != Hold::Free), usize::from(hold == Hold::Halted));
        let ((blocked, halted), (blocks, halts)) = (count(before), count(after));
        self.blocked = self.blocked + blocks - blocked;
        self.halted = self.halted + halts - halted;
    }

    /// Notes that the failure of the lane in `slot` changed.
    pub(super) fn note_trouble(
        &mut self,
        slot: u32,
        before: Option<&Trouble>,
        after: Option<&Trouble>,
    ) {
        let (before, after) = (before.map(|known| known.since), after.map(|known| known.since));
        if before == after {
            return;
        }
        if let Some(since) = before {
            self.failing.remove(&(since, slot));
        }
        if let Some(since) = after {
            self.failing.insert((since, slot));
        }
    }

    fn failing_since(&self) -> Option<Timestamp> {
        self.failing.first().map(|&(since, _)| since)
    }
}

impl Delivery {
    /// What the subscription is waiting for now.
    pub fn waits(&self, now: Now) -> Waits {
        let stuck = self.lanes.stuck();
        let unread = match self.settings.ordering {
            // With a single lane, one record halts it.
            Ordering::Fifo => self.halted_unread.len().min(1).saturating_sub(stuck.halted),
            _ => self.halted_unread.len(),
        };
        let until = self.backoffs.first_until();
        Waits {
            lanes_blocked: stuck.blocked + unread,
            lanes_halted: stuck.halted + unread,
            lanes_halted_unread: unread,
            lane_failing_since: stuck.failing_since(),
            backing_off: self.backoffs.len(),
            backing_off_until: until.map(|until| now.wall.plus(until.since(now.moment))),
        }
    }

    /// Finds the lanes halted by records that have not been read yet. Scans all attempts, so it is
    /// only for the start, a seek or changed policies.
    pub(super) fn find_halted_unread(&mut self) {
        let Some(max) = self.halts_after() else { return self.halted_unread.clear() };
        let attempts = self.progress.attempts();
        let halted = attempts.filter(|&(at, attempt)| at >= self.fresh && attempt.count >= max);
        self.halted_unread = halted.map(|(offset, _)| offset).collect();
    }

    /// `offset` came back before its lane was read.
    pub(super) fn note_halted_unread(&mut self, offset: Offset) {
        let count = self.progress.attempt(offset).map_or(0, |attempt| attempt.count);
        if offset >= self.fresh && self.halts_after().is_some_and(|max| count >= max) {
            self.halted_unread.insert(offset);
        }
    }

    /// After how many attempts a record halts its lane; `None` = it never does.
    fn halts_after(&self) -> Option<u32> {
        let Settings { ordering, poison, attempts_max, .. } = &self.settings;
        let halts = *ordering != Ordering::None && *poison == Poison::Halt;
        attempts_max.filter(|_| halts)
    }

    /// Records that were read are in their lanes and are counted there.
    pub(super) fn note_read(&mut self) {
        while self.halted_unread.first().is_some_and(|&first| first < self.fresh) {
            self.halted_unread.pop_first();
        }
    }

    /// `offset` no longer halts its lane, whether it was read or not.
    pub(super) fn forget_halted_unread(&mut self, offset: Offset) {
        if !self.halted_unread.is_empty() {
            self.halted_unread.remove(&offset);
        }
    }
}
