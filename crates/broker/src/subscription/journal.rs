//! What a subscription leaves behind after each step: frames in the log, wake-ups, a timer.

use std::sync::{Arc, Weak};
use std::time::Duration;

use domain::delivery::{ConsumerId, Effects};
use domain::{OffsetRange, ProgressChange, SubscriptionId};
use storage::{Commit, Receipt, Urgency};

use super::jobs::Job;
use super::{State, Subscription};

/// How long a consumer that was called may take to ask; after up to twice that another is called
/// in its place. Called in vain, which is all that a busy machine leads to, costs little.
const PATIENCE: Duration = Duration::from_millis(25);

impl Subscription {
    /// Journals what changed, wakes who gained by it, and keeps the timer right. Runs under the
    /// lock, so that the order of frames in the log is the order of states.
    ///
    /// The receipt is that of the frames, if there are any.
    pub(super) fn finish(
        self: &Arc<Self>,
        state: &mut State,
        effects: Effects,
        urgency: Urgency,
    ) -> Option<Receipt> {
        self.finish_given_back(state, effects, urgency, None)
    }

    /// The same after `giver` gave something back: others are asked before it.
    pub(super) fn finish_given_back(
        self: &Arc<Self>,
        state: &mut State,
        effects: Effects,
        urgency: Urgency,
        giver: Option<ConsumerId>,
    ) -> Option<Receipt> {
        let Effects { settled, attempts, exhausted, failed, freed, returned } = effects;
        let mut changes = Vec::new();
        if !settled.is_empty() {
            changes.push((self.id, ProgressChange::Settled(settled)));
        }
        if !attempts.is_empty() {
            changes.push((self.id, ProgressChange::Attempts(attempts)));
        }
        let receipt = (!changes.is_empty()).then(|| self.journal(state, changes, urgency));
        for exhausted in exhausted {
            let subscription = Arc::clone(self);
            self.notes.given_up.add(Job { subscription, exhausted, skip: None });
        }
        for consumer in freed {
            match giver == Some(consumer) {
                true => state.waiters.owe(consumer),
                false => state.waiters.wake(consumer),
            }
        }
        match giver {
            _ if returned == 0 => {}
            Some(giver) => state.waiters.wake_another(giver),
            None => state.waiters.wake_one(),
        }
        self.note_failed(state, failed);
        self.note_unblocked(state);
        self.note_remembered(state);
        self.note_watch(state);
        self.keep_timer(state);
        receipt
    }

    /// Queues frames. A failed log has told the server already; what changed then simply does
    /// not stick.
    pub(super) fn journal(
        self: &Arc<Self>,
        state: &mut State,
        progress: Vec<(SubscriptionId, ProgressChange)>,
        urgency: Urgency,
    ) -> Receipt {
        self.note_changed(state);
        self.runtime.log.commit(Commit { appends: Vec::new(), progress, urgency })
    }

    /// Settles offsets at which no record stands, nor ever will.
    pub(crate) fn settle_gap(self: &Arc<Self>, gap: OffsetRange) {
        let mut state = self.state.lock();
        if gap.is_empty() || state.is_deleted {
            return;
        }
        let mut effects = Effects::default();
        state.delivery.settle_gap(gap, &mut effects);
        drop(self.finish(&mut state, effects, Urgency::Ride));
    }

    pub(super) fn note_changed(self: &Arc<Self>, state: &mut State) {
        if !state.is_changed {
            state.is_changed = true;
            self.notes.changed.add(Arc::clone(self));
        }
    }

    /// Keeps the server's count of remembered records right.
    pub(super) fn note_remembered(&self, state: &mut State) {
        let told = if state.is_deleted {
            self.notes.remembered.give_back(std::mem::take(&mut state.reported))
        } else {
            let own = state.delivery.remembered();
            self.notes.remembered.report(&mut state.reported, own)
        };
        self.tell_of_room(told);
    }

    /// Those that were held back are ticked by the timers: their locks are not taken while this
    /// one is held.
    pub(super) fn tell_of_room(&self, held_back: Vec<Weak<Subscription>>) {
        for one in held_back {
            self.notes.timers.add(self.runtime.clock.now(), one);
        }
    }

    /// Sees to it that consumers which were called are looked after, where others depend on that.
    pub(super) fn keep_watch(self: &Arc<Self>, state: &mut State) {
        if self.note_watch(state) {
            self.keep_timer(state);
        }
    }

    /// Whether there is something new for the timer.
    fn note_watch(&self, state: &mut State) -> bool {
        let is_new = state.check_at.is_none() && state.needs_check();
        if is_new {
            state.check_at = Some(self.runtime.clock.now().plus(PATIENCE));
        }
        is_new
    }

    fn keep_timer(self: &Arc<Self>, state: &mut State) {
        let due = [state.delivery.next_wake(), state.check_at].into_iter().flatten().min();
        let Some(at) = due else { return };
        if state.tick_at.is_none_or(|planned| at < planned) {
            state.tick_at = Some(at);
            self.notes.timers.add(at, Arc::downgrade(self));
        }
    }

    /// Deadlines passed: what they held goes to whoever waits.
    pub(crate) fn tick(self: &Arc<Self>) {
        let now = self.runtime.now();
        let mut effects = Effects::default();
        let mut state = self.state.lock();
        if state.tick_at.is_some_and(|planned| planned <= now.moment) {
            state.tick_at = None;
        }
        if state.is_deleted {
            return;
        }
        if std::mem::take(&mut state.is_held_back) {
            state.waiters.wake_one();
        }
        if state.check_at.is_some_and(|planned| planned <= now.moment) {
            state.check_at = None;
            self.finish_fetch(&mut state);
            for silent in state.waiters.check() {
                state.fetch.forget(silent);
            }
        }
        state.delivery.tick(now, &mut effects);
        drop(self.finish(&mut state, effects, Urgency::Ride));
    }
}
