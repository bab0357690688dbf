//! Makes commits durable: one write and one sync for everything queued.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clock::tasks;
use parking_lot::Mutex;

use super::format::{to_u32, to_usize};
use super::index::Span;
use super::store::Shared;
use super::topic::Places;
use super::wal::{WriteFault, Writer, Written};
use crate::Error;
use crate::front::{Answer, Publisher, Sealed};

/// How long a task waits for a disk that is full.
const LATER: Duration = Duration::from_millis(500);

/// The committer and what only it touches.
pub(super) struct Committer {
    shared: Arc<Shared>,
    writer: Writer,
    publisher: Publisher,
    /// A group that could not be written yet.
    waiting: Option<Sealed<Places>>,
}

/// What became of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It is durable.
    Durable,
    /// It has to wait for space.
    Waits,
    /// The log is not usable any more.
    Failed,
}

impl Committer {
    pub(super) fn new(shared: Arc<Shared>, writer: Writer) -> Self {
        Self { shared, writer, publisher: Publisher::default(), waiting: None }
    }

    /// The thread's main loop. Returns when the queue is stopped and empty, or the log has failed.
    pub(super) fn run(mut self) {
        let _farewell = Farewell(Arc::clone(&self.shared));
        while let Some(group) = self.shared.front.queue.take() {
            if self.commit(group) != Outcome::Durable {
                break;
            }
        }
    }

    /// The same as a task, for a simulation. Whoever closes the store may write the rest.
    pub(super) async fn run_as_task(committer: Arc<Mutex<Self>>) {
        let shared = Arc::clone(&committer.lock().shared);
        // A store that was closed or dropped meanwhile writes nothing more.
        while shared.front.check_open().is_ok() {
            let waiting = committer.lock().waiting.take();
            let group = match waiting {
                Some(group) => group,
                None => match shared.front.queue.next().await {
                    Some(group) => group,
                    None => return,
                },
            };
            let outcome = committer.lock().commit(group);
            match outcome {
                Outcome::Durable => {}
                Outcome::Waits => tasks::sleep(LATER).await,
                Outcome::Failed => return,
            }
        }
    }

    /// Writes all that is queued, once.
    pub(super) fn drain(&mut self) {
        let mut group = self.waiting.take();
        while let Some(next) = group.take().or_else(|| self.shared.front.queue.take_now()) {
            if self.commit(next) != Outcome::Durable {
                return;
            }
        }
    }

    fn commit(&mut self, mut group: Sealed<Places>) -> Outcome {
        if group.bytes.is_empty() {
            self.publisher.answer(&self.shared.front, group.answers, group.queued_bytes);
            return Outcome::Durable;
        }
        let started = now();
        match self.writer.write(&mut group) {
            Ok(written) => {
                self.note(&group, started);
                self.publish(group, written);
                Outcome::Durable
            }
            Err(WriteFault::NotYet) => {
                self.waiting = Some(group);
                Outcome::Waits
            }
            Err(fault) => {
                fail(&self.shared, group.answers, fault);
                Outcome::Failed
            }
        }
    }

    fn note(&self, group: &Sealed<Places>, started: Instant) {
        let messages = group.frames.iter().map(|frame| u64::from(frame.count)).sum();
        let (bytes, log_bytes) = (group.bytes.len() as u64, self.shared.wal.bytes());
        self.shared.front.figures.note_group(started.elapsed(), messages, bytes, log_bytes);
    }

    fn publish(&mut self, mut group: Sealed<Places>, written: Written) {
        let bytes = std::mem::take(&mut group.bytes).freeze();
        let front = &self.shared.front;
        let start = to_u32(to_usize(written.at));
        self.publisher.publish(front, group, bytes, written.number, |state, frame| {
            state.own.log.push(Span {
                sequence: written.sequence,
                start: start + to_u32(frame.start),
                end: start + to_u32(frame.end),
                first: frame.first,
                time: frame.time,
            });
        });
        if written.rolled {
            front.press();
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
            self.0.front.fail(&Error::unavailable("the committer has panicked"));
        }
    }
}

/// This process writes nothing more. The outcome of the failed group is unknown unless nothing of
/// it was written; whatever is queued after it did not happen.
fn fail(shared: &Shared, answers: Vec<Answer>, fault: WriteFault) {
    let (error, was_written) = match fault {
        WriteFault::NotWritten(error) => (error, false),
        WriteFault::Unknown(error) => (error, true),
        WriteFault::NotYet => (io::ErrorKind::StorageFull.into(), false),
    };
    let cause: crate::Cause = Arc::new(error);
    let unavailable = Error::Unavailable(Arc::clone(&cause));
    shared.front.fail(&unavailable);
    let answer = if was_written { Error::Indeterminate(cause) } else { unavailable };
    Publisher::refuse(answers, &Err(answer));
}
