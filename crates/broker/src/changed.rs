//! What the next checkpoint has to save: notes for the chore that does it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::SubscriptionId;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Progress to forget, and requests for a checkpoint.
#[derive(Default)]
pub(crate) struct Changed {
    forgotten: Mutex<Vec<SubscriptionId>>,
    pressed: AtomicBool,
    pub(crate) wake: Notify,
}

impl Changed {
    pub(crate) fn forget(&self, subscription: SubscriptionId) {
        self.forgotten.lock().push(subscription);
        self.wake.notify_one();
    }

    pub(crate) fn take_forgotten(&self) -> Vec<SubscriptionId> {
        std::mem::take(&mut *self.forgotten.lock())
    }

    /// The log needs room: checkpoint and trim now.
    pub(crate) fn press(&self) {
        self.pressed.store(true, Ordering::SeqCst);
        self.wake.notify_one();
    }

    pub(crate) fn take_pressed(&self) -> bool {
        self.pressed.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn is_pressed(&self) -> bool {
        self.pressed.load(Ordering::SeqCst)
    }
}

/// Whose progress has changed since the last checkpoint.
pub(crate) struct ChangedList<T> {
    list: Mutex<Vec<Arc<T>>>,
    changed: Arc<Changed>,
}

impl<T> ChangedList<T> {
    pub(crate) fn new(changed: Arc<Changed>) -> Self {
        Self { list: Mutex::default(), changed }
    }

    pub(crate) fn add(&self, one: Arc<T>) {
        self.list.lock().push(one);
        self.changed.wake.notify_one();
    }

    pub(crate) fn take(&self) -> Vec<Arc<T>> {
        std::mem::take(&mut *self.list.lock())
    }
}
