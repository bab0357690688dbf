//! Settles requests that have ended: their messages, their endpoint, the history of attempts.

use std::sync::Arc;
use std::task::Context;

use bytes::Bytes;
use domain::Now;
use domain::delivery::Failure;
use domain::push::Outcome;
use storage::Attempt;

use super::{ERROR_SLEEP, Pusher};
use crate::push::exchange::{Answer, NoAnswer};
use crate::push::flight::{Ended, Flight, Sent};
use crate::push::outcome;
use crate::push::request_builder::Unsendable;

/// The outcomes of ended requests of one pusher, each with the number of its flight. Records them
/// in the history of attempts.
pub(in crate::push) fn outcomes(ended: Vec<Ended>) -> Vec<(u64, Outcome)> {
    let Some(builder) = ended.first().map(|ended| Arc::clone(&ended.builder)) else {
        return Vec::new();
    };
    let now = builder.shared.runtime.now();
    let mut attempts = Vec::with_capacity(ended.len());
    let outcomes = ended.into_iter().map(|ended| {
        let outcome = outcome_of(&ended, now);
        if let Ok(answer) = &ended.result {
            note(&ended, answer, &outcome, now, &mut attempts);
        }
        (ended.key, outcome)
    });
    let outcomes = outcomes.collect();
    builder.shared.attempts.record_all(builder.subscription.id(), attempts);
    outcomes
}

fn outcome_of(ended: &Ended, now: Now) -> Outcome {
    let (sent, is_batch) = (ended.leases.len(), ended.builder.template.is_batch());
    let success = ended.builder.shared.options.success;
    match &ended.result {
        Ok(answer) => outcome::classify(answer, success, sent, is_batch, now.wall),
        Err(error) => unsent(ended, error),
    }
}

/// An unreadable message counts as failed; a missing token is no message's fault.
fn unsent(ended: &Ended, error: &Unsendable) -> Outcome {
    tracing::error!(subscription = %ended.builder.subscription.name(), %error, "cannot be sent");
    let is_to_blame = matches!(error, Unsendable::Malformed(_));
    Outcome::Unsent(is_to_blame.then(|| Failure::of("unreadable")))
}

/// Records the attempts of a request.
fn note(
    ended: &Ended,
    answer: &Result<Answer, NoAnswer>,
    outcome: &Outcome,
    now: Now,
    attempts: &mut Vec<Attempt>,
) {
    let Some((count, class)) = outcome.attempts() else { return };
    let error = match outcome {
        Outcome::Failed { failure, .. } => failure.message.clone(),
        _ => None,
    };
    let duration = now.moment.since(ended.started);
    ended.builder.subscription.pushed().note(class, count as u64, duration);
    let (address, status, response) = match answer {
        Ok(answer) => (Some(answer.address), Some(answer.status.as_u16()), answer.body.clone()),
        Err(no_answer) => (no_answer.address, None, Bytes::new()),
    };
    attempts.extend(ended.leases.iter().take(count).map(|sent| Attempt {
        subscription: ended.builder.subscription.id(),
        offset: sent.ack_id.offset(),
        attempt: sent.attempt,
        at: now.wall.minus(duration),
        duration,
        address,
        status,
        class: class.as_str().into(),
        error: error.clone(),
        response: response.clone(),
    }));
}

impl Pusher {
    /// Settles requests that have ended. Returns whether there were any.
    pub(super) fn settle(
        &mut self,
        outcomes: Vec<(u64, Outcome)>,
        now: Now,
        context: &Context<'_>,
    ) -> bool {
        let known = outcomes.into_iter().filter_map(|(key, outcome)| {
            // A request that was cut off is no longer known.
            self.flights.remove(&key).map(|flight| (key, flight, outcome))
        });
        let over: Vec<(u64, Flight, Outcome)> = known.collect();
        if over.is_empty() {
            return false;
        }
        // It looks again in a moment, and need not be woken for that.
        self.plan.endpoint.step_out(context.waker());
        let leases = over.iter().flat_map(|(_, flight, outcome)| {
            let (leases, sent) = (flight.leases.iter().enumerate(), flight.leases.len());
            leases.map(move |(at, lease)| (lease.ack_id, outcome.settlement(at, sent)))
        });
        self.subscription.settle_pushed(now, leases);
        for (key, flight, outcome) in over {
            self.conclude(key, flight, outcome, now);
        }
        true
    }

    /// The effects on the next requests.
    fn conclude(&mut self, key: u64, flight: Flight, outcome: Outcome, now: Now) {
        let Flight { consumer, leases, started, permit, slot, driver, hold } = flight;
        drop(hold);
        self.idle.push(consumer);
        if let Some(busy) = self.drivers.iter_mut().find(|busy| busy.driver.number == driver) {
            busy.in_flight = busy.in_flight.saturating_sub(1);
        }
        if let Some(batch) = &mut self.plan.batch {
            batch.note(&outcome, leases.len());
        }
        match outcome {
            Outcome::Acked { count, .. } => {
                self.note_acked(leases.iter().take(count));
                slot.end(now.moment);
                permit.succeed(now.moment.since(started));
            }
            Outcome::Failed { health, failure, .. } => {
                slot.end(now.moment);
                let asked = failure.retry_after;
                let pause = asked.map(|asked| self.plan.rules.retry_after_allowed(asked));
                // Keep endpoints of one host that fail together from being retried together.
                let seed = key ^ self.subscription.id().0.rotate_left(32);
                permit.fail(now.moment, health, pause, seed);
            }
            Outcome::Unsent(_) | Outcome::PutOff => {
                let until = now.moment.plus(ERROR_SLEEP);
                self.sleep = Some(self.shared.runtime.clock.sleep_until(until));
            }
        }
    }

    fn note_acked<'sent>(&mut self, acked: impl Iterator<Item = &'sent Sent>) {
        for sent in acked {
            if let Some(lane) = &sent.lane {
                self.chains.note(lane, sent.ack_id.offset());
            }
        }
    }
}
