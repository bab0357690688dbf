//! A change of progress as one frame of the log holds it, and how two become one.

use super::{Attempt, Progress};
use crate::offset::{Offset, OffsetRange};

/// One change of a subscription's progress, as it is written to the log.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgressChange {
    /// These offsets are settled for good. Shortest when ascending and not touching, as `unite`
    /// keeps them; any order means the same.
    Settled(Vec<OffsetRange>),
    /// These records have been tried so often (absolute numbers, so that repeating is harmless).
    Attempts(Vec<(Offset, Attempt)>),
    /// Everything before is forgotten; this is the progress now (seek).
    Replaced(Box<Progress>),
}

impl ProgressChange {
    /// Adds `later` to this change if one frame can hold both in order; otherwise gives it back.
    ///
    /// Offsets settled in order cost the same however many are held already. Whatever comes
    /// before a replacement is forgotten by it, and what comes after goes into it.
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

/// Adds `range` to ascending ranges that do not touch, and keeps them so.
///
/// Ranges in any other order come out covering the same offsets, only later.
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
    // Only what touches the new range may be replaced by their hull: were the ranges handed in
    // out of order, a hull of others would settle offsets that nobody has acked.
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

/// Adds later attempts to earlier ones, ascending; of two for one offset the later stays.
fn unite_attempts(attempts: &mut Vec<(Offset, Attempt)>, later: Vec<(Offset, Attempt)>) {
    attempts.extend(later);
    if attempts.is_sorted_by(|a, b| a.0 < b.0) {
        return;
    }
    attempts.sort_by_key(|&(offset, _)| offset);
    // `dedup_by` keeps the first of equal neighbours; the later attempt is moved into it.
    attempts.dedup_by(|dropped, kept| {
        let same = dropped.0 == kept.0;
        if same {
            kept.1 = dropped.1;
        }
        same
    });
}
