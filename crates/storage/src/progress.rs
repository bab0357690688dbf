//! `ProgressStore`: claims of topics, and checkpoints that make recovery short.

use domain::{ClockMark, Epoch, Offset, Progress, SubscriptionId, Timestamp, TopicId};

use crate::{Future, Position, Result};

/// The right to run a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Fences every older owner.
    pub epoch: Epoch,
    /// The offset of the next record.
    pub next: Offset,
    /// The publish time of the last record, so that times never decrease; 1970 if there is none.
    pub last_publish_time: Timestamp,
}

/// Progress of subscriptions as of a log position.
#[derive(Clone, Debug, Default)]
pub struct Checkpoint {
    /// Every progress frame up to here is included in what was checkpointed so far. Progress may
    /// already include later frames that are also durable: applying a change twice is harmless.
    pub position: Position,
    /// The progress of each subscription that changed since the previous checkpoint. In the first
    /// one after an open that is every subscription with changes that `load` replayed.
    pub progress: Vec<(SubscriptionId, Progress)>,
    /// Subscriptions that are gone.
    pub forgotten: Vec<SubscriptionId>,
    /// The last trusted time; `None` = leave what was saved before.
    pub clock: Option<ClockMark>,
}

/// Claims, and progress checkpoints. Losing a checkpoint costs replay time, never state.
pub trait ProgressStore: Send + Sync {
    /// Takes over `topic`: from now on appends under an older epoch are `Fenced`. A topic that the
    /// log does not know yet starts at `first`.
    fn claim(&self, topic: TopicId, first: Offset) -> Future<Result<Claim>>;

    /// The progress of `subscription`: its last checkpoint, or `start` if it has none, with every
    /// later durable change applied.
    fn load(&self, subscription: SubscriptionId, start: Progress) -> Future<Result<Progress>>;

    /// Saves in one transaction. `Corrupt` or a lost checkpoint never loses state. The position
    /// must not be past `MessageLog::position`.
    fn checkpoint(&self, checkpoint: Checkpoint) -> Future<Result<()>>;

    /// The clock mark from the last checkpoint that had one.
    fn clock_mark(&self) -> Future<Result<Option<ClockMark>>>;

    /// Whether this is a copy of a store, opened for the first time: the original store may have
    /// assigned offsets since then that are unknown here. `raise` ends this state.
    fn is_copy(&self) -> bool;

    /// Sets the offset of each topic's next record, durably; whatever is in between is a gap.
    /// `Conflict`, with nothing changed, if an offset is already used, or if the log still holds
    /// records of a topic: a checkpoint and a trim right after opening a copy move them.
    fn raise(&self, topics: Vec<(TopicId, Offset)>) -> Future<Result<()>>;
}
