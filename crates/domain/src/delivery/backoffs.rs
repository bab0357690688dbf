//! Records and lanes that are backing off, ordered by when the backoff ends.

use super::lane::LaneId;
use super::wheel::Wheel;
use crate::offset::Offset;
use crate::time::Moment;

/// What is waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// A record without a lane.
    Record(Offset),
    /// A lane whose next record must wait.
    Lane(LaneId),
}

/// Identifies one backoff until it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BackoffId(u32);

/// How many backoffs are examined to find the earliest.
const LOOKED_AT_MAX: usize = 1_000;

/// All backoffs that have not ended.
#[derive(Debug, Default)]
pub(super) struct Backoffs {
    /// Vacant slots still contain their ended backoffs.
    slots: Vec<(Waiting, Moment)>,
    vacant: Vec<u32>,
    wheel: Wheel,
}

impl Backoffs {
    /// Makes `waiting` wait until `until`.
    pub(super) fn insert(&mut self, waiting: Waiting, until: Moment) -> BackoffId {
        let slot = match self.vacant.pop() {
            Some(slot) => {
                if let Some(vacant) = self.slots.get_mut(slot as usize) {
                    *vacant = (waiting, until);
                }
                slot
            }
            None => {
                self.slots.push((waiting, until));
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.wheel.insert(slot, until);
        BackoffId(slot)
    }

    /// Ends a backoff early.
    pub(super) fn remove(&mut self, id: BackoffId) {
        self.wheel.remove(id.0);
        self.vacant.push(id.0);
    }

    /// When the backoff `id` ends.
    pub(super) fn until(&self, id: BackoffId) -> Option<Moment> {
        self.slots.get(id.0 as usize).map(|&(_, until)| until)
    }

    /// How many are waiting.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// When the first backoff ends. If very many end at about the same time, only some are
    /// examined.
    pub(super) fn first_until(&self) -> Option<Moment> {
        let first = self.wheel.first_keys().take(LOOKED_AT_MAX);
        first.filter_map(|slot| self.until(BackoffId(slot))).min()
    }

    /// Removes and returns one backoff that is due, if there is one.
    pub(super) fn pop_due(&mut self, now: Moment) -> Option<Waiting> {
        loop {
            let slot = self.wheel.pop(now)?;
            let &(waiting, until) = self.slots.get(slot as usize)?;
            if until <= now {
                self.vacant.push(slot);
                return Some(waiting);
            }
            self.wheel.insert(slot, until);
        }
    }

    /// When `pop_due` should be called next.
    pub(super) fn next_wake(&self) -> Option<Moment> {
        self.wheel.next_wake()
    }
}
