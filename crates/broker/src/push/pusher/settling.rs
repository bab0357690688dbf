//! What an answer means for the messages that were sent, for their endpoint and for the history.

use std::sync::Arc;

use bytes::Bytes;
use domain::Now;
use domain::delivery::Failure;
use storage::Attempt;

use super::{ERROR_NAP, Flight, Pusher};
use crate::push::batch;
use crate::push::breaker::FailureKind;
use crate::push::exchange::{Answer, Class, NoAnswer};
use crate::push::outcome::{self, Verdict};
use crate::subscription::Settlement;

/// What came of a request.
enum Outcome {
    /// The first so many messages were acked, at least one.
    Acked(usize),
    /// None was.
    Failed { class: Class, failure: Failure, kind: FailureKind },
}

impl Pusher {
    /// A request is over.
    pub(super) fn settle(&mut self, key: u64, answer: &Result<Answer, NoAnswer>) {
        let Some(flight) = self.flights.remove(&key) else { return };
        if answer.as_ref().is_err_and(|none| none.is_ours) {
            return self.put_off(flight);
        }
        let now = self.shared.runtime.now();
        let outcome = self.outcome(&flight, answer, now);
        self.record(&flight, &outcome, answer, now);
        match &outcome {
            Outcome::Acked(count) => {
                let status = answer.as_ref().map_or(0, |answer| answer.status.as_u16());
                self.ack(&flight, *count, status);
            }
            Outcome::Failed { failure, .. } => self.fail(&flight, failure),
        }
        let Flight { consumer, started, pass, slot, .. } = flight;
        slot.end(now.moment);
        match outcome {
            Outcome::Acked(_) => pass.succeed(now.moment.since(started)),
            Outcome::Failed { kind, failure, .. } => {
                let asked = failure.retry_after;
                let pause = asked.map(|asked| self.plan.rules.retry_after_allowed(asked));
                // Endpoints of one host that fail together are not tried together.
                let seed = key ^ self.subscription.id().0.rotate_left(32);
                pass.fail(now.moment, kind, pause, seed);
            }
        }
        self.idle.push(consumer);
    }

    /// Our own limits held the request up for too long: it counts as never sent, and the endpoint
    /// is not to blame.
    fn put_off(&mut self, flight: Flight) {
        let leases = flight.leases.iter().map(|sent| (sent.ack_id, Settlement::GiveBack));
        self.subscription.settle_pushed(leases);
        self.idle.push(flight.consumer);
        self.nap = Some(self.shared.runtime.clock.sleep_until(self.now().plus(ERROR_NAP)));
    }

    fn outcome(&self, flight: &Flight, answer: &Result<Answer, NoAnswer>, now: Now) -> Outcome {
        match (outcome::judge(answer, self.shared.options.success, now.wall), answer) {
            (Verdict::Failed { class, failure, kind }, _) => {
                Outcome::Failed { class, failure, kind }
            }
            (Verdict::Acked, Ok(answer)) if flight.is_batch => {
                match batch::acked(&answer.body, flight.leases.len()) {
                    0 => none_acked(answer),
                    count => Outcome::Acked(count),
                }
            }
            (Verdict::Acked, _) => Outcome::Acked(flight.leases.len()),
        }
    }

    /// The first `count` messages are acked. The others count as never sent: the endpoint did not
    /// come to them.
    fn ack(&mut self, flight: &Flight, count: usize, status: u16) {
        let leases = flight.leases.iter().enumerate();
        self.subscription.settle_pushed(leases.map(|(at, sent)| {
            let is_acked = at < count;
            (sent.ack_id, if is_acked { Settlement::Ack(status) } else { Settlement::GiveBack })
        }));
        for sent in flight.leases.iter().take(count) {
            if let Some(lane) = &sent.lane {
                self.chains.note(lane, sent.ack_id.offset());
            }
        }
        if let Some(batch) = self.plan.batch.as_mut().filter(|_| count == flight.leases.len()) {
            batch.on_success();
        }
    }

    /// Of several messages any may be to blame: they are sent again one by one, and only then
    /// spend attempts.
    fn fail(&mut self, flight: &Flight, failure: &Failure) {
        let is_alone = flight.leases.len() == 1;
        self.subscription.settle_pushed(flight.leases.iter().map(|sent| {
            let settlement =
                if is_alone { Settlement::Fail(failure) } else { Settlement::GiveBack };
            (sent.ack_id, settlement)
        }));
        if let Some(batch) = &mut self.plan.batch {
            batch.on_failure();
        }
    }

    /// Keeps what happened. Of a request that failed only the first message is named.
    fn record(
        &self,
        flight: &Flight,
        outcome: &Outcome,
        answer: &Result<Answer, NoAnswer>,
        now: Now,
    ) {
        let (count, class, error) = match outcome {
            Outcome::Acked(count) => (*count, Class::Ok, None),
            Outcome::Failed { class, failure, .. } => (1, *class, failure.message.clone()),
        };
        let duration = now.moment.since(flight.started);
        self.subscription.pushed().note(class, count as u64, duration);
        let (address, status, response) = match answer {
            Ok(answer) => (Some(answer.address), Some(answer.status.as_u16()), answer.body.clone()),
            Err(no_answer) => (no_answer.address, None, Bytes::new()),
        };
        for sent in flight.leases.iter().take(count) {
            self.shared.runtime.attempts.record(Attempt {
                subscription: self.subscription.id(),
                offset: sent.ack_id.offset(),
                attempt: sent.attempt,
                at: now.wall.minus(duration),
                duration,
                address,
                status,
                class: class.as_str().into(),
                error: error.clone(),
                response: response.clone(),
            });
        }
    }
}

/// The endpoint took the request and acked none of its messages.
fn none_acked(answer: &Answer) -> Outcome {
    let failure = Failure {
        status: Some(answer.status.as_u16()),
        message: Some(Arc::from("the answer acks none of the messages")),
        ..Failure::of(Class::Transient.as_str())
    };
    Outcome::Failed { class: Class::Transient, failure, kind: FailureKind::Refused }
}
