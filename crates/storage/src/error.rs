//! What went wrong in an engine, sorted by whether it is safe to retry the call.

use std::sync::Arc;

use domain::{Epoch, Offset, ShardId, TopicId};

/// What an engine itself was told: by the disk, a database, a server.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// An engine's answer when it cannot do what was asked.
///
/// Cheap to clone, because one failed group answers all of its callers.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The thing named does not exist. It did not happen.
    #[error("not found")]
    NotFound,
    /// The entry has another version, or already exists, or someone else has it. It did not happen.
    #[error("changed by someone else in the meantime")]
    Conflict,
    /// The shard has another owner: this handle can do nothing more.
    #[error("shard {} was taken over by another owner (epoch {} is over)", shard.0, epoch.0)]
    Fenced {
        /// The shard.
        shard: ShardId,
        /// The epoch of the handle.
        epoch: Epoch,
    },
    /// An append at an offset that is not the topic's next: a bug of the caller. It did not happen.
    #[error("the next offset of topic {} is {next}", topic.0)]
    Misplaced {
        /// The topic.
        topic: TopicId,
        /// The next offset the engine expects; 0 if the topic was not begun.
        next: Offset,
    },
    /// No space is left for messages. It did not happen; it may succeed once space is freed.
    #[error("no space left on the device for new messages")]
    Full,
    /// The engine cannot write (anymore). It did not happen.
    #[error("storage is unavailable: {0}")]
    Unavailable(Cause),
    /// The write was in progress when it failed: it may or may not survive a restart.
    #[error("storage failed while writing; the outcome is unknown: {0}")]
    Indeterminate(Cause),
    /// Stored bytes differ from what was written. Stop; nothing was changed.
    #[error("{place} is corrupt: {what}")]
    Corrupt {
        /// What is damaged, and where in it.
        place: String,
        /// What is wrong there.
        what: &'static str,
    },
    /// Another process has the store open.
    #[error("{0} is in use by another process")]
    InUse(String),
    /// The store was written by a version this one does not know.
    #[error("the store has format {found}, this version reads up to {known}")]
    Format {
        /// Format found in the store.
        found: u32,
        /// Newest format this version knows.
        known: u32,
    },
}

impl Error {
    /// The engine cannot do it, for this reason.
    pub fn unavailable(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Unavailable(Arc::from(cause.into()))
    }

    /// What is stored at `place` is not what was written.
    pub fn corrupt(place: impl Into<String>, what: &'static str) -> Self {
        Self::Corrupt { place: place.into(), what }
    }
}

/// What engines return.
pub type Result<T, E = Error> = std::result::Result<T, E>;
