//! When subscriptions and snapshots expire: notes for the chore that deletes them.

use std::sync::atomic::{AtomicBool, Ordering};

use domain::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The next known expiry, and whether anything was used.
#[derive(Default)]
pub(crate) struct Expiries {
    planned: Mutex<Option<Timestamp>>,
    is_used: AtomicBool,
    pub(crate) wake: Notify,
}

impl Expiries {
    /// Something expires at `at`. Wakes the chore if it would look later than that.
    pub(crate) fn plan(&self, at: Timestamp) {
        let mut planned = self.planned.lock();
        if planned.is_none_or(|planned| at < planned) {
            *planned = Some(at);
            self.wake.notify_one();
        }
    }

    /// The chore starts a full pass now: anything that comes meanwhile wakes it again.
    pub(crate) fn start_over(&self) {
        *self.planned.lock() = None;
    }

    /// The chore looks again at `at`, if nothing came meanwhile.
    pub(crate) fn set_planned(&self, at: Option<Timestamp>) {
        let mut planned = self.planned.lock();
        if planned.is_none() {
            *planned = at;
        }
    }

    /// A subscription was used. That is saved some time later.
    pub(crate) fn note_use(&self) {
        if !self.is_used.load(Ordering::Relaxed) && !self.is_used.swap(true, Ordering::SeqCst) {
            self.wake.notify_one();
        }
    }

    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::SeqCst)
    }

    pub(crate) fn take_used(&self) -> bool {
        self.is_used.swap(false, Ordering::SeqCst)
    }
}
