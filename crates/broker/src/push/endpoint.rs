//! An endpoint, shared by the subscriptions that push to it: how many requests it is sent at a
//! time, and when it is sent none.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use domain::Moment;
use domain::push::Health;
use parking_lot::Mutex;

use super::breaker::{Admission, Breaker};
use super::budget::{Budget, Share};
use super::window::Window;
use crate::figures::{Cause, EndpointFigures};

/// The endpoints in use, by address. One that nobody pushes to anymore is forgotten.
pub(crate) struct Endpoints {
    budget: Arc<Budget>,
    known: Mutex<HashMap<Arc<str>, Weak<Endpoint>>>,
}

impl Endpoints {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self { budget, known: Mutex::default() }
    }

    /// The statistics of the endpoint at that address; `None` = it is not in use.
    pub(crate) fn figures(&self, now: Moment, address: &str) -> Option<EndpointFigures> {
        let endpoint = self.known.lock().get(address).and_then(Weak::upgrade)?;
        let state = endpoint.state.lock();
        let window = u32::try_from(state.window.limit()).ok()?;
        Some(EndpointFigures { window, left_alone: state.left_alone(now) })
    }

    /// The endpoint at that address: the whole address, so that a failing path does not block
    /// another one on the same host.
    pub(crate) fn get(self: &Arc<Self>, address: &str) -> Arc<Endpoint> {
        let mut known = self.known.lock();
        if let Some(endpoint) = known.get(address).and_then(Weak::upgrade) {
            return endpoint;
        }
        let address: Arc<str> = address.into();
        let endpoint = Arc::new(Endpoint {
            address: Arc::clone(&address),
            share: self.budget.share(),
            state: Mutex::new(State {
                window: Window::new(),
                breaker: Breaker::new(),
                in_flight: 0,
                paused_until: None,
                waiting: VecDeque::new(),
                called: Vec::new(),
            }),
            all: Arc::downgrade(self),
        });
        known.insert(address, Arc::downgrade(&endpoint));
        endpoint
    }
}

/// One endpoint.
pub(crate) struct Endpoint {
    address: Arc<str>,
    /// Its share of all requests in flight.
    pub(crate) share: Share,
    state: Mutex<State>,
    all: Weak<Endpoints>,
}

struct State {
    window: Window,
    breaker: Breaker,
    in_flight: usize,
    /// It asked to be sent nothing until then.
    paused_until: Option<Moment>,
    /// Pushers that wait for room, in order of arrival.
    waiting: VecDeque<Waker>,
    /// Those that were told that there is room, which is reserved for them.
    called: Vec<Waker>,
}

impl Endpoint {
    /// Asks to send one more request. If not allowed, the error says from when on it is; `None` =
    /// the waker is called when there is room.
    pub(crate) fn admit(
        self: &Arc<Self>,
        now: Moment,
        waker: &Waker,
    ) -> Result<SendPermit, Option<Moment>> {
        let mut state = self.state.lock();
        state.step_out(waker);
        if state.room() == 0 {
            state.waiting.push_back(waker.clone());
            return Err(None);
        }
        if let Some(until) = state.paused_until.filter(|until| now < *until) {
            return Err(Some(until));
        }
        let is_probe = match state.breaker.admits(now) {
            Admission::Go => false,
            Admission::Probe => true,
            Admission::WaitUntil(until) => {
                // An answer to an earlier request may show sooner that it works.
                state.waiting.push_back(waker.clone());
                return Err(Some(until));
            }
            Admission::ProbeOut => {
                state.waiting.push_back(waker.clone());
                return Err(None);
            }
        };
        state.in_flight += 1;
        Ok(SendPermit { endpoint: Arc::clone(self), is_probe, is_done: false })
    }

    /// Removes a pusher from the queue: it is about to look again on its own, or goes away.
    pub(crate) fn step_out(&self, waker: &Waker) {
        self.state.lock().step_out(waker);
    }

    /// Wakes everyone who waits: one that was told in their place may be going away.
    pub(crate) fn wake_waiting(&self) {
        let mut state = self.state.lock();
        state.called.clear();
        std::mem::take(&mut state.waiting).into_iter().for_each(Waker::wake);
    }

    /// Whether its last request was answered well.
    pub(crate) fn is_proven(&self) -> bool {
        self.share.is_proven()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let Some(all) = self.all.upgrade() else { return };
        let mut known = all.known.lock();
        // Another may have been created in the meantime.
        if known.get(&self.address).is_some_and(|known| known.strong_count() == 0) {
            known.remove(&self.address);
        }
    }
}

impl State {
    /// How many more requests there is room for, not counting what is reserved for those called.
    fn room(&self) -> usize {
        self.window.limit().saturating_sub(self.in_flight + self.called.len())
    }

    /// Why it is sent nothing at `now`, and until when: the later time counts, as in `admit`.
    fn left_alone(&self, now: Moment) -> Option<(Cause, Option<Moment>)> {
        let asked = self.paused_until.filter(|until| now < *until);
        match (asked, self.breaker.admission(now)) {
            (Some(until), Admission::WaitUntil(open)) if open > until => {
                Some((Cause::Failures, Some(open)))
            }
            (Some(until), _) => Some((Cause::RetryAfter, Some(until))),
            (None, Admission::WaitUntil(open)) => Some((Cause::Failures, Some(open))),
            (None, Admission::ProbeOut) => Some((Cause::Probe, None)),
            (None, Admission::Go | Admission::Probe) => None,
        }
    }

    fn step_out(&mut self, waker: &Waker) {
        self.called.retain(|called| !called.will_wake(waker));
        self.waiting.retain(|waiting| !waiting.will_wake(waker));
    }

    /// One request fewer is in flight: wakes as many as there is room for.
    fn leave(&mut self) {
        self.in_flight -= 1;
        for _ in 0..self.room() {
            let Some(waker) = self.waiting.pop_front() else { return };
            self.called.push(waker.clone());
            waker.wake();
        }
    }
}

/// The right to send one request. One that is dropped was not used.
pub(crate) struct SendPermit {
    endpoint: Arc<Endpoint>,
    is_probe: bool,
    is_done: bool,
}

impl SendPermit {
    /// Whether it is the probe that shows whether the endpoint works again.
    pub(crate) fn is_probe(&self) -> bool {
        self.is_probe
    }

    /// The request was acked after `latency`.
    pub(crate) fn succeed(mut self, latency: Duration) {
        self.is_done = true;
        self.endpoint.share.set_proven(true);
        let mut state = self.endpoint.state.lock();
        let in_flight = state.in_flight;
        state.window.on_success(latency, in_flight);
        if state.breaker.on_success() {
            state.window.on_recovered();
        }
        state.leave();
    }

    /// The request failed. With `pause` the endpoint asked to be sent nothing for that long.
    pub(crate) fn fail(mut self, now: Moment, health: Health, pause: Option<Duration>, seed: u64) {
        self.is_done = true;
        self.endpoint.share.set_proven(false);
        let mut state = self.endpoint.state.lock();
        state.window.on_failure(now);
        state.breaker.on_failure(now, health, seed);
        if let Some(pause) = pause {
            state.window.on_retry_after();
            state.paused_until = state.paused_until.max(Some(now.plus(pause)));
        }
        state.leave();
    }
}

impl Drop for SendPermit {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let mut state = self.endpoint.state.lock();
        if self.is_probe {
            state.breaker.on_cancelled();
        }
        state.leave();
    }
}
