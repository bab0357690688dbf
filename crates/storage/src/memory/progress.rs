//! Progress in memory.

use domain::{ClockMark, Epoch, Offset, Progress, SubscriptionId, TopicId};

use super::log::{Log, check_owner};
use crate::{Checkpoint, Error, Result};

impl Log {
    pub(super) fn load(&self, starts: Vec<(SubscriptionId, Progress)>) -> Vec<Progress> {
        let state = self.state.lock();
        let load = |(subscription, start)| match state.progress.get(&subscription) {
            Some(saved) => saved.progress(start),
            None => start,
        };
        starts.into_iter().map(load).collect()
    }

    pub(super) fn checkpoint(&self, epoch: Epoch, checkpoint: Checkpoint) -> Result<()> {
        let mut state = self.state.lock();
        check_owner(&state, epoch)?;
        if checkpoint.position > state.position {
            return Err(Error::Conflict);
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
        Ok(())
    }

    pub(super) fn raise(&self, epoch: Epoch, topics: &[(TopicId, Offset)]) -> Result<()> {
        let mut state = self.state.lock();
        check_owner(&state, epoch)?;
        let is_used = |(id, next): &(TopicId, Offset)| {
            state.topics.get(id).is_none_or(|one| *next < one.next)
        };
        if topics.iter().any(is_used) {
            return Err(Error::Conflict);
        }
        for (id, next) in topics {
            if let Some(topic) = state.topics.get_mut(id) {
                topic.next = *next;
            }
        }
        Ok(())
    }

    pub(super) fn clock_mark(&self) -> Option<ClockMark> {
        self.state.lock().clock
    }
}
