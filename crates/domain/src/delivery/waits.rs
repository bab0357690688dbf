//! What a subscription waits for, in figures that are kept as things happen: telling them looks
//! through nothing.

use std::collections::BTreeSet;

use super::lane::{Hold, Trouble};
use super::{Delivery, Ordering, Settings};
use crate::offset::Offset;
use crate::policy::Poison;
use crate::time::{Now, Timestamp};

/// What a subscription waits for now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Lanes that wait for something other than consumers, the halted ones included.
    pub lanes_blocked: usize,
    /// Lanes that wait for an operator.
    pub lanes_halted: usize,
    /// Of those, the ones that were halted when the server stopped and were not read since.
    pub lanes_halted_unread: usize,
    /// Since when the lane fails that has failed longest; `None` = none does, or it is not known
    /// any more since when.
    pub lane_failing_since: Option<Timestamp>,
    /// Records without a lane, and lanes, that wait for a backoff to end.
    pub backing_off: usize,
    /// When the first of these backoffs ends.
    pub backing_off_until: Option<Timestamp>,
}

/// The lanes that are held and those that fail, counted as they change.
#[derive(Debug, Default)]
pub(super) struct Stuck {
    pub(super) blocked: usize,
    pub(super) halted: usize,
    /// Since when, and the lane's slot.
    failing: BTreeSet<(Timestamp, u32)>,
}

impl Stuck {
    /// What holds a lane changes.
    pub(super) fn note_hold(&mut self, before: Hold, after: Hold) {
        let count =
            |hold: Hold| (usize::from(hold != Hold::Free), usize::from(hold == Hold::Halted));
        let ((blocked, halted), (blocks, halts)) = (count(before), count(after));
        self.blocked = self.blocked + blocks - blocked;
        self.halted = self.halted + halts - halted;
    }

    /// Since when the lane in `slot` fails changes.
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
    /// What it waits for now.
    pub fn waits(&self, now: Now) -> Waits {
        let stuck = self.lanes.stuck();
        let unread = match self.settings.ordering {
            // Where there is one lane, one record halts it.
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

    /// Finds the lanes that are halted by records that were not read yet. Looks through all
    /// attempts: for when it begins, is sent elsewhere, or has other rules.
    pub(super) fn find_halted_unread(&mut self) {
        let Some(max) = self.halts_after() else { return self.halted_unread.clear() };
        let attempts = self.progress.attempts();
        let halted = attempts.filter(|&(at, attempt)| at >= self.fresh && attempt.count >= max);
        self.halted_unread = halted.map(|(offset, _)| offset).collect();
    }

    /// `offset` came back before anyone read which lane it is of.
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

    /// What was read stands in its lane, and counts there.
    pub(super) fn note_read(&mut self) {
        while self.halted_unread.first().is_some_and(|&first| first < self.fresh) {
            self.halted_unread.pop_first();
        }
    }

    /// `offset` does not halt its lane anymore, whether it was read or not.
    pub(super) fn forget_halted_unread(&mut self, offset: Offset) {
        if !self.halted_unread.is_empty() {
            self.halted_unread.remove(&offset);
        }
    }
}
