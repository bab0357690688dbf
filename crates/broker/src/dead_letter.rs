//! Messages that were tried as often as they may be: to the dead letter topic, or dropped.
//!
//! One task takes them one after the other. Nothing is kept here that could be lost: what is
//! exhausted is derived from the progress, and the append to the dead letter topic and the ack
//! at the source are one commit (promise X1).

mod letter;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use domain::delivery::{Exhausted, Failure};
use domain::{DeadLetterPolicy, Message, Moment, Record, Timestamp};
use parking_lot::Mutex;
use storage::{Commit, Receipt, Urgency};
use tokio::sync::{Notify, oneshot};

use crate::broker::Broker;
use crate::delivery_log::Outcome as Told;
use crate::error::{Error, Resource, Result};
use crate::source::{Found, find};
use crate::subscription::Subscription;
use crate::topic::Topic;
use letter::Reason;

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
    fn lane(&self) -> Option<&str> {
        self.skip.as_ref().map(|skip| skip.key.as_str())
    }

    /// Whether somebody waits for it to be durable.
    fn urgency(&self) -> Urgency {
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

    async fn next(&self) -> Job {
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
pub(crate) enum Outcome {
    /// It is settled for good when the receipt, if there is one, says so.
    Settled(Option<Receipt>),
    /// It was settled before.
    AlreadySettled,
    /// It is not exhausted any more: somebody released it, or the settings were changed.
    NotExhausted,
}

/// Takes one record after the other, for ever.
pub(crate) async fn run(broker: Arc<Broker>) {
    loop {
        let job = broker.runtime.dead_letters.next().await;
        // What is in memory is read without waiting; others get their turn all the same.
        tokio::task::coop::consume_budget().await;
        let outcome = settle(&broker, &job).await;
        if let Some(skip) = job.skip {
            let answer = confirm(&broker, &job.subscription, outcome).await;
            // The operator may have gone away.
            drop(skip.answer.send(answer));
        }
    }
}

async fn confirm(
    broker: &Broker,
    subscription: &Subscription,
    outcome: Result<Outcome>,
) -> Result<()> {
    let receipt = match outcome? {
        Outcome::Settled(Some(receipt)) => receipt,
        Outcome::Settled(None) | Outcome::AlreadySettled => {
            broker.runtime.log.commit(Commit::barrier())
        }
        Outcome::NotExhausted => {
            let name = subscription.name().to_string();
            return Err(Error::Contended(Resource::Subscription, name));
        }
    };
    Ok(receipt.await.map(drop)?)
}

async fn settle(broker: &Broker, job: &Job) -> Result<Outcome> {
    broker.runtime.check_serving()?;
    let (subscription, exhausted) = (&job.subscription, &job.exhausted);
    let log = &*broker.runtime.log;
    let found = match find(log, subscription.topic().id(), exhausted.offset).await {
        Ok(found) => found,
        Err(error) => return fail(job, error.to_string(), error.into()),
    };
    let policy = subscription.settings().dead_letter_policy.clone();
    match (found, policy) {
        (Found::Record(record), Some(policy)) => forward(broker, job, &record, &policy).await,
        // It is past its retention, and was dropped with it.
        (Found::Gap, _) => {
            subscription.settle_exhausted(exhausted.offset, job.lane(), job.urgency())
        }
        (Found::Damaged, Some(_)) if job.skip.is_none() => {
            spare(job, "the message is damaged and cannot be read".to_owned())
        }
        (found, _) => give_up(job, found),
    }
}

async fn forward(
    broker: &Broker,
    job: &Job,
    record: &Record,
    policy: &DeadLetterPolicy,
) -> Result<Outcome> {
    let subscription = &job.subscription;
    let forwarded = match prepare(broker, job, record, policy).await {
        Ok((topic, message)) => {
            subscription.forward_exhausted(record.offset, job.lane(), &topic, message)
        }
        Err(error) => Err(error),
    };
    match forwarded {
        Err(Error::NotFound(Resource::Topic, topic)) => {
            let why = format!(
                "dead letter topic {topic} does not exist: create it, or change the policy"
            );
            fail(job, why.clone(), Error::FailedPrecondition(why))
        }
        Err(error) if broker.runtime.check_serving().is_ok() => fail(job, error.to_string(), error),
        Ok(Outcome::Settled(receipt)) => {
            let failure = job.exhausted.failure.clone();
            tell(job, Some(record.publish_time), failure, Told::DeadLettered);
            Ok(Outcome::Settled(receipt))
        }
        other => other,
    }
}

/// It could not be forwarded: one that an operator gave up stays as it is, any other is tried
/// once more.
fn fail(job: &Job, why: String, error: Error) -> Result<Outcome> {
    if job.skip.is_some() {
        return Err(error);
    }
    spare(job, why)
}

/// It is tried once more, and `why` it could not go is told.
fn spare(job: &Job, why: String) -> Result<Outcome> {
    let message = Some(Arc::from(why.as_str()));
    let failure = Failure { message, ..Failure::of("dead_letter") };
    let outcome = job.subscription.spare_exhausted(job.exhausted.offset, why);
    tell(job, None, Some(failure), Told::Retry);
    outcome
}

/// Drops a record that can go nowhere, and tells so.
fn give_up(job: &Job, found: Found) -> Result<Outcome> {
    let published = match found {
        Found::Record(record) => Some(record.publish_time),
        Found::Damaged | Found::Gap => None,
    };
    let offset = job.exhausted.offset;
    let outcome = job.subscription.drop_exhausted(offset, job.lane(), job.urgency());
    if matches!(outcome, Ok(Outcome::Settled(_))) {
        tell(job, published, job.exhausted.failure.clone(), Told::Dropped);
    }
    outcome
}

fn tell(job: &Job, published: Option<Timestamp>, failure: Option<Failure>, told: Told) {
    let Exhausted { offset, attempts, .. } = job.exhausted;
    job.subscription.tell_given_up(offset, attempts, published, failure, told);
}

/// The dead letter topic, with room for the message, and the message.
async fn prepare(
    broker: &Broker,
    job: &Job,
    record: &Record,
    policy: &DeadLetterPolicy,
) -> Result<(Arc<Topic>, Message)> {
    let topic = broker.topic(&policy.topic)?;
    let reason = if job.skip.is_some() { Reason::Skipped } else { Reason::Exhausted };
    let settings = job.subscription.settings();
    let message = letter::write(&settings, &job.exhausted, reason, record)?;
    if !broker.runtime.log.has_room() {
        broker.runtime.log.room().await?;
    }
    Ok((topic, message))
}
