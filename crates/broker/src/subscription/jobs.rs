//! Records that a subscription gives up: notes for the chore that forwards or drops them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use domain::Moment;
use domain::delivery::Exhausted;
use parking_lot::Mutex;
use storage::{Receipt, Urgency};
use tokio::sync::{Notify, oneshot};

use super::Subscription;
use crate::error::Result;

/// That a dead letter topic cannot be reached is logged at most this often per subscription.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// A record to be forwarded or dropped.
pub(crate) struct Job {
    pub(crate) subscription: Arc<Subscription>,
    pub(crate) exhausted: Exhausted,
    /// An operator gives it up, and waits until that is durable.
    pub(crate) skip: Option<Skip>,
}

/// An operator's wish to give up what blocks a lane.
pub(crate) struct Skip {
    /// The lane.
    pub(crate) key: String,
    pub(crate) answer: oneshot::Sender<Result<()>>,
}

impl Job {
    /// The lane of which an operator gives this up.
    pub(crate) fn lane(&self) -> Option<&str> {
        self.skip.as_ref().map(|skip| skip.key.as_str())
    }

    /// Whether someone waits for it to be durable.
    pub(crate) fn urgency(&self) -> Urgency {
        if self.skip.is_some() { Urgency::Durable } else { Urgency::Ride }
    }
}

/// What waits for the task. Every record in it counts as known to its subscription, whose number
/// of those is bounded.
pub(crate) struct Jobs {
    /// `None` once the server stops.
    waiting: Mutex<Option<VecDeque<Job>>>,
    added: Notify,
}

impl Jobs {
    /// Jobs may come.
    pub(crate) fn open() -> Self {
        Self { waiting: Mutex::new(Some(VecDeque::new())), added: Notify::new() }
    }

    /// Takes a job, unless the server stops: then whoever waits for it is told so.
    pub(crate) fn add(&self, job: Job) {
        if let Some(waiting) = &mut *self.waiting.lock() {
            waiting.push_back(job);
            self.added.notify_one();
        }
    }

    /// Takes no more; what waits is found again after the next start.
    pub(crate) fn close(&self) {
        *self.waiting.lock() = None;
    }

    /// Takes up to `max` more of the same subscription that wait next in line.
    pub(crate) fn take_of(&self, subscription: &Arc<Subscription>, max: usize) -> Vec<Job> {
        let mut waiting = self.waiting.lock();
        let Some(waiting) = &mut *waiting else { return Vec::new() };
        let is_of = |job: &Job| Arc::ptr_eq(&job.subscription, subscription);
        let count = waiting.iter().take(max).take_while(|job| is_of(job)).count();
        waiting.drain(..count).collect()
    }

    pub(crate) async fn next(&self) -> Job {
        loop {
            let added = self.added.notified();
            let job = self.waiting.lock().as_mut().and_then(VecDeque::pop_front);
            if let Some(job) = job {
                return job;
            }
            added.await;
        }
    }
}

/// What a subscription's dead letters came to.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    /// How many went to the dead letter topic.
    pub(crate) forwarded: u64,
    /// How many were dropped.
    pub(crate) dropped: u64,
    last_error: Option<String>,
    logged_at: Option<Moment>,
}

impl Trouble {
    pub(crate) fn last_error(&self) -> Option<String> {
        self.last_error.clone()
    }

    pub(crate) fn forget_error(&mut self) {
        self.last_error = None;
    }

    /// Notes an error; whether it is time to log it.
    pub(crate) fn note_error(&mut self, now: Moment, error: String) -> bool {
        self.last_error = Some(error);
        let is_due = self.logged_at.is_none_or(|logged_at| now.since(logged_at) >= LOG_EVERY);
        if is_due {
            self.logged_at = Some(now);
        }
        is_due
    }
}

/// What became of a record.
pub(crate) enum JobOutcome {
    /// It is settled for good when the receipt, if there is one, says so.
    Settled(Option<Receipt>),
    /// It was settled before.
    AlreadySettled,
    /// It is not exhausted anymore: someone released it, or the settings were changed.
    NotExhausted,
}
