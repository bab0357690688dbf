//! The one line of JSON that is written for each message, and where it goes.

mod line;
mod stdout;

use crate::rules::Level;

pub(crate) use line::{Template, cut};
pub use stdout::Stdout;

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
