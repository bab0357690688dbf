//! The one line of JSON that is written for each message, and where it goes.

mod line;
mod written;

use crate::rules::Level;

pub(crate) use line::{Template, cut};
pub use written::{Stdout, Written};

/// Where lines go. Called for each message, so it must be quick, and must not panic.
pub trait Lines: Send + Sync + 'static {
    /// Whether lines of this level are wanted. Others are not made.
    fn wants(&self, _level: Level) -> bool {
        true
    }

    /// Takes one line, which has no line end yet.
    fn write(&self, level: Level, line: &str);

    /// Called after some lines, and before anything that they tell of is acked or answered. What
    /// was held back to be written together must be out when this returns.
    fn flush(&self) {}
}

/// Only the lines of errors, which go to `L`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ErrorsTo<L>(pub L);

impl<L: Lines> Lines for ErrorsTo<L> {
    fn wants(&self, level: Level) -> bool {
        level == Level::Error && self.0.wants(level)
    }

    fn write(&self, level: Level, line: &str) {
        self.0.write(level, line);
    }

    fn flush(&self) {
        self.0.flush();
    }
}
