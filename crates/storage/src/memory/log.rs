//! Messages in memory.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use bytes::BytesMut;
use domain::{Offset, OffsetRange, Record, Timestamp, TopicId, message};
use futures::FutureExt;
use futures::future::ready;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{Options, State, StoredRecord, Topic};
use crate::{
    Append, Batch, Commit, Error, Future, Keep, Listener, LogFigures, MessageLog, Position,
    ReadLimit, Receipt, Result, TailRead, Trimmed, Urgency,
};

/// The log of all topics.
///
/// A commit takes effect inside `commit`; the herald's thread then answers the caller and notifies
/// the listener, because a caller may hold locks that the listener needs.
pub(super) struct Log {
    state: Arc<Mutex<State>>,
    options: Options,
    listener: Arc<OnceLock<Arc<dyn Listener>>>,
    herald: Sender<News>,
    figures: Arc<LogFigures>,
}

/// What one commit did.
struct News {
    ends: Vec<(TopicId, Offset)>,
    position: Position,
    answer: Option<oneshot::Sender<Result<Position>>>,
}

impl Log {
    pub(super) fn new(
        state: Arc<Mutex<State>>,
        options: Options,
        figures: Arc<LogFigures>,
    ) -> Self {
        let listener = Arc::new(OnceLock::new());
        let (herald, news) = mpsc::channel();
        let told = Arc::clone(&listener);
        // Ends when the log, which holds the only sender, is dropped.
        thread::spawn(move || herald_news(&news, &told));
        Self { state, options, listener, herald, figures }
    }

    /// The commit's effect and its announcement, under one lock so that they happen in the same
    /// order.
    fn take(&self, commit: Commit) -> Result<Receipt> {
        let (answer, receipt) = oneshot::channel();
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let nexts = check(state, &commit.appends)?;
        let records: Vec<_> = commit.appends.iter().map(encoded).collect();
        let bytes: usize = records.iter().flatten().map(|record| record.body.len()).sum();
        if !nexts.is_empty() && state.bytes.saturating_add(bytes) > self.options.bytes_max {
            return Err(Error::Full);
        }
        state.bytes += bytes;
        let count = records.iter().map(Vec::len).sum::<usize>() as u64;
        self.figures.note_group(Duration::ZERO, count, bytes as u64, state.bytes as u64);
        state.position.0 += 1;
        let position = state.position;
        for (append, records) in commit.appends.iter().zip(records) {
            if let Some(topic) = state.topics.get_mut(&append.topic) {
                topic.next = topic.next.plus(records.len() as u64);
                if let Some(last) = records.last() {
                    topic.last_publish_time = last.publish_time;
                }
                topic
                    .kept
                    .extend(records.into_iter().map(|record| StoredRecord { position, record }));
            }
        }
        for (subscription, change) in commit.progress {
            state.progress.entry(subscription).or_default().add(position, change);
        }
        let waits = commit.urgency == Urgency::Durable;
        let news =
            News { ends: nexts.into_iter().collect(), position, answer: waits.then_some(answer) };
        self.herald.send(news).map_err(|_| Error::Unavailable(Arc::new(gone())))?;
        drop(guard);
        Ok(if waits { Receipt::waiting(receipt) } else { Receipt::ready(Ok(position)) })
    }

    fn batch(&self, topic: TopicId, from: Offset, limit: ReadLimit) -> Option<Batch> {
        let state = self.state.lock();
        let topic = state.topics.get(&topic).filter(|topic| from < topic.next)?;
        let mut batch = Batch {
            covered: OffsetRange { from, to: topic.next },
            records: Vec::new(),
            damaged: Vec::new(),
        };
        let mut bytes = 0_usize;
        for StoredRecord { record, .. } in topic.kept.range(topic.place_of(from)..) {
            bytes = bytes.saturating_add(record.body.len());
            let full = batch.records.len() >= limit.records || bytes > limit.bytes;
            if full && !batch.records.is_empty() {
                batch.covered.to = record.offset;
                break;
            }
            batch.records.push(record.clone());
        }
        Some(batch)
    }
}

/// Checks that every append is allowed; returns the topics' next offsets afterwards.
fn check(state: &State, appends: &[Append]) -> Result<BTreeMap<TopicId, Offset>> {
    let mut nexts = BTreeMap::new();
    for append in appends {
        let (epoch, known) = state
            .topics
            .get(&append.topic)
            .map_or_else(Default::default, |topic| (topic.epoch, topic.next));
        let next = nexts.entry(append.topic).or_insert(known);
        let claimed = state.topics.contains_key(&append.topic);
        if !claimed || append.epoch != epoch || append.first != *next {
            return Err(Error::Fenced { topic: append.topic, epoch, next: *next });
        }
        *next = next.plus(append.records.len() as u64);
    }
    Ok(nexts)
}

/// The records of an append, each body in its own memory.
fn encoded(append: &Append) -> Vec<Record> {
    let offsets = (append.first.0..).map(Offset);
    let record = |(offset, new): (Offset, &crate::NewRecord)| {
        let mut body = BytesMut::with_capacity(message::encoded_len_max(&new.message));
        message::encode(&new.message, offset, new.publish_time, &mut body);
        let (publish_time, addressee) = (new.publish_time, new.addressee);
        Record { offset, publish_time, addressee, body: body.freeze() }
    };
    offsets.zip(&append.records).map(record).collect()
}

fn herald_news(news: &Receiver<News>, listener: &OnceLock<Arc<dyn Listener>>) {
    for News { ends, position, answer } in news {
        if let Some(answer) = answer {
            // The caller may have stopped waiting.
            drop(answer.send(Ok(position)));
        }
        if let Some(listener) = listener.get().filter(|_| !ends.is_empty()) {
            listener.visible(&ends);
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("the log was closed")
}

impl MessageLog for Log {
    fn commit(&self, commit: Commit) -> Receipt {
        self.take(commit).unwrap_or_else(|error| Receipt::ready(Err(error)))
    }

    fn room(&self) -> Future<Result<()>> {
        ready(if self.has_room() { Ok(()) } else { Err(Error::Full) }).boxed()
    }

    fn has_room(&self) -> bool {
        self.state.lock().bytes < self.options.bytes_max
    }

    fn read_tail(&self, topic: TopicId, from: Offset, limit: ReadLimit) -> TailRead {
        self.batch(topic, from, limit).map_or(TailRead::AtEnd, TailRead::Records)
    }

    fn read(&self, topic: TopicId, from: Offset, limit: ReadLimit) -> Future<Result<Batch>> {
        let covered = OffsetRange { from, to: from };
        let nothing = || Batch { covered, records: Vec::new(), damaged: Vec::new() };
        ready(Ok(self.batch(topic, from, limit).unwrap_or_else(nothing))).boxed()
    }

    fn end(&self, topic: TopicId) -> Offset {
        self.state.lock().topics.get(&topic).map_or_else(Offset::default, |topic| topic.next)
    }

    fn offset_at(&self, topic: TopicId, time: Timestamp) -> Future<Result<Offset>> {
        let state = self.state.lock();
        let offset = state.topics.get(&topic).map_or_else(Offset::default, |topic| {
            let place = topic.kept.partition_point(|kept| kept.record.publish_time < time);
            topic.kept.get(place).map_or(topic.next, |kept| kept.record.offset)
        });
        ready(Ok(offset)).boxed()
    }

    fn position(&self) -> Position {
        self.state.lock().position
    }

    fn listen(&self, listener: Arc<dyn Listener>) {
        // Only the first one counts.
        drop(self.listener.set(listener));
    }

    fn trim(&self, keep: Arc<dyn Keep>) -> Future<Result<Trimmed>> {
        let (state, figures) = (Arc::clone(&self.state), Arc::clone(&self.figures));
        let (answer, trimmed) = oneshot::channel();
        thread::spawn(move || {
            let trimmed = trim(&state, &*keep);
            figures.log_bytes.store(state.lock().bytes as u64, Ordering::Relaxed);
            answer.send(trimmed)
        });
        async { trimmed.await.map_err(|_| Error::Unavailable(Arc::new(gone()))) }.boxed()
    }
}

/// Asks `keep` without holding the lock: whoever answers may be waiting for it in a commit.
fn trim(state: &Mutex<State>, keep: &dyn Keep) -> Trimmed {
    let topics: Vec<_> =
        state.lock().topics.iter().map(|(&id, topic)| (id, topic.covered())).collect();
    let mut trimmed = Trimmed::default();
    for (id, range) in topics {
        let needed = keep.needed(id, range);
        let mut state = state.lock();
        let passed = state.checkpoint;
        let Some(topic) = state.topics.get_mut(&id) else {
            continue;
        };
        let (bytes, records) = drop_records(topic, range, &needed, passed);
        state.bytes -= bytes;
        trimmed.bytes_freed += bytes as u64;
        trimmed.records_dropped += records;
    }
    trimmed
}

/// Drops what is in `range`, not in `needed`, and at or below `passed`; returns how much that was.
fn drop_records(
    topic: &mut Topic,
    range: OffsetRange,
    needed: &[OffsetRange],
    passed: Position,
) -> (usize, u64) {
    let (mut bytes, mut records) = (0, 0);
    topic.kept.retain(|StoredRecord { position, record }| {
        let behind = needed.partition_point(|needed| needed.to <= record.offset);
        let wanted = needed.get(behind).is_some_and(|needed| needed.contains(record.offset));
        let stays = wanted || *position > passed || !range.contains(record.offset);
        if !stays {
            bytes += record.body.len();
            records += 1;
        }
        stays
    });
    (bytes, records)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use domain::{Message, SubscriptionId};

    use super::*;
    use crate::memory::open_with;
    use crate::{Checkpoint, Engine, NewRecord};

    struct Nothing;

    impl Keep for Nothing {
        fn needed(&self, _: TopicId, _: OffsetRange) -> Vec<OffsetRange> {
            Vec::new()
        }
    }

    const TOPIC: TopicId = TopicId(1);

    async fn append(engine: &Engine, data: usize) -> Result<Position> {
        let claim = engine.progress.claim(TOPIC, Offset(10)).await?;
        let message = Message { data: Bytes::from(vec![7; data]), ..Message::default() };
        let record = NewRecord { message, publish_time: Timestamp(1), addressee: None };
        let records = vec![record];
        let append = Append { topic: TOPIC, epoch: claim.epoch, first: claim.next, records };
        let (progress, urgency) = (Vec::new(), Urgency::Durable);
        engine.log.commit(Commit { appends: vec![append], progress, urgency }).await
    }

    #[tokio::test]
    async fn appends_beyond_the_bound_are_refused_until_a_trim_makes_room() {
        let engine = open_with(Options { bytes_max: 1000, ..Options::default() });
        let passed = append(&engine, 900).await.unwrap();
        assert!(matches!(append(&engine, 900).await, Err(Error::Full)));
        let acks = Commit {
            appends: Vec::new(),
            progress: vec![(
                SubscriptionId(2),
                domain::ProgressChange::Settled(vec![OffsetRange::one(Offset(10))]),
            )],
            urgency: Urgency::Durable,
        };
        engine.log.commit(acks).await.unwrap();
        let untouched = engine.log.trim(Arc::new(Nothing)).await.unwrap();
        assert_eq!(untouched, Trimmed::default(), "no checkpoint has passed it");
        let checkpoint = Checkpoint { position: passed, ..Checkpoint::default() };
        engine.progress.checkpoint(checkpoint).await.unwrap();
        let trimmed = engine.log.trim(Arc::new(Nothing)).await.unwrap();
        assert_eq!(trimmed.records_dropped, 1);
        append(&engine, 900).await.unwrap();
        assert_eq!(engine.log.end(TOPIC), Offset(12));
    }
}
