//! Why the broker refuses, in kinds that a caller can act on.

mod failed;
mod rejected;

use std::sync::Arc;

use domain::{Invalid, ShardId};

pub use failed::Failed;
pub use rejected::Rejected;

use crate::definition::Unreadable;

/// What a name in an error stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A topic.
    Topic,
    /// A subscription.
    Subscription,
    /// A snapshot.
    Snapshot,
    /// A schema.
    Schema,
    /// A message in a dead letter topic.
    DeadLetter,
    /// A replay of dead letters.
    Replay,
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Topic => "topic",
            Self::Subscription => "subscription",
            Self::Snapshot => "snapshot",
            Self::Schema => "schema",
            Self::DeadLetter => "dead letter",
            Self::Replay => "replay",
        })
    }
}

/// The broker's refusals.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A field breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A field names something the caller may not use; the text says who decides.
    #[error(transparent)]
    Forbidden(Invalid),
    /// No such resource.
    #[error("{0} {1} not found")]
    NotFound(Resource, String),
    /// It already exists.
    #[error("{0} {1} already exists")]
    AlreadyExists(Resource, String),
    /// Changed by someone else between reading and writing; retry the call.
    #[error("{0} {1} was changed by another call at the same time; try again")]
    Contended(Resource, String),
    /// The resource is not in the right state for this; the text says why.
    #[error("{0}")]
    FailedPrecondition(String),
    /// A request about a schema breaks a rule.
    #[error(transparent)]
    Schema(#[from] schemas::Error),
    /// A message does not match its schema.
    #[error(transparent)]
    Rejected(Box<Rejected>),
    /// The topic's schema is gone, so no message can match it.
    #[error(
        "the schema of topic {0} was deleted; set another with schema_settings, or clear \
         schema_settings to stop checking messages"
    )]
    SchemaDeleted(String),
    /// A message did not get through the transforms of its topic.
    #[error(transparent)]
    Transform(Box<Failed>),
    /// Too many messages wait for their transforms.
    #[error("too many messages wait for their transforms; try again in a moment")]
    TransformsBusy,
    /// Transforms cannot be run; the text says why.
    #[error("cannot run transforms: {0}")]
    NoTransforms(String),
    /// The disk has no space for messages.
    #[error("no space left for new messages; free disk space or ack stored messages")]
    Full,
    /// The log is at its limit and cannot be emptied; the text says why.
    #[error(
        "not accepting messages: the write-ahead log has reached storage.wal_max and cannot be \
         emptied: {0}; GET /status says what to do"
    )]
    LogStuck(String),
    /// The server is stopping; another or a restarted one will answer.
    #[error("the server is shutting down")]
    Closing,
    /// Another node runs this shard, or nobody does yet; the call did nothing.
    #[error("shard {} is not run by this server; try again", .0.0)]
    NotOwner(ShardId),
    /// This node may not be the owner of its shards much longer; the call did nothing.
    #[error("this server has not been able to renew its lease; try again")]
    LeaseOver,
    /// The store has not answered for too long; whether the call has an effect is unknown.
    #[error("the store does not answer; try again")]
    Stalled,
    /// This version cannot read a stored definition.
    #[error("{0}: {1}")]
    Unreadable(String, Arc<Unreadable>),
    /// The operating system gives no random bytes to create a secret.
    #[error("no random bytes to create a secret")]
    NoRandomness,
    /// Messages cannot be pushed with the server's settings; the text says why.
    #[error("cannot push: {0}")]
    Push(String),
    /// Messages cannot be exported with the server's settings; the text says why.
    #[error("cannot export: {0}")]
    Export(String),
    /// Storage failed.
    #[error(transparent)]
    Storage(storage::Error),
}

impl Error {
    /// The work for an answer ended without one.
    pub(crate) fn broken_off() -> Self {
        let why = std::io::Error::other("the change was interrupted");
        Self::Storage(storage::Error::Indeterminate(Arc::new(why)))
    }
}

impl From<storage::Error> for Error {
    fn from(error: storage::Error) -> Self {
        match error {
            storage::Error::Full => Self::Full,
            other => Self::Storage(other),
        }
    }
}

/// What the broker returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;
