//! Where messages, definitions and progress are kept.
//!
//! A few small traits, their engines as modules, and one conformance suite that every engine
//! passes. The traits' comments are the specification; the suite tests them sentence by sentence.
#![warn(missing_docs, clippy::iter_over_hash_type)]

mod attempts;
mod catalogue;
mod error;
mod figures;
mod log;
#[doc(hidden)]
pub mod planted;
mod progress;
mod shard;

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod disk;
mod front;
pub mod memory;
pub mod shared;

use std::sync::Arc;

pub use attempts::{
    Attempt, AttemptHistory, AttemptPage, AttemptQuery, CLASS_OK, FAILURES_MAX,
    HISTORY_BYTES_DEFAULT, NumberedAttempt, RECENT_MAX, Unsettled,
};
pub use catalogue::{Catalogue, Change, Changes, Entry, Kind, Page};
pub use error::{Cause, Error, Result};
pub use figures::{Histogram, HistogramSnapshot, LogFigures, TIME_BOUNDS_US};
pub use log::{
    Append, Batch, Claim, Commit, Keep, Listener, MessageLog, Need, NewRecord, Position, ReadLimit,
    Receipt, TailRead, Trimmed, Urgency,
};
pub use progress::{Checkpoint, ProgressStore};
pub use shard::{Member, Members, Shard, Shards, View};

/// A future returned through a `dyn` trait.
pub type Future<T> = futures::future::BoxFuture<'static, T>;

/// An open store.
#[derive(Clone)]
pub struct Engine {
    /// The logs, with the messages and every change of progress.
    pub shards: Arc<dyn Shards>,
    /// The definitions.
    pub catalogue: Arc<dyn Catalogue>,
    /// The outcomes of attempts to push.
    pub attempts: Arc<dyn AttemptHistory>,
    /// The nodes that share it; `None` = only this process has it.
    pub members: Option<Arc<dyn Members>>,
}
