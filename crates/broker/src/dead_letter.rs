//! Messages that have used up their attempts: to the dead letter topic, or dropped.
//!
//! One task handles them one after the other. Nothing is stored here that could be lost: which
//! messages are exhausted is derived from the progress, and the append to the dead letter topic and
//! the ack at the source are one commit (promise X1). Letters for a topic of another shard go by
//! courier, from a task of their own (`far`).

mod far;
mod letter;

use std::sync::Arc;
use std::time::Duration;

use domain::delivery::{Exhausted, Failure};
use domain::{DeadLetterPolicy, Message, Record, Timestamp};
use storage::Commit;

use crate::courier::Courier;
use crate::delivery_log::DeliveryOutcome as Told;
use crate::error::{Error, Resource, Result};
use crate::push::attempts::Attempts;
use crate::registry::Registry;
use crate::runtime::LogAccess;
use crate::source::{Found, find};
use crate::subscription::{Job, JobOutcome, Jobs, Notes, Subscription};
use crate::topic::Topic;
use letter::Reason;

/// How long to wait before a letter is sent again.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Forwards exhausted records.
pub(crate) struct Forwarder {
    access: LogAccess,
    notes: Arc<Notes>,
    registry: Arc<Registry>,
    attempts: Arc<Attempts>,
    courier: Arc<Courier>,
    /// What goes to another shard.
    far: Jobs,
}

impl Forwarder {
    pub(crate) fn new(
        access: LogAccess,
        notes: Arc<Notes>,
        registry: Arc<Registry>,
        attempts: Arc<Attempts>,
        courier: Arc<Courier>,
    ) -> Self {
        Self { access, notes, registry, attempts, courier, far: Jobs::open() }
    }

    /// Handles one record after the other, forever.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            let mut job = self.notes.given_up.next().await;
            // Reading from memory never waits; yield so that others get their turn.
            tokio::task::coop::consume_budget().await;
            if job.skip.is_some() {
                job.exhausted.failure = self.last_failure(&job).await;
            }
            if self.is_far(&job.subscription) {
                self.far.add(job);
                continue;
            }
            let outcome = self.settle_in_time(&job).await;
            self.answer(job, outcome).await;
        }
    }

    /// Settles it once the lease is good: nobody else would think of it if it is renewed.
    async fn settle_in_time(&self, job: &Job) -> Result<JobOutcome> {
        let clock = &self.access.clock;
        loop {
            match self.settle(job).await {
                Err(_) if job.skip.is_none() && self.is_lease_over() => {
                    clock.sleep_until(clock.now().plus(RETRY_AFTER)).await;
                }
                outcome => return outcome,
            }
        }
    }

    fn is_lease_over(&self) -> bool {
        matches!(self.access.check_serving(), Err(Error::LeaseOver))
    }

    /// Whether the dead letter topic is in another shard.
    fn is_far(&self, subscription: &Subscription) -> bool {
        let settings = subscription.settings();
        let policy = settings.dead_letter_policy.as_ref();
        let shard = policy.map(|policy| self.courier.shard_of(&policy.topic));
        shard.is_some_and(|shard| shard != subscription.topic().shard())
    }

    /// Tells the operator who gave a record up, if there is one, what became of it.
    async fn answer(&self, job: Job, outcome: Result<JobOutcome>) {
        if let Some(skip) = job.skip {
            let answer = self.confirm(&job.subscription, outcome).await;
            // The operator may be gone.
            drop(skip.answer.send(answer));
        }
    }

    /// How the last delivery of a message that blocks its lane failed, as far as we know: the lane
    /// knows the class, the push history has the details.
    async fn last_failure(&self, job: &Job) -> Option<Failure> {
        let known = job.exhausted.failure.clone();
        let pushed = self.attempts.last_failure(&job.subscription, job.exhausted.offset).await;
        match (known, pushed) {
            (Some(known), Some(pushed)) if pushed.class == known.class => Some(pushed),
            (Some(known), _) => Some(known),
            (None, pushed) => pushed,
        }
    }

    async fn confirm(
        &self,
        subscription: &Subscription,
        outcome: Result<JobOutcome>,
    ) -> Result<()> {
        let receipt = match outcome? {
            JobOutcome::Settled(Some(receipt)) => receipt,
            JobOutcome::Settled(None) | JobOutcome::AlreadySettled => {
                self.access.log.commit(Commit::barrier())
            }
            JobOutcome::NotExhausted => {
                let name = subscription.name().to_string();
                return Err(Error::Contended(Resource::Subscription, name));
            }
        };
        Ok(receipt.await.map(drop)?)
    }

    async fn settle(&self, job: &Job) -> Result<JobOutcome> {
        self.access.check_serving()?;
        let (subscription, exhausted) = (&job.subscription, &job.exhausted);
        let log = &*self.access.log;
        let found = match find(log, subscription.topic().id(), exhausted.offset).await {
            Ok(found) => found,
            Err(error) => return fail(job, error.to_string(), error.into()),
        };
        let policy = subscription.settings().dead_letter_policy.clone();
        match (found, policy) {
            (Found::Record(record), Some(policy)) => self.forward(job, &record, &policy).await,
            // It is past its retention, and was dropped because of that.
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
        &self,
        job: &Job,
        record: &Record,
        policy: &DeadLetterPolicy,
    ) -> Result<JobOutcome> {
        let subscription = &job.subscription;
        let forwarded = match self.prepare(job, record, policy).await {
            Ok((topic, message)) => {
                subscription.forward_exhausted(record.offset, job.lane(), &topic, message)
            }
            Err(error) => Err(error),
        };
        match forwarded {
            Err(Error::NotFound(Resource::Topic, topic)) => no_topic(job, &topic),
            Err(error) if self.access.check_serving().is_ok() => {
                fail(job, error.to_string(), error)
            }
            Ok(JobOutcome::Settled(receipt)) => {
                let failure = job.exhausted.failure.clone();
                tell(job, Some(record.publish_time), failure, Told::DeadLettered);
                Ok(JobOutcome::Settled(receipt))
            }
            other => other,
        }
    }

    /// The dead letter topic, with room for the message, and the message.
    async fn prepare(
        &self,
        job: &Job,
        record: &Record,
        policy: &DeadLetterPolicy,
    ) -> Result<(Arc<Topic>, Message)> {
        let topic = self.registry.topic(&policy.topic)?;
        let message = write(job, record)?;
        if !self.access.log.has_room() {
            self.access.log.room().await?;
        }
        Ok((topic, message))
    }
}

/// The letter for a record.
fn write(job: &Job, record: &Record) -> Result<Message> {
    let reason = if job.skip.is_some() { Reason::Skipped } else { Reason::Exhausted };
    Ok(letter::write(&job.subscription.settings(), &job.exhausted, reason, record)?)
}

/// The dead letter topic does not exist.
fn no_topic(job: &Job, topic: &str) -> Result<JobOutcome> {
    let why = format!("dead letter topic {topic} does not exist: create it, or change the policy");
    fail(job, why.clone(), Error::FailedPrecondition(why))
}

/// It could not be forwarded: one that an operator skipped stays as it is, any other is tried once
/// more.
fn fail(job: &Job, why: String, error: Error) -> Result<JobOutcome> {
    if job.skip.is_some() {
        return Err(error);
    }
    spare(job, why)
}

/// Retries it once more, and reports `why` it could not be forwarded.
fn spare(job: &Job, why: String) -> Result<JobOutcome> {
    let message = Some(Arc::from(why.as_str()));
    let failure = Failure { message, ..Failure::of("dead_letter") };
    let outcome = job.subscription.spare_exhausted(job.exhausted.offset, why);
    tell(job, None, Some(failure), Told::Retry);
    outcome
}

/// Drops a record that can go nowhere, and logs that.
fn give_up(job: &Job, found: Found) -> Result<JobOutcome> {
    let published = match found {
        Found::Record(record) => Some(record.publish_time),
        Found::Damaged | Found::Gap => None,
    };
    let offset = job.exhausted.offset;
    let outcome = job.subscription.drop_exhausted(offset, job.lane(), job.urgency());
    if matches!(outcome, Ok(JobOutcome::Settled(_))) {
        tell(job, published, job.exhausted.failure.clone(), Told::Dropped);
    }
    outcome
}

fn tell(job: &Job, published: Option<Timestamp>, failure: Option<Failure>, told: Told) {
    let Exhausted { offset, attempts, .. } = job.exhausted;
    job.subscription.tell_given_up(offset, attempts, published, failure, told);
}
