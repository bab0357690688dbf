//! Records without a lane that came back: each waits on its own.

use std::collections::{BTreeMap, BTreeSet};

use super::backoffs::BackoffId;
use crate::offset::{Offset, OffsetRange};

/// Whether a record that came back may be leased, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It may go now.
    Ready,
    /// Its backoff is not over.
    BackingOff(BackoffId),
    /// It has used up its attempts; its owner was told.
    Exhausted,
}

/// A record that came back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Back {
    /// How many deliveries of it have failed.
    pub(super) failed: u32,
    pub(super) standing: Standing,
    /// It may be tried once more although it has used up its attempts.
    pub(super) is_spared: bool,
}

/// The records below `Delivery::fresh` that are neither settled nor leased nor in a lane.
#[derive(Debug, Default)]
pub(super) struct Returned {
    all: BTreeMap<Offset, Back>,
    ready: BTreeSet<Offset>,
}

impl Returned {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// How many may go now.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn get(&self, offset: Offset) -> Option<Back> {
        self.all.get(&offset).copied()
    }

    /// Adds a record, or changes its standing.
    pub(super) fn insert(&mut self, offset: Offset, back: Back) {
        if back.standing == Standing::Ready {
            self.ready.insert(offset);
        } else {
            self.ready.remove(&offset);
        }
        self.all.insert(offset, back);
    }

    /// Removes a record: it is leased or settled.
    pub(super) fn take(&mut self, offset: Offset) -> Option<Back> {
        let back = self.all.remove(&offset)?;
        self.ready.remove(&offset);
        Some(back)
    }

    /// The lowest run of adjacent records that may go now, up to `records_max`.
    pub(super) fn next_run(&self, records_max: u64) -> Option<OffsetRange> {
        let mut ready = self.ready.iter();
        let mut run = OffsetRange::one(*ready.next()?);
        for &offset in ready {
            if offset != run.to || run.len() >= records_max {
                break;
            }
            run.to = offset.next();
        }
        Some(run)
    }

    /// The lowest record in `range`.
    pub(super) fn first_in(&self, range: OffsetRange) -> Option<Offset> {
        self.all.range(range.from..range.to).next().map(|(&offset, _)| offset)
    }

    /// All of them, ascending.
    pub(super) fn offsets(&self) -> Vec<Offset> {
        self.all.keys().copied().collect()
    }
}
