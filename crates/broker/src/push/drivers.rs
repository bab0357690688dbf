//! The tasks that drive a pusher: one driver, and more while there is a lot to send.
//!
//! ```text
//!   first driver   requests, answers ─┐
//!   other drivers  requests, answers ─┴─► pusher, under one lock: settles, leases
//! ```
//!
//! Each driver has its own task and requests, which it writes and whose answers it reads without
//! the pusher's lock. What the pusher as a whole waits for (records, room, the end of a pause)
//! wakes the first driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use futures::task::AtomicWaker;
use parking_lot::Mutex;

use super::flight::{Ended, Exchange};
use super::pusher::{Pusher, Turned, settling};
use super::scheduler::Shared;
use crate::subscription::Subscription;
use clock::tasks;

/// How many answers are settled at a time.
const ANSWERS_MAX: usize = 32;
/// Turns in a row before other tasks get theirs.
const TURNS_MAX: usize = 32;
/// This much work in a row shows that there is enough for another driver.
const BUSY_FROM: usize = 64;

/// A pusher and its drivers. Dropping it ends pushing, and cuts off requests in flight.
pub(super) struct Drivers {
    work: Arc<Work>,
}

/// What the drivers share.
struct Work {
    pusher: Mutex<Pusher>,
    first: Arc<Driver>,
    /// Wakes the first driver.
    caller: Waker,
    /// A bug of ours aborted a driver.
    is_broken: AtomicBool,
}

/// Requests driven by one task.
pub(super) struct Driver {
    pub(super) number: usize,
    requests: Mutex<FuturesUnordered<Exchange>>,
    waker: AtomicWaker,
}

/// Wakes a driver.
struct Caller(Arc<Driver>);

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

impl Driver {
    fn new(number: usize) -> Arc<Self> {
        Arc::new(Self { number, requests: Mutex::default(), waker: AtomicWaker::new() })
    }

    pub(super) fn wake(&self) {
        self.waker.wake();
    }

    /// Takes requests to send.
    pub(super) fn send(&self, requests: impl IntoIterator<Item = Exchange>) {
        self.requests.lock().extend(requests);
    }

    /// Cancels all of its requests at once.
    pub(super) fn cut_off(&self) {
        self.requests.lock().clear();
    }

    /// Makes progress on its requests; returns those that have ended.
    fn take_ended(&self, context: &mut Context<'_>) -> Vec<Ended> {
        let (mut requests, mut ended) = (self.requests.lock(), Vec::new());
        while ended.len() < ANSWERS_MAX
            && let Poll::Ready(Some(one)) = requests.poll_next_unpin(context)
        {
            ended.push(one);
        }
        ended
    }
}

impl Drivers {
    /// Starts pushing. `None` if there is nothing to push, or nobody to push to.
    pub(super) fn new(shared: Arc<Shared>, subscription: Arc<Subscription>) -> Option<Self> {
        let first = Driver::new(0);
        let pusher = Mutex::new(Pusher::new(shared, subscription, Arc::clone(&first))?);
        let caller = Waker::from(Arc::new(Caller(Arc::clone(&first))));
        let work = Work { pusher, first, caller, is_broken: AtomicBool::new(false) };
        Some(Self { work: Arc::new(work) })
    }

    /// Checks the settings and the server again. False: pushing ends here.
    pub(super) fn look_again(&self) -> bool {
        self.work.pusher.lock().look_again()
    }

    /// Whether it signs tokens.
    pub(super) fn needs_keys(&self) -> bool {
        self.work.pusher.lock().needs_keys()
    }

    /// Sends and settles as the first driver until there is nothing to do. Ready when everything
    /// has drained, or with `false` if a driver was aborted.
    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<bool> {
        let work = &self.work;
        work.first.waker.register(context.waker());
        if work.is_broken.load(Ordering::SeqCst) {
            return Poll::Ready(false);
        }
        let (polled, done) = work.poll(&work.first, context);
        if done >= BUSY_FROM {
            work.call_help();
        }
        polled.map(|()| true)
    }
}

impl Drop for Drivers {
    fn drop(&mut self) {
        self.work.pusher.lock().end();
    }
}

impl Work {
    /// Ready when the driver is no longer needed. Also returns how much it did.
    fn poll(&self, driver: &Arc<Driver>, context: &mut Context<'_>) -> (Poll<()>, usize) {
        let mut done = 0;
        for _ in 0..TURNS_MAX {
            let ended = driver.take_ended(context);
            done += ended.len();
            let outcomes = settling::outcomes(ended);
            let mut calling = Context::from_waker(&self.caller);
            let turned = self.pusher.lock().turn(driver, outcomes, &mut calling);
            match turned {
                Turned::On => {}
                Turned::Wait => return (Poll::Pending, done),
                Turned::Done => return (Poll::Ready(()), done),
            }
        }
        context.waker().wake_by_ref();
        (Poll::Pending, done)
    }

    /// Adds another driver, if allowed.
    fn call_help(self: &Arc<Self>) {
        let mut pusher = self.pusher.lock();
        let Some(number) = pusher.wants_driver() else { return };
        let driver = Driver::new(number);
        pusher.add_driver(Arc::clone(&driver));
        drop(pusher);
        let mut helping = Helping { work: Arc::clone(self), driver, is_done: false };
        let help = std::future::poll_fn(move |context| helping.poll(context));
        drop(tasks::spawn("push driver", tokio::task::unconstrained(help)));
    }
}

/// The work of a driver that is not the first.
struct Helping {
    work: Arc<Work>,
    driver: Arc<Driver>,
    is_done: bool,
}

impl Helping {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.driver.waker.register(context.waker());
        let (polled, _) = self.work.poll(&self.driver, context);
        self.is_done = polled.is_ready();
        polled
    }
}

impl Drop for Helping {
    fn drop(&mut self) {
        if !self.is_done {
            self.work.is_broken.store(true, Ordering::SeqCst);
            self.work.first.wake();
        }
    }
}
