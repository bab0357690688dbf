//! A subscription at run time: its settings and its `Delivery` under one short lock.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use domain::delivery::{
    AckId, ConsumerId, Delivery, Effects, Flow, Lease, LeaseRequest, LeaseStatus,
};
use domain::{
    Moment, Offset, OffsetRange, Progress, ProgressChange, SubscriptionId, SubscriptionName,
    Timestamp,
};
use parking_lot::Mutex;
use storage::{Batch, Commit, Urgency};

use crate::error::{Error, Resource, Result};
use crate::runtime::Runtime;
use crate::source::Source;
use crate::topic::Topic;
use crate::waiters::Waiters;

/// One life of a subscription.
pub struct Subscription {
    id: SubscriptionId,
    name: SubscriptionName,
    topic: Arc<Topic>,
    first: Offset,
    runtime: Arc<Runtime>,
    state: Mutex<State>,
}

struct State {
    settings: Arc<domain::Subscription>,
    version: u64,
    delivery: Delivery,
    waiters: Waiters,
    /// Somebody reads older records from disk for all of them; the others wait.
    is_fetching: bool,
    /// It is on the list of what the next checkpoint saves.
    is_changed: bool,
    /// It is on the topic's list of those to wake.
    is_hungry: bool,
    /// When the timers will tick it.
    tick_at: Option<Moment>,
    saved: Cursor,
    is_deleted: bool,
}

/// The saved cursor, as its owner may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The lowest offset that is not acked; resuming starts here.
    pub resume: Offset,
    /// Acked offsets above it.
    pub acked_above: u64,
    /// When it was saved.
    pub saved_at: Timestamp,
}

impl Cursor {
    pub(crate) fn of(progress: &Progress, saved_at: Timestamp) -> Self {
        Self { resume: progress.cursor(), acked_above: progress.acked_above_count(), saved_at }
    }
}

/// What happened to a request for leases.
pub(crate) enum Step {
    /// Something was leased.
    Leased,
    /// Older records must be fetched from this offset on; the caller now has the turn to do it.
    Fetch(Offset),
    /// Nothing now; the waker is called when that changes.
    Wait,
    /// Much was looked at and nothing of it could be leased; others get the lock first.
    Yield,
    /// Another consumer fetches what is next; the waker is called when it is done.
    WaitForFetch,
}

/// A consumer's request for leases.
pub(crate) struct Ask<'ask> {
    pub(crate) consumer: ConsumerId,
    pub(crate) records_max: usize,
    pub(crate) bytes_max: usize,
    pub(crate) ack_deadline: Option<Duration>,
    /// What the consumer fetched from disk.
    pub(crate) fetched: Option<Batch>,
    /// The consumer had the turn to fetch and gives it up with this request.
    pub(crate) ends_fetch: bool,
    /// The consumer was told to wait before; if it still stands in line, it leaves it.
    pub(crate) has_waited: bool,
    pub(crate) waker: &'ask Waker,
}

impl Subscription {
    pub(crate) fn new(
        id: SubscriptionId,
        settings: Arc<domain::Subscription>,
        version: u64,
        topic: Arc<Topic>,
        first: Offset,
        delivery: Delivery,
        runtime: Arc<Runtime>,
    ) -> Self {
        let saved = Cursor::of(delivery.progress(), runtime.clock.wall());
        let name = settings.name.clone();
        let state = State {
            settings,
            version,
            delivery,
            waiters: Waiters::default(),
            is_fetching: false,
            is_changed: false,
            is_hungry: false,
            tick_at: None,
            saved,
            is_deleted: false,
        };
        Self { id, name, topic, first, runtime, state: Mutex::new(state) }
    }

    /// Which life of the name this is.
    pub fn id(&self) -> SubscriptionId {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &SubscriptionName {
        &self.name
    }

    /// The topic it reads, living or deleted.
    pub fn topic(&self) -> &Arc<Topic> {
        &self.topic
    }

    /// The settings as last stored.
    pub fn settings(&self) -> Arc<domain::Subscription> {
        Arc::clone(&self.state.lock().settings)
    }

    /// The first offset it was ever to deliver.
    pub(crate) fn first(&self) -> Offset {
        self.first
    }

    pub(crate) fn versioned(&self) -> (Arc<domain::Subscription>, u64) {
        let state = self.state.lock();
        (Arc::clone(&state.settings), state.version)
    }

    pub(crate) fn set_settings(&self, settings: Arc<domain::Subscription>, version: u64) {
        let mut state = self.state.lock();
        state.delivery.update_settings(crate::settings::delivery(&settings));
        state.settings = settings;
        state.version = version;
        state.waiters.wake_all();
    }

    /// The cursor as it was last saved.
    pub fn cursor(&self) -> Cursor {
        self.state.lock().saved
    }

    /// Leases handed out and not settled.
    pub fn outstanding(&self) -> usize {
        self.state.lock().delivery.outstanding()
    }

    /// Settles the records that `ids` name. Late ids count too; those of records settled already
    /// change nothing. An id of another subscription refuses the whole call before it starts.
    pub fn acknowledge(self: &Arc<Self>, ids: &[AckId]) -> Result<()> {
        self.check_ids(ids)?;
        self.runtime.check_serving()?;
        let now = self.runtime.clock.now();
        let end = self.runtime.log.end(self.topic.id());
        let mut effects = Effects::default();
        let mut state = self.lock_living()?;
        for id in ids {
            state.delivery.ack(now, id, end, &mut effects);
        }
        self.finish(&mut state, effects);
        Ok(())
    }

    /// Moves the deadline of the leases that `ids` name to `deadline` from now; zero gives the
    /// records back. Ids of leases that are over are ignored.
    pub fn modify_ack_deadline(self: &Arc<Self>, ids: &[AckId], deadline: Duration) -> Result<()> {
        self.check_ids(ids)?;
        self.runtime.check_serving()?;
        let now = self.runtime.clock.now();
        let mut effects = Effects::default();
        let mut state = self.lock_living()?;
        for id in ids {
            state.delivery.extend(now, id, deadline, &mut effects);
        }
        self.finish(&mut state, effects);
        Ok(())
    }

    fn check_ids(&self, ids: &[AckId]) -> Result<()> {
        match ids.iter().position(|id| id.subscription() != self.id) {
            None => Ok(()),
            Some(at) => Err(domain::Invalid::new(
                format!("ack_ids[{at}]"),
                format!("was not given out by subscription {}", self.name),
            )
            .into()),
        }
    }

    pub(crate) fn open_consumer(&self, flow: Flow) -> Result<ConsumerId> {
        self.runtime.check_serving()?;
        Ok(self.lock_living()?.delivery.open_consumer(flow))
    }

    /// Its leases stay until their deadlines. Whoever is next in line is woken, in case the wake
    /// meant for this consumer came too late.
    pub(crate) fn close_consumer(&self, consumer: ConsumerId) {
        let mut state = self.state.lock();
        state.delivery.close_consumer(consumer);
        state.waiters.remove(consumer);
        state.waiters.wake_one();
    }

    /// The consumer that had the turn to fetch older records is done with it.
    pub(crate) fn end_fetch(&self) {
        let mut state = self.state.lock();
        state.is_fetching = false;
        state.waiters.wake_one();
    }

    /// Leases what `ask` may have now, or says what to wait for.
    pub(crate) fn lease(self: &Arc<Self>, ask: &mut Ask<'_>, out: &mut Vec<Lease>) -> Result<Step> {
        self.runtime.check_serving()?;
        let mut state = self.lock_living()?;
        if std::mem::take(&mut ask.ends_fetch) {
            state.is_fetching = false;
        }
        if std::mem::take(&mut ask.has_waited) {
            state.waiters.remove(ask.consumer);
        }
        loop {
            let end = self.runtime.log.end(self.topic.id());
            let status = self.lease_locked(&mut state, ask, end, out);
            if !out.is_empty() {
                if !matches!(status, LeaseStatus::Drained) {
                    state.waiters.wake_one();
                }
                return Ok(Step::Leased);
            }
            match status {
                LeaseStatus::Wanted(offset) if !state.is_fetching => {
                    state.is_fetching = true;
                    return Ok(Step::Fetch(offset));
                }
                LeaseStatus::Full => {
                    state.waiters.wait_for_room(ask.consumer, ask.waker);
                    state.waiters.wake_one();
                    return Ok(Step::Wait);
                }
                LeaseStatus::More => return Ok(Step::Yield),
                LeaseStatus::Wanted(_) => {
                    state.waiters.wait_for_records(ask.consumer, ask.waker);
                    self.become_hungry(&mut state);
                    return Ok(Step::WaitForFetch);
                }
                LeaseStatus::Drained => {
                    state.waiters.wait_for_records(ask.consumer, ask.waker);
                    self.become_hungry(&mut state);
                    if self.runtime.log.end(self.topic.id()) == end {
                        return Ok(Step::Wait);
                    }
                }
            }
        }
    }

    fn lease_locked(
        self: &Arc<Self>,
        state: &mut State,
        ask: &mut Ask<'_>,
        end: Offset,
        out: &mut Vec<Lease>,
    ) -> LeaseStatus {
        let request = LeaseRequest {
            consumer: ask.consumer,
            records_max: fair_share(state, end, ask.records_max),
            bytes_max: ask.bytes_max,
            ack_deadline: ask.ack_deadline.unwrap_or(state.settings.ack_deadline),
            retained_since: self.runtime.clock.wall().minus(state.settings.message_retention),
        };
        let mut source = Source::new(&*self.runtime.log, self.topic.id(), &mut ask.fetched);
        let mut effects = Effects::default();
        let now = self.runtime.clock.now();
        let status = state.delivery.lease(now, &request, &mut source, out, &mut effects);
        self.finish(state, effects);
        status
    }

    fn become_hungry(self: &Arc<Self>, state: &mut State) {
        if !state.is_hungry {
            state.is_hungry = true;
            self.topic.add_hungry(self);
        }
    }

    /// Records became visible.
    pub(crate) fn on_visible(&self) {
        let mut state = self.state.lock();
        state.is_hungry = false;
        state.waiters.wake_one();
    }

    /// Deadlines passed: what they held goes to whoever waits.
    pub(crate) fn tick(self: &Arc<Self>, now: Moment) {
        let mut state = self.state.lock();
        state.tick_at = None;
        let mut effects = Effects::default();
        state.delivery.tick(now, &mut effects);
        self.finish(&mut state, effects);
    }

    /// Journals what changed, wakes who gained by it, and keeps the timer right. Runs under the
    /// lock, so that the order of frames in the log is the order of states.
    fn finish(self: &Arc<Self>, state: &mut State, effects: Effects) {
        let mut progress = Vec::new();
        if !effects.settled.is_empty() {
            progress.push((self.id, ProgressChange::Settled(effects.settled)));
        }
        if !effects.attempts.is_empty() {
            progress.push((self.id, ProgressChange::Attempts(effects.attempts)));
        }
        if !progress.is_empty() {
            // A failed log has told the server already; the ack then simply does not stick.
            drop(self.runtime.log.commit(Commit {
                appends: Vec::new(),
                progress,
                urgency: Urgency::Ride,
            }));
            if !state.is_changed {
                state.is_changed = true;
                self.runtime.changed.add(Arc::clone(self));
            }
        }
        for consumer in effects.freed {
            state.waiters.wake_full(consumer);
        }
        if effects.returned > 0 {
            state.waiters.wake_one();
        }
        self.keep_timer(state);
    }

    fn keep_timer(self: &Arc<Self>, state: &mut State) {
        let Some(at) = state.delivery.next_wake() else { return };
        if state.tick_at.is_none_or(|planned| at < planned) {
            state.tick_at = Some(at);
            self.runtime.timers.add(at, Arc::downgrade(self));
        }
    }

    /// The progress to be checkpointed; from now on a further change asks for the next one.
    pub(crate) fn capture(&self) -> Option<Progress> {
        let mut state = self.state.lock();
        state.is_changed = false;
        (!state.is_deleted).then(|| state.delivery.progress().clone())
    }

    /// A checkpoint has this cursor now.
    pub(crate) fn mark_saved(&self, cursor: Cursor) {
        self.state.lock().saved = cursor;
    }

    /// A checkpoint did not happen: put it on the list again.
    pub(crate) fn mark_changed(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if !state.is_changed && !state.is_deleted {
            state.is_changed = true;
            self.runtime.changed.add(Arc::clone(self));
        }
    }

    /// The offsets inside `range` this subscription still needs, ascending and disjoint.
    pub(crate) fn needed(&self, range: OffsetRange, retained_from: Offset) -> Vec<OffsetRange> {
        let from = range.from.max(retained_from);
        let range = OffsetRange { from, to: range.to };
        let state = self.state.lock();
        if range.is_empty() || state.is_deleted {
            Vec::new()
        } else if state.settings.retain_acked_messages {
            vec![range]
        } else {
            state.delivery.progress().unacked_in(range)
        }
    }

    /// Ends it: whoever holds or waits for something of it is told.
    pub(crate) fn mark_deleted(&self) {
        let mut state = self.state.lock();
        state.is_deleted = true;
        state.waiters.wake_all();
    }

    /// Wakes everybody who waits, so that they see that the server stops.
    pub(crate) fn wake_all(&self) {
        self.state.lock().waiters.wake_all();
    }

    fn lock_living(&self) -> Result<parking_lot::MutexGuard<'_, State>> {
        let state = self.state.lock();
        if state.is_deleted {
            return Err(Error::NotFound(Resource::Subscription, self.name.to_string()));
        }
        Ok(state)
    }
}

/// What one consumer may take while others wait too: an equal part of what is there.
fn fair_share(state: &State, end: Offset, records_max: usize) -> usize {
    let others = state.waiters.in_line();
    if others == 0 {
        return records_max;
    }
    let available = usize::try_from(state.delivery.available(end)).unwrap_or(usize::MAX);
    available.div_ceil(others + 1).clamp(1, records_max)
}
