//! What a push came to, and what follows from it. Every step leads down, none back up.
//!
//! ```text
//!   Answer, NoAnswer   for a request: what came back over HTTP, or why nothing did (broker)
//!        │
//!        │ Success, Class::said, Class::of_status
//!        ▼
//!   Outcome            of the request: acked, failed, not sent, put off
//!        │    ├─► Health: the endpoint's breaker and window
//!        │    ├─► Class: metrics and the history of attempts
//!        │    └─► BatchSize: how many messages the next request carries
//!        │ Outcome::settlement
//!        ▼
//!   Settlement         of each lease: ack, fail, give back
//!        │
//!        │ Delivery::ack, nack, give_back
//!        ▼
//!   Readiness          of a record that failed: ready, backing off, exhausted, halted
//! ```

use super::{Class, Health};
use crate::delivery::Failure;

/// Which statuses ack a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Success {
    /// 102 and 200 to 299.
    TwoHundreds,
    /// The ones Google accepts: 102, 200, 201, 202, 204.
    Google,
}

impl Success {
    /// Whether an answer with this status acks.
    pub fn includes(self, status: u16) -> bool {
        match self {
            Self::TwoHundreds => matches!(status, 102 | 200..=299),
            Self::Google => matches!(status, 102 | 200..=202 | 204),
        }
    }
}

/// The outcome of a request, with all the messages it carried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The endpoint took messages.
    Acked {
        /// How many, counted from the first, and at least one. The others count as never sent: the
        /// endpoint did not get to them.
        count: usize,
        /// The status of its answer.
        status: u16,
    },
    /// The endpoint took none.
    Failed {
        /// The error class.
        class: Class,
        /// The failure recorded for the messages.
        failure: Failure,
        /// What it says about the endpoint.
        health: Health,
    },
    /// It could not be sent. With a failure, one of its messages is to blame.
    Unsent(Option<Failure>),
    /// Our own limits delayed it for too long: it counts as never sent, and the endpoint is not to
    /// blame.
    PutOff,
}

/// What happens to one lease of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement<'failure> {
    /// The endpoint took it, with this status.
    Ack(u16),
    /// The endpoint did not take it.
    Fail(&'failure Failure),
    /// It counts as never sent.
    GiveBack,
}

impl Outcome {
    /// What happens to the lease at index `at`, from 0, of `sent`. If several messages failed, any
    /// of them may be to blame: they are resent one by one, and only then use up attempts.
    pub fn settlement(&self, at: usize, sent: usize) -> Settlement<'_> {
        match self {
            Self::Acked { count, status } if at < *count => Settlement::Ack(*status),
            Self::Failed { failure, .. } | Self::Unsent(Some(failure)) if sent == 1 => {
                Settlement::Fail(failure)
            }
            _ => Settlement::GiveBack,
        }
    }

    /// How many messages, counted from the first, used an attempt, and with which class. If several
    /// failed, only the first is counted. `None` = nothing was attempted.
    pub fn attempts(&self) -> Option<(usize, Class)> {
        match self {
            Self::Acked { count, .. } => Some((*count, Class::Ok)),
            Self::Failed { class, .. } => Some((1, *class)),
            Self::Unsent(_) | Self::PutOff => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_success_codes_ack() {
        let acks = |success: Success| -> Vec<u16> {
            (100..=999).filter(|status| success.includes(*status)).collect()
        };
        let all: Vec<u16> = std::iter::once(102).chain(200..=299).collect();
        assert_eq!(acks(Success::TwoHundreds), all);
        assert_eq!(acks(Success::Google), [102, 200, 201, 202, 204]);
    }

    #[test]
    fn a_request_settles_each_of_its_leases() {
        use Settlement::{Ack, Fail, GiveBack};
        let failure = Failure::of("http_5xx");
        let acked = |count| Outcome::Acked { count, status: 204 };
        let failed = Outcome::Failed {
            class: Class::Http5xx,
            failure: failure.clone(),
            health: Health::Down,
        };
        for (outcome, expected) in [
            (acked(1), &[Ack(204)][..]),
            (acked(3), &[Ack(204), Ack(204), Ack(204)]),
            (acked(2), &[Ack(204), Ack(204), GiveBack]),
            (failed.clone(), &[Fail(&failure)]),
            (failed, &[GiveBack, GiveBack]),
            (Outcome::Unsent(Some(failure.clone())), &[Fail(&failure)]),
            (Outcome::Unsent(Some(failure.clone())), &[GiveBack, GiveBack]),
            (Outcome::Unsent(None), &[GiveBack]),
            (Outcome::Unsent(None), &[GiveBack, GiveBack]),
            (Outcome::PutOff, &[GiveBack]),
            (Outcome::PutOff, &[GiveBack, GiveBack]),
        ] {
            let sent = expected.len();
            let found: Vec<_> = (0..sent).map(|at| outcome.settlement(at, sent)).collect();
            assert_eq!(found, expected, "{outcome:?} of {sent}");
        }
    }

    #[test]
    fn only_what_was_sent_is_an_attempt() {
        let failure = Failure::of("dns");
        let (class, health) = (Class::Dns, Health::Unreachable);
        for (outcome, attempts) in [
            (Outcome::Acked { count: 3, status: 200 }, Some((3, Class::Ok))),
            (Outcome::Failed { class, failure: failure.clone(), health }, Some((1, Class::Dns))),
            (Outcome::Unsent(None), None),
            (Outcome::Unsent(Some(failure)), None),
            (Outcome::PutOff, None),
        ] {
            assert_eq!(outcome.attempts(), attempts, "{outcome:?}");
        }
    }
}
