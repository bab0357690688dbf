//! Leasing: what a consumer may have now, or what it waits for.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use domain::delivery::{ConsumerId, Effects, INDEXED_MAX, Lease, LeaseRequest, LeaseStatus};
use domain::{Offset, limits};
use storage::{ReadLimit, Urgency};

use super::{State, Subscription, transforming};
use crate::error::Result;
use crate::remembered::INDEXED_EACH_MIN;
use crate::source::Source;
use crate::transform::Functions;

/// What happened to a request for leases.
pub(crate) enum Step {
    /// Something was leased, and goes through these functions before it is delivered.
    Leased(Option<Arc<Functions>>),
    /// Nothing now; the waker is called when that changes.
    Wait,
    /// Much was looked at and nothing of it could be leased; others get the lock first.
    Yield,
    /// A read from disk was begun for this consumer; the waker is called when it has ended.
    Fetch,
    /// Records are being read from disk, for this consumer or for another; the waker is called
    /// when they are there.
    WaitForFetch { is_own: bool },
}

/// A consumer's request for leases.
pub(crate) struct Ask<'ask> {
    pub(crate) consumer: ConsumerId,
    pub(crate) records_max: usize,
    pub(crate) bytes_max: usize,
    pub(crate) ack_deadline: Option<Duration>,
    /// The consumer was told to wait before; if it still stands in line, it leaves it.
    pub(crate) has_waited: bool,
    /// Pushing itself asks: it alone may while messages are pushed.
    pub(crate) is_push: bool,
    /// Those never delivered go before those that failed.
    pub(crate) prefers_fresh: bool,
    /// What was fetched from disk is kept while the consumer waits.
    pub(crate) keeps_read: bool,
    /// How much to read from disk for it, where that is necessary.
    pub(crate) fetch: ReadLimit,
    pub(crate) waker: &'ask Waker,
}

impl Subscription {
    /// Leases what `ask` may have now, or says what to wait for.
    pub(crate) fn lease(self: &Arc<Self>, ask: &mut Ask<'_>, out: &mut Vec<Lease>) -> Result<Step> {
        self.runtime.check_serving()?;
        let mut state = self.lock_attached()?;
        if std::mem::take(&mut ask.has_waited) {
            state.waiters.answer(ask.consumer);
        }
        let fetched = self.look_at_fetch(&mut state, ask.consumer, ask.waker).map_err(Into::into);
        let may_ask = if ask.is_push { Ok(()) } else { self.check_pulled(&state) };
        let step = fetched.and(may_ask).map(|()| self.step(&mut state, ask, out));
        if !matches!(step, Ok(Step::Fetch | Step::WaitForFetch { .. })) {
            // It does not wait for what it began to read, and may not look at it for long.
            self.finish_fetch_of(&mut state, ask.consumer);
        }
        state.pass_disk_on();
        self.keep_watch(&mut state);
        step
    }

    fn step(self: &Arc<Self>, state: &mut State, ask: &mut Ask<'_>, out: &mut Vec<Lease>) -> Step {
        loop {
            let end = self.runtime.log.end(self.topic.id());
            let (status, remembered_max) = self.lease_locked(state, ask, end, out);
            if !out.is_empty() {
                self.see_to_others(state, status, end, remembered_max);
                if !ask.is_push && state.waiters.in_line() > 0 {
                    self.read_ahead(state, for_two(ask.fetch, state));
                }
                return Step::Leased(state.functions.clone());
            }
            match status {
                LeaseStatus::Wanted(offset) => {
                    let may_start = state.fetch.may_start(ask.consumer);
                    if !may_start || !state.fetch.take_ahead(offset) {
                        return self.wait_for_disk(state, ask, offset);
                    }
                }
                LeaseStatus::Full => {
                    state.waiters.wait_for_room(ask.consumer, ask.waker);
                    state.waiters.wake_one();
                    if state.waiters.in_line() == 0 && !ask.keeps_read {
                        state.fetch.drop_read();
                    }
                    return Step::Wait;
                }
                LeaseStatus::More => {
                    state.waiters.expect(ask.consumer);
                    return Step::Yield;
                }
                LeaseStatus::Drained => {
                    state.waiters.wait_for_records(ask.consumer, ask.waker);
                    self.become_hungry(state);
                    let may_go_on = self.is_freed_at_once(state, remembered_max);
                    if self.runtime.log.end(self.topic.id()) == end && !may_go_on {
                        if !ask.keeps_read {
                            state.fetch.drop_read();
                        }
                        return Step::Wait;
                    }
                    // It goes on, and so must not be woken in another's place.
                    state.waiters.remove(ask.consumer);
                }
            }
        }
    }

    /// The consumer begins to read, or waits for who reads already.
    fn wait_for_disk(&self, state: &mut State, ask: &Ask<'_>, from: Offset) -> Step {
        state.waiters.wait_for_disk(ask.consumer, ask.waker);
        if !state.fetch.may_start(ask.consumer) {
            return Step::WaitForFetch { is_own: state.fetch.is_for(ask.consumer) };
        }
        if state.fetch.join_ahead(ask.consumer, from) {
            return Step::Fetch;
        }
        let limit = if ask.is_push { ask.fetch } else { for_two(ask.fetch, state) };
        let read = self.runtime.log.read(self.topic.id(), from, limit);
        state.fetch.start(ask.consumer, read);
        if let Some(outcome) = state.fetch.poll(ask.consumer, ask.waker) {
            // It was quick. Whoever waits behind this consumer must not depend on its asking.
            self.take_read(state, outcome);
            state.waiters.expect(ask.consumer);
            ask.waker.wake_by_ref();
        }
        Step::Fetch
    }

    /// Someone has leases. Whoever stands in line must not depend on that one asking again.
    fn see_to_others(
        self: &Arc<Self>,
        state: &mut State,
        status: LeaseStatus,
        end: Offset,
        remembered_max: usize,
    ) {
        if !matches!(status, LeaseStatus::Drained) {
            state.waiters.wake_one();
        } else if state.waiters.in_line() > 0 {
            self.become_hungry(state);
            let may_go_on = self.is_freed_at_once(state, remembered_max);
            if self.runtime.log.end(self.topic.id()) != end || may_go_on {
                state.waiters.wake_one();
            }
        }
    }

    /// Also says how many records the subscription may remember.
    fn lease_locked(
        self: &Arc<Self>,
        state: &mut State,
        ask: &mut Ask<'_>,
        end: Offset,
        out: &mut Vec<Lease>,
    ) -> (LeaseStatus, usize) {
        let now = self.runtime.now();
        let settings = &state.settings;
        let remembered_max = self.notes.remembered.allowance();
        let mut request = LeaseRequest {
            consumer: ask.consumer,
            records_max: fair_share(state, end, ask.records_max),
            bytes_max: ask.bytes_max,
            ack_deadline: ask.ack_deadline.unwrap_or(settings.ack_deadline),
            retained_since: self
                .topic
                .leasable_since(self.runtime.retention_at(now), settings.message_retention),
            indexed_max: remembered_max.clamp(INDEXED_EACH_MIN, INDEXED_MAX),
            remembered_max,
            prefers_fresh: ask.prefers_fresh,
        };
        if state.functions.is_some() {
            request.records_max = request.records_max.min(transforming::RECORDS_MAX);
            request.bytes_max = request.bytes_max.min(transforming::BYTES_MAX);
            request.ack_deadline = transforming::DEADLINE;
        }
        let fetched = state.fetch.read();
        let mut source = Source::new(&*self.runtime.log, self.topic.id(), fetched);
        let mut effects = Effects::default();
        let before = out.len();
        let status = state.delivery.lease(now, &request, &mut source, out, &mut effects);
        state.counts.deliveries += (out.len() - before) as u64;
        drop(self.finish(state, effects, Urgency::Ride));
        (status, remembered_max)
    }

    /// Whether it could not read on because the whole server remembers too many records, and could
    /// now. If it still cannot, it is told when it can.
    fn is_freed_at_once(self: &Arc<Self>, state: &mut State, remembered_max: usize) -> bool {
        let remembered = state.delivery.remembered();
        let indexed_max = remembered_max.max(INDEXED_EACH_MIN);
        let is_held_back = remembered >= remembered_max || state.delivery.indexed() >= indexed_max;
        if !is_held_back || state.is_held_back {
            return false;
        }
        let is_freed = self.notes.remembered.hold_back(Arc::downgrade(self), remembered);
        state.is_held_back = !is_freed;
        is_freed
    }

    pub(super) fn become_hungry(self: &Arc<Self>, state: &mut State) {
        if !state.is_hungry {
            state.is_hungry = true;
            self.readers.add_hungry(self);
        }
    }

    /// Records became visible.
    pub(crate) fn on_visible(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.is_hungry = false;
        state.waiters.wake_one();
        self.keep_watch(&mut state);
    }
}

/// How much is read at a time while others wait too: enough for two, since the next part is read
/// ahead. A larger part would keep everybody waiting for longer.
fn for_two(limit: ReadLimit, state: &State) -> ReadLimit {
    let consumers = state.waiters.in_line().clamp(1, 2);
    let records = limit.records.saturating_mul(consumers).min(limits::PULL_MESSAGES_MAX);
    ReadLimit { records: limit.records.max(records), ..limit }
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
