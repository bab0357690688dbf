//! Messages in memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::BytesMut;
use domain::{Epoch, Offset, OffsetRange, Record, Timestamp, TopicId, message};
use parking_lot::Mutex;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::herald::{self, News};
use super::shard::SHARD;
use super::{Options, State, StoredRecord, Topic};
use crate::front::{Listening, closed};
use crate::{
    Append, Batch, Claim, Commit, Error, Keep, Listener, LogFigures, Need, Position, ReadLimit,
    Receipt, Result, Trimmed, Urgency,
};

/// The log of all topics.
///
/// A commit takes effect inside `commit`; the herald then answers the caller and notifies the
/// listener.
pub(super) struct Log {
    pub(super) state: Mutex<State>,
    options: Options,
    listening: Arc<Listening>,
    herald: UnboundedSender<News>,
    pub(super) figures: Arc<LogFigures>,
}

impl Log {
    pub(super) fn new(options: Options) -> Self {
        let listening = Arc::new(Listening::new(SHARD));
        let herald = herald::start(Arc::clone(&listening));
        let (state, figures) = (Mutex::default(), Arc::default());
        Self { state, options, listening, herald, figures }
    }

    /// Gives the log to a new owner: when this returns, earlier ones were told all that they did.
    pub(super) async fn take_over(&self, listener: Arc<dyn Listener>) -> Result<Epoch> {
        let (epoch, told) = {
            let mut state = self.state.lock();
            state.epoch.0 += 1;
            state.begun.clear();
            (state.epoch, self.announce(&state, Vec::new()))
        };
        told?.await?;
        check_owner(&self.state.lock(), epoch)?;
        self.listening.begin(epoch, listener);
        Ok(epoch)
    }

    /// Tells the owner of `epoch` nothing more.
    pub(super) fn release(&self, epoch: Epoch) {
        self.listening.end(epoch);
    }

    /// The commit's effect and its announcement, under one lock so that they happen in the same
    /// order.
    pub(super) fn commit(&self, epoch: Epoch, commit: Commit) -> Result<Receipt> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        check_owner(state, epoch)?;
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
        let told = self.announce(state, nexts.into_iter().collect())?;
        drop(guard);
        Ok(match commit.urgency {
            Urgency::Durable => told,
            Urgency::Ride => Receipt::ready(Ok(position)),
        })
    }

    /// Has the herald tell of what was done; the receipt resolves when it is this one's turn.
    fn announce(&self, state: &State, ends: Vec<(TopicId, Offset)>) -> Result<Receipt> {
        let (answer, told) = oneshot::channel();
        let news = News { ends, position: state.position, answer: Some(answer) };
        self.herald.send(news).map_err(|_| closed())?;
        Ok(Receipt::waiting(told))
    }

    /// Prepares a topic for appends.
    pub(super) fn begin(&self, epoch: Epoch, topic: TopicId, first: Offset) -> Result<Claim> {
        let mut state = self.state.lock();
        check_owner(&state, epoch)?;
        state.begun.insert(topic);
        let new = || Topic { next: first, last_publish_time: Timestamp(0), kept: VecDeque::new() };
        let topic = state.topics.entry(topic).or_insert_with(new);
        Ok(Claim { next: topic.next, last_publish_time: topic.last_publish_time })
    }

    pub(super) fn has_room(&self) -> bool {
        self.state.lock().bytes < self.options.bytes_max
    }

    /// Records from `from` on; `None` at the end.
    pub(super) fn batch(&self, topic: TopicId, from: Offset, limit: ReadLimit) -> Option<Batch> {
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

    pub(super) fn end(&self, topic: TopicId) -> Offset {
        self.state.lock().topics.get(&topic).map_or_else(Offset::default, |topic| topic.next)
    }

    pub(super) fn offsets_at(&self, times: &[(TopicId, Timestamp)]) -> Vec<Offset> {
        let state = self.state.lock();
        let find = |(topic, time): &(TopicId, Timestamp)| {
            let Some(topic) = state.topics.get(topic) else { return Offset::default() };
            let place = topic.kept.partition_point(|kept| kept.record.publish_time < *time);
            topic.kept.get(place).map_or(topic.next, |kept| kept.record.offset)
        };
        times.iter().map(find).collect()
    }

    pub(super) fn position(&self) -> Position {
        self.state.lock().position
    }

    /// Asks `keep` without holding the lock: whoever answers may be waiting for it in a commit.
    pub(super) fn trim(&self, epoch: Epoch, keep: &dyn Keep) -> Result<Trimmed> {
        let topics: Vec<_> = {
            let state = self.state.lock();
            check_owner(&state, epoch)?;
            state.topics.iter().map(|(&id, topic)| (id, topic.covered())).collect()
        };
        let mut trimmed = Trimmed::default();
        for (id, range) in topics {
            let needed = match keep.needed(id, range) {
                Need::Only(needed) => needed,
                Need::Gone => Vec::new(),
                Need::Unknown => continue,
            };
            let mut state = self.state.lock();
            check_owner(&state, epoch)?;
            let passed = state.checkpoint;
            let Some(topic) = state.topics.get_mut(&id) else { continue };
            let (bytes, records) = drop_records(topic, range, &needed, passed);
            state.bytes -= bytes;
            trimmed.bytes_freed += bytes as u64;
            trimmed.records_dropped += records;
        }
        let bytes = self.state.lock().bytes;
        self.figures.log_bytes.store(bytes as u64, Ordering::Relaxed);
        Ok(trimmed)
    }
}

/// `Fenced` unless `epoch` is that of the current owner.
pub(super) fn check_owner(state: &State, epoch: Epoch) -> Result<()> {
    if epoch == state.epoch { Ok(()) } else { Err(Error::Fenced { shard: SHARD, epoch }) }
}

/// Checks that every append is allowed; returns the topics' next offsets afterwards.
fn check(state: &State, appends: &[Append]) -> Result<BTreeMap<TopicId, Offset>> {
    let mut nexts = BTreeMap::new();
    for append in appends {
        let known = state.topics.get(&append.topic);
        let known = known.filter(|_| state.begun.contains(&append.topic));
        let next = nexts.entry(append.topic).or_insert(known.map_or(Offset(0), |topic| topic.next));
        if known.is_none() || append.first != *next {
            return Err(Error::Misplaced { topic: append.topic, next: *next });
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
    use domain::{Message, NodeId, SubscriptionId};

    use super::*;
    use crate::memory::open_with;
    use crate::{Checkpoint, NewRecord, Shard};

    struct Nothing;

    impl Keep for Nothing {
        fn needed(&self, _: TopicId, _: OffsetRange) -> Need {
            Need::Gone
        }
    }

    struct Deaf;

    impl Listener for Deaf {
        fn visible(&self, _: &[(TopicId, Offset)]) {}
        fn pressed(&self) {}
        fn stalled(&self, _: bool) {}
        fn failed(&self, _: &Error) {}
    }

    const TOPIC: TopicId = TopicId(1);

    async fn append(shard: &Shard, data: usize) -> Result<Position> {
        let claim = shard.log.begin(TOPIC, Offset(10)).await?;
        let message = Message { data: Bytes::from(vec![7; data]), ..Message::default() };
        let record = NewRecord { message, publish_time: Timestamp(1), addressee: None };
        let append = Append { topic: TOPIC, first: claim.next, records: vec![record] };
        let (progress, urgency) = (Vec::new(), Urgency::Durable);
        shard.log.commit(Commit { appends: vec![append], progress, urgency }).await
    }

    #[tokio::test]
    async fn appends_beyond_the_bound_are_refused_until_a_trim_makes_room() {
        let engine = open_with(Options { bytes_max: 1000, ..Options::default() });
        let shard = engine.shards.open(SHARD, NodeId(1), Arc::new(Deaf)).await.unwrap();
        let passed = append(&shard, 900).await.unwrap();
        assert!(matches!(append(&shard, 900).await, Err(Error::Full)));
        let acks = Commit {
            appends: Vec::new(),
            progress: vec![(
                SubscriptionId(2),
                domain::ProgressChange::Settled(vec![OffsetRange::one(Offset(10))]),
            )],
            urgency: Urgency::Durable,
        };
        shard.log.commit(acks).await.unwrap();
        let untouched = shard.log.trim(Arc::new(Nothing)).await.unwrap();
        assert_eq!(untouched, Trimmed::default(), "no checkpoint has passed it");
        let checkpoint = Checkpoint { position: passed, ..Checkpoint::default() };
        shard.progress.checkpoint(checkpoint).await.unwrap();
        let trimmed = shard.log.trim(Arc::new(Nothing)).await.unwrap();
        assert_eq!(trimmed.records_dropped, 1);
        append(&shard, 900).await.unwrap();
        assert_eq!(shard.log.end(TOPIC), Offset(12));
    }
}
