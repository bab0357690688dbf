//! The engine traits, implemented on the open store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use clock::tasks;
use domain::{
    ClockMark, Epoch, NodeId, Offset, Progress, ShardId, SubscriptionId, Timestamp, TopicId,
};
use futures::FutureExt;
use futures::future::ready;
use tokio::sync::oneshot;

use super::database::{Meta, TopicRow, put_clock_mark, put_meta, put_progress, put_topic};
use super::scan::{corrupt, unavailable};
use super::store::{SHARD, Shared, Store, blocking};
use super::{definitions, read, trimmer};
use crate::front::{closed, nothing};
use crate::{
    AttemptHistory, AttemptPage, AttemptQuery, Batch, Catalogue, Change, Changes, Checkpoint,
    Claim, Commit, Entry, Error, Future, Keep, Kind, Listener, MessageLog, NumberedAttempt, Page,
    Position, ProgressStore, ReadLimit, Receipt, Result, Shard, Shards, TailRead, Trimmed,
    Unsettled,
};

/// How many subscriptions are loaded while the log waits to note more changes.
const LOADED_AT_ONCE: usize = 1_024;

/// The only shard of a store, for whoever opens it.
pub(super) struct OneShard(pub Arc<Store>);

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
        let store = Arc::clone(&self.0);
        async move {
            if shard != SHARD {
                return Err(Error::NotFound);
            }
            let epoch = store.shared.take_over(listener).await?;
            let figures = Arc::clone(&store.shared.front.figures);
            let owned = Arc::new(Owned { store, epoch, is_closed: Arc::default() });
            let (log, progress) = (Arc::clone(&owned) as _, owned as _);
            Ok(Shard { id: SHARD, epoch, log, progress, figures })
        }
        .boxed()
    }
}

/// The log as one owner holds it.
struct Owned {
    store: Arc<Store>,
    epoch: Epoch,
    /// Shared with whoever waits for room.
    is_closed: Arc<AtomicBool>,
}

fn check_open(is_closed: &AtomicBool) -> Result<()> {
    if is_closed.load(Ordering::Relaxed) { Err(closed()) } else { Ok(()) }
}

impl Owned {
    fn shared(&self) -> &Arc<Shared> {
        &self.store.shared
    }

    /// `Err` once the handle was closed.
    fn check_open(&self) -> Result<()> {
        check_open(&self.is_closed)
    }

    /// Runs a chore that is the owner's alone, where it delays nobody.
    fn chore<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T> + Send + 'static,
    ) -> Future<Result<T>> {
        let guard = self.check_open().and_then(|()| self.shared().chore(self.epoch));
        match guard {
            Err(error) => ready(Err(error)).boxed(),
            Ok(guard) => blocking(self.shared(), move |shared| {
                let _until_the_end = guard;
                work(shared)
            }),
        }
    }
}

impl MessageLog for Owned {
    fn commit(&self, commit: Commit) -> Receipt {
        match self.check_open() {
            Ok(()) => self.shared().commit(self.epoch, commit),
            Err(error) => Receipt::ready(Err(error)),
        }
    }

    fn room(&self) -> Future<Result<()>> {
        let (shared, epoch) = (Arc::clone(self.shared()), self.epoch);
        let is_closed = Arc::clone(&self.is_closed);
        async move { shared.room(epoch, || check_open(&is_closed)).await }.boxed()
    }

    fn has_room(&self) -> bool {
        self.check_open().is_ok() && matches!(self.shared().has_room(), Ok(true))
    }

    fn read_tail(&self, topic: TopicId, from: Offset, limit: ReadLimit) -> TailRead {
        self.shared().front.topics.tail(topic, from, limit)
    }

    fn read(&self, topic: TopicId, from: Offset, limit: ReadLimit) -> Future<Result<Batch>> {
        if let Err(error) = self.check_open() {
            return ready(Err(error)).boxed();
        }
        match self.read_tail(topic, from, limit) {
            TailRead::Records(batch) => ready(Ok(batch)).boxed(),
            TailRead::AtEnd => ready(Ok(nothing(from))).boxed(),
            TailRead::NotInMemory => blocking(self.shared(), move |shared| {
                let Some(topic) = shared.front.topics.get(topic) else { return Ok(nothing(from)) };
                read::read(shared, &topic, from, limit)
            }),
        }
    }

    fn end(&self, topic: TopicId) -> Offset {
        self.shared().front.topics.end(topic)
    }

    fn offsets_at(&self, times: Vec<(TopicId, Timestamp)>) -> Future<Result<Vec<Offset>>> {
        if let Err(error) = self.check_open() {
            return ready(Err(error)).boxed();
        }
        blocking(self.shared(), move |shared| {
            let find = |(topic, time): (TopicId, Timestamp)| match shared.front.topics.get(topic) {
                Some(topic) => read::offset_at(shared, &topic, time),
                None => Ok(Offset(0)),
            };
            times.into_iter().map(find).collect()
        })
    }

    fn position(&self) -> Position {
        self.shared().front.position()
    }

    fn begin(&self, topic: TopicId, first: Offset) -> Future<Result<Claim>> {
        let begun =
            self.check_open().and_then(|()| self.shared().front.begin(self.epoch, topic, first));
        ready(begun).boxed()
    }

    fn trim(&self, keep: Arc<dyn Keep>) -> Future<Result<Trimmed>> {
        let guard = self.check_open().and_then(|()| self.shared().chore(self.epoch));
        let guard = match guard {
            Ok(guard) => guard,
            Err(error) => return ready(Err(error)).boxed(),
        };
        let shared = Arc::clone(self.shared());
        let (answer, receiver) = oneshot::channel();
        let started = if tasks::is_simulated() {
            drop(tasks::spawn("log-trimmer", async move {
                let trimmed = trimmer::trim_as_task(&shared, keep.as_ref()).await;
                drop(guard);
                drop(answer.send(trimmed));
            }));
            Ok(())
        } else {
            let life = move || {
                let trimmed = trimmer::trim_on_thread(&shared, keep.as_ref());
                drop(guard);
                // The caller may have stopped waiting; the trim is done anyway.
                drop(answer.send(trimmed));
            };
            std::thread::Builder::new().name("log-trimmer".to_owned()).spawn(life).map(drop)
        };
        async move {
            started.map_err(unavailable)?;
            receiver.await.map_err(Error::unavailable)?
        }
        .boxed()
    }

    fn close(&self) -> Future<Result<()>> {
        if self.is_closed.swap(true, Ordering::Relaxed) {
            return ready(Ok(())).boxed();
        }
        let (shared, epoch) = (Arc::clone(self.shared()), self.epoch);
        let flushed = shared.front.queue.release(epoch);
        shared.front.notify_room();
        async move {
            let flushed = flushed.await;
            shared.front.listening.end(epoch);
            flushed.map(drop)
        }
        .boxed()
    }
}

impl ProgressStore for Owned {
    fn load(&self, starts: Vec<(SubscriptionId, Progress)>) -> Future<Result<Vec<Progress>>> {
        if let Err(error) = self.check_open() {
            return ready(Err(error)).boxed();
        }
        blocking(self.shared(), move |shared| load(shared, starts))
    }

    fn checkpoint(&self, checkpoint: Checkpoint) -> Future<Result<()>> {
        self.chore(move |shared| save(shared, &checkpoint))
    }

    fn is_copy(&self) -> bool {
        self.shared().is_copy()
    }

    fn raise(&self, topics: Vec<(TopicId, Offset)>) -> Future<Result<()>> {
        self.chore(move |shared| shared.raise(&topics))
    }

    fn clock_mark(&self) -> Future<Result<Option<ClockMark>>> {
        blocking(self.shared(), |shared| shared.database.clock_mark())
    }
}

fn load(shared: &Shared, mut starts: Vec<(SubscriptionId, Progress)>) -> Result<Vec<Progress>> {
    let unreadable = || corrupt(shared.database.path(), 0, "the progress of a subscription");
    let mut loaded = Vec::with_capacity(starts.len());
    while !starts.is_empty() {
        let some = starts.drain(..starts.len().min(LOADED_AT_ONCE)).collect();
        let saved = |starts: &[(SubscriptionId, Progress)]| {
            let saved = shared.database.progress(starts.iter().map(|(id, _)| *id))?;
            let decode = |bytes: Option<Vec<u8>>| {
                bytes.map(|bytes| Progress::decode(&bytes)).transpose().map_err(|_| unreadable())
            };
            saved.into_iter().map(decode).collect()
        };
        loaded.extend(shared.front.load(some, saved, unreadable)?);
    }
    Ok(loaded)
}

fn save(shared: &Shared, checkpoint: &Checkpoint) -> Result<()> {
    let (front, position) = (&shared.front, checkpoint.position);
    front.check_checkpoint(position)?;
    let mut topics = Vec::new();
    for topic in front.topics.all() {
        let row = TopicRow::of(&topic);
        if topic.state().own.saved != Some(row) {
            topics.push((topic, row));
        }
    }
    shared.write(|transaction| {
        let mut value = Vec::new();
        for (subscription, progress) in &checkpoint.progress {
            value.clear();
            progress.encode(&mut value);
            put_progress(transaction, *subscription, &value)?;
        }
        let mut forget =
            transaction.prepare_cached("DELETE FROM progress WHERE subscription = ?1")?;
        for subscription in &checkpoint.forgotten {
            forget.execute([subscription.0.cast_signed()])?;
        }
        for (_, row) in &topics {
            put_topic(transaction, *row)?;
        }
        if let Some(mark) = &checkpoint.clock {
            put_clock_mark(transaction, mark)?;
        }
        put_meta(transaction, Meta::Checkpoint, position.0)
    })?;
    for (topic, row) in topics {
        topic.state().own.saved = Some(row);
    }
    front.note_checkpoint(position, &checkpoint.forgotten);
    Ok(())
}

impl Catalogue for Store {
    fn get(&self, kind: Kind, name: &str) -> Future<Result<Entry>> {
        let name = name.to_owned();
        blocking(&self.shared, move |shared| shared.database.entry(kind, &name))
    }

    fn list(&self, kind: Kind, after: Option<&str>, limit: usize) -> Future<Result<Page>> {
        let after = after.map(ToOwned::to_owned);
        blocking(&self.shared, move |shared| shared.database.entries(kind, after.as_deref(), limit))
    }

    fn put(
        &self,
        kind: Kind,
        name: &str,
        value: Bytes,
        version: Option<u64>,
    ) -> Future<Result<Entry>> {
        let name = name.to_owned();
        blocking(&self.shared, move |shared| {
            let _in_order = shared.defining.lock();
            let entry =
                shared.write(|change| definitions::put(change, kind, &name, &value, version))??;
            shared.recent.note(entry.version, Change::Put(entry.clone()));
            Ok(entry)
        })
    }

    fn delete(&self, kind: Kind, name: &str, version: u64) -> Future<Result<()>> {
        let name = name.to_owned();
        blocking(&self.shared, move |shared| {
            let _in_order = shared.defining.lock();
            let (serial, id) =
                shared.write(|change| definitions::delete(change, kind, &name, version))??;
            shared.recent.note(serial, Change::Deleted { kind, name, id });
            Ok(())
        })
    }

    fn serial(&self) -> Future<Result<u64>> {
        let open = self.shared.front.check_open();
        ready(open.map(|()| self.shared.recent.serial())).boxed()
    }

    fn changes(&self, after: u64) -> Changes {
        self.shared.recent.changes(after)
    }
}

impl AttemptHistory for Store {
    fn last(&self, subscriptions: Vec<SubscriptionId>) -> Future<Result<Vec<u64>>> {
        blocking(&self.shared, move |shared| {
            shared.preallocator.for_database(|| shared.attempts.last(&subscriptions))
        })
    }

    fn append(
        &self,
        attempts: Vec<NumberedAttempt>,
        unsettled: Arc<dyn Unsettled>,
    ) -> Future<Result<()>> {
        blocking(&self.shared, move |shared| shared.attempts.append(&attempts, &*unsettled))
    }

    fn list(
        &self,
        subscription: SubscriptionId,
        query: AttemptQuery,
    ) -> Future<Result<AttemptPage>> {
        blocking(&self.shared, move |shared| {
            shared.preallocator.for_database(|| shared.attempts.list(subscription, &query))
        })
    }

    fn forget(&self, subscriptions: Vec<SubscriptionId>) -> Future<Result<()>> {
        blocking(&self.shared, move |shared| {
            shared.preallocator.for_database(|| shared.attempts.forget(&subscriptions))
        })
    }
}
