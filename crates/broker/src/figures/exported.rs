//! Counters of what was exported, and how it goes.

use std::sync::atomic::{AtomicU64, Ordering};

use domain::export::ExportState;
use parking_lot::Mutex;

/// What was exported of one subscription.
#[derive(Debug, Default)]
pub(crate) struct Exported {
    objects: AtomicU64,
    messages: AtomicU64,
    bytes: AtomicU64,
    failures: AtomicU64,
    trouble: Mutex<Trouble>,
}

#[derive(Clone, Debug, Default)]
struct Trouble {
    state: ExportState,
    error: Option<String>,
}

/// The same at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportFigures {
    /// How it goes.
    pub state: ExportState,
    /// Why the last object could not be written; `None` once one could.
    pub error: Option<String>,
    /// Objects that were completed.
    pub objects: u64,
    /// Messages in them.
    pub messages: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Objects that could not be written, and messages that could not be put into one.
    pub failures: u64,
}

impl Exported {
    /// Counts an object that is complete. Returns whether none could be written before.
    pub(crate) fn note_object(&self, messages: u64, bytes: u64) -> bool {
        self.objects.fetch_add(1, Ordering::Relaxed);
        self.messages.fetch_add(messages, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        std::mem::take(&mut *self.trouble.lock()).state != ExportState::Active
    }

    /// Counts a failure.
    pub(crate) fn note_failure(&self, state: ExportState, error: String) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        *self.trouble.lock() = Trouble { state, error: Some(error) };
    }

    /// Forgets what went wrong: the settings are others now.
    pub(crate) fn forget_trouble(&self) {
        *self.trouble.lock() = Trouble::default();
    }

    pub(crate) fn figures(&self) -> ExportFigures {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Trouble { state, error } = self.trouble.lock().clone();
        ExportFigures {
            state,
            error,
            objects: count(&self.objects),
            messages: count(&self.messages),
            bytes: count(&self.bytes),
            failures: count(&self.failures),
        }
    }
}
