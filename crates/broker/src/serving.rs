//! Whether a shard is still served: until it is closed, its log fails, or the node's lease ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::error::{Error, Result};
use crate::lease::Lease;

/// Set once, when the shard is closed or its log fails.
#[derive(Default)]
pub(crate) struct Serving {
    lease: Option<Arc<Lease>>,
    stalled: AtomicBool,
    stall_changed: Notify,
    closing: AtomicBool,
    cut_off: AtomicBool,
    failure: OnceLock<storage::Error>,
    failed: Notify,
}

impl Serving {
    /// Serves as long as `lease`, if there is one, lasts.
    pub(crate) fn new(lease: Option<Arc<Lease>>) -> Self {
        Self { lease, ..Self::default() }
    }

    /// `Err` once the log has failed or the shard is closed, and while the lease is not good:
    /// nothing is delivered or answered then.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(error) = self.failure.get() {
            return Err(Error::Storage(error.clone()));
        }
        if self.closing.load(Ordering::Relaxed) {
            return Err(Error::Closing);
        }
        self.lease.as_ref().map_or(Ok(()), |lease| lease.check())
    }

    /// What may be answered now that it is done: only while nobody can have taken over meanwhile
    /// is it known to count.
    pub(crate) fn answer<T>(&self, done: T) -> Result<T> {
        match &self.lease {
            Some(lease) => lease.check().map(|()| done).map_err(|_| Error::broken_off()),
            None => Ok(done),
        }
    }

    /// Whether it was closed here, or failed: for good.
    pub(crate) fn is_over(&self) -> bool {
        self.closing.load(Ordering::Relaxed) || self.failure.get().is_some()
    }

    /// Whether the store could make anybody wait: only one that others share can.
    pub(crate) fn may_stall(&self) -> bool {
        self.lease.is_some()
    }

    /// The store does not answer, or answers again.
    pub(crate) fn set_stalled(&self, stalled: bool) {
        self.stalled.store(stalled, Ordering::SeqCst);
        self.stall_changed.notify_waiters();
    }

    /// Whether the store does not answer.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::SeqCst)
    }

    /// Resolves when the store begins or ceases to answer, from when this is enabled on.
    pub(crate) fn stall_changed(&self) -> Notified<'_> {
        self.stall_changed.notified()
    }

    /// Nothing more is begun; what is under way may end.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    /// What is under way is given up, too.
    pub(crate) fn cut_off(&self) {
        self.cut_off.store(true, Ordering::SeqCst);
    }

    /// Whether requests that are under way are to be given up.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.cut_off.load(Ordering::SeqCst) || self.failure.get().is_some()
    }

    pub(crate) fn fail(&self, error: &storage::Error) {
        if self.failure.set(error.clone()).is_ok() {
            self.failed.notify_waiters();
        }
    }

    /// Why the log failed, if it did.
    pub(crate) fn failed(&self) -> Option<&storage::Error> {
        self.failure.get()
    }

    /// Resolves with the log's failure, if it ever fails.
    pub(crate) async fn failure(&self) -> storage::Error {
        loop {
            let notified = self.failed.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if let Some(error) = self.failure.get() {
                return error.clone();
            }
            notified.await;
        }
    }
}
