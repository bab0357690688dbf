//! The clock that ends scripts.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// The time.
#[expect(clippy::disallowed_methods, reason = "a script runs in real time, simulated or not")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// When a script must be done, as the interpreter asks every few thousand steps.
#[derive(Debug)]
pub(crate) struct Deadline {
    at: Cell<Instant>,
    /// Whether a script was told to stop.
    is_over: Cell<bool>,
}

impl Deadline {
    pub(crate) fn new() -> Self {
        Self { at: Cell::new(now()), is_over: Cell::new(false) }
    }

    /// Gives the next script this long from now.
    pub(crate) fn start(&self, time: Duration) {
        self.at.set(now() + time);
        self.is_over.set(false);
    }

    /// Whether the script must stop.
    pub(crate) fn is_due(&self) -> bool {
        let is_due = now() >= self.at.get();
        if is_due {
            self.is_over.set(true);
        }
        is_due
    }

    /// Whether a script was told to stop since `start`.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }
}
