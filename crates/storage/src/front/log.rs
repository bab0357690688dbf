//! A log of groups with everything about it that is in memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use domain::{Epoch, Offset, Progress, ShardId, SubscriptionId, TopicId};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Part;
use super::group::tail_groups_bytes;
use super::listening::Listening;
use super::pending::{Pending, Unreadable};
use super::queue::Queue;
use super::tail::Ring;
use super::topic::Topics;
use crate::{Claim, Error, LogFigures, Position, Result};

/// How much a log holds in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Bytes of the newest records kept in memory.
    pub tail_bytes: usize,
    /// Queue size at which appends wait.
    pub queue_bytes_max: usize,
    /// Group size after which another commit goes into the next group.
    pub group_bytes_max: usize,
    /// How long a commit nobody waits for may be delayed to ride along.
    pub ride_delay: Duration,
}

/// What a log was found to hold when it was opened.
#[derive(Debug)]
pub(crate) struct Found<S> {
    pub topics: Topics<S>,
    pub pending: Pending,
    /// The number of the last durable group.
    pub position: u64,
    /// The group up to which progress is checkpointed.
    pub checkpoint: u64,
}

/// The log of a shard above whatever makes its groups durable.
pub(crate) struct Front<S> {
    pub bounds: Bounds,
    pub topics: Topics<S>,
    pub queue: Queue<S>,
    /// The newest groups. Locked before the state of a topic.
    pub ring: Mutex<Ring<S>>,
    pub pending: Mutex<Pending>,
    pub figures: Arc<LogFigures>,
    /// The number of the last durable group.
    position: AtomicU64,
    /// The group up to which progress is checkpointed.
    checkpoint: AtomicU64,
    pub listening: Listening,
    /// Whether the listener was asked for a trim that has not started yet.
    pressed: AtomicBool,
    /// Held while a topic is begun or forgotten.
    beginning: Mutex<()>,
    /// Why nothing is written anymore.
    stopped: OnceLock<Error>,
    /// Notified when appends may continue.
    room: Arc<Notify>,
}

impl<S: Part> Front<S> {
    pub(crate) fn new(shard: ShardId, bounds: Bounds, found: Found<S>, room: Arc<Notify>) -> Self {
        let Bounds { tail_bytes, group_bytes_max, ride_delay, .. } = bounds;
        Self {
            bounds,
            topics: found.topics,
            queue: Queue::new(shard, tail_bytes, group_bytes_max, ride_delay),
            ring: Mutex::new(Ring::new(tail_groups_bytes(tail_bytes))),
            pending: Mutex::new(found.pending),
            figures: Arc::default(),
            position: AtomicU64::new(found.position),
            checkpoint: AtomicU64::new(found.checkpoint),
            listening: Listening::new(shard),
            pressed: AtomicBool::new(false),
            beginning: Mutex::new(()),
            stopped: OnceLock::new(),
            room,
        }
    }

    /// How far the log is durable.
    pub(crate) fn position(&self) -> Position {
        Position(self.position.load(Ordering::Acquire))
    }

    pub(super) fn set_position(&self, number: u64) {
        self.position.store(number, Ordering::Release);
    }

    /// How far progress is checkpointed.
    pub(crate) fn checkpoint(&self) -> Position {
        Position(self.checkpoint.load(Ordering::Acquire))
    }

    /// `Conflict` unless a checkpoint at `position` can follow the last one.
    pub(crate) fn check_checkpoint(&self, position: Position) -> Result<()> {
        let fits = position <= self.position() && position >= self.checkpoint();
        if fits { Ok(()) } else { Err(Error::Conflict) }
    }

    /// Notes a checkpoint that is durable: what it includes need not be remembered.
    pub(crate) fn note_checkpoint(&self, position: Position, forgotten: &[SubscriptionId]) {
        self.checkpoint.fetch_max(position.0, Ordering::AcqRel);
        let mut pending = self.pending.lock();
        pending.forget_up_to(position.0);
        for subscription in forgotten {
            pending.forget(*subscription);
        }
    }

    /// Prepares `topic` for appends of the owner of `epoch`; an unknown one starts at `first`.
    pub(crate) fn begin(&self, epoch: Epoch, topic: TopicId, first: Offset) -> Result<Claim> {
        self.check_open()?;
        let _one_at_a_time = self.beginning.lock();
        self.queue.check(epoch)?;
        let topic = self.topics.get_or_make(topic, first);
        self.queue.begin(epoch, topic)
    }

    /// Runs `act` while no topic is begun.
    pub(crate) fn while_none_begins<T>(&self, act: impl FnOnce() -> T) -> T {
        let _one_at_a_time = self.beginning.lock();
        act()
    }

    /// Asks the owner for a checkpoint and a trim.
    pub(crate) fn press(&self) {
        self.pressed.store(true, Ordering::Relaxed);
        self.listening.tell(|listener| listener.pressed());
    }

    pub(crate) fn is_pressed(&self) -> bool {
        self.pressed.load(Ordering::Relaxed)
    }

    /// Notes that a trim has started.
    pub(crate) fn relieve(&self) {
        self.pressed.store(false, Ordering::Relaxed);
    }

    /// `Err` once nothing is written anymore.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.stopped.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Whether the queue takes more appends; `Err` once nothing is written anymore.
    pub(crate) fn has_queue_room(&self) -> Result<bool> {
        self.check_open()?;
        Ok(self.queue.bytes() < self.bounds.queue_bytes_max)
    }

    /// Resolves when `has_room` says so. It is asked again whenever `notify_room` was called.
    pub(crate) async fn wait_for_room(&self, has_room: impl Fn() -> Result<bool>) -> Result<()> {
        loop {
            let mut notified = std::pin::pin!(self.room.notified());
            notified.as_mut().enable();
            if has_room()? {
                return Ok(());
            }
            notified.await;
        }
    }

    pub(crate) fn notify_room(&self) {
        self.room.notify_waiters();
    }

    /// Writes nothing more: whatever is queued did not happen. `false` if that was so before.
    pub(crate) fn stop(&self, error: &Error) -> bool {
        let is_first = self.stopped.set(error.clone()).is_ok();
        self.queue.refuse(error);
        self.room.notify_waiters();
        is_first
    }

    /// The log has failed: nothing more is written, and its owner is told.
    pub(crate) fn fail(&self, error: &Error) {
        if self.stop(error) {
            tracing::error!(%error, "the log has failed, nothing more is written");
            self.listening.tell(|listener| listener.failed(error));
        }
    }

    /// Applies the changes that are newer than the checkpoint to what `saved` reads of it.
    ///
    /// The changes are locked first: a checkpoint in between makes some of them apply twice, which
    /// is harmless.
    pub(crate) fn load(
        &self,
        starts: Vec<(SubscriptionId, Progress)>,
        saved: impl FnOnce(&[(SubscriptionId, Progress)]) -> Result<Vec<Option<Progress>>>,
        unreadable: impl FnOnce() -> Error,
    ) -> Result<Vec<Progress>> {
        let pending = self.pending.lock();
        let saved = saved(&starts)?;
        let apply = |((id, start), saved): ((SubscriptionId, Progress), Option<Progress>)| {
            let mut progress = saved.unwrap_or(start);
            pending.apply(id, &mut progress)?;
            Ok(progress)
        };
        let loaded: Result<Vec<_>, Unreadable> = starts.into_iter().zip(saved).map(apply).collect();
        loaded.map_err(|Unreadable| unreadable())
    }
}
