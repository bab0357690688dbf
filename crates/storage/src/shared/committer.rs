//! The task that makes commits durable: one chunk for everything queued.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;

use super::chain::{self, Link};
use super::owned::{Own, Owned};
use super::patience::{Pauses, STALL_AFTER, may_pass};
use crate::front::{Publisher, Sealed, closed};
use crate::planted::Fault;
use crate::{Error, Result};

/// The committer and what only it touches.
pub(super) struct Committer {
    owned: Arc<Owned>,
    /// The last durable chunk.
    link: Link,
    publisher: Publisher,
    /// Bytes of chunks since the owner was asked for a checkpoint, or since the last one of those
    /// before it.
    unasked: u64,
}

/// A chunk did not become durable.
struct Failed {
    error: Error,
    /// Whether it may yet be found to have become so.
    is_in_doubt: bool,
}

impl Committer {
    /// A committer that goes on after `link`; so many bytes no checkpoint has passed yet.
    pub(super) fn new(owned: Arc<Owned>, link: Link, unasked: u64) -> Self {
        Self { owned, link, publisher: Publisher::default(), unasked }
    }

    /// Its life: until the handle is closed or dropped, or the shard is lost.
    pub(super) async fn run(mut self) {
        let owned = Arc::clone(&self.owned);
        let _farewell = Farewell(Arc::clone(&owned));
        while let Some(group) = owned.front.queue.next().await {
            if group.bytes.is_empty() {
                self.publisher.answer(&owned.front, group.answers, group.queued_bytes);
            } else if !self.commit(group).await {
                return;
            }
        }
        if let Some(error) = owned.lost() {
            owned.front.fail(error);
        }
    }

    /// Returns whether the shard can still be used.
    async fn commit(&mut self, mut group: Sealed<Own>) -> bool {
        let started = now();
        let owned = Arc::clone(&self.owned);
        let mut bytes = std::mem::take(&mut group.bytes);
        let link = chain::seal(owned.id, owned.epoch, self.link, &mut bytes);
        let bytes = bytes.freeze();
        if owned.options.planted.has(Fault::AnswerBeforeSync) {
            let answers = std::mem::take(&mut group.answers);
            Publisher::refuse(answers, &Ok(owned.front.position()));
        }
        match self.append(link.number, &bytes).await {
            Ok(()) => {
                self.link = link;
                self.publish(group, bytes, started);
                true
            }
            Err(failed) => {
                if owned.is_abandoned() {
                    owned.front.stop(&failed.error);
                } else {
                    owned.front.fail(&failed.error);
                }
                let answer = if failed.is_in_doubt {
                    Error::Indeterminate(Arc::new(failed.error))
                } else {
                    failed.error
                };
                Publisher::refuse(group.answers, &Err(answer));
                false
            }
        }
    }

    /// Appends one chunk: the same number and bytes again and again until it is known to be
    /// durable, or never to become so.
    async fn append(&self, number: u64, bytes: &Bytes) -> Result<(), Failed> {
        let owned = &self.owned;
        let (mut pauses, mut is_in_doubt) = (Pauses::default(), false);
        loop {
            let call = owned.chunks.append(owned.id, owned.epoch, number, bytes.clone());
            match pauses.answer(call, || self.stall(true)).await {
                Ok(()) => {
                    self.stall(false);
                    return Ok(());
                }
                Err(error) if may_pass(&error) => {
                    is_in_doubt |= matches!(error, Error::Indeterminate(_));
                }
                Err(error) => return Err(Failed { error: owned.refused(error), is_in_doubt }),
            }
            if owned.is_abandoned() {
                return Err(Failed { error: closed(), is_in_doubt });
            }
            pauses.pause().await;
            if pauses.waited >= STALL_AFTER {
                self.stall(true);
            }
        }
    }

    /// Notes whether the store answers, and tells the owner of a change.
    fn stall(&self, stalled: bool) {
        let owned = &self.owned;
        if owned.is_stalled.swap(stalled, Ordering::AcqRel) == stalled {
            return;
        }
        if stalled {
            tracing::warn!(shard = owned.id.0, "the store does not answer, commits wait");
        } else {
            tracing::info!(shard = owned.id.0, "the store answers again");
            owned.front.notify_room();
        }
        owned.front.listening.tell(|listener| listener.stalled(stalled));
    }

    fn publish(&mut self, group: Sealed<Own>, bytes: Bytes, started: Instant) {
        let owned = Arc::clone(&self.owned);
        let length = bytes.len();
        let (place, log_bytes) = {
            let mut stretches = owned.stretches.lock();
            let place = stretches.push(self.link, length);
            group.frames.iter().for_each(|frame| stretches.note(frame.topic.id));
            (place, stretches.bytes())
        };
        owned.log_bytes.store(log_bytes, Ordering::Relaxed);
        let messages = group.frames.iter().map(|frame| u64::from(frame.count)).sum();
        let figures = &owned.front.figures;
        figures.note_group(started.elapsed(), messages, length as u64, log_bytes);
        self.publisher.publish(&owned.front, group, bytes, self.link.number, |state, frame| {
            state.own.spans.push(place, frame.first, frame.time);
        });
        self.unasked += length as u64;
        if self.unasked >= owned.options.checkpoint_bytes {
            self.unasked = 0;
            owned.front.press();
        }
    }
}

/// Makes sure that nobody waits for a committer that is gone.
struct Farewell(Arc<Owned>);

impl Drop for Farewell {
    fn drop(&mut self) {
        let front = &self.0.front;
        if std::thread::panicking() {
            front.fail(&Error::unavailable("the committer has panicked"));
        } else if front.check_open().is_ok() {
            front.stop(&closed());
        }
    }
}

fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "how long a commit takes is no state")]
    Instant::now()
}
