//! The only shard of a store in memory, and its owners.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clock::tasks;
use domain::{
    ClockMark, Epoch, NodeId, Offset, Progress, ShardId, SubscriptionId, Timestamp, TopicId,
};
use futures::FutureExt;
use futures::future::ready;

use super::Options;
use super::log::Log;
use crate::front::{closed, nothing};
use crate::{
    Batch, Checkpoint, Claim, Commit, Error, Future, Keep, Listener, MessageLog, Position,
    ProgressStore, ReadLimit, Receipt, Result, Shard, Shards, TailRead, Trimmed,
};

pub(super) const SHARD: ShardId = ShardId(0);

pub(super) struct OneShard(Arc<Log>);

impl OneShard {
    pub(super) fn new(options: Options) -> Self {
        Self(Arc::new(Log::new(options)))
    }
}

impl Shards for OneShard {
    fn count(&self) -> u32 {
        1
    }

    fn open(
        &self,
        shard: ShardId,
        _: NodeId,
        listener: Arc<dyn Listener>,
    ) -> Future<Result<Shard>> {
        let log = Arc::clone(&self.0);
        async move {
            if shard != SHARD {
                return Err(Error::NotFound);
            }
            let epoch = log.take_over(listener).await?;
            let figures = Arc::clone(&log.figures);
            let owned = Arc::new(Owned { log, epoch, is_closed: AtomicBool::new(false) });
            let (log, progress) = (Arc::clone(&owned) as _, owned as _);
            Ok(Shard { id: SHARD, epoch, log, progress, figures })
        }
        .boxed()
    }
}

/// The log as one owner holds it.
struct Owned {
    log: Arc<Log>,
    epoch: Epoch,
    is_closed: AtomicBool,
}

impl Owned {
    /// What `act` answers, unless the handle was closed.
    fn unless_closed<T>(&self, act: impl FnOnce(&Log) -> Result<T>) -> Result<T> {
        if self.is_closed.load(Ordering::Relaxed) { Err(closed()) } else { act(&self.log) }
    }
}

impl MessageLog for Owned {
    fn commit(&self, commit: Commit) -> Receipt {
        self.unless_closed(|log| log.commit(self.epoch, commit))
            .unwrap_or_else(|error| Receipt::ready(Err(error)))
    }

    fn room(&self) -> Future<Result<()>> {
        let room = |log: &Log| if log.has_room() { Ok(()) } else { Err(Error::Full) };
        ready(self.unless_closed(room)).boxed()
    }

    fn has_room(&self) -> bool {
        self.unless_closed(|log| Ok(log.has_room())).unwrap_or(false)
    }

    fn read_tail(&self, topic: TopicId, from: Offset, limit: ReadLimit) -> TailRead {
        self.log.batch(topic, from, limit).map_or(TailRead::AtEnd, TailRead::Records)
    }

    fn read(&self, topic: TopicId, from: Offset, limit: ReadLimit) -> Future<Result<Batch>> {
        let read = |log: &Log| Ok(log.batch(topic, from, limit).unwrap_or_else(|| nothing(from)));
        ready(self.unless_closed(read)).boxed()
    }

    fn end(&self, topic: TopicId) -> Offset {
        self.log.end(topic)
    }

    fn offsets_at(&self, times: Vec<(TopicId, Timestamp)>) -> Future<Result<Vec<Offset>>> {
        ready(self.unless_closed(|log| Ok(log.offsets_at(&times)))).boxed()
    }

    fn position(&self) -> Position {
        self.log.position()
    }

    fn begin(&self, topic: TopicId, first: Offset) -> Future<Result<Claim>> {
        ready(self.unless_closed(|log| log.begin(self.epoch, topic, first))).boxed()
    }

    fn trim(&self, keep: Arc<dyn Keep>) -> Future<Result<Trimmed>> {
        if let Err(error) = self.unless_closed(|_| Ok(())) {
            return ready(Err(error)).boxed();
        }
        let (log, epoch) = (Arc::clone(&self.log), self.epoch);
        let trimmed = tasks::blocking(move || log.trim(epoch, &*keep));
        async { trimmed.await.unwrap_or_else(|lost| Err(Error::unavailable(lost))) }.boxed()
    }

    fn close(&self) -> Future<Result<()>> {
        let told = self.unless_closed(|log| log.commit(self.epoch, Commit::barrier()));
        if self.is_closed.swap(true, Ordering::Relaxed) {
            return ready(Ok(())).boxed();
        }
        let (log, epoch) = (Arc::clone(&self.log), self.epoch);
        async move {
            let told = match told {
                Ok(told) => told.await.map(drop),
                Err(error) => Err(error),
            };
            log.release(epoch);
            told
        }
        .boxed()
    }
}

impl ProgressStore for Owned {
    fn load(&self, starts: Vec<(SubscriptionId, Progress)>) -> Future<Result<Vec<Progress>>> {
        ready(self.unless_closed(|log| Ok(log.load(starts)))).boxed()
    }

    fn checkpoint(&self, checkpoint: Checkpoint) -> Future<Result<()>> {
        ready(self.unless_closed(|log| log.checkpoint(self.epoch, checkpoint))).boxed()
    }

    fn is_copy(&self) -> bool {
        false
    }

    fn raise(&self, topics: Vec<(TopicId, Offset)>) -> Future<Result<()>> {
        ready(self.unless_closed(|log| log.raise(self.epoch, &topics))).boxed()
    }

    fn clock_mark(&self) -> Future<Result<Option<ClockMark>>> {
        ready(Ok(self.log.clock_mark())).boxed()
    }
}
