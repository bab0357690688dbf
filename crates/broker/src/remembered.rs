//! How many records may be remembered one by one, over all subscriptions: those that are leased,
//! and those that are known and wait (LEASE-5).
//!
//! The more is taken, the less each subscription may have: up to `SHARE` times what is left. One
//! alone gets four fifths of all, several that want all come to equal parts, and whoever comes next
//! gets what those leave.

use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// What a subscription may have, as a multiple of what is left.
const SHARE: usize = 4;

/// What every subscription may have, however many the others have.
const EACH_MIN: usize = 100;

/// Of records that are known and wait, every subscription may have so many.
pub(crate) const INDEXED_EACH_MIN: usize = 1_000;

/// Subscriptions report changes only from this size on, so that the common case, a few leases that
/// come and go, touches nothing shared.
const REPORTED_MIN: usize = 32;

/// What all subscriptions have together, and who wanted more.
pub(crate) struct Remembered<T> {
    max: usize,
    total: AtomicUsize,
    held_back: Mutex<Vec<HeldBack<T>>>,
    /// The least room that anyone in `held_back` waits for, so that others take no lock.
    room_wanted: AtomicUsize,
}

/// Who is told when there is so much room.
struct HeldBack<T> {
    room: usize,
    who: Weak<T>,
}

impl<T> Remembered<T> {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            total: AtomicUsize::new(0),
            held_back: Mutex::default(),
            room_wanted: AtomicUsize::new(usize::MAX),
        }
    }

    /// How many a subscription may have now.
    pub(crate) fn allowance(&self) -> usize {
        self.room().saturating_mul(SHARE).max(EACH_MIN)
    }

    /// Counts a subscription that `reported` so many before and has `own` now. Returns whom to
    /// tell that there is more room.
    pub(crate) fn report(&self, reported: &mut usize, own: usize) -> Vec<Weak<T>> {
        // Few count as none. Otherwise many idle subscriptions would keep what they reported last.
        let own = if own < REPORTED_MIN { 0 } else { own };
        let is_small = own.abs_diff(*reported) < REPORTED_MIN;
        if own == *reported || (is_small && own > 0) {
            return Vec::new();
        }
        let before = std::mem::replace(reported, own);
        if own > before {
            self.total.fetch_add(own - before, Ordering::SeqCst);
            return Vec::new();
        }
        self.give_back(before - own)
    }

    /// A subscription has so many less than it reported. Returns whom to tell.
    pub(crate) fn give_back(&self, count: usize) -> Vec<Weak<T>> {
        self.total.fetch_sub(count, Ordering::SeqCst);
        if self.room() < self.room_wanted.load(Ordering::SeqCst) {
            return Vec::new();
        }
        let mut held_back = self.held_back.lock();
        let room = self.room();
        let told = held_back.extract_if(.., |one| one.room <= room).map(|one| one.who).collect();
        self.note_wanted(&held_back);
        told
    }

    /// Has `who`, which has `own`, told when it may have clearly more. Returns whether it may
    /// already: room may have come in between.
    pub(crate) fn hold_back(&self, who: Weak<T>, own: usize) -> bool {
        let step = (self.max / 64).max(1);
        let room = (own / SHARE).saturating_add(step).min(self.max);
        let mut held_back = self.held_back.lock();
        if self.room() >= room {
            return true;
        }
        held_back.push(HeldBack { room, who });
        self.note_wanted(&held_back);
        // Whoever gave back before it was noted did not see it.
        self.room() >= room
    }

    /// The part of all that is taken, in millionths; a little more than all is possible.
    pub(crate) fn used(&self) -> u32 {
        let total = self.total.load(Ordering::Relaxed) as u64;
        let used = total.saturating_mul(1_000_000) / (self.max as u64).max(1);
        u32::try_from(used).unwrap_or(u32::MAX)
    }

    fn note_wanted(&self, held_back: &[HeldBack<T>]) {
        let least = held_back.iter().map(|one| one.room).min();
        self.room_wanted.store(least.unwrap_or(usize::MAX), Ordering::SeqCst);
    }

    fn room(&self) -> usize {
        self.max.saturating_sub(self.total.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 10_000;

    fn remembered() -> Remembered<()> {
        Remembered::new(MAX)
    }

    /// Takes all that each of `count` subscriptions may have, again and again.
    fn fill(remembered: &Remembered<()>, count: usize) -> Vec<usize> {
        let mut had = vec![0; count];
        for _ in 0..1_000 {
            for reported in &mut had {
                let own = remembered.allowance().min(*reported + REPORTED_MIN).max(*reported);
                drop(remembered.report(reported, own));
            }
        }
        had
    }

    #[test]
    fn one_alone_gets_most_and_several_get_equal_parts() {
        for (count, part) in [(1, 8_000), (2, 4_444), (10, 975)] {
            let remembered = remembered();
            for had in fill(&remembered, count) {
                let near = part - 2 * REPORTED_MIN..=part + 2 * REPORTED_MIN;
                assert!(near.contains(&had), "{had} of {count}, not {part}");
            }
            assert!(remembered.allowance() >= part - 2 * SHARE * REPORTED_MIN, "one more comes");
        }
    }

    #[test]
    fn each_may_have_some_however_full_it_is() {
        let remembered = remembered();
        drop(remembered.report(&mut 0, 2 * MAX));
        assert_eq!(remembered.allowance(), EACH_MIN);
    }

    #[test]
    fn small_changes_are_not_reported() {
        let remembered = remembered();
        let mut reported = 0;
        drop(remembered.report(&mut reported, REPORTED_MIN - 1));
        assert_eq!((reported, remembered.room()), (0, MAX));
        drop(remembered.report(&mut reported, REPORTED_MIN));
        assert_eq!((reported, remembered.room()), (REPORTED_MIN, MAX - REPORTED_MIN));
        drop(remembered.report(&mut reported, 2 * REPORTED_MIN - 1));
        assert_eq!((reported, remembered.room()), (REPORTED_MIN, MAX - REPORTED_MIN));
        drop(remembered.report(&mut reported, 1));
        assert_eq!((reported, remembered.room()), (0, MAX));
    }

    #[test]
    fn those_that_were_busy_and_are_idle_take_no_room() {
        let remembered = remembered();
        for _ in 0..MAX {
            let mut reported = 0;
            drop(remembered.report(&mut reported, 2 * REPORTED_MIN));
            drop(remembered.report(&mut reported, REPORTED_MIN - 1));
            drop(remembered.report(&mut reported, 0));
        }
        assert_eq!(remembered.room(), MAX);
    }

    #[test]
    fn whoever_was_held_back_is_told_once_there_is_room_for_it() {
        let remembered = remembered();
        let mut reported = 0;
        drop(remembered.report(&mut reported, MAX - 10));
        assert!(!remembered.hold_back(Weak::new(), 400));
        assert!(!remembered.hold_back(Weak::new(), 4_000));
        assert_eq!(remembered.report(&mut reported, MAX - 200).len(), 0, "256 are wanted");
        assert_eq!(remembered.report(&mut reported, MAX - 256).len(), 1);
        assert_eq!(remembered.report(&mut reported, MAX - 1_100).len(), 0, "told once");
        assert_eq!(remembered.report(&mut reported, MAX - 1_156).len(), 1);
        assert_eq!(remembered.report(&mut reported, 0).len(), 0);
        assert!(remembered.hold_back(Weak::new(), 400), "there is room at once");
    }
}
