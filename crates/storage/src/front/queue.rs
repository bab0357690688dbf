//! The queue of commits: checked and encoded under one short lock, drained by whoever makes groups
//! durable: a thread, or a task.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use clock::tasks;
use domain::{Epoch, Offset, ShardId, Timestamp, TopicId};
use futures::future::{Either, select};
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::Part;
use super::format::{APPEND_HEADER, record_bytes_max};
use super::group::{Forming, Sealed};
use super::topic::Topic;
use crate::{Append, Claim, Commit, Error, Position, Receipt, Result, Urgency};

/// How much a change of progress counts toward the queue's limit.
const CHANGE_BYTES: usize = 64;

/// Commits of one shard on their way to its log. Only the latest epoch may commit.
#[derive(Debug)]
pub(crate) struct Queue<S> {
    state: Mutex<State<S>>,
    wake: Condvar,
    bytes: AtomicUsize,
    shard: ShardId,
    group_bytes_max: usize,
    ride_delay: Duration,
}

#[derive(Debug)]
struct State<S> {
    /// Who may commit: every handle with a lower epoch is fenced.
    epoch: Epoch,
    /// Whether the owner has released the shard.
    released: bool,
    heads: HashMap<TopicId, Head<S>>,
    forming: Forming<S>,
    /// Full groups, ahead of the one being formed.
    sealed: VecDeque<Sealed<S>>,
    /// Whether whoever takes groups is asleep and has not been woken yet.
    asleep: bool,
    /// The sleeper, if it is a task.
    task: Option<Waker>,
    /// Why nothing is accepted anymore.
    stopped: Option<Error>,
}

/// Where to append to a topic: the end of what is queued.
#[derive(Debug)]
struct Head<S> {
    topic: Arc<Topic<S>>,
    next: Offset,
    /// When the last record was published.
    last_time: Timestamp,
}

/// What is there for who takes groups.
enum Next<S> {
    Group(Sealed<S>),
    /// Nothing yet; whether something rides.
    Nothing {
        rides: bool,
    },
    /// The queue is stopped and empty.
    End,
}

impl<S: Part> Queue<S> {
    pub(crate) fn new(
        shard: ShardId,
        tail_bytes: usize,
        group_bytes_max: usize,
        ride_delay: Duration,
    ) -> Self {
        let state = State {
            epoch: Epoch(0),
            released: true,
            heads: HashMap::new(),
            forming: Forming::new(tail_bytes),
            sealed: VecDeque::new(),
            asleep: false,
            task: None,
            stopped: None,
        };
        let (state, wake, bytes) = (Mutex::new(state), Condvar::new(), AtomicUsize::new(0));
        Self { state, wake, bytes, shard, group_bytes_max, ride_delay }
    }

    /// Bytes waiting to be written.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Lets the owner of `epoch` commit, and fences every earlier one. What they have queued is
    /// still written; a barrier tells when. No topic is begun any more.
    pub(crate) fn open(&self, epoch: Epoch) -> Result<()> {
        let mut state = self.state.lock();
        if let Some(error) = &state.stopped {
            return Err(error.clone());
        }
        self.check_epoch(&state, epoch)?;
        (state.epoch, state.released) = (epoch, false);
        state.heads.clear();
        Ok(())
    }

    /// `Fenced` if another owner came after the one of `epoch`.
    pub(crate) fn check(&self, epoch: Epoch) -> Result<()> {
        self.check_epoch(&self.state.lock(), epoch)
    }

    fn check_epoch(&self, state: &State<S>, epoch: Epoch) -> Result<()> {
        if epoch < state.epoch {
            return Err(Error::Fenced { shard: self.shard, epoch });
        }
        Ok(())
    }

    /// Lets the owner append to `topic`.
    pub(crate) fn begin(&self, epoch: Epoch, topic: Arc<Topic<S>>) -> Result<Claim> {
        let mut state = self.state.lock();
        self.check_owner(&state, epoch)?;
        let head = state.heads.entry(topic.id).or_insert_with(|| {
            let (next, last_time) = {
                let known = topic.state();
                (known.end, known.last_time)
            };
            Head { topic, next, last_time }
        });
        Ok(Claim { next: head.next, last_publish_time: head.last_time })
    }

    /// Whether `topic` was begun.
    pub(crate) fn is_begun(&self, topic: TopicId) -> bool {
        self.state.lock().heads.contains_key(&topic)
    }

    /// Whether a topic's next offset is `next`, so that nothing unseen was appended.
    pub(crate) fn is_at(&self, topic: TopicId, next: Offset) -> bool {
        self.state.lock().heads.get(&topic).is_none_or(|head| head.next == next)
    }

    /// Sets the offset of a topic's next record to `next`.
    pub(crate) fn raise(&self, topic: TopicId, next: Offset) {
        if let Some(head) = self.state.lock().heads.get_mut(&topic) {
            head.next = next;
        }
    }

    /// Checks and queues `commit` of the owner of `epoch`. `full` = appends are refused.
    pub(crate) fn commit(
        &self,
        epoch: Epoch,
        mut commit: Commit,
        full: bool,
        durable: Position,
    ) -> Receipt {
        let bytes = bytes_max(&commit);
        let mut state = self.state.lock();
        let checked = self.check_owner(&state, epoch).and_then(|()| state.check(&commit, full));
        if let Err(error) = checked {
            return Receipt::ready(Err(error));
        }
        self.queue(&mut state, &mut commit, bytes, durable)
    }

    /// Accepts nothing more from the owner of `epoch`; the receipt resolves when everything it has
    /// queued is durable.
    pub(crate) fn release(&self, epoch: Epoch) -> Receipt {
        let mut state = self.state.lock();
        if let Err(error) = self.check_owner(&state, epoch) {
            return Receipt::ready(Err(error));
        }
        state.released = true;
        self.queue(&mut state, &mut Commit::barrier(), 0, Position(0))
    }

    /// Resolves when everything that anyone has queued so far is durable.
    pub(crate) fn barrier(&self) -> Receipt {
        let mut state = self.state.lock();
        match &state.stopped {
            Some(error) => Receipt::ready(Err(error.clone())),
            None => self.queue(&mut state, &mut Commit::barrier(), 0, Position(0)),
        }
    }

    fn check_owner(&self, state: &State<S>, epoch: Epoch) -> Result<()> {
        if let Some(error) = &state.stopped {
            return Err(error.clone());
        }
        self.check_epoch(state, epoch)?;
        if state.released { Err(closed()) } else { Ok(()) }
    }

    /// Queues a checked commit.
    fn queue(
        &self,
        state: &mut State<S>,
        commit: &mut Commit,
        bytes: usize,
        durable: Position,
    ) -> Receipt {
        if state.forming.queued_bytes > 0 && !self.fits(&state.forming, bytes) {
            let sealed = state.forming.seal();
            state.sealed.push_back(sealed);
        }
        state.forming.queued_bytes += bytes;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let was_idle = state.forming.deadline.is_none();
        let urgency = commit.urgency;
        state.add(commit);
        let (receipt, wakes) = match urgency {
            Urgency::Durable => {
                let (answer, receiver) = oneshot::channel();
                state.forming.answers.push(answer);
                state.forming.urgent = true;
                (Receipt::waiting(receiver), true)
            }
            Urgency::Ride => {
                if was_idle && !state.forming.urgent {
                    state.forming.deadline = Some(now() + self.ride_delay);
                }
                (Receipt::ready(Ok(durable)), was_idle)
            }
        };
        // Whoever is busy checks the queue on its own before it sleeps.
        if wakes {
            self.wake(state);
        }
        receipt
    }

    fn wake(&self, state: &mut State<S>) {
        if !std::mem::take(&mut state.asleep) {
            return;
        }
        match state.task.take() {
            Some(task) => task.wake(),
            None => {
                self.wake.notify_one();
            }
        }
    }

    /// Whether a commit of `bytes` fits in the group being formed.
    fn fits(&self, forming: &Forming<S>, bytes: usize) -> bool {
        forming.queued_bytes + bytes <= self.group_bytes_max
            && forming.has_space(bytes + frame_headers_max(bytes))
    }

    /// The next group to write. Sleeps until there is one; `None` once the queue is stopped and
    /// empty.
    pub(crate) fn take(&self) -> Option<Sealed<S>> {
        let mut state = self.state.lock();
        loop {
            match state.next() {
                Next::Group(sealed) => return Some(sealed),
                Next::End => return None,
                Next::Nothing { .. } => {}
            }
            state.asleep = true;
            match state.forming.deadline {
                None => self.wake.wait(&mut state),
                Some(deadline) => {
                    let timed_out = self.wake.wait_until(&mut state, deadline).timed_out();
                    state.forming.urgent |= timed_out;
                }
            }
            state.asleep = false;
        }
    }

    /// The next group to write, for a task. Only one may wait at a time.
    pub(crate) async fn next(&self) -> Option<Sealed<S>> {
        loop {
            let rides = {
                let mut state = self.state.lock();
                (state.asleep, state.task) = (false, None);
                match state.next() {
                    Next::Group(sealed) => return Some(sealed),
                    Next::End => return None,
                    Next::Nothing { rides } => {
                        state.asleep = true;
                        rides
                    }
                }
            };
            if !rides {
                self.woken().await;
                continue;
            }
            let woken = std::pin::pin!(self.woken());
            if let Either::Right(_) = select(woken, tasks::sleep(self.ride_delay)).await {
                let mut state = self.state.lock();
                state.forming.urgent |= state.forming.deadline.is_some();
            }
        }
    }

    /// What can be written at once, without waiting for more.
    pub(crate) fn take_now(&self) -> Option<Sealed<S>> {
        let mut state = self.state.lock();
        let sealed = state.sealed.pop_front();
        sealed.or_else(|| (!state.forming.is_empty()).then(|| state.forming.seal()))
    }

    /// Resolves when the queue has woken whoever sleeps.
    async fn woken(&self) {
        poll_fn(|context| {
            let mut state = self.state.lock();
            if !state.asleep {
                return Poll::Ready(());
            }
            state.task = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Notes that a group of `bytes` has left the queue; returns what is left.
    pub(crate) fn done(&self, bytes: usize) -> usize {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed) - bytes
    }

    /// Accepts nothing more; what is queued is still written.
    pub(crate) fn stop(&self, why: Error) {
        let mut state = self.state.lock();
        state.stopped.get_or_insert(why);
        state.asleep = true;
        self.wake(&mut state);
    }

    /// Accepts nothing more and answers everything queued with `why`: it did not happen.
    pub(crate) fn refuse(&self, why: &Error) {
        let mut state = self.state.lock();
        state.stopped = Some(why.clone());
        let mut groups = std::mem::take(&mut state.sealed);
        groups.push_back(state.forming.seal());
        self.bytes.store(0, Ordering::Relaxed);
        state.asleep = true;
        self.wake(&mut state);
        drop(state);
        for answer in groups.into_iter().flat_map(|group| group.answers) {
            // The caller may be gone; nobody else needs the answer.
            drop(answer.send(Err(why.clone())));
        }
    }
}

impl<S: Part> State<S> {
    fn next(&mut self) -> Next<S> {
        if let Some(sealed) = self.sealed.pop_front() {
            return Next::Group(sealed);
        }
        let stopped = self.stopped.is_some();
        if self.forming.urgent || (stopped && !self.forming.is_empty()) {
            return Next::Group(self.forming.seal());
        }
        if stopped {
            return Next::End;
        }
        Next::Nothing { rides: self.forming.deadline.is_some() }
    }

    fn check(&self, commit: &Commit, full: bool) -> Result<()> {
        for (at, append) in commit.appends.iter().enumerate() {
            self.check_append(append, commit.appends.get(..at).unwrap_or_default())?;
        }
        if full && !commit.appends.is_empty() { Err(Error::Full) } else { Ok(()) }
    }

    /// `before` are the earlier appends in the same commit.
    fn check_append(&self, append: &Append, before: &[Append]) -> Result<()> {
        let topic = append.topic;
        let Some(head) = self.heads.get(&topic) else {
            return Err(Error::Misplaced { topic, next: Offset(0) });
        };
        let queued = before.iter().filter(|other| other.topic == topic);
        let next = head.next.plus(queued.map(|other| other.records.len() as u64).sum());
        if append.first == next { Ok(()) } else { Err(Error::Misplaced { topic, next }) }
    }

    /// Takes the changes and copies the records; the caller frees these, many small allocations,
    /// after the lock is released.
    fn add(&mut self, commit: &mut Commit) {
        for append in &commit.appends {
            let Some(head) = self.heads.get_mut(&append.topic) else { continue };
            let bytes: usize = append.records.iter().map(record_bytes_max).sum();
            self.forming.reserve(bytes + frame_headers_max(bytes));
            self.forming.append(&head.topic, append.first, &append.records);
            head.next = append.first.plus(append.records.len() as u64);
            if let Some(last) = append.records.last() {
                head.last_time = last.publish_time;
            }
        }
        for (subscription, change) in commit.progress.drain(..) {
            self.forming.change(subscription, change);
        }
    }
}

/// The handle was closed.
pub(crate) fn closed() -> Error {
    Error::unavailable("the shard was closed")
}

/// Maximum size of the headers for frames that hold `bytes` of records.
fn frame_headers_max(bytes: usize) -> usize {
    const FRAME_BYTES_MIN: usize = 8 << 10;
    (bytes / FRAME_BYTES_MIN + 2) * APPEND_HEADER
}

fn bytes_max(commit: &Commit) -> usize {
    let records = commit.appends.iter().flat_map(|append| &append.records);
    records.map(record_bytes_max).sum::<usize>() + commit.progress.len() * CHANGE_BYTES
}

fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "the delay of riding commits is no state")]
    Instant::now()
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
