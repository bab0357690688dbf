//! `ProgressStore`: checkpoints of progress, which make opening a shard quick.

use domain::{ClockMark, Offset, Progress, SubscriptionId, TopicId};

use crate::{Future, Position, Result};

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

/// Progress checkpoints of one shard, as one owner holds it; fenced as its log is. Losing a
/// checkpoint costs replay time, never state.
pub trait ProgressStore: Send + Sync {
    /// The progress of each subscription, in their order: its last checkpoint, or the progress
    /// given if it has none, with every later durable change applied.
    fn load(&self, starts: Vec<(SubscriptionId, Progress)>) -> Future<Result<Vec<Progress>>>;

    /// Saves, so that either all of it or nothing counts. The position must not be past
    /// `MessageLog::position`.
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

impl dyn ProgressStore + '_ {
    /// `load` for one subscription.
    pub async fn load_one(&self, id: SubscriptionId, start: Progress) -> Result<Progress> {
        let loaded = self.load(vec![(id, start.clone())]).await?;
        Ok(loaded.into_iter().next().unwrap_or(start))
    }
}
