//! The queue of commits: checked and encoded under one short lock, drained by the committer.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use domain::{Epoch, Offset, Timestamp, TopicId};
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::format::{APPEND_HEADER, record_bytes_max};
use super::group::{Forming, Sealed};
use super::topic::Topic;
use crate::{Append, Claim, Commit, Error, Position, Receipt, Result, Urgency};

/// How much a change of progress counts toward the queue's limit.
const CHANGE_BYTES: usize = 64;

/// Commits on their way to the log.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    bytes: AtomicUsize,
    group_bytes_max: usize,
    ride_delay: Duration,
}

#[derive(Debug)]
struct State {
    heads: HashMap<TopicId, Head>,
    forming: Forming,
    /// Full groups, ahead of the one being formed.
    sealed: VecDeque<Sealed>,
    /// Whether the committer is asleep and has not been woken yet.
    asleep: bool,
    /// Why nothing is accepted anymore.
    stopped: Option<Error>,
}

/// Who may append to a topic, and where: the end of what is queued.
#[derive(Debug)]
struct Head {
    topic: Arc<Topic>,
    epoch: Epoch,
    next: Offset,
    /// When the last record was published.
    last_time: Timestamp,
}

impl Queue {
    pub(super) fn new(tail_bytes: usize, group_bytes_max: usize, ride_delay: Duration) -> Self {
        let state = State {
            heads: HashMap::new(),
            forming: Forming::new(tail_bytes),
            sealed: VecDeque::new(),
            asleep: false,
            stopped: None,
        };
        let bytes = AtomicUsize::new(0);
        Self { state: Mutex::new(state), wake: Condvar::new(), bytes, group_bytes_max, ride_delay }
    }

    /// Bytes waiting to be written.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Lets the owner of a new epoch append to `topic`.
    pub(super) fn claim(&self, topic: Arc<Topic>, start_epoch: Epoch) -> Claim {
        let mut state = self.state.lock();
        topic.state().claimed = true;
        let head = state.heads.entry(topic.id).or_insert_with(|| {
            let (next, last_time) = {
                let known = topic.state();
                (known.end, known.last_time)
            };
            Head { topic, epoch: Epoch(0), next, last_time }
        });
        head.epoch = start_epoch.max(Epoch(head.epoch.0 + 1));
        Claim { epoch: head.epoch, next: head.next, last_publish_time: head.last_time }
    }

    /// Whether a claimed topic's next offset is `next`, so that nothing unseen was appended.
    pub(super) fn is_at(&self, topic: TopicId, next: Offset) -> bool {
        self.state.lock().heads.get(&topic).is_none_or(|head| head.next == next)
    }

    /// Sets the offset of a topic's next record to `next`.
    pub(super) fn raise(&self, topic: TopicId, next: Offset) {
        if let Some(head) = self.state.lock().heads.get_mut(&topic) {
            head.next = next;
        }
    }

    /// Checks and queues `commit`. `full` = appends are refused.
    pub(super) fn commit(&self, mut commit: Commit, full: bool, durable: Position) -> Receipt {
        let bytes = bytes_max(&commit);
        let mut state = self.state.lock();
        if let Err(error) = state.check(&commit, full) {
            return Receipt::ready(Err(error));
        }
        let state = &mut *state;
        if state.forming.queued_bytes > 0 && !self.fits(&state.forming, bytes) {
            let sealed = state.forming.seal();
            state.sealed.push_back(sealed);
        }
        state.forming.queued_bytes += bytes;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let was_idle = state.forming.deadline.is_none();
        let urgency = commit.urgency;
        state.add(&mut commit);
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
        // A busy committer checks the queue on its own before it sleeps.
        if wakes && std::mem::take(&mut state.asleep) {
            self.wake.notify_one();
        }
        receipt
    }

    /// Whether a commit of `bytes` fits in the group being formed.
    fn fits(&self, forming: &Forming, bytes: usize) -> bool {
        forming.queued_bytes + bytes <= self.group_bytes_max
            && forming.has_space(bytes + frame_headers_max(bytes))
    }

    /// The next group to write. Sleeps until there is one; `None` once the queue is stopped and
    /// empty.
    pub(super) fn take(&self) -> Option<Sealed> {
        let mut state = self.state.lock();
        loop {
            if let Some(sealed) = state.sealed.pop_front() {
                return Some(sealed);
            }
            let stopped = state.stopped.is_some();
            if state.forming.urgent || (stopped && !state.forming.is_empty()) {
                return Some(state.forming.seal());
            }
            if stopped {
                return None;
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

    /// Notes that a group of `bytes` has left the queue; returns what is left.
    pub(super) fn done(&self, bytes: usize) -> usize {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed) - bytes
    }

    /// Accepts nothing more; what is queued is still written.
    pub(super) fn stop(&self, why: Error) {
        let mut state = self.state.lock();
        state.stopped.get_or_insert(why);
        state.asleep = false;
        self.wake.notify_one();
    }

    /// Accepts nothing more and answers everything queued with `why`: it did not happen.
    pub(super) fn refuse(&self, why: &Error) {
        let mut state = self.state.lock();
        state.stopped = Some(why.clone());
        let mut groups = std::mem::take(&mut state.sealed);
        groups.push_back(state.forming.seal());
        self.bytes.store(0, Ordering::Relaxed);
        drop(state);
        for answer in groups.into_iter().flat_map(|group| group.answers) {
            // The caller may be gone; nobody else needs the answer.
            drop(answer.send(Err(why.clone())));
        }
    }
}

impl State {
    fn check(&self, commit: &Commit, full: bool) -> Result<()> {
        if let Some(error) = &self.stopped {
            return Err(error.clone());
        }
        for (at, append) in commit.appends.iter().enumerate() {
            self.check_append(append, commit.appends.get(..at).unwrap_or_default())?;
        }
        if full && !commit.appends.is_empty() { Err(Error::Full) } else { Ok(()) }
    }

    /// `before` are the earlier appends in the same commit.
    fn check_append(&self, append: &Append, before: &[Append]) -> Result<()> {
        let topic = append.topic;
        let Some(head) = self.heads.get(&topic) else {
            return Err(Error::Fenced { topic, epoch: Epoch(0), next: Offset(0) });
        };
        let queued = before.iter().filter(|other| other.topic == topic);
        let next = head.next.plus(queued.map(|other| other.records.len() as u64).sum());
        if append.epoch != head.epoch || append.first != next {
            return Err(Error::Fenced { topic, epoch: head.epoch, next });
        }
        Ok(())
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
