//! Claims and progress in memory.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use domain::{ClockMark, Epoch, Offset, Progress, SubscriptionId, Timestamp, TopicId};
use futures::FutureExt;
use futures::future::ready;
use parking_lot::Mutex;

use super::{State, Topic};
use crate::{Checkpoint, Claim, Error, Future, ProgressStore, Result};

pub(super) struct Store {
    state: Arc<Mutex<State>>,
}

impl Store {
    pub(super) fn new(state: Arc<Mutex<State>>) -> Self {
        Self { state }
    }
}

impl ProgressStore for Store {
    fn claim(&self, topic: TopicId, first: Offset) -> Future<Result<Claim>> {
        let mut state = self.state.lock();
        let unclaimed = || Topic {
            epoch: Epoch(0),
            next: first,
            last_publish_time: Timestamp(0),
            kept: VecDeque::new(),
        };
        let topic = state.topics.entry(topic).or_insert_with(unclaimed);
        topic.epoch.0 += 1;
        ready(Ok(Claim {
            epoch: topic.epoch,
            next: topic.next,
            last_publish_time: topic.last_publish_time,
        }))
        .boxed()
    }

    fn load(&self, subscription: SubscriptionId, start: Progress) -> Future<Result<Progress>> {
        let state = self.state.lock();
        let progress = match state.progress.get(&subscription) {
            Some(saved) => saved.progress(start),
            None => start,
        };
        ready(Ok(progress)).boxed()
    }

    fn checkpoint(&self, checkpoint: Checkpoint) -> Future<Result<()>> {
        let mut state = self.state.lock();
        if checkpoint.position > state.position {
            let what = io::Error::new(io::ErrorKind::InvalidInput, "checkpoint past the log's end");
            return ready(Err(Error::Unavailable(Arc::new(what)))).boxed();
        }
        state.checkpoint = state.checkpoint.max(checkpoint.position);
        state.clock = checkpoint.clock.or(state.clock);
        for (subscription, progress) in checkpoint.progress {
            state.progress.entry(subscription).or_default().checkpoint = Some(progress);
        }
        for subscription in &checkpoint.forgotten {
            state.progress.remove(subscription);
        }
        for saved in state.progress.values_mut() {
            saved.changes.retain(|(position, _)| *position > checkpoint.position);
        }
        ready(Ok(())).boxed()
    }

    fn is_copy(&self) -> bool {
        false
    }

    fn raise(&self, topics: Vec<(TopicId, Offset)>) -> Future<Result<()>> {
        let mut state = self.state.lock();
        let is_used = |(id, next): &(TopicId, Offset)| {
            state.topics.get(id).is_none_or(|one| *next < one.next)
        };
        if topics.iter().any(is_used) {
            return ready(Err(Error::Conflict)).boxed();
        }
        for (id, next) in topics {
            if let Some(topic) = state.topics.get_mut(&id) {
                topic.next = next;
            }
        }
        ready(Ok(())).boxed()
    }

    fn clock_mark(&self) -> Future<Result<Option<ClockMark>>> {
        ready(Ok(self.state.lock().clock)).boxed()
    }
}
