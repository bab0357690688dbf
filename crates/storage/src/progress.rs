//! `ProgressStore`: claims of topics, and checkpoints that make recovery short.

use domain::{ClockMark, Epoch, Offset, Progress, SubscriptionId, Timestamp, TopicId};

use crate::{Future, Position, Result};

/// The right to run a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Fences every older holder.
    pub epoch: Epoch,
    /// The offset the next record gets.
    pub next: Offset,
    /// The publish time of the last record, so that times never decrease; 1970 if there is none.
    pub last_publish_time: Timestamp,
}

/// Progress of subscriptions as of a log position.
#[derive(Clone, Debug, Default)]
pub struct Checkpoint {
    /// Every progress frame up to here is contained in what was checkpointed so far. States may
    /// already contain later frames that are durable too: applying a change twice is harmless.
    pub position: Position,
    /// The progress of each subscription that changed since the checkpoint before. In the first
    /// one after an opening that is every subscription with changes that `load` replayed.
    pub progress: Vec<(SubscriptionId, Progress)>,
    /// Subscriptions that are gone.
    pub forgotten: Vec<SubscriptionId>,
    /// The time as far as it is believed; `None` = leave what was saved before.
    pub clock: Option<ClockMark>,
}

/// Claims, and progress checkpoints. Losing a checkpoint costs replay time, never state.
pub trait ProgressStore: Send + Sync {
    /// Takes over `topic`: from now on appends under an older epoch are `Fenced`. A topic that
    /// the log does not know yet starts at `first`.
    fn claim(&self, topic: TopicId, first: Offset) -> Future<Result<Claim>>;

    /// The progress of `subscription`: its last checkpoint, or `start` if it has none, with every
    /// later durable change applied.
    fn load(&self, subscription: SubscriptionId, start: Progress) -> Future<Result<Progress>>;

    /// Saves in one transaction. `Corrupt` or a lost checkpoint never loses state. The position
    /// must not be past `MessageLog::position`.
    fn checkpoint(&self, checkpoint: Checkpoint) -> Future<Result<()>>;

    /// The mark of the clock that the last checkpoint with one saved.
    fn clock_mark(&self) -> Future<Result<Option<ClockMark>>>;

    /// Whether this is a copy of a store, opened for the first time: the store it was made of may
    /// have given out offsets since that are not known here. `raise` ends it.
    fn is_copy(&self) -> bool;

    /// Has the next record of each topic take this offset, durably; what lies between is a gap.
    /// `Conflict`, with nothing changed, if an offset is used already, or if the log still holds
    /// records of a topic: a checkpoint and a trim right after the opening of a copy move them.
    fn raise(&self, topics: Vec<(TopicId, Offset)>) -> Future<Result<()>>;
}
