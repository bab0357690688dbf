//! The order in which a subscription's records go out.
//!
//! `Delivery` reads the log in offset order and asks here what may go next. Everything that
//! depends on `Ordering` is behind `Lanes`, so that further kinds of lanes are further variants
//! and neither `Delivery` nor its callers change:
//!
//! ```text
//!            fresh record              lease ended badly           settled
//!                 │ admits                  │ give_back               │ settled
//!                 ▼                         ▼                         ▼
//! Unordered  always leased at once     waits, lowest first       forgotten
//! by lane    held back while its       waits with all behind     frees what was
//!            lane is not this          it in its lane            held back behind it
//!            consumer's to take
//! ```

use std::collections::BTreeMap;

use super::{ConsumerId, Ordering};
use crate::offset::{Offset, OffsetRange, Record};

/// The records below `Delivery::fresh` that are neither settled nor leased, and which of them
/// may go next.
#[derive(Debug)]
pub(super) enum Lanes {
    /// Every record is a lane of its own.
    Unordered(Unordered),
}

/// Records to be delivered again.
#[derive(Debug, Default)]
pub(super) struct Unordered {
    /// With how many deliveries of each have failed.
    waiting: BTreeMap<Offset, u32>,
}

impl Lanes {
    /// `ByKey` and `Fifo` go unordered: their lanes are not built.
    pub(super) fn of(ordering: Ordering) -> Self {
        match ordering {
            Ordering::None | Ordering::ByKey | Ordering::Fifo => {
                Self::Unordered(Unordered::default())
            }
        }
    }

    /// Whether a fresh record may go to `consumer` at once. One that may not is kept here.
    pub(super) fn admits(&mut self, _record: &Record, _consumer: ConsumerId) -> bool {
        match self {
            Self::Unordered(_) => true,
        }
    }

    /// A delivery of `offset` failed, the `failed`-th.
    pub(super) fn give_back(&mut self, offset: Offset, failed: u32) {
        match self {
            Self::Unordered(lane) => lane.waiting.insert(offset, failed),
        };
    }

    /// The lowest records that may go now and stand next to each other, up to `records_max`.
    pub(super) fn next_run(&self, records_max: u64) -> Option<OffsetRange> {
        match self {
            Self::Unordered(lane) => lane.next_run(records_max),
        }
    }

    /// `offset` is leased or will never be: it is kept here no longer. Says how many deliveries
    /// of it have failed, if it was here.
    pub(super) fn take(&mut self, offset: Offset) -> Option<u32> {
        match self {
            Self::Unordered(lane) => lane.waiting.remove(&offset),
        }
    }

    /// Every offset of `range` is settled.
    pub(super) fn settled(&mut self, range: OffsetRange) {
        match self {
            Self::Unordered(lane) => {
                while let Some((&offset, _)) = lane.waiting.range(range.from..range.to).next() {
                    lane.waiting.remove(&offset);
                }
            }
        }
    }

    /// How many records may go now.
    pub(super) fn waiting(&self) -> usize {
        match self {
            Self::Unordered(lane) => lane.waiting.len(),
        }
    }
}

impl Unordered {
    fn next_run(&self, records_max: u64) -> Option<OffsetRange> {
        let (&from, _) = self.waiting.first_key_value()?;
        let mut run = OffsetRange::one(from);
        for (&offset, _) in self.waiting.iter().skip(1) {
            if offset != run.to || run.len() >= records_max {
                break;
            }
            run.to = offset.next();
        }
        Some(run)
    }
}
