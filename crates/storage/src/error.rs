//! What went wrong in an engine, sorted by whether it is safe to retry the call.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use domain::{Epoch, Offset, TopicId};

/// An engine's answer when it cannot do what was asked.
///
/// Cheap to clone, because one failed group answers all of its callers.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The thing named does not exist. It did not happen.
    #[error("not found")]
    NotFound,
    /// The entry has another version, or already exists. It did not happen.
    #[error("changed by someone else in the meantime")]
    Conflict,
    /// An older owner, or a wrong next offset: this process must stop running the topic.
    #[error("topic {topic:?} is held under another claim (epoch {epoch:?}, next offset {next})")]
    Fenced {
        /// The topic whose claim failed.
        topic: TopicId,
        /// The epoch that holds it now.
        epoch: Epoch,
        /// The next offset the engine expects.
        next: Offset,
    },
    /// No space is left for messages. It did not happen; it may succeed once space is freed.
    #[error("no space left on the device for new messages")]
    Full,
    /// The engine cannot write (anymore). It did not happen.
    #[error("storage is unavailable: {0}")]
    Unavailable(Arc<io::Error>),
    /// The write was in progress when it failed: it may or may not survive a restart.
    #[error("storage failed while writing; the outcome is unknown: {0}")]
    Indeterminate(Arc<io::Error>),
    /// Stored bytes differ from what was written. Stop; nothing was changed.
    #[error("{} is corrupt at byte {offset}: {what}", file.display())]
    Corrupt {
        /// The damaged file.
        file: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// Another process has the store open.
    #[error("the data folder {} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// The store was written by a version this one does not know.
    #[error("the data folder has format {found}, this version reads up to {known}")]
    Format {
        /// Format found on disk.
        found: u32,
        /// Newest format this version knows.
        known: u32,
    },
    /// The definitions database failed. It did not happen.
    #[error("definitions database: {0}")]
    Database(Arc<rusqlite::Error>),
}

/// What engines return.
pub type Result<T, E = Error> = std::result::Result<T, E>;
