//! Whether the server still serves: until it stops, or its log fails.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::error::{Error, Result};

/// Set once, when the server stops or the log fails.
#[derive(Default)]
pub(crate) struct Serving {
    closing: AtomicBool,
    failure: OnceLock<storage::Error>,
    failed: Notify,
}

impl Serving {
    /// `Err` once the log has failed or the server stops: nothing more is delivered then.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(error) = self.failure.get() {
            return Err(Error::Storage(error.clone()));
        }
        if self.closing.load(Ordering::Relaxed) {
            return Err(Error::Closing);
        }
        Ok(())
    }

    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
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
