use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::message::Malformed;

/// The simplest possible progress: every settled offset on its own.
#[derive(Default)]
struct Naive {
    acked: BTreeSet<u64>,
    attempts: BTreeMap<u64, Attempt>,
}

/// Enough for several pages to become full.
const UNIVERSE: u64 = 6 * 4_096;

impl Naive {
    fn ack(&mut self, range: OffsetRange) -> u64 {
        let mut fresh = 0;
        for offset in range.from.0..range.to.0 {
            fresh += u64::from(self.acked.insert(offset));
            self.attempts.remove(&offset);
        }
        fresh
    }

    fn set_attempt(&mut self, offset: u64, attempt: Attempt) {
        if !self.acked.contains(&offset) {
            self.attempts.insert(offset, attempt);
        }
    }

    fn next_unacked(&self, from: u64) -> u64 {
        (from..).find(|offset| !self.acked.contains(offset)).unwrap()
    }

    fn unacked_in(&self, range: OffsetRange) -> Vec<OffsetRange> {
        let mut ranges = Vec::new();
        for offset in (range.from.0..range.to.0).filter(|offset| !self.acked.contains(offset)) {
            unite(&mut ranges, OffsetRange::one(Offset(offset)));
        }
        ranges
    }

    fn ranges_above(&self, cursor: u64) -> Vec<OffsetRange> {
        let mut ranges = Vec::new();
        for &offset in self.acked.range(cursor..) {
            unite(&mut ranges, OffsetRange::one(Offset(offset)));
        }
        ranges
    }
}

fn range(from: u64, to: u64) -> OffsetRange {
    OffsetRange { from: Offset(from), to: Offset(to) }
}

fn attempt(count: u32) -> Attempt {
    Attempt { count, due: Timestamp(u64::from(count) * 1_000) }
}

/// Short ranges that cluster, long ones that fill pages, and single offsets near the start.
fn any_range() -> impl Strategy<Value = OffsetRange> {
    prop_oneof![
        3 => (0..600_u64).prop_map(|from| range(from, from + 1)),
        2 => (0..UNIVERSE, 0..200_u64).prop_map(|(from, length)| range(from, from + length)),
        1 => (0..UNIVERSE, 0..9_000_u64).prop_map(|(from, length)| range(from, from + length)),
        1 => (0..6_u64, 1..3_u64).prop_map(|(page, n)| range(page * 4_096, (page + n) * 4_096)),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Ack(OffsetRange),
    /// Acks the cursor and this many after it.
    AckInOrder(u64),
    Try(u64, u32),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any_range().prop_map(Step::Ack),
        3 => (1..40_u64).prop_map(Step::AckInOrder),
        1 => (0..UNIVERSE, 1..9_u32).prop_map(|(offset, count)| Step::Try(offset, count)),
    ]
}

fn same(progress: &Progress, naive: &Naive) {
    let cursor = naive.next_unacked(0);
    assert_eq!(progress.cursor(), Offset(cursor));
    assert_eq!(progress.acked_above_count(), naive.acked.range(cursor..).count() as u64);
    assert_eq!(progress.acked_ranges_above().collect::<Vec<_>>(), naive.ranges_above(cursor));
    let attempts: BTreeMap<_, _> = progress.attempts().map(|(o, attempt)| (o.0, attempt)).collect();
    assert_eq!(attempts, naive.attempts);
}

fn round_trip(progress: &Progress) -> Progress {
    let mut bytes = Vec::new();
    progress.encode(&mut bytes);
    Progress::decode(&bytes).unwrap()
}

proptest! {
    #[test]
    fn it_does_what_a_plain_set_does(
        steps in proptest::collection::vec(any_step(), 1..60),
        asked in any_range(),
    ) {
        let (mut progress, mut naive) = (Progress::default(), Naive::default());
        for step in steps {
            match step {
                Step::Ack(range) => prop_assert_eq!(progress.ack(range), naive.ack(range)),
                Step::AckInOrder(count) => {
                    let from = progress.cursor();
                    let range = OffsetRange { from, to: from.plus(count) };
                    prop_assert_eq!(progress.ack(range), naive.ack(range));
                }
                Step::Try(offset, count) => {
                    progress.set_attempt(Offset(offset), attempt(count));
                    naive.set_attempt(offset, attempt(count));
                }
            }
            let edges = [asked.from.0, asked.to.0, progress.cursor().0 + 1];
            for offset in edges {
                prop_assert_eq!(progress.is_acked(Offset(offset)), naive.acked.contains(&offset));
                let next = progress.next_unacked(Offset(offset));
                prop_assert_eq!(next, Offset(naive.next_unacked(offset)));
            }
        }
        same(&progress, &naive);
        prop_assert_eq!(progress.unacked_in(asked), naive.unacked_in(asked));
        same(&round_trip(&progress), &naive);
        prop_assert_eq!(round_trip(&progress), progress);
    }

    #[test]
    fn replaying_what_is_already_contained_changes_nothing(
        changes in proptest::collection::vec(any_change(), 1..12),
        again_from in 0..12_usize,
    ) {
        let mut progress = Progress::default();
        changes.iter().for_each(|change| progress.apply(change));
        let once = progress.clone();
        changes.iter().skip(again_from).for_each(|change| progress.apply(change));
        prop_assert_eq!(progress, once);
    }

    #[test]
    fn merged_changes_do_what_they_did_one_by_one(
        changes in proptest::collection::vec(any_change(), 1..12),
    ) {
        let (mut one_by_one, mut merged) = (Progress::default(), Progress::default());
        let mut frame = ProgressChange::Settled(Vec::new());
        for change in changes {
            one_by_one.apply(&change);
            if let Some(given_back) = frame.merge(change) {
                merged.apply(&frame);
                frame = given_back;
            }
            if let ProgressChange::Settled(ranges) = &frame {
                prop_assert!(ranges.is_sorted_by(|a, b| a.to < b.from), "{ranges:?}");
            }
        }
        merged.apply(&frame);
        prop_assert_eq!(merged, one_by_one);
    }

    #[test]
    fn a_change_comes_back(change in any_change()) {
        let mut bytes = Vec::new();
        change.encode(&mut bytes);
        prop_assert_eq!(ProgressChange::decode(&bytes).unwrap(), change);
        bytes.pop();
        prop_assert!(ProgressChange::decode(&bytes).is_err());
    }

    #[test]
    fn ranges_in_any_order_come_back(mut unsorted in proptest::collection::vec(any_range(), 0..9)) {
        let mut bytes = Vec::new();
        ProgressChange::Settled(unsorted.clone()).encode(&mut bytes);
        unsorted.retain(|range| !range.is_empty());
        let decoded = ProgressChange::decode(&bytes).unwrap();
        prop_assert_eq!(decoded, ProgressChange::Settled(unsorted));
    }

    #[test]
    fn ranges_in_any_order_settle_what_they_cover_and_nothing_else(
        unsorted in proptest::collection::vec(any_range(), 0..12),
        later in any_range(),
    ) {
        let mut naive = Naive::default();
        unsorted.iter().chain([&later]).for_each(|range| {
            naive.ack(*range);
        });
        let mut change = ProgressChange::Settled(unsorted);
        prop_assert_eq!(change.merge(ProgressChange::Settled(vec![later])), None);
        let mut progress = Progress::default();
        progress.apply(&change);
        same(&progress, &naive);
    }

    #[test]
    fn rubbish_is_refused_and_never_panics(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..80),
        versioned: bool,
    ) {
        if let (true, Some(first)) = (versioned, bytes.first_mut()) {
            *first = 1;
        }
        if let Ok(progress) = Progress::decode(&bytes) {
            assert!(progress.memory_bytes() < 1_000 * bytes.len());
            prop_assert_eq!(round_trip(&progress), progress);
        }
        if let Ok(change) = ProgressChange::decode(&bytes) {
            let mut again = Vec::new();
            change.encode(&mut again);
            prop_assert_eq!(ProgressChange::decode(&again).unwrap(), change);
        }
    }

    #[test]
    fn a_flipped_bit_never_panics(
        acked in proptest::collection::vec(any_range(), 0..8),
        place: usize,
        bit in 0..8_u32,
    ) {
        let mut progress = Progress::starting_at(Offset(300));
        acked.iter().for_each(|range| {
            progress.ack(*range);
        });
        let mut bytes = Vec::new();
        progress.encode(&mut bytes);
        let place = place % bytes.len();
        *bytes.get_mut(place).unwrap() ^= 1 << bit;
        if let Ok(progress) = Progress::decode(&bytes) {
            assert!(!progress.is_acked(progress.cursor()));
            let _ = progress.next_unacked(progress.cursor().next());
        }
    }
}

fn any_change() -> impl Strategy<Value = ProgressChange> {
    let attempts = proptest::collection::vec((0..UNIVERSE, 1..9_u32), 0..6);
    let ranges = || {
        proptest::collection::vec(any_range(), 0..6).prop_map(|unsorted| {
            let mut ranges = Vec::new();
            unsorted.into_iter().for_each(|range| unite(&mut ranges, range));
            ranges
        })
    };
    prop_oneof![
        6 => ranges().prop_map(ProgressChange::Settled),
        3 => attempts.prop_map(|tried| ProgressChange::Attempts(
            tried.into_iter().map(|(offset, count)| (Offset(offset), attempt(count))).collect()
        )),
        1 => ranges().prop_map(|acked| {
            let mut progress = Progress::starting_at(Offset(100));
            progress.apply(&ProgressChange::Settled(acked));
            ProgressChange::Replaced(Box::new(progress))
        }),
    ]
}

#[test]
fn acks_in_order_move_the_cursor_and_keep_no_page() {
    let mut progress = Progress::starting_at(Offset(1_000));
    let idle = progress.memory_bytes();
    for offset in 1_000..20_000 {
        assert_eq!(progress.ack(OffsetRange::one(Offset(offset))), 1);
    }
    assert_eq!(progress.cursor(), Offset(20_000));
    assert_eq!(progress.memory_bytes(), idle);
}

#[test]
fn a_huge_range_costs_no_more_than_a_small_one() {
    let mut progress = Progress::default();
    let huge = range(70, u64::MAX);
    assert_eq!(progress.ack(huge), u64::MAX - 70);
    assert_eq!(progress.acked_ranges_above().collect::<Vec<_>>(), [huge]);
    assert!(progress.memory_bytes() < 2_000);
    assert_eq!(round_trip(&progress), progress);
    assert_eq!(progress.next_unacked(Offset(71)), NEVER_ACKED);
    assert_eq!(progress.ack(range(0, 70)), 70);
    assert_eq!((progress.cursor(), progress.acked_above_count()), (NEVER_ACKED, 0));
    assert_eq!(round_trip(&progress), progress);
}

#[test]
fn what_is_acked_one_by_one_behind_a_hole_takes_no_more_memory_than_one_range() {
    let mut progress = Progress::default();
    let mut once = progress.clone();
    once.ack(range(1, 100 * 4_096));
    // From the middle in both directions, so that runs of full pages meet at either end.
    for page in (0..50).rev().chain(50..100) {
        for offset in page * 4_096..(page + 1) * 4_096 {
            progress.ack(OffsetRange::one(Offset(offset.max(1))));
        }
    }
    assert_eq!(progress, once);
    assert_eq!(progress.memory_bytes(), once.memory_bytes());
}

#[test]
fn a_stored_cursor_that_is_itself_acked_is_malformed() {
    let stored = |word: u64| {
        // Version, cursor, one run: one mixed word; no attempts.
        let mut bytes = vec![1, 3, 1, 1 << 2 | 2];
        bytes.extend(word.to_le_bytes());
        bytes.push(0);
        Progress::decode(&bytes)
    };
    assert_eq!(stored(0b1_0000).unwrap().acked_above_count(), 1);
    for word in [0b1000, 0b100, 0, u64::MAX] {
        assert_eq!(stored(word), Err(Malformed), "{word:b}");
    }
}

#[test]
fn the_cursor_jumps_over_what_was_acked_out_of_order() {
    let mut progress = Progress::starting_at(Offset(5));
    progress.ack(range(6, 20_000));
    assert_eq!(progress.cursor(), Offset(5));
    progress.ack(OffsetRange::one(Offset(5)));
    assert_eq!((progress.cursor(), progress.acked_above_count()), (Offset(20_000), 0));
}

#[test]
fn attempts_of_settled_offsets_are_forgotten_and_ignored() {
    let mut progress = Progress::starting_at(Offset(5));
    progress.set_attempt(Offset(4), attempt(1));
    progress.set_attempt(Offset(7), attempt(1));
    progress.set_attempt(Offset(8), attempt(2));
    progress.ack(OffsetRange::one(Offset(7)));
    progress.apply(&ProgressChange::Attempts(vec![(Offset(7), attempt(3))]));
    assert_eq!(progress.attempts().collect::<Vec<_>>(), [(Offset(8), attempt(2))]);
    assert_eq!(progress.attempt(Offset(7)), None);
}

#[test]
fn of_two_attempts_merged_the_later_stays() {
    let mut change =
        ProgressChange::Attempts(vec![(Offset(9), attempt(1)), (Offset(3), attempt(1))]);
    let later = vec![(Offset(9), attempt(2)), (Offset(1), attempt(1))];
    assert_eq!(change.merge(ProgressChange::Attempts(later)), None);
    let united = [(Offset(1), attempt(1)), (Offset(3), attempt(1)), (Offset(9), attempt(2))];
    assert_eq!(change, ProgressChange::Attempts(united.into()));
}

#[test]
fn a_long_history_takes_few_bytes() {
    let mut progress = Progress::starting_at(Offset(1_790_000_000_000_000));
    progress.ack(range(1_790_000_000_000_001, 1_790_000_900_000_000));
    let mut bytes = Vec::new();
    progress.encode(&mut bytes);
    assert!(bytes.len() < 40, "{} bytes", bytes.len());
}
