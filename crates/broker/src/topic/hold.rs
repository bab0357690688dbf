//! What a snapshot keeps in its topic.

use std::sync::atomic::{AtomicU64, Ordering};

use domain::{Progress, Timestamp};

/// Records that are kept because a snapshot leaves them unacked.
pub(crate) struct Hold {
    progress: Progress,
    /// The publish time of the oldest message kept.
    since: AtomicU64,
}

impl Hold {
    /// Keeps what `progress` leaves unacked, as far as we know from `since` on.
    pub(crate) fn new(progress: Progress, since: Timestamp) -> Self {
        Self { progress, since: AtomicU64::new(since.0) }
    }

    /// What was acked when the snapshot was taken.
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The publish time of the oldest message kept.
    pub(crate) fn since(&self) -> Timestamp {
        Timestamp(self.since.load(Ordering::SeqCst))
    }

    pub(crate) fn set_since(&self, since: Timestamp) {
        self.since.store(since.0, Ordering::SeqCst);
    }
}
