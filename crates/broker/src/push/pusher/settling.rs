//! What an answer means for the messages that were sent, for their endpoint and for the history.

use std::sync::Arc;
use std::task::Context;

use bytes::Bytes;
use domain::Now;
use domain::delivery::{AckId, Failure};
use storage::Attempt;

use super::{ERROR_NAP, Pusher};
use crate::push::batch;
use crate::push::breaker::FailureKind;
use crate::push::exchange::{Answer, Class, NoAnswer};
use crate::push::flight::{Ended, Flight, Sent};
use crate::push::maker::Unsendable;
use crate::push::outcome::{self, Verdict};
use crate::subscription::Settlement;

/// A request that is over, and what came of it.
pub(in crate::push) struct Judged {
    key: u64,
    outcome: Outcome,
}

/// What came of a request.
enum Outcome {
    /// The first `count` messages were acked, at least one, with this status. The others count as
    /// never sent: the endpoint did not come to them.
    Acked { count: usize, status: u16 },
    /// None was.
    Failed { class: Class, failure: Failure, kind: FailureKind },
    /// It was not sent. With a failure the one message it had is to blame.
    Unsent(Option<Failure>),
    /// Our own limits held it up for too long: it counts as never sent, and the endpoint is not to
    /// blame.
    PutOff,
}

/// Judges requests of one pusher that are over, and keeps what happened.
pub(in crate::push) fn judge(ended: Vec<Ended>) -> Vec<Judged> {
    let Some(maker) = ended.first().map(|ended| Arc::clone(&ended.maker)) else {
        return Vec::new();
    };
    let now = maker.shared.runtime.now();
    let mut attempts = Vec::with_capacity(ended.len());
    let judged = ended.into_iter().map(|ended| {
        let outcome = outcome(&ended, now);
        if let Ok(answer) = &ended.result {
            note(&ended, answer, &outcome, now, &mut attempts);
        }
        Judged { key: ended.key, outcome }
    });
    let judged = judged.collect();
    maker.shared.attempts.record_all(maker.subscription.id(), attempts);
    judged
}

fn outcome(ended: &Ended, now: Now) -> Outcome {
    let answer = match &ended.result {
        Ok(answer) => answer,
        Err(error) => return unsent(ended, error),
    };
    if answer.as_ref().is_err_and(|none| none.is_ours) {
        return Outcome::PutOff;
    }
    match (outcome::judge(answer, ended.maker.shared.options.success, now.wall), answer) {
        (Verdict::Failed { class, failure, kind }, _) => Outcome::Failed { class, failure, kind },
        (Verdict::Acked, Ok(answer)) if ended.maker.template.is_batch() => {
            match batch::acked(&answer.body, ended.leases.len()) {
                0 => none_acked(answer),
                count => Outcome::Acked { count, status: answer.status.as_u16() },
            }
        }
        (Verdict::Acked, answer) => {
            let status = answer.as_ref().map_or(0, |answer| answer.status.as_u16());
            Outcome::Acked { count: ended.leases.len(), status }
        }
    }
}

/// A message that cannot be read counts as failed; for want of a token none is to blame.
fn unsent(ended: &Ended, error: &Unsendable) -> Outcome {
    tracing::error!(subscription = %ended.maker.subscription.name(), %error, "cannot be sent");
    let is_to_blame = matches!(error, Unsendable::Malformed(_)) && ended.leases.len() == 1;
    Outcome::Unsent(is_to_blame.then(|| Failure::of("unreadable")))
}

/// Notes the attempts that a request was. Of one that failed only the first message is named.
fn note(
    ended: &Ended,
    answer: &Result<Answer, NoAnswer>,
    outcome: &Outcome,
    now: Now,
    attempts: &mut Vec<Attempt>,
) {
    let (count, class, error) = match outcome {
        Outcome::Acked { count, .. } => (*count, Class::Ok, None),
        Outcome::Failed { class, failure, .. } => (1, *class, failure.message.clone()),
        Outcome::Unsent(_) | Outcome::PutOff => return,
    };
    let duration = now.moment.since(ended.started);
    ended.maker.subscription.pushed().note(class, count as u64, duration);
    let (address, status, response) = match answer {
        Ok(answer) => (Some(answer.address), Some(answer.status.as_u16()), answer.body.clone()),
        Err(no_answer) => (no_answer.address, None, Bytes::new()),
    };
    attempts.extend(ended.leases.iter().take(count).map(|sent| Attempt {
        subscription: ended.maker.subscription.id(),
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
    /// Settles requests that are over. Whether there were any.
    pub(super) fn settle(&mut self, judged: Vec<Judged>, now: Now, context: &Context<'_>) -> bool {
        let known = judged.into_iter().filter_map(|judged| {
            // One that was cut off is no longer known.
            self.flights.remove(&judged.key).map(|flight| (flight, judged))
        });
        let over: Vec<(Flight, Judged)> = known.collect();
        if over.is_empty() {
            return false;
        }
        // It looks again in a moment, and need not be woken for that.
        self.plan.endpoint.step_out(context.waker());
        let leases = over.iter().flat_map(|(flight, judged)| judged.outcome.settle(&flight.leases));
        self.subscription.settle_pushed(now, leases);
        for (flight, judged) in over {
            self.conclude(flight, judged, now);
        }
        true
    }

    /// What else follows for the next requests.
    fn conclude(&mut self, flight: Flight, judged: Judged, now: Now) {
        let Flight { consumer, leases, started, pass, slot, hand, hold } = flight;
        drop(hold);
        self.idle.push(consumer);
        if let Some(busy) = self.hands.iter_mut().find(|busy| busy.hand.number == hand) {
            busy.in_flight = busy.in_flight.saturating_sub(1);
        }
        let is_whole =
            matches!(judged.outcome, Outcome::Acked { count, .. } if count == leases.len());
        match (&mut self.plan.batch, &judged.outcome) {
            (Some(batch), _) if is_whole => batch.on_success(),
            (Some(batch), Outcome::Failed { .. } | Outcome::Unsent(_)) => batch.on_failure(),
            _ => {}
        }
        match judged.outcome {
            Outcome::Acked { count, .. } => {
                self.note_acked(leases.iter().take(count));
                slot.end(now.moment);
                pass.succeed(now.moment.since(started));
            }
            Outcome::Failed { kind, failure, .. } => {
                slot.end(now.moment);
                let asked = failure.retry_after;
                let pause = asked.map(|asked| self.plan.rules.retry_after_allowed(asked));
                // Endpoints of one host that fail together are not tried together.
                let seed = judged.key ^ self.subscription.id().0.rotate_left(32);
                pass.fail(now.moment, kind, pause, seed);
            }
            Outcome::Unsent(_) | Outcome::PutOff => {
                let until = now.moment.plus(ERROR_NAP);
                self.nap = Some(self.shared.runtime.clock.sleep_until(until));
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

impl Outcome {
    /// What becomes of each lease. Of several messages that failed any may be to blame: they are
    /// sent again one by one, and only then spend attempts.
    fn settle(&self, leases: &[Sent]) -> impl Iterator<Item = (AckId, Settlement<'_>)> {
        let is_alone = leases.len() == 1;
        leases.iter().enumerate().map(move |(at, sent)| {
            let settlement = match self {
                Self::Acked { count, status } if at < *count => Settlement::Ack(*status),
                Self::Failed { failure, .. } | Self::Unsent(Some(failure)) if is_alone => {
                    Settlement::Fail(failure)
                }
                _ => Settlement::GiveBack,
            };
            (sent.ack_id, settlement)
        })
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
