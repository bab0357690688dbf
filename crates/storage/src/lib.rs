//! Where messages, definitions and progress are kept.
//!
//! Four small traits, their engines as modules, and one conformance suite that every engine
//! passes. The traits' comments are the specification; the suite tests them sentence by sentence.
#![warn(missing_docs, clippy::iter_over_hash_type)]

mod attempts;
mod catalogue;
mod error;
mod figures;
mod log;
mod progress;

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod disk;
pub mod memory;

use std::sync::Arc;

pub use attempts::{
    Attempt, AttemptHistory, AttemptPage, AttemptQuery, CLASS_OK, FAILURES_MAX,
    HISTORY_BYTES_DEFAULT, KnownAttempts, NumberedAttempt, RECENT_MAX, Unsettled,
};
pub use catalogue::{Catalogue, Entry, Kind, Page};
pub use error::{Error, Result};
pub use figures::{Histogram, HistogramSnapshot, LogFigures, TIME_BOUNDS_US};
pub use log::{
    Append, Batch, Commit, Keep, Listener, MessageLog, NewRecord, Position, ReadLimit, Receipt,
    TailRead, Trimmed, Urgency,
};
pub use progress::{Checkpoint, Claim, ProgressStore};

/// A future returned through a `dyn` trait.
pub type Future<T> = futures::future::BoxFuture<'static, T>;

/// An open store: four traits of one engine, and its statistics.
#[derive(Clone)]
pub struct Engine {
    /// The messages, and every change of progress.
    pub log: Arc<dyn MessageLog>,
    /// The definitions.
    pub catalogue: Arc<dyn Catalogue>,
    /// Claims and progress checkpoints.
    pub progress: Arc<dyn ProgressStore>,
    /// The outcomes of attempts to push.
    pub attempts: Arc<dyn AttemptHistory>,
    /// Statistics of the log.
    pub figures: Arc<LogFigures>,
}
