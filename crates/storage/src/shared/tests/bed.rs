//! What the tests share: a node that opens a shard, commits, and knows what it was told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use domain::{
    Message, NodeId, Offset, OffsetRange, Progress, ProgressChange, Record, ShardId,
    SubscriptionId, Timestamp, TopicId, message,
};
use parking_lot::Mutex;

use super::super::Options;
use super::super::memory::{Faults, NoFaults, Script, Store};
use super::pool::Pool;
use crate::{
    Append, Checkpoint, Commit, Engine, Error, Keep, Listener, MessageLog, Need, NewRecord,
    ReadLimit, Result, Shard, Urgency,
};

pub(super) const SHARD: ShardId = ShardId(0);
pub(super) const TOPIC: TopicId = TopicId(7);
pub(super) const FIRST: Offset = Offset(1_000);
pub(super) const SUBSCRIPTION: SubscriptionId = SubscriptionId(77);

/// Everything so small that a few records fill it.
pub(super) fn small() -> Options {
    Options {
        tail_memory_bytes: 8 << 10,
        queue_bytes_max: 64 << 10,
        group_bytes_max: 2 << 10,
        ride_delay: Duration::from_millis(20),
        log_bytes_max: 1 << 20,
        checkpoint_bytes: 16 << 10,
        stretch_bytes: 2 << 10,
        kept_bytes: 1 << 10,
        block_bytes: 2 << 10,
        ..Options::default()
    }
}

/// A listener that notes what it is told.
#[derive(Default)]
pub(super) struct Notes {
    pub stalls: Mutex<Vec<bool>>,
    pub failed: Mutex<Option<Error>>,
    pub pressed: AtomicU64,
    pub ends: Mutex<Vec<(TopicId, Offset)>>,
}

impl Listener for Notes {
    fn visible(&self, ends: &[(TopicId, Offset)]) {
        self.ends.lock().extend_from_slice(ends);
    }

    fn pressed(&self) {
        self.pressed.fetch_add(1, Ordering::SeqCst);
    }

    fn stalled(&self, stalled: bool) {
        self.stalls.lock().push(stalled);
    }

    fn failed(&self, error: &Error) {
        assert!(self.failed.lock().replace(error.clone()).is_none(), "told twice");
    }
}

/// A node with the shard.
pub(super) struct Node {
    pub engine: Engine,
    pub shard: Shard,
    pub notes: Arc<Notes>,
}

impl Node {
    pub(super) async fn open(
        store: &Store,
        node: u64,
        options: Options,
        faults: Arc<dyn Faults>,
    ) -> Result<Self> {
        let engine = store.engine(options, faults);
        let notes = Arc::new(Notes::default());
        let listener = Arc::clone(&notes) as Arc<dyn Listener>;
        let shard = engine.shards.open(SHARD, NodeId(node), listener).await?;
        Ok(Self { engine, shard, notes })
    }

    pub(super) fn log(&self) -> &Arc<dyn MessageLog> {
        &self.shard.log
    }
}

/// A record whose message is its number.
pub(super) fn record(number: u64, bytes: usize) -> NewRecord {
    let mut data = number.to_le_bytes().to_vec();
    data.resize(bytes.max(8), 7);
    let message = Message { data: data.into(), ..Message::default() };
    NewRecord { message, publish_time: Timestamp(number * 10), addressee: None }
}

/// The bytes that a record of that number is kept with.
pub(super) fn kept(offset: Offset, number: u64, bytes: usize) -> Bytes {
    let new = record(number, bytes);
    let mut body = Vec::new();
    message::encode(&new.message, offset, new.publish_time, &mut body);
    body.into()
}

pub(super) fn append(first: Offset, numbers: &[u64], bytes: usize) -> Commit {
    let records = numbers.iter().map(|number| record(*number, bytes)).collect();
    let appends = vec![Append { topic: TOPIC, first, records }];
    Commit { appends, progress: Vec::new(), urgency: Urgency::Durable }
}

pub(super) fn settle(offsets: &[Offset], urgency: Urgency) -> Commit {
    let settled = ProgressChange::Settled(offsets.iter().copied().map(OffsetRange::one).collect());
    Commit { appends: Vec::new(), progress: vec![(SUBSCRIPTION, settled)], urgency }
}

/// Every record that can be read, from the first on.
pub(super) async fn read_all(
    log: &Arc<dyn MessageLog>,
    limit: ReadLimit,
) -> Result<(Vec<Record>, Vec<Offset>)> {
    let (mut records, mut damaged, mut from) = (Vec::new(), Vec::new(), FIRST);
    loop {
        let batch = log.read(TOPIC, from, limit).await?;
        assert_eq!(batch.covered.from, from);
        if batch.covered.is_empty() {
            assert_eq!(from.max(log.end(TOPIC)), from);
            return Ok((records, damaged));
        }
        from = batch.covered.to;
        records.extend(batch.records);
        damaged.extend(batch.damaged);
    }
}

/// Needs these offsets of the topic.
pub(super) struct Needs(pub Vec<OffsetRange>);

impl Keep for Needs {
    fn needed(&self, topic: TopicId, range: OffsetRange) -> Need {
        if topic != TOPIC {
            return Need::Unknown;
        }
        let clip = |needed: &OffsetRange| OffsetRange {
            from: needed.from.max(range.from),
            to: needed.to.min(range.to),
        };
        Need::Only(self.0.iter().map(clip).filter(|needed| !needed.is_empty()).collect())
    }
}

pub(super) const WIDE: ReadLimit = ReadLimit { records: 1_000, bytes: 1 << 20 };
pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) fn no_faults() -> Arc<dyn Faults> {
    Arc::new(NoFaults)
}

pub(super) async fn open(store: &Store, node: u64) -> Node {
    Node::open(store, node, small(), no_faults()).await.unwrap()
}

pub(super) async fn open_with(store: &Store, node: u64, script: &Arc<Script>) -> Node {
    let node = Node::open(store, node, small(), Arc::clone(script) as _).await.unwrap();
    node.log().begin(TOPIC, FIRST).await.unwrap();
    node
}

/// Publishes so many records, each in a commit of its own, and returns the end.
pub(super) async fn publish(node: &Node, count: u64, bytes: usize) -> Offset {
    let mut next = node.log().begin(TOPIC, FIRST).await.unwrap().next;
    for _ in 0..count {
        node.log().commit(append(next, &[next.0], bytes)).await.unwrap();
        next = next.next();
    }
    next
}

pub(super) async fn offsets(node: &Node) -> Vec<u64> {
    let (records, damaged) = read_all(node.log(), WIDE).await.unwrap();
    assert_eq!(damaged, []);
    records.iter().map(|record| record.offset.0).collect()
}

pub(super) async fn checkpoint(node: &Node) {
    let position = node.log().position();
    let checkpoint = Checkpoint { position, ..Checkpoint::default() };
    node.shard.progress.checkpoint(checkpoint).await.unwrap();
}

pub(super) async fn loaded(node: &Node) -> Progress {
    let start = Progress::starting_at(FIRST);
    node.shard.progress.load_one(SUBSCRIPTION, start).await.unwrap()
}

pub(super) fn is_fenced<T>(answer: &Result<T>) -> bool {
    matches!(answer, Err(Error::Fenced { .. }))
}

/// A test over an empty store of one shard.
pub(super) fn with_store<F: Future<Output = ()>>(test: impl FnOnce(Store) -> F) {
    Pool::run(1, |pool| test(Store::new(1, Arc::new(pool.clock.clone()))));
}
