//! What a subscription gets back when it seeks into the past: exactly what retention keeps for it.
//!
//! How long records stay in the log is arbitrary: until a chore finds that nobody needs them. What
//! a subscription gets must not depend on that. So an acked record that nothing keeps is gone for
//! good, even if it is still readable, and so is one from before the subscription.

use crate::offset::{Offset, OffsetRange};
use crate::progress::{Progress, unite};

/// What keeps a topic's records for one subscription although it has acked them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept<'a> {
    /// The topic keeps everything from here on; `None` = it keeps nothing for its own sake.
    pub by_topic: Option<Offset>,
    /// Set if the subscription retains acked messages.
    pub by_itself: Option<OwnAcked<'a>>,
    /// Snapshots of the topic: each keeps the records it leaves unacked.
    pub by_snapshots: &'a [&'a Progress],
}

/// What a subscription that retains acked messages keeps.
#[derive(Clone, Copy, Debug)]
pub struct OwnAcked<'a> {
    /// It keeps acked messages from here on.
    pub from: Offset,
    /// Messages acked before the setting was turned on are gone.
    pub gone: Option<&'a Progress>,
}

impl Kept<'_> {
    /// The progress of a subscription, now at `current`, after a seek to `to`: everything below is
    /// acked, and records that are acked and not kept stay acked.
    pub fn sought(&self, current: &Progress, to: Offset) -> Progress {
        let mut progress = Progress::starting_at(to);
        let below = OffsetRange { from: to, to: current.cursor() };
        for acked in std::iter::once(below).chain(current.acked_ranges_above()) {
            let acked = OffsetRange { from: acked.from.max(to), to: acked.to };
            for gone in without(acked, &self.kept_in(acked)) {
                progress.ack(gone);
            }
        }
        progress
    }

    /// The parts of `range` that are kept although they are acked: ascending, not adjacent.
    fn kept_in(&self, range: OffsetRange) -> Vec<OffsetRange> {
        let mut kept = Vec::new();
        let from = |offset: Offset| OffsetRange { from: range.from.max(offset), to: range.to };
        if let Some(offset) = self.by_topic {
            unite(&mut kept, from(offset));
        }
        if let Some(own) = self.by_itself {
            let still = match own.gone {
                Some(gone) => gone.unacked_in(from(own.from)),
                None => vec![from(own.from)],
            };
            still.into_iter().for_each(|range| unite(&mut kept, range));
        }
        for snapshot in self.by_snapshots {
            snapshot.unacked_in(range).into_iter().for_each(|range| unite(&mut kept, range));
        }
        kept
    }
}

/// `range` minus `others`, which are ascending and not adjacent.
fn without(range: OffsetRange, others: &[OffsetRange]) -> Vec<OffsetRange> {
    let mut left = Vec::new();
    let mut from = range.from;
    for other in others {
        left.push(OffsetRange { from, to: other.from.min(range.to) });
        from = from.max(other.to);
    }
    left.push(OffsetRange { from, to: range.to });
    left.retain(|range| !range.is_empty());
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: u64, to: u64) -> OffsetRange {
        OffsetRange { from: Offset(from), to: Offset(to) }
    }

    /// Acked below 10, and 12 and 15.
    fn current() -> Progress {
        let mut progress = Progress::starting_at(Offset(10));
        progress.ack(range(12, 13));
        progress.ack(range(15, 16));
        progress
    }

    fn unacked(progress: &Progress) -> Vec<u64> {
        let ranges = progress.unacked_in(range(0, 20));
        ranges.into_iter().flat_map(|range| range.from.0..range.to.0).collect()
    }

    #[test]
    fn without_retention_a_seek_back_brings_back_nothing_that_was_acked() {
        let kept = Kept::default();
        assert_eq!(unacked(&kept.sought(&current(), Offset(0))), unacked(&current()));
        assert_eq!(unacked(&kept.sought(&current(), Offset(14))), [14, 16, 17, 18, 19]);
        assert_eq!(kept.sought(&current(), Offset(20)).cursor(), Offset(20));
    }

    #[test]
    fn what_the_topic_keeps_comes_back() {
        let kept = Kept { by_topic: Some(Offset(8)), ..Kept::default() };
        let from = |first: u64| (first..20).collect::<Vec<_>>();
        assert_eq!(unacked(&kept.sought(&current(), Offset(0))), from(8));
        assert_eq!(unacked(&kept.sought(&current(), Offset(12))), from(12));
        let kept = Kept { by_topic: Some(Offset(13)), ..Kept::default() };
        assert_eq!(
            unacked(&kept.sought(&current(), Offset(9))),
            [10, 11, 13, 14, 15, 16, 17, 18, 19]
        );
    }

    #[test]
    fn what_it_keeps_itself_comes_back_unless_it_was_acked_before_that_was_asked_for() {
        let mut gone = Progress::starting_at(Offset(7));
        gone.ack(range(12, 13));
        let own = OwnAcked { from: Offset(5), gone: Some(&gone) };
        let kept = Kept { by_itself: Some(own), ..Kept::default() };
        let back = unacked(&kept.sought(&current(), Offset(0)));
        assert_eq!(back, [7, 8, 9, 10, 11, 13, 14, 15, 16, 17, 18, 19]);
        let own = OwnAcked { from: Offset(5), gone: None };
        let kept = Kept { by_itself: Some(own), ..Kept::default() };
        assert_eq!(unacked(&kept.sought(&current(), Offset(0))), (5..20).collect::<Vec<_>>());
    }

    #[test]
    fn what_a_snapshot_leaves_unacked_comes_back() {
        let mut one = Progress::starting_at(Offset(3));
        one.ack(range(4, 9));
        let two = Progress::starting_at(Offset(15));
        let snapshots = [&two, &one];
        let kept = Kept { by_snapshots: &snapshots, ..Kept::default() };
        let back = unacked(&kept.sought(&current(), Offset(0)));
        let kept: Vec<u64> = [3].into_iter().chain(9..20).collect();
        assert_eq!(back, kept);
    }
}
