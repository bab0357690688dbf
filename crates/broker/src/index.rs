//! How many records may be known and waiting, over all subscriptions (LEASE-5).

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use domain::delivery::INDEXED_MAX;
use parking_lot::Mutex;

/// Maximum number on one server.
pub(crate) const SERVER_MAX: usize = 1_000_000;

/// What every subscription may have, however many the others have.
const EACH_MIN: usize = 1_000;

/// How much must be free before the subscriptions that were held back are told.
pub(crate) const ROOM_TOLD: usize = 10_000;

/// How many all subscriptions have together, and which of them wanted more.
pub(crate) struct Index<T> {
    total: AtomicUsize,
    held_back: Mutex<Vec<Weak<T>>>,
    /// Whether `held_back` is not empty, so that others need no lock.
    holds_back: AtomicBool,
}

impl<T> Default for Index<T> {
    fn default() -> Self {
        Self {
            total: AtomicUsize::new(0),
            held_back: Mutex::default(),
            holds_back: AtomicBool::new(false),
        }
    }
}

impl<T> Index<T> {
    /// How many a subscription that has `own` may have now.
    pub(crate) fn allowance(&self, own: usize) -> usize {
        own.saturating_add(self.room()).clamp(EACH_MIN, INDEXED_MAX)
    }

    /// A subscription has this many more.
    pub(crate) fn grow(&self, by: usize) {
        self.total.fetch_add(by, Ordering::SeqCst);
    }

    /// A subscription has this many fewer. Returns those that may have more again.
    pub(crate) fn shrink(&self, by: usize) -> Vec<Weak<T>> {
        self.total.fetch_sub(by, Ordering::SeqCst);
        if !self.holds_back.load(Ordering::SeqCst) || !self.has_room() {
            return Vec::new();
        }
        let mut held_back = self.held_back.lock();
        self.holds_back.store(false, Ordering::SeqCst);
        std::mem::take(&mut *held_back)
    }

    /// Tells `subscription` when there is room again. The caller must check `has_room` once more
    /// afterwards: it may have become true in between.
    pub(crate) fn hold_back(&self, subscription: Weak<T>) {
        let mut held_back = self.held_back.lock();
        held_back.push(subscription);
        self.holds_back.store(true, Ordering::SeqCst);
    }

    pub(crate) fn has_room(&self) -> bool {
        self.room() >= ROOM_TOLD
    }

    fn room(&self) -> usize {
        SERVER_MAX.saturating_sub(self.total.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_may_have_its_own_limit_while_there_is_room() {
        let index = Index::<()>::default();
        assert_eq!(index.allowance(0), INDEXED_MAX);
        index.grow(SERVER_MAX - 500);
        assert_eq!(index.allowance(20_000), 20_500);
        assert_eq!(index.allowance(0), EACH_MIN, "however full the server is");
    }

    #[test]
    fn whoever_was_held_back_is_told_once_there_is_room() {
        let index = Index::<()>::default();
        index.grow(SERVER_MAX);
        index.hold_back(Weak::new());
        assert_eq!(index.shrink(ROOM_TOLD - 1).len(), 0, "too little is free");
        assert_eq!(index.shrink(1).len(), 1);
        assert_eq!(index.shrink(5).len(), 0, "told once");
    }
}
