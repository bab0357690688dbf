//! A change of progress as one log frame stores it, and how to merge two.

use super::{Attempt, Progress};
use crate::offset::{Offset, OffsetRange};

/// One change of a subscription's progress, as it is written to the log.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgressChange {
    /// These offsets are settled for good. Shortest when ascending and not adjacent, as `unite`
    /// keeps them; any order means the same.
    Settled(Vec<OffsetRange>),
    /// The attempts of these records (absolute numbers, so that repeating is harmless).
    Attempts(Vec<(Offset, Attempt)>),
    /// Replaces everything before; this is the progress now (seek).
    Replaced(Box<Progress>),
}

impl ProgressChange {
    /// Merges `later` into this change if one frame can hold both in order; otherwise returns it.
    ///
    /// Settling offsets in order has a constant cost however many are already in the change. A
    /// replacement discards whatever came before it and absorbs what comes after.
    pub fn merge(&mut self, later: Self) -> Option<Self> {
        match (&mut *self, later) {
            (Self::Settled(ranges), Self::Settled(later)) => {
                for range in later {
                    unite(ranges, range);
                }
                None
            }
            (Self::Attempts(attempts), Self::Attempts(later)) => {
                unite_attempts(attempts, later);
                None
            }
            (Self::Replaced(progress), later) => {
                progress.apply(&later);
                None
            }
            (_, later @ Self::Replaced(_)) => {
                *self = later;
                None
            }
            (Self::Settled(_), later @ Self::Attempts(_))
            | (Self::Attempts(_), later @ Self::Settled(_)) => Some(later),
        }
    }
}

/// Adds `range` to ascending, non-adjacent ranges, and keeps them so.
///
/// Given out of order, ranges still cover the same offsets, only more slowly.
pub fn unite(ranges: &mut Vec<OffsetRange>, range: OffsetRange) {
    if range.is_empty() {
        return;
    }
    match ranges.last_mut() {
        Some(last) if range.from < last.from => unite_before_last(ranges, range),
        Some(last) if range.from <= last.to => last.to = last.to.max(range.to),
        _ => ranges.push(range),
    }
}

fn unite_before_last(ranges: &mut Vec<OffsetRange>, range: OffsetRange) {
    let first = ranges.partition_point(|known| known.to < range.from);
    let end = ranges.partition_point(|known| known.from <= range.to);
    let touched = ranges.get(first..end);
    // Only ranges that touch the new one may be replaced by their hull: if the ranges were passed
    // in out of order, a hull over others would settle offsets that nobody has acked.
    let touches = |known: &OffsetRange| known.to >= range.from && known.from <= range.to;
    match touched {
        Some(touched) if touched.iter().all(touches) => {
            let hull = touched.iter().fold(range, |hull, known| OffsetRange {
                from: hull.from.min(known.from),
                to: hull.to.max(known.to),
            });
            ranges.splice(first..end, [hull]);
        }
        _ => {
            ranges.push(range);
            let mut unsorted = std::mem::take(ranges);
            unsorted.sort_unstable_by_key(|known| known.from);
            for known in unsorted {
                unite(ranges, known);
            }
        }
    }
}

/// Merges later attempts into earlier ones, ascending; if an offset has two, the later wins.
fn unite_attempts(attempts: &mut Vec<(Offset, Attempt)>, later: Vec<(Offset, Attempt)>) {
    attempts.extend(later);
    if attempts.is_sorted_by(|a, b| a.0 < b.0) {
        return;
    }
    attempts.sort_by_key(|&(offset, _)| offset);
    // `dedup_by` keeps the first of equal neighbors, so move the later attempt into it.
    attempts.dedup_by(|dropped, kept| {
        let same = dropped.0 == kept.0;
        if same {
            kept.1 = dropped.1;
        }
        same
    });
}
