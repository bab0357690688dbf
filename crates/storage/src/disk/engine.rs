//! The four engine traits, implemented on the open store.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use domain::{ClockMark, Offset, Progress, SubscriptionId, Timestamp, TopicId};
use futures::FutureExt;
use tokio::sync::oneshot;

use super::database::{Meta, TopicRow, put_clock_mark, put_meta, put_progress, put_topic};
use super::scan::{corrupt, unavailable};
use super::store::{Shared, Store, blocking};
use super::{definitions, read, trimmer};
use crate::{
    AttemptHistory, AttemptPage, AttemptQuery, Batch, Catalogue, Checkpoint, Claim, Commit, Entry,
    Error, Future, Keep, Kind, KnownAttempts, Listener, MessageLog, NumberedAttempt, Page,
    Position, ProgressStore, ReadLimit, Receipt, Result, TailRead, Trimmed, Unsettled,
};

impl MessageLog for Store {
    fn commit(&self, commit: Commit) -> Receipt {
        self.shared.commit(commit)
    }

    fn room(&self) -> Future<Result<()>> {
        self.shared.room()
    }

    fn has_room(&self) -> bool {
        matches!(self.shared.has_room(), Ok(true))
    }

    fn read_tail(&self, topic: TopicId, from: Offset, limit: ReadLimit) -> TailRead {
        self.shared
            .topics
            .get(topic)
            .map_or(TailRead::AtEnd, |topic| read::tail(&topic, from, limit))
    }

    fn read(&self, topic: TopicId, from: Offset, limit: ReadLimit) -> Future<Result<Batch>> {
        match self.read_tail(topic, from, limit) {
            TailRead::Records(batch) => std::future::ready(Ok(batch)).boxed(),
            TailRead::AtEnd => std::future::ready(Ok(read::nothing(from))).boxed(),
            TailRead::NotInMemory => blocking(&self.shared, move |shared| {
                let Some(topic) = shared.topics.get(topic) else { return Ok(read::nothing(from)) };
                read::read(shared, &topic, from, limit)
            }),
        }
    }

    fn end(&self, topic: TopicId) -> Offset {
        self.shared.topics.get(topic).map_or(Offset(0), |topic| topic.state().end)
    }

    fn offset_at(&self, topic: TopicId, time: Timestamp) -> Future<Result<Offset>> {
        blocking(&self.shared, move |shared| match shared.topics.get(topic) {
            Some(topic) => read::offset_at(shared, &topic, time),
            None => Ok(Offset(0)),
        })
    }

    fn position(&self) -> Position {
        Position(self.shared.position.load(Ordering::Acquire))
    }

    fn listen(&self, listener: Arc<dyn Listener>) {
        if self.shared.listener.set(listener).is_err() {
            tracing::warn!("the log has a listener already");
        }
    }

    fn trim(&self, keep: Arc<dyn Keep>) -> Future<Result<Trimmed>> {
        let shared = Arc::clone(&self.shared);
        let (answer, receiver) = oneshot::channel();
        let thread = std::thread::Builder::new().name("log-trimmer".to_owned()).spawn(move || {
            // The caller may have stopped waiting; the trim is done anyway.
            drop(answer.send(trimmer::trim(&shared, keep.as_ref())));
        });
        Box::pin(async move {
            thread.map_err(unavailable)?;
            receiver.await.map_err(|error| unavailable(std::io::Error::other(error)))?
        })
    }
}

impl ProgressStore for Store {
    fn claim(&self, topic: TopicId, first: Offset) -> Future<Result<Claim>> {
        std::future::ready(self.shared.claim(topic, first)).boxed()
    }

    fn load(&self, subscription: SubscriptionId, start: Progress) -> Future<Result<Progress>> {
        blocking(&self.shared, move |shared| load(shared, subscription, start))
    }

    fn checkpoint(&self, checkpoint: Checkpoint) -> Future<Result<()>> {
        blocking(&self.shared, move |shared| save(shared, &checkpoint))
    }

    fn is_copy(&self) -> bool {
        self.shared.is_copy()
    }

    fn raise(&self, topics: Vec<(TopicId, Offset)>) -> Future<Result<()>> {
        blocking(&self.shared, move |shared| shared.raise(&topics))
    }

    fn clock_mark(&self) -> Future<Result<Option<ClockMark>>> {
        blocking(&self.shared, |shared| shared.database.clock_mark())
    }
}

fn load(shared: &Shared, subscription: SubscriptionId, start: Progress) -> Result<Progress> {
    let unreadable = || corrupt(shared.database.path(), 0, "the progress of a subscription");
    // Lock the changes first: a checkpoint in between makes some of them apply twice, which is
    // harmless.
    let pending = shared.pending.lock();
    let mut progress = match shared.database.progress(subscription)? {
        Some(bytes) => Progress::decode(&bytes).map_err(|_| unreadable())?,
        None => start,
    };
    pending.apply(subscription, &mut progress).map_err(|_| unreadable())?;
    Ok(progress)
}

fn save(shared: &Shared, checkpoint: &Checkpoint) -> Result<()> {
    let position = checkpoint.position.0;
    let is_past = position > shared.position.load(Ordering::Acquire);
    if is_past || position < shared.checkpoint.load(Ordering::Acquire) {
        return Err(Error::Conflict);
    }
    let mut topics = Vec::new();
    for topic in shared.topics.all() {
        let row = TopicRow::of(&topic);
        if topic.state().saved != Some(row) {
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
        put_meta(transaction, Meta::Checkpoint, position)
    })?;
    shared.checkpoint.fetch_max(position, Ordering::AcqRel);
    for (topic, row) in topics {
        topic.state().saved = Some(row);
    }
    let mut pending = shared.pending.lock();
    pending.forget_up_to(position);
    for subscription in &checkpoint.forgotten {
        pending.forget(*subscription);
    }
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
            shared.write(|change| definitions::put(change, kind, &name, &value, version))?
        })
    }

    fn delete(&self, kind: Kind, name: &str, version: u64) -> Future<Result<()>> {
        let name = name.to_owned();
        blocking(&self.shared, move |shared| {
            shared.write(|change| definitions::delete(change, kind, &name, version))?
        })
    }
}

impl AttemptHistory for Store {
    fn known(&self) -> Future<Result<KnownAttempts>> {
        blocking(&self.shared, |shared| {
            shared.preallocator.for_database(|| shared.attempts.known())
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
