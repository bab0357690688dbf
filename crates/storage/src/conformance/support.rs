//! What the cases share: a topic with a memory of what was appended, and checks that explain.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::{
    Epoch, Message, NodeId, Offset, OffsetRange, Progress, ProgressChange, Record, ShardId,
    SubscriptionId, Timestamp, TopicId, message,
};
use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Check, Seen, Store};
use crate::{
    Append, AttemptHistory, Catalogue, Commit, Engine, Error, Future, Keep, Kind, Listener, Member,
    MessageLog, Need, NewRecord, Position, ProgressStore, ReadLimit, Receipt, Result, Urgency,
};

pub(super) const FIRST: Offset = Offset(1_000);
/// Who opens shards, unless a case needs another.
pub(super) const NODE: NodeId = NodeId(1);
pub(super) const WIDE: ReadLimit = ReadLimit { records: 1_000, bytes: 1 << 20 };

/// `Ok` if it holds, else what was seen.
pub(super) fn hold(holds: bool, seen: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(Seen(seen())) }
}

pub(super) fn same<T: PartialEq + Debug>(what: &str, got: &T, expected: &T) -> Check {
    hold(got == expected, || format!("{what}: got {got:?}, expected {expected:?}"))
}

/// `Ok` if the call was refused with that error.
pub(super) fn refused<T: Debug>(got: &Result<T>, why: &str, is: fn(&Error) -> bool) -> Check {
    hold(got.as_ref().is_err_and(is), || format!("expected {why}, got {got:?}"))
}

pub(super) fn fenced(error: &Error) -> bool {
    matches!(error, Error::Fenced { .. })
}

pub(super) fn misplaced(error: &Error) -> bool {
    matches!(error, Error::Misplaced { .. })
}

/// A store with its first shard open, as one owner holds it.
#[derive(Clone)]
pub(super) struct Held {
    pub(super) engine: Engine,
    pub(super) epoch: Epoch,
    pub(super) log: Arc<dyn MessageLog>,
    pub(super) progress: Arc<dyn ProgressStore>,
    pub(super) catalogue: Arc<dyn Catalogue>,
    pub(super) attempts: Arc<dyn AttemptHistory>,
}

impl Held {
    /// Takes the first shard.
    pub(super) fn open(engine: &Engine) -> Future<Result<Self>> {
        Self::open_by(engine, NODE, Arc::new(Notes::default()))
    }

    /// Takes the first shard of a store.
    pub(super) fn of(store: &impl Store) -> Future<Result<Self>> {
        Self::open(&store.engine())
    }

    /// Takes it for that node, which becomes a member if the store is shared.
    pub(super) fn open_by(
        engine: &Engine,
        node: NodeId,
        listener: Arc<dyn Listener>,
    ) -> Future<Result<Self>> {
        let engine = engine.clone();
        async move {
            if let Some(members) = &engine.members {
                let (address, labels) = (format!("node {}", node.0), Vec::new());
                members.join(Member { node, address, labels }).await?;
            }
            let shard = engine.shards.open(ShardId(0), node, listener).await?;
            let (catalogue, attempts) =
                (Arc::clone(&engine.catalogue), Arc::clone(&engine.attempts));
            let (epoch, log, progress) = (shard.epoch, shard.log, shard.progress);
            Ok(Self { engine, epoch, log, progress, catalogue, attempts })
        }
        .boxed()
    }

    /// Takes the shard once more, for the same node: this handle is fenced from then on.
    pub(super) async fn again(&self) -> Result<Self> {
        Self::open(&self.engine).await
    }

    /// The progress of a subscription that started at `FIRST`.
    pub(super) async fn cursor(&self, subscription: SubscriptionId) -> Result<Offset> {
        let start = Progress::starting_at(FIRST);
        Ok(self.progress.load_one(subscription, start).await?.cursor())
    }
}

/// A topic as its owner sees it, with every record it should hold.
#[derive(Clone)]
pub(super) struct Topic {
    pub(super) id: TopicId,
    pub(super) next: Offset,
    pub(super) records: Vec<Record>,
}

impl Topic {
    /// Defines and begins a topic.
    pub(super) async fn create(held: &Held, name: &str) -> Result<Self> {
        let entry = held.catalogue.put(Kind::Topic, name, Bytes::new(), None).await?;
        let id = TopicId(entry.id);
        let claim = held.log.begin(id, FIRST).await?;
        Ok(Self { id, next: claim.next, records: Vec::new() })
    }

    /// Begins it through another handle; it must go on where it ended.
    pub(super) async fn begin(&self, held: &Held) -> Check {
        let claim = held.log.begin(self.id, Offset(5)).await?;
        same("next", &claim.next, &self.next)?;
        same("time", &claim.last_publish_time, &self.last_publish_time())
    }

    /// An append of messages with these sizes, remembered as made.
    pub(super) fn append(&mut self, sizes: &[usize]) -> Append {
        let first = self.next;
        let records: Vec<_> = (first.0..).zip(sizes).map(|(n, &size)| record(n, size)).collect();
        for new in &records {
            self.records.push(as_kept(self.next, new));
            self.next = self.next.next();
        }
        Append { topic: self.id, first, records }
    }

    pub(super) fn last_publish_time(&self) -> Timestamp {
        self.records.last().map_or(Timestamp(0), |record| record.publish_time)
    }

    /// Appends and waits until it is durable.
    pub(super) async fn publish(&mut self, held: &Held, sizes: &[usize]) -> Result<Position> {
        held.log.commit(appends(vec![self.append(sizes)])).await
    }

    /// An append of one message that does not fit the topic; nothing is remembered.
    pub(super) fn stray(&self, first: Offset) -> Append {
        Append { topic: self.id, first, records: vec![record(first.0, 10)] }
    }

    /// Checks that reading from the start finds every record, byte for byte, and the end.
    pub(super) async fn check(&self, held: &Held) -> Check {
        let read = read_all(held, self.id, FIRST, WIDE).await?;
        same("records", &read, &self.records)?;
        same("end", &held.log.end(self.id), &self.next)
    }
}

/// A message whose content and size depend on `n`; published at time `n × 10`.
fn record(n: u64, size: usize) -> NewRecord {
    let data = (0..size as u64).map(|i| (n.wrapping_mul(31) ^ i).to_le_bytes()[0]).collect();
    let attributes = if n.is_multiple_of(2) {
        BTreeMap::from([("n".to_owned(), n.to_string()), ("empty".to_owned(), String::new())])
    } else {
        BTreeMap::new()
    };
    let ordering_key = if n.is_multiple_of(3) { format!("key {n}") } else { String::new() };
    NewRecord {
        message: Message { data, attributes, ordering_key },
        publish_time: Timestamp(n * 10),
        addressee: n.is_multiple_of(5).then_some(SubscriptionId(n)),
    }
}

fn as_kept(offset: Offset, new: &NewRecord) -> Record {
    let mut body = Vec::new();
    message::encode(&new.message, offset, new.publish_time, &mut body);
    let (publish_time, addressee) = (new.publish_time, new.addressee);
    Record { offset, publish_time, addressee, body: body.into() }
}

pub(super) fn appends(appends: Vec<Append>) -> Commit {
    Commit { appends, progress: Vec::new(), urgency: Urgency::Durable }
}

pub(super) fn settles(subscription: SubscriptionId, offsets: &[u64], urgency: Urgency) -> Commit {
    let progress = vec![(subscription, settled(offsets))];
    Commit { appends: Vec::new(), progress, urgency }
}

pub(super) fn settled(offsets: &[u64]) -> ProgressChange {
    ProgressChange::Settled(offsets.iter().map(|&o| OffsetRange::one(Offset(o))).collect())
}

/// Reads step by step to the end, and checks that each step starts where it was asked to and
/// that its records lie inside what it covers.
pub(super) async fn read_all(
    held: &Held,
    topic: TopicId,
    from: Offset,
    limit: ReadLimit,
) -> Result<Vec<Record>, Seen> {
    let mut records: Vec<Record> = Vec::new();
    let mut at = from;
    loop {
        let batch = held.log.read(topic, at, limit).await?;
        same("start of what is covered", &batch.covered.from, &at)?;
        same("damaged records", &batch.damaged, &Vec::new())?;
        if batch.covered.is_empty() {
            hold(batch.records.is_empty(), || "records outside of `covered`".to_owned())?;
            return Ok(records);
        }
        for record in batch.records {
            hold(batch.covered.contains(record.offset), || {
                format!("record {} is outside of {:?}", record.offset, batch.covered)
            })?;
            hold(records.last().is_none_or(|last| last.offset < record.offset), || {
                format!("record {} is out of order", record.offset)
            })?;
            records.push(record);
        }
        at = batch.covered.to;
    }
}

/// A listener that notes every end it is told, and what the log showed at that moment.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) ends: Mutex<Vec<(TopicId, Offset)>>,
    pub(super) behind: Mutex<Vec<String>>,
    pub(super) held: Mutex<Option<Held>>,
    /// The receipt of the commit whose end is told next.
    pub(super) receipt: Mutex<Option<Receipt>>,
    /// Ends that were told before their receipt had resolved.
    pub(super) unanswered: Mutex<Vec<Offset>>,
    /// Why the shard is said to have failed.
    pub(super) failed: Mutex<Vec<Error>>,
    heard: Notify,
}

impl Notes {
    /// Takes the shard once more, with these notes as its listener.
    pub(super) async fn on(held: &Held) -> Result<(Held, Arc<Self>)> {
        let notes = Arc::new(Self::default());
        let held = Held::open_by(&held.engine, NODE, Arc::clone(&notes) as _).await?;
        *notes.held.lock() = Some(held.clone());
        Ok((held, notes))
    }

    /// Waits until it was told that the shard has another owner.
    pub(super) async fn hears_that_it_is_fenced(&self) -> Check {
        let told = async {
            while !self.failed.lock().iter().any(fenced) {
                self.heard.notified().await;
            }
        };
        let told = tokio::time::timeout(Duration::from_secs(30), told).await;
        hold(told.is_ok(), || "was never told that it is fenced".to_owned())
    }

    /// Waits until it was told this end of `topic`.
    pub(super) async fn hears_of(&self, topic: TopicId, end: Offset) -> Check {
        let told = async {
            while !self.ends.lock().contains(&(topic, end)) {
                self.heard.notified().await;
            }
        };
        let told = tokio::time::timeout(Duration::from_secs(30), told).await;
        hold(told.is_ok(), || format!("was never told the end {end}"))
    }
}

impl Listener for Notes {
    fn visible(&self, ends: &[(TopicId, Offset)]) {
        if let Some(receipt) = self.receipt.lock().take()
            && receipt.now_or_never().is_none()
        {
            self.unanswered.lock().extend(ends.iter().map(|(_, end)| *end));
        }
        // Last: whoever waits for it goes on with the next commit.
        self.ends.lock().extend_from_slice(ends);
        self.heard.notify_one();
        if let Some(held) = &*self.held.lock() {
            for (topic, end) in ends {
                let shown = held.log.end(*topic);
                if shown < *end {
                    self.behind.lock().push(format!("told {end}, but the end is {shown}"));
                }
            }
        }
    }

    fn pressed(&self) {}

    fn stalled(&self, _: bool) {}

    fn failed(&self, error: &Error) {
        self.failed.lock().push(error.clone());
        self.heard.notify_one();
    }
}

/// Needs these ranges of each topic and nothing else.
#[derive(Default)]
pub(super) struct Needs(pub(super) BTreeMap<TopicId, Vec<OffsetRange>>);

impl Keep for Needs {
    fn needed(&self, topic: TopicId, range: OffsetRange) -> Need {
        let clip = |needed: &OffsetRange| OffsetRange {
            from: needed.from.max(range.from),
            to: needed.to.min(range.to),
        };
        let needed = self.0.get(&topic).map_or(&[][..], Vec::as_slice);
        Need::Only(needed.iter().map(clip).filter(|needed| !needed.is_empty()).collect())
    }
}

/// Says the same of a whole topic; of any other that it is not known.
pub(super) struct Says(pub(super) BTreeMap<TopicId, Need>);

impl Keep for Says {
    fn needed(&self, topic: TopicId, _: OffsetRange) -> Need {
        self.0.get(&topic).cloned().unwrap_or(Need::Unknown)
    }
}
