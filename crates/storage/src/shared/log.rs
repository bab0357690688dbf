//! The traits of an owner's shard.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use clock::tasks;
use domain::{ClockMark, Offset, Progress, SubscriptionId, Timestamp, TopicId};
use futures::FutureExt;
use tokio::sync::oneshot;

use super::owned::{Owned, raise};
use super::patience::ask;
use super::{read, saver, trimmer};
use crate::front::{closed, nothing};
use crate::{
    Batch, Checkpoint, Claim, Commit, Error, Future, Keep, MessageLog, Position, ProgressStore,
    ReadLimit, Receipt, Result, TailRead, Trimmed,
};

/// A shard in the hands of its owner. It is given up when this is dropped.
pub(super) struct Handle(pub Arc<Owned>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// Runs `work` to its end although its caller may stop waiting: half a save is no save.
fn to_its_end<T: Send + 'static>(
    name: &'static str,
    work: impl std::future::Future<Output = Result<T>> + Send + 'static,
) -> Future<Result<T>> {
    let (answer, answered) = oneshot::channel();
    drop(tasks::spawn(name, async move { drop(answer.send(work.await)) }));
    async move { answered.await.unwrap_or_else(|_| Err(closed())) }.boxed()
}

impl MessageLog for Handle {
    fn commit(&self, commit: Commit) -> Receipt {
        let front = &self.0.front;
        front.queue.commit(self.0.epoch, commit, false, front.position())
    }

    fn room(&self) -> Future<Result<()>> {
        let owned = Arc::clone(&self.0);
        async move {
            let has_room = || {
                let has_room = owned.has_room()?;
                if !owned.has_log_room() && !owned.front.is_pressed() {
                    owned.front.press();
                }
                Ok(has_room)
            };
            owned.front.wait_for_room(has_room).await
        }
        .boxed()
    }

    fn has_room(&self) -> bool {
        matches!(self.0.has_room(), Ok(true))
    }

    fn read_tail(&self, topic: TopicId, from: Offset, limit: ReadLimit) -> TailRead {
        self.0.front.topics.tail(topic, from, limit)
    }

    fn read(&self, topic: TopicId, from: Offset, limit: ReadLimit) -> Future<Result<Batch>> {
        if let Err(error) = self.0.front.check_open() {
            return std::future::ready(Err(error)).boxed();
        }
        match self.read_tail(topic, from, limit) {
            TailRead::Records(batch) => std::future::ready(Ok(batch)).boxed(),
            TailRead::AtEnd => std::future::ready(Ok(nothing(from))).boxed(),
            TailRead::NotInMemory => {
                let owned = Arc::clone(&self.0);
                async move {
                    match owned.front.topics.get(topic) {
                        Some(topic) => read::read(&owned, &topic, from, limit).await,
                        None => Ok(nothing(from)),
                    }
                }
                .boxed()
            }
        }
    }

    fn end(&self, topic: TopicId) -> Offset {
        self.0.front.topics.end(topic)
    }

    fn offsets_at(&self, times: Vec<(TopicId, Timestamp)>) -> Future<Result<Vec<Offset>>> {
        let owned = Arc::clone(&self.0);
        async move {
            owned.front.check_open()?;
            let mut offsets = Vec::with_capacity(times.len());
            for (topic, time) in times {
                offsets.push(match owned.front.topics.get(topic) {
                    Some(topic) => read::offset_at(&owned, &topic, time).await?,
                    None => Offset(0),
                });
            }
            Ok(offsets)
        }
        .boxed()
    }

    fn position(&self) -> Position {
        self.0.front.position()
    }

    fn begin(&self, topic: TopicId, first: Offset) -> Future<Result<Claim>> {
        std::future::ready(self.0.front.begin(self.0.epoch, topic, first)).boxed()
    }

    fn trim(&self, keep: Arc<dyn Keep>) -> Future<Result<Trimmed>> {
        let owned = Arc::clone(&self.0);
        to_its_end("shard-trimmer", async move { trimmer::trim(&owned, keep.as_ref()).await })
    }

    fn close(&self) -> Future<Result<()>> {
        let owned = Arc::clone(&self.0);
        if owned.is_closed.swap(true, Ordering::AcqRel) {
            return std::future::ready(Ok(())).boxed();
        }
        to_its_end("shard-closer", async move { close(&owned).await })
    }
}

/// Makes durable what is queued, and gives the shard up.
async fn close(owned: &Owned) -> Result<()> {
    let flushed = owned.front.queue.release(owned.epoch).await;
    if let Err(error) = flushed {
        // The shard is lost, and there is nothing to give up.
        owned.front.listening.end(owned.epoch);
        return Err(error);
    }
    let _nothing_is_saved = owned.upkeep.lock().await;
    owned.front.listening.end(owned.epoch);
    owned.front.stop(&closed());
    match ask(|| owned.chunks.release(owned.id, owned.epoch)).await {
        Err(Error::Fenced { .. }) => Ok(()),
        other => other,
    }
}

impl ProgressStore for Handle {
    fn load(&self, starts: Vec<(SubscriptionId, Progress)>) -> Future<Result<Vec<Progress>>> {
        let owned = Arc::clone(&self.0);
        async move { saver::load(&owned, starts).await }.boxed()
    }

    fn checkpoint(&self, checkpoint: Checkpoint) -> Future<Result<()>> {
        let owned = Arc::clone(&self.0);
        to_its_end("shard-saver", async move { saver::checkpoint(&owned, checkpoint).await })
    }

    fn clock_mark(&self) -> Future<Result<Option<ClockMark>>> {
        std::future::ready(Ok(*self.0.clock.lock())).boxed()
    }

    fn is_copy(&self) -> bool {
        false
    }

    fn raise(&self, topics: Vec<(TopicId, Offset)>) -> Future<Result<()>> {
        let owned = Arc::clone(&self.0);
        to_its_end("shard-saver", async move { raise(&owned, topics).await })
    }
}
