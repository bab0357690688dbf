//! The thread that makes commits durable: one write and one sync for everything queued.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use domain::{Offset, TopicId};

use super::format::to_u32;
use super::group::{Answer, Sealed};
use super::index::Span;
use super::store::Shared;
use super::tail::Chunk;
use super::wal::{WriteFault, Writer, Written};
use crate::{Error, Position, Result};

/// The committer and what only it touches.
pub(super) struct Committer {
    pub shared: Arc<Shared>,
    pub writer: Writer,
    /// The visible ends that a group moved, kept to reuse its memory.
    ends: Vec<(TopicId, Offset)>,
}

impl Committer {
    pub(super) fn new(shared: Arc<Shared>, writer: Writer) -> Self {
        Self { shared, writer, ends: Vec::new() }
    }

    /// The thread's main loop. Returns when the queue is stopped and empty, or the log has failed.
    pub(super) fn run(mut self) {
        let _farewell = Farewell(Arc::clone(&self.shared));
        while let Some(group) = self.shared.queue.take() {
            if group.bytes.is_empty() {
                self.answer(group.answers, group.queued_bytes);
            } else if !self.commit(group) {
                break;
            }
        }
    }

    /// Returns whether the log is still usable.
    fn commit(&mut self, mut group: Sealed) -> bool {
        let started = now();
        match self.writer.write(&mut group) {
            Ok(written) => {
                self.note(&group, started);
                self.publish(group, written);
                true
            }
            Err(fault) => {
                fail(&self.shared, group.answers, fault);
                false
            }
        }
    }

    fn note(&self, group: &Sealed, started: Instant) {
        let messages = group.frames.iter().map(|frame| u64::from(frame.count)).sum();
        let (bytes, log_bytes) = (group.bytes.len() as u64, self.shared.wal.bytes());
        self.shared.figures.note_group(started.elapsed(), messages, bytes, log_bytes);
    }

    /// Makes a durable group visible, then answers, then notifies the listener: a publisher gets
    /// its answer before any waiting consumer is woken.
    fn publish(&mut self, group: Sealed, written: Written) {
        let bytes = group.bytes.freeze();
        if !group.changes.is_empty() {
            let mut pending = self.shared.pending.lock();
            for (subscription, place) in group.changes {
                let change = bytes.get(place).unwrap_or_default();
                pending.note(subscription, written.number, change);
            }
        }
        let start = to_u32(super::format::to_usize(written.at));
        let mut topics = Vec::with_capacity(group.frames.len());
        for frame in group.frames {
            let end = frame.first.plus(u64::from(frame.count));
            let mut state = frame.topic.state();
            state.chunks.push(Chunk { first: frame.first, records: bytes.slice(frame.records()) });
            state.log.push(Span {
                sequence: written.sequence,
                start: start + to_u32(frame.start),
                end: start + to_u32(frame.end),
                first: frame.first,
                time: frame.time,
            });
            state.end = end;
            state.last_time = frame.last_time;
            drop(state);
            self.note_end(frame.topic.id, end);
            topics.push(frame.topic);
        }
        self.shared.ring.lock().push(written.number, bytes, topics);
        self.shared.position.store(written.number, Ordering::Release);
        self.answer(group.answers, group.queued_bytes);
        if let Some(listener) = self.shared.listener.get() {
            if !self.ends.is_empty() {
                listener.visible(&self.ends);
            }
            if written.rolled {
                self.shared.press();
            }
        }
        self.ends.clear();
    }

    fn note_end(&mut self, topic: TopicId, end: Offset) {
        const SEARCHED_MAX: usize = 16;
        match self.ends.iter_mut().rev().take(SEARCHED_MAX).find(|(other, _)| *other == topic) {
            Some((_, noted)) => *noted = end,
            None => self.ends.push((topic, end)),
        }
        if self.ends.len() > 4 * SEARCHED_MAX {
            // Many topics in one group: drop the duplicates that the short search missed.
            let ends: BTreeMap<_, _> = self.ends.drain(..).collect();
            self.ends.extend(ends);
        }
    }

    fn answer(&self, answers: Vec<Answer>, queued_bytes: usize) {
        let bound = self.shared.options.queue_bytes_max;
        let left = self.shared.queue.done(queued_bytes);
        let position = Position(self.shared.position.load(Ordering::Acquire));
        for answer in answers {
            // The caller may be gone; the commit is durable anyway.
            drop(answer.send(Ok(position)));
        }
        if left < bound && left.saturating_add(queued_bytes) >= bound {
            self.shared.notify_room();
        }
    }
}

fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "how long a commit takes is no state")]
    Instant::now()
}

/// Makes sure that nobody waits for a committer that is gone.
struct Farewell(Arc<Shared>);

impl Drop for Farewell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let error = std::io::Error::other("the committer has panicked");
            self.0.fail(&Error::Unavailable(Arc::new(error)));
        }
    }
}

/// This process writes nothing more. The outcome of the failed group is unknown unless nothing of
/// it was written; whatever is queued after it did not happen.
fn fail(shared: &Shared, answers: Vec<Answer>, fault: WriteFault) {
    let (error, was_written) = match fault {
        WriteFault::NotWritten(error) => (Arc::new(error), false),
        WriteFault::Unknown(error) => (Arc::new(error), true),
    };
    let unavailable = Error::Unavailable(Arc::clone(&error));
    shared.fail(&unavailable);
    let answer: Result<Position> =
        Err(if was_written { Error::Indeterminate(error) } else { unavailable });
    for waiting in answers {
        drop(waiting.send(answer.clone()));
    }
}
