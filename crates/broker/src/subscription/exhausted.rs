//! Records that were tried as often as they may be, under the subscription's lock.

use std::sync::Arc;

use domain::delivery::Effects;
use domain::{Epoch, Message, Offset, OffsetRange, ProgressChange};
use storage::{Receipt, Urgency};

use super::jobs::{JobOutcome, Trouble};
use super::{State, Subscription};
use crate::error::Result;
use crate::topic::Topic;

impl Subscription {
    /// Appends `message` to the dead letter topic and settles the record it was made from, in one
    /// commit. An error means that neither happened.
    ///
    /// With `lane` it counts as exhausted too if it blocks that lane. The lock of the
    /// subscription is taken before that of the dead letter topic's end, which may be that of its
    /// own topic.
    pub(crate) fn forward_exhausted(
        self: &Arc<Self>,
        offset: Offset,
        lane: Option<&str>,
        topic: &Topic,
        message: Message,
    ) -> Result<JobOutcome> {
        let mut state = self.lock_attached()?;
        let policy = state.settings.dead_letter_policy.as_ref();
        // Another shard has no commit in common with this one; letters go there by courier.
        let is_near = topic.shard() == self.topic.shard();
        let is_policy = is_near && policy.is_some_and(|policy| policy.topic == *topic.name());
        if !is_policy || !state.is_given_up(offset, lane) {
            return Ok(state.not_exhausted(offset));
        }
        let settled = ProgressChange::Settled(vec![OffsetRange::one(offset)]);
        // Before the commit, as `journal` does: a checkpoint past it must save this one too.
        self.note_changed(&mut state);
        let (_, receipt) = topic.queue(vec![message], vec![(self.id, settled)])?;
        state.dead_letters.forwarded += 1;
        state.dead_letters.forget_error();
        // What else this settles rides behind that commit: the order of frames stays that of
        // states.
        drop(self.settle_locked(&mut state, offset, Urgency::Ride));
        Ok(JobOutcome::Settled(Some(receipt)))
    }

    /// Settles a record whose letter is in a dead letter topic of another shard.
    pub(crate) fn settle_forwarded(
        self: &Arc<Self>,
        offset: Offset,
        lane: Option<&str>,
        urgency: Urgency,
    ) -> Result<JobOutcome> {
        self.settle_given_up(offset, lane, urgency, |letters| {
            letters.forwarded += 1;
            letters.forget_error();
        })
    }

    /// A letter could not be taken to another shard, and is tried again.
    pub(crate) fn note_not_forwarded(&self, error: String) {
        let now = self.runtime.clock.now();
        if self.state.lock().dead_letters.note_error(now, error.clone()) {
            tracing::warn!(subscription = %self.name, error, "cannot dead-letter a message yet");
        }
    }

    /// How often it went back, as its ack ids tell, and below what everything is settled.
    pub(crate) fn standing(&self) -> ((Epoch, u64), Offset) {
        let state = self.state.lock();
        let progress = state.delivery.progress();
        (progress.void_before(), progress.cursor())
    }

    /// Settles an exhausted record, or one that blocks `lane`.
    pub(crate) fn settle_exhausted(
        self: &Arc<Self>,
        offset: Offset,
        lane: Option<&str>,
        urgency: Urgency,
    ) -> Result<JobOutcome> {
        self.settle_given_up(offset, lane, urgency, |_| {})
    }

    fn settle_given_up(
        self: &Arc<Self>,
        offset: Offset,
        lane: Option<&str>,
        urgency: Urgency,
        note: impl FnOnce(&mut Trouble),
    ) -> Result<JobOutcome> {
        let mut state = self.lock_attached()?;
        if !state.is_given_up(offset, lane) {
            return Ok(state.not_exhausted(offset));
        }
        note(&mut state.dead_letters);
        Ok(JobOutcome::Settled(self.settle_locked(&mut state, offset, urgency)))
    }

    /// Settles such a record that nobody will get.
    pub(crate) fn drop_exhausted(
        self: &Arc<Self>,
        offset: Offset,
        lane: Option<&str>,
        urgency: Urgency,
    ) -> Result<JobOutcome> {
        let mut state = self.lock_attached()?;
        // A policy that was given in the meantime has asked for it to be forwarded already.
        let has_policy = lane.is_none() && state.settings.dead_letter_policy.is_some();
        if has_policy || !state.is_given_up(offset, lane) {
            return Ok(state.not_exhausted(offset));
        }
        let receipt = self.settle_locked(&mut state, offset, urgency);
        state.dead_letters.dropped += 1;
        Ok(JobOutcome::Settled(receipt))
    }

    fn settle_locked(
        self: &Arc<Self>,
        state: &mut State,
        offset: Offset,
        urgency: Urgency,
    ) -> Option<Receipt> {
        let mut effects = Effects::default();
        if !state.delivery.is_exhausted(offset) {
            state.delivery.skip(offset, &mut effects);
            effects.exhausted.clear();
        }
        state.delivery.settle_exhausted(self.runtime.now(), offset, &mut effects);
        self.finish(state, effects, urgency)
    }

    /// Gives an exhausted record back, to be tried once more: `error` is why it could not go.
    pub(crate) fn spare_exhausted(
        self: &Arc<Self>,
        offset: Offset,
        error: String,
    ) -> Result<JobOutcome> {
        let now = self.runtime.now();
        let mut effects = Effects::default();
        let mut state = self.lock_attached()?;
        if state.dead_letters.note_error(now.moment, error.clone()) {
            tracing::error!(subscription = %self.name, error, "cannot dead-letter a message");
        }
        state.delivery.spare(now, offset, &mut effects);
        drop(self.finish(&mut state, effects, Urgency::Ride));
        Ok(JobOutcome::NotExhausted)
    }
}

impl State {
    /// Whether a record is exhausted, or blocks `lane` of which an operator gives it up.
    fn is_given_up(&self, offset: Offset, lane: Option<&str>) -> bool {
        let delivery = &self.delivery;
        let blocks = |key| {
            delivery.blocked_by(key) == Some(offset)
                || delivery.attempts_unread().iter().any(|&(unread, _)| unread == offset)
        };
        delivery.is_exhausted(offset) || lane.is_some_and(blocks)
    }

    fn not_exhausted(&self, offset: Offset) -> JobOutcome {
        if self.delivery.progress().is_acked(offset) {
            JobOutcome::AlreadySettled
        } else {
            JobOutcome::NotExhausted
        }
    }
}
