//! `MessageLog`: the only way anything about messages becomes durable.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use domain::{
    Epoch, Message, Offset, OffsetRange, ProgressChange, Record, SubscriptionId, Timestamp, TopicId,
};
use tokio::sync::oneshot;

use crate::{Error, Future, Result};

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
    /// The owner's claim; an older one is refused.
    pub epoch: Epoch,
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

/// What an engine reports to its owner. Called from the engine's own thread: must be fast and never
/// block.
pub trait Listener: Send + Sync {
    /// Records below these ends have become visible. Called in commit order, after the group is
    /// durable and its receipts have resolved: publishers learn of it first.
    fn visible(&self, ends: &[(TopicId, Offset)]);

    /// The log needs a checkpoint and a `trim` soon, or appends will have to wait.
    fn pressed(&self);

    /// The log failed for good: this process writes nothing more.
    fn failed(&self, error: &Error);
}

/// Tells which records are still needed (LOG-7).
pub trait Keep: Send + Sync {
    /// The needed offsets in `range`, ascending and disjoint; empty for an unknown topic.
    fn needed(&self, topic: TopicId, range: OffsetRange) -> Vec<OffsetRange>;
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

/// The durable log of all topics.
///
/// State is the fold of durable groups in log order. A record is visible to any read only after its
/// group is durable. Commits become durable in the order in which they were queued.
pub trait MessageLog: Send + Sync {
    /// Queues `commit` and returns at once; the receipt says when and whether it is durable.
    ///
    /// Everything in one commit is durable together or not at all. `Fenced` if an append names an
    /// old epoch or an offset other than the next; `Full` if it has appends and the disk is full
    /// (commits without appends continue from a reserve); `Unavailable` once the log has failed;
    /// `Indeterminate` if its own group failed. A refused commit changes nothing.
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

    /// The first record of `topic` published at or after `time` that is still kept, or the
    /// visible end. `Timestamp(0)` gives the earliest kept record.
    fn offset_at(&self, topic: TopicId, time: Timestamp) -> Future<Result<Offset>>;

    /// How far the log is durable.
    fn position(&self) -> Position;

    /// Sets the only listener. Call once, before the first commit.
    fn listen(&self, listener: Arc<dyn Listener>);

    /// Drops whatever `keep` does not need and the last checkpoint has passed, and moves the rest
    /// out of the way, so that log space is reused. Never drops a record because of an ack that is
    /// not durable. Runs on its own thread.
    fn trim(&self, keep: Arc<dyn Keep>) -> Future<Result<Trimmed>>;
}
