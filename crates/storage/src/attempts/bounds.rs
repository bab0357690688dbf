//! Which attempts of a subscription exceed its limits (LEASE-8).

use std::collections::BTreeSet;

use domain::Offset;

use super::{FAILURES_MAX, RECENT_MAX};

/// What the limits need to know about an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) number: u64,
    pub(crate) offset: Offset,
    pub(crate) is_failure: bool,
}

/// The numbers of a subscription's attempts that need not be kept.
///
/// ```text
///   oldest                                                     newest
///   ─────────────────────────────────────────┬──────────────────────
///    latest failures of unsettled messages    │   all of them
///           (FAILURES_MAX)                    │   (RECENT_MAX)
/// ```
pub(crate) fn surplus(
    mut heads: Vec<Head>,
    unsettled: impl FnOnce(&[Offset]) -> Vec<Offset>,
) -> Vec<u64> {
    if heads.len() <= RECENT_MAX {
        return Vec::new();
    }
    heads.sort_unstable_by_key(|head| std::cmp::Reverse(head.number));
    let (recent, older) = heads.split_at(RECENT_MAX);
    let mut failed: BTreeSet<Offset> = failures(recent).map(|head| head.offset).collect();
    let latest: Vec<Head> =
        failures(older).filter(|head| failed.insert(head.offset)).copied().collect();
    let offsets: Vec<Offset> = latest.iter().map(|head| head.offset).collect();
    let unsettled: BTreeSet<Offset> = if offsets.is_empty() {
        BTreeSet::new()
    } else {
        unsettled(&offsets).into_iter().collect()
    };
    let kept = latest.iter().filter(|head| unsettled.contains(&head.offset)).take(FAILURES_MAX);
    let kept: BTreeSet<u64> = kept.map(|head| head.number).collect();
    older.iter().map(|head| head.number).filter(|number| !kept.contains(number)).collect()
}

fn failures(heads: &[Head]) -> impl Iterator<Item = &Head> {
    heads.iter().filter(|head| head.is_failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(number: u64, offset: u64, is_failure: bool) -> Head {
        Head { number, offset: Offset(offset), is_failure }
    }

    /// `count` successes from `number` on.
    fn successes(number: u64, count: usize) -> impl Iterator<Item = Head> {
        (number..).take(count).map(|number| head(number, 1_000_000 + number, false))
    }

    #[test]
    fn the_recent_ones_are_kept_whatever_they_are() {
        let heads: Vec<Head> = successes(1, RECENT_MAX).collect();
        assert!(surplus(heads, |_| Vec::new()).is_empty());
        let heads: Vec<Head> = successes(1, RECENT_MAX + 3).collect();
        let mut gone = surplus(heads, |_| panic!("no failure is in question"));
        gone.sort_unstable();
        assert_eq!(gone, [1, 2, 3]);
    }

    #[test]
    fn of_older_ones_the_latest_failure_of_each_unsettled_message_is_kept() {
        let mut heads = vec![
            head(1, 7, true),
            head(2, 7, true),
            head(3, 8, true),
            head(4, 9, true),
            head(5, 9, false),
            head(6, 5, true),
        ];
        heads.extend(successes(7, RECENT_MAX - 1));
        heads.push(head(5_000, 5, true));
        let mut gone = surplus(heads, |offsets| {
            assert_eq!(offsets, [9, 8, 7].map(Offset));
            vec![Offset(7), Offset(9)]
        });
        gone.sort_unstable();
        assert_eq!(gone, [1, 3, 5, 6]);
    }

    #[test]
    fn beyond_the_bound_of_failures_the_oldest_go() {
        let count = FAILURES_MAX as u64 + 2;
        let mut heads: Vec<Head> = (1..=count).map(|number| head(number, number, true)).collect();
        heads.extend(successes(100_000, RECENT_MAX));
        let mut gone = surplus(heads, <[Offset]>::to_vec);
        gone.sort_unstable();
        assert_eq!(gone, [1, 2]);
    }
}
