//! What a subscription remembers: cursor, acked offsets above it, attempts.

mod acked;
mod change;
mod codec;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::offset::{Epoch, Offset, OffsetRange};
use crate::time::Timestamp;

use acked::Acked;
pub use change::{ProgressChange, unite};

/// How often a record was tried, and when it may be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Deliveries that ended in a nack or an expired lease.
    pub count: u32,
    /// Not before this wall-clock time; 1970 = at once.
    pub due: Timestamp,
}

/// Cursor + acked offsets above it + attempts of unacked ones.
///
/// ```text
///             cursor    first_above
///                ▼           ▼
/// ████████████████░░░░░░░░░░░███░░░██████████████████████████░░░░░ …
/// acked, nothing kept        └ bits ┘└── run of full pages ──┘
/// ```
///
/// Two of them are equal if they have the same acked offsets, attempts and void ack ids.
#[derive(Clone, Debug)]
pub struct Progress {
    cursor: Offset,
    /// What is acked above the cursor; the cursor itself never is.
    above: Acked,
    /// The lowest offset of `above`, or the greatest offset if it is empty. An ack at the cursor
    /// that ends below it moves the cursor without looking at any page.
    first_above: Offset,
    /// Only of unacked offsets.
    attempts: BTreeMap<Offset, Attempt>,
    /// Ack ids from an earlier epoch, or from this one and an earlier lease, are void because of a
    /// seek.
    void_before: (Epoch, u64),
}

/// No range contains this offset, so it is never acked.
const NEVER_ACKED: Offset = Offset(u64::MAX);

impl Progress {
    /// The progress of a subscription that has acked everything below `cursor` and nothing else.
    pub fn starting_at(cursor: Offset) -> Self {
        Self {
            cursor,
            above: Acked::default(),
            first_above: NEVER_ACKED,
            attempts: BTreeMap::new(),
            void_before: (Epoch::default(), 0),
        }
    }

    /// Voids every ack id from an epoch before `epoch`, or from that epoch and a lease before
    /// `lease`.
    pub fn void_ids_before(&mut self, epoch: Epoch, lease: u64) {
        self.void_before = (epoch, lease);
    }

    /// The epoch and lease before which ack ids are void. It grows with every seek after which
    /// anything was leased.
    pub fn void_before(&self) -> (Epoch, u64) {
        self.void_before
    }

    /// Whether an ack id of that epoch and lease is void.
    pub fn voids(&self, epoch: Epoch, lease: u64) -> bool {
        (epoch, lease) < self.void_before
    }

    /// The same without attempts: what a snapshot stores.
    #[must_use]
    pub fn without_attempts(&self) -> Self {
        Self { attempts: BTreeMap::new(), ..self.clone() }
    }

    /// The lowest offset that is not acked.
    pub fn cursor(&self) -> Offset {
        self.cursor
    }

    /// Whether `offset` is settled.
    pub fn is_acked(&self, offset: Offset) -> bool {
        offset < self.cursor || (offset >= self.first_above && self.above.contains(offset.0))
    }

    /// Settles every offset of `range`; returns how many were not settled before.
    ///
    /// The cost depends not on the length of the range, only on the pages it touches that are
    /// neither empty nor full.
    pub fn ack(&mut self, range: OffsetRange) -> u64 {
        let (from, to) = (range.from.max(self.cursor), range.to);
        if to <= from {
            return 0;
        }
        self.forget_attempts(OffsetRange { from, to });
        if from > self.cursor {
            self.first_above = self.first_above.min(from);
            return self.above.insert(from.0, to.0);
        }
        if to < self.first_above {
            self.cursor = to;
            return to.0 - from.0;
        }
        let fresh = self.above.insert(from.0, to.0);
        self.cursor = Offset(self.above.next_clear(from.0));
        self.above.drop_below(self.cursor.0);
        self.first_above = self.above.next_set(self.cursor.0).map_or(NEVER_ACKED, Offset);
        fresh
    }

    /// The attempts of `offset`; `None` if it is settled or was never tried.
    pub fn attempt(&self, offset: Offset) -> Option<Attempt> {
        self.attempts.get(&offset).copied()
    }

    /// Records the attempts of `offset`; a count of zero clears them. Ignored if it is settled.
    pub fn set_attempt(&mut self, offset: Offset, attempt: Attempt) {
        if attempt.count == 0 {
            self.attempts.remove(&offset);
        } else if !self.is_acked(offset) {
            self.attempts.insert(offset, attempt);
        }
    }

    /// The unsettled offsets that were tried, ascending.
    pub fn attempts(&self) -> impl Iterator<Item = (Offset, Attempt)> + '_ {
        self.attempts.iter().map(|(&offset, &attempt)| (offset, attempt))
    }

    /// The acked offsets above the cursor as ascending ranges that are not adjacent.
    pub fn acked_ranges_above(&self) -> impl Iterator<Item = OffsetRange> + '_ {
        let mut from = self.first_above.0;
        std::iter::from_fn(move || {
            let start = self.above.next_set(from)?;
            from = self.above.next_clear(start);
            Some(OffsetRange { from: Offset(start), to: Offset(from) })
        })
    }

    /// How many offsets above the cursor are acked.
    pub fn acked_above_count(&self) -> u64 {
        self.above.count()
    }

    /// The parts of `range` that are not acked, ascending.
    pub fn unacked_in(&self, range: OffsetRange) -> Vec<OffsetRange> {
        let mut unacked = Vec::new();
        let mut from = self.next_unacked(range.from);
        while from < range.to {
            let to = self.above.next_set(from.0).map_or(range.to, Offset).min(range.to);
            unacked.push(OffsetRange { from, to });
            from = self.next_unacked(to);
        }
        unacked
    }

    /// The lowest offset from `from` on that is not acked.
    pub fn next_unacked(&self, from: Offset) -> Offset {
        let from = from.max(self.cursor);
        if from < self.first_above { from } else { Offset(self.above.next_clear(from.0)) }
    }

    /// Applies a change read from the log.
    ///
    /// Applying a change twice has no further effect, nor does replaying a stretch of the log whose
    /// end is already included: settled offsets stay settled, and attempts are absolute.
    pub fn apply(&mut self, change: &ProgressChange) {
        match change {
            ProgressChange::Settled(ranges) => {
                for range in ranges {
                    self.ack(*range);
                }
            }
            ProgressChange::Attempts(attempts) => {
                for &(offset, attempt) in attempts {
                    self.set_attempt(offset, attempt);
                }
            }
            ProgressChange::Replaced(progress) => self.clone_from(progress),
        }
    }

    /// Approximate memory use, including itself.
    pub fn memory_bytes(&self) -> usize {
        /// Tree nodes are between half and completely full.
        const TREE_OVERHEAD: usize = 2;
        let attempt = TREE_OVERHEAD * size_of::<(Offset, Attempt)>();
        size_of::<Self>() + self.above.memory_bytes() + self.attempts.len() * attempt
    }

    fn forget_attempts(&mut self, range: OffsetRange) {
        while let Some((&offset, _)) = self.attempts.range(range.from..range.to).next() {
            self.attempts.remove(&offset);
        }
    }
}

impl Default for Progress {
    /// Nothing acked at all.
    fn default() -> Self {
        Self::starting_at(Offset::default())
    }
}

impl PartialEq for Progress {
    fn eq(&self, other: &Self) -> bool {
        self.cursor == other.cursor
            && self.acked_above_count() == other.acked_above_count()
            && self.attempts == other.attempts
            && self.void_before == other.void_before
            && self.acked_ranges_above().eq(other.acked_ranges_above())
    }
}
