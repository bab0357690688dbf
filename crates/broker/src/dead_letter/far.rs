//! Letters for a dead letter topic of another shard: by courier, several at a time. They are
//! settled when they are there; what cannot be taken there now is tried again.

use std::collections::VecDeque;
use std::sync::Arc;

use domain::{Moment, Record};

use super::{Forwarder, RETRY_AFTER, Told, fail, give_up, no_topic, spare, tell, write};
use crate::error::{Error, Resource, Result};
use crate::parcel::{Parcel, Piece, SourceId};
use crate::source::{Found, find};
use crate::subscription::{Job, JobOutcome, Subscription};

/// Letters that one parcel takes, and about how many bytes of them.
const PIECES_MAX: usize = 100;
const BYTES_MAX: usize = 4 << 20;

/// A job whose letter is written.
struct Written {
    job: Job,
    record: Record,
    piece: Piece,
}

impl Forwarder {
    /// Takes letters to other shards, forever.
    pub(crate) async fn run_far(self: Arc<Self>) {
        let mut later: VecDeque<(Moment, Job)> = VecDeque::new();
        loop {
            let first = self.next_far(&mut later).await;
            let mut jobs = vec![first];
            if let Some(first) = jobs.first() {
                let more = self.far.take_of(&first.subscription, PIECES_MAX - 1);
                jobs.extend(more);
            }
            for job in self.send(jobs).await {
                let at = self.access.clock.now().plus(RETRY_AFTER);
                later.push_back((at, job));
            }
        }
    }

    /// The next job: one that is to be tried again, if its time has come.
    async fn next_far(&self, later: &mut VecDeque<(Moment, Job)>) -> Job {
        let clock = &self.access.clock;
        let due = later.front().map(|(at, _)| *at);
        let Some(due) = due else { return self.far.next().await };
        if clock.now() < due {
            tokio::select! {
                biased;
                () = clock.sleep_until(due) => {}
                job = self.far.next() => return job,
            }
        }
        match later.pop_front() {
            Some((_, job)) => job,
            None => self.far.next().await,
        }
    }

    /// Sends the letters of one subscription; returns the jobs to try again.
    async fn send(&self, jobs: Vec<Job>) -> Vec<Job> {
        let Some(subscription) = jobs.first().map(|job| Arc::clone(&job.subscription)) else {
            return jobs;
        };
        let settings = subscription.settings();
        let Some(policy) = &settings.dead_letter_policy else {
            // The policy has changed meanwhile: whoever changed it has asked for them anew.
            return Vec::new();
        };
        let (written, mut again) = self.write_all(jobs).await;
        if written.is_empty() {
            return again;
        }
        if self.access.check_serving().is_err() {
            // The lease may be renewed yet, and nobody else would think of them then.
            again.extend(written.into_iter().map(|one| one.job));
            return again;
        }
        let parcel = parcel(&subscription, policy.topic.clone(), &written);
        let sent = self.courier.send(parcel).await;
        self.settle_all(written, sent, again).await
    }

    /// Reads the records and writes their letters. What has no letter is settled at once.
    async fn write_all(&self, jobs: Vec<Job>) -> (Vec<Written>, Vec<Job>) {
        let (mut written, mut again, mut bytes) = (Vec::new(), Vec::new(), 0);
        for job in jobs {
            if bytes > BYTES_MAX {
                again.push(job);
                continue;
            }
            match self.write_one(&job).await {
                Ok((record, piece)) => {
                    bytes += record.body.len();
                    written.push(Written { job, record, piece });
                }
                Err(outcome) => self.answer(job, outcome).await,
            }
        }
        written.sort_by_key(|one| one.piece.offset);
        (written, again)
    }

    async fn write_one(&self, job: &Job) -> Result<(Record, Piece), Result<JobOutcome>> {
        let (subscription, offset) = (&job.subscription, job.exhausted.offset);
        let topic = subscription.topic();
        match find(&**topic.log(), topic.id(), offset).await {
            Ok(Found::Record(record)) => match write(job, &record) {
                Ok(message) => Ok((record, Piece { offset, message, addressee: None })),
                Err(error) => Err(fail(job, error.to_string(), error)),
            },
            Ok(Found::Gap) => Err(subscription.settle_exhausted(offset, job.lane(), job.urgency())),
            Ok(Found::Damaged) if job.skip.is_none() => {
                Err(spare(job, "the message is damaged and cannot be read".to_owned()))
            }
            Ok(Found::Damaged) => Err(give_up(job, Found::Damaged)),
            Err(error) => Err(fail(job, error.to_string(), error.into())),
        }
    }

    async fn settle_all(
        &self,
        written: Vec<Written>,
        sent: Result<()>,
        mut again: Vec<Job>,
    ) -> Vec<Job> {
        for Written { job, record, .. } in written {
            let outcome = match &sent {
                Ok(()) => self.settle_sent(&job, &record),
                Err(Error::NotFound(Resource::Topic, topic)) => no_topic(&job, topic),
                Err(error) if job.skip.is_some() => Err(error.clone()),
                Err(error) => {
                    job.subscription.note_not_forwarded(error.to_string());
                    again.push(job);
                    continue;
                }
            };
            self.answer(job, outcome).await;
        }
        again
    }

    fn settle_sent(&self, job: &Job, record: &Record) -> Result<JobOutcome> {
        let outcome =
            job.subscription.settle_forwarded(record.offset, job.lane(), job.urgency())?;
        if matches!(outcome, JobOutcome::Settled(_)) {
            let failure = job.exhausted.failure.clone();
            tell(job, Some(record.publish_time), failure, Told::DeadLettered);
        }
        Ok(outcome)
    }
}

fn parcel(subscription: &Subscription, topic: domain::TopicName, written: &[Written]) -> Parcel {
    let (generation, settled_below) = subscription.standing();
    Parcel {
        topic,
        source: SourceId(subscription.id().0),
        generation,
        settled_below,
        pieces: written.iter().map(|one| one.piece.clone()).collect(),
    }
}
