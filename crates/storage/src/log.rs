//! `MessageLog`: the only way anything about messages becomes durable.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use domain::{
    Message, Offset, OffsetRange, ProgressChange, Record, SubscriptionId, Timestamp, TopicId,
};
use tokio::sync::oneshot;

use crate::{Error, Future, Result};

/// Where a topic's records go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The offset of the next record.
    pub next: Offset,
    /// The publish time of the last record, so that times never decrease; 1970 if there is none.
    pub last_publish_time: Timestamp,
}

/// How far the log is durable: the number of a commit group. Always increases, across restarts too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(pub u64);

/// A message to be appended.
#[derive(Clone, Debug)]
pub struct NewRecord {
    /// What the publisher sent.
    pub message: Message,
    /// When the server received it; not before the previous record.
    pub publish_time: Timestamp,
    /// The only subscription it is meant for; `None` = all of them.
    pub addressee: Option<SubscriptionId>,
}

/// Records for the end of one topic.
#[derive(Clone, Debug)]
pub struct Append {
    /// The topic.
    pub topic: TopicId,
    /// The offset of the first record; must be the topic's next offset.
    pub first: Offset,
    /// The records, at `first`, `first + 1`, …
    pub records: Vec<NewRecord>,
}

/// Whether the caller waits for a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Committed at once; the receipt resolves when it is durable.
    Durable,
    /// Rides along with the next group, at the latest 20 ms from now; the receipt resolves at once
    /// and promises nothing. For ordinary acks and attempts.
    Ride,
}

/// Appends and changes of progress that become durable together or not at all.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Messages, by topic.
    pub appends: Vec<Append>,
    /// Progress, by subscription.
    pub progress: Vec<(SubscriptionId, ProgressChange)>,
    /// Whether the caller waits.
    pub urgency: Urgency,
}

impl Commit {
    /// An empty commit: its receipt resolves when everything queued before it is durable.
    pub fn barrier() -> Self {
        Self { appends: Vec::new(), progress: Vec::new(), urgency: Urgency::Durable }
    }
}

/// The pending answer to a commit.
#[derive(Debug)]
pub struct Receipt(Answer);

#[derive(Debug)]
enum Answer {
    Ready(Option<Result<Position>>),
    Waiting(oneshot::Receiver<Result<Position>>),
}

impl Receipt {
    /// An answer that is already known.
    pub fn ready(answer: Result<Position>) -> Self {
        Self(Answer::Ready(Some(answer)))
    }

    /// An answer that comes through `receiver`.
    pub fn waiting(receiver: oneshot::Receiver<Result<Position>>) -> Self {
        Self(Answer::Waiting(receiver))
    }

    /// Why the commit was refused when it was queued; `None` if it was accepted.
    pub fn refused(&self) -> Option<&Error> {
        match &self.0 {
            Answer::Ready(Some(Err(error))) => Some(error),
            Answer::Ready(_) | Answer::Waiting(_) => None,
        }
    }

    /// Waits for the answer, blocking this thread. For chores on their own threads, never in async
    /// code.
    pub fn wait(self) -> Result<Position> {
        match self.0 {
            Answer::Ready(answer) => answer.unwrap_or_else(|| Err(stopped())),
            Answer::Waiting(receiver) => {
                receiver.blocking_recv().unwrap_or_else(|_| Err(stopped()))
            }
        }
    }
}

impl std::future::Future for Receipt {
    type Output = Result<Position>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Answer::Ready(answer) => Poll::Ready(answer.take().unwrap_or_else(|| Err(stopped()))),
            Answer::Waiting(receiver) => Pin::new(receiver)
                .poll(context)
                .map(|answer| answer.unwrap_or_else(|_| Err(stopped()))),
        }
    }
}

/// The engine stopped before it answered.
fn stopped() -> Error {
    Error::Indeterminate(Arc::new(std::io::Error::other("the log was closed")))
}

/// How much one read may return. At least one record is returned no matter how large it is.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimit {
    /// Maximum number of records.
    pub records: usize,
    /// Maximum bytes of record bodies.
    pub bytes: usize,
}

/// Records in offset order. Offsets in `covered` without a record are gaps: they were dropped
/// because nobody needed them, and read as acked.
#[derive(Clone, Debug)]
pub struct Batch {
    /// What was examined: from the requested offset to the end of what was found.
    pub covered: OffsetRange,
    /// The records found.
    pub records: Vec<Record>,
    /// Records in `covered` with an invalid checksum: not delivered, not acked.
    pub damaged: Vec<Offset>,
}

/// The result of reading the memory tail.
#[derive(Clone, Debug)]
pub enum TailRead {
    /// Records from the requested offset on.
    Records(Batch),
    /// Nothing there yet: the offset is at the visible end (or past it).
    AtEnd,
    /// It is older than the tail held in memory: use `read`.
    NotInMemory,
}

/// What a shard reports to its owner. Called from the engine's own thread: must be fast and never
/// block. Nothing is reported once `close` has returned.
pub trait Listener: Send + Sync {
    /// Records below these ends have become visible. Called in commit order, after the group is
    /// durable and its receipts have resolved: publishers learn of it first.
    fn visible(&self, ends: &[(TopicId, Offset)]);

    /// The log needs a checkpoint and a `trim` soon, or appends will have to wait.
    fn pressed(&self);

    /// The store does not answer (`true`), or answers again (`false`). Meanwhile nothing becomes
    /// durable, and nothing is lost: commits wait.
    fn stalled(&self, stalled: bool);

    /// The shard failed for good, or has another owner (`Fenced`): nothing more is written through
    /// this handle. Other shards are not affected.
    fn failed(&self, error: &Error);
}

/// What is needed of a range of a topic's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// These offsets, ascending and disjoint.
    Only(Vec<OffsetRange>),
    /// Nothing: the topic is gone for good, and so is everyone who read it.
    Gone,
    /// The owner does not know the topic, so nothing of it may be dropped.
    Unknown,
}

/// Tells which records are still needed (LOG-7).
pub trait Keep: Send + Sync {
    /// What is needed of `range`.
    fn needed(&self, topic: TopicId, range: OffsetRange) -> Need;
}

/// What a `trim` did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// Bytes of disk that became free or reusable.
    pub bytes_freed: u64,
    /// Records moved to their topic's segments.
    pub records_moved: u64,
    /// Records dropped because nobody needs them.
    pub records_dropped: u64,
    /// Needed records whose bytes are damaged. They could not be moved; they still read as damaged.
    pub records_damaged: u64,
}

/// The durable log of the topics of one shard, as one owner holds it.
///
/// Every handle has an epoch. Once a later one was given out, by this process or another, nothing
/// that was queued through an earlier handle and is not durable yet becomes durable: appends,
/// progress, checkpoints and trims are all `Fenced`, either when they are queued or when the engine
/// finds out.
///
/// State is the fold of durable groups in log order. A record is visible to any read only after its
/// group is durable. Commits become durable in the order in which they were queued.
pub trait MessageLog: Send + Sync {
    /// Queues `commit` and returns at once; the receipt says when and whether it is durable.
    ///
    /// Everything in one commit is durable together or not at all. `Misplaced` if an append names
    /// a topic that was not begun or an offset other than the next; `Full` if it has appends and
    /// there is no space (commits without appends continue from a reserve); `Unavailable` once the
    /// log has failed or is closed; `Fenced` if the shard has another owner; `Indeterminate` if its
    /// own group failed. A refused commit changes nothing. An engine that cannot be reached is
    /// asked again until the outcome is known: a commit never happens twice.
    fn commit(&self, commit: Commit) -> Receipt;

    /// Resolves when appends may be queued: at once, unless the queue or the write-ahead log is at
    /// its limit. `Full` while the disk is full, `Unavailable` once the log has failed.
    fn room(&self) -> Future<Result<()>>;

    /// Whether `room` would resolve with `Ok` at once: the cheap check for the hot path.
    fn has_room(&self) -> bool;

    /// Visible records from `from` on, from memory only, without blocking.
    fn read_tail(&self, topic: TopicId, from: Offset, limit: ReadLimit) -> TailRead;

    /// Visible records from `from` on, from wherever they are. An empty batch with an empty
    /// `covered` means `from` is the visible end. A batch without records may cover a gap.
    fn read(&self, topic: TopicId, from: Offset, limit: ReadLimit) -> Future<Result<Batch>>;

    /// The visible end of `topic`: the offset the next visible record will have.
    fn end(&self, topic: TopicId) -> Offset;

    /// For each topic, its first record published at or after that time that is still kept, or its
    /// visible end. `Timestamp(0)` gives the earliest kept record.
    fn offsets_at(&self, times: Vec<(TopicId, Timestamp)>) -> Future<Result<Vec<Offset>>>;

    /// How far the log is durable.
    fn position(&self) -> Position;

    /// Prepares `topic` for appends; one that the log does not know yet starts at `first`. Returns
    /// where it goes on. Beginning twice does nothing more.
    fn begin(&self, topic: TopicId, first: Offset) -> Future<Result<Claim>>;

    /// Drops whatever `keep` does not need and the last checkpoint has passed, and moves the rest
    /// out of the way, so that log space is reused. Never drops a record because of an ack that is
    /// not durable, nor of a topic that `keep` does not know. Delays nobody else.
    fn trim(&self, keep: Arc<dyn Keep>) -> Future<Result<Trimmed>>;

    /// Makes durable what is queued, then releases the shard: another owner can open it at once.
    /// Later calls through this handle answer `Unavailable`. Closing twice does nothing.
    fn close(&self) -> Future<Result<()>>;
}

impl dyn MessageLog + '_ {
    /// `offsets_at` for one topic.
    pub async fn offset_at(&self, topic: TopicId, time: Timestamp) -> Result<Offset> {
        let found = self.offsets_at(vec![(topic, time)]).await?;
        Ok(found.first().copied().unwrap_or_default())
    }
}
