//! What may be tried again, and how long to wait before.

use std::time::Duration;

use tonic::{Code, Status};
use wire::rpc::code_name;

use crate::Failure;
use crate::effects::StoreError;

/// How often a message is tried, and how long is waited in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Tries in all, the first one included.
    pub attempts_max: u32,
    /// The longest wait after the first try; it doubles with every try.
    pub backoff_min: Duration,
    /// It grows no longer than this.
    pub backoff_max: Duration,
}

impl Default for Retry {
    /// Six tries within some seconds: what lasts longer is better given back to the server, whose
    /// backoffs are longer.
    fn default() -> Self {
        Self {
            attempts_max: 6,
            backoff_min: Duration::from_millis(50),
            backoff_max: Duration::from_secs(2),
        }
    }
}

impl Retry {
    /// How long to wait after the try with this number, from 1: `luck`, from 0 to `u32::MAX`,
    /// says which part of the upper half. Those who collided do not collide again.
    pub(super) fn backoff(&self, attempt: u32, luck: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(attempt.saturating_sub(1));
        let longest = self.backoff_min.saturating_mul(doubled).min(self.backoff_max);
        let half = longest / 2;
        half + half.mul_f64(f64::from(luck) / f64::from(u32::MAX))
    }
}

/// A number that nobody can foresee.
pub(super) fn luck() -> u32 {
    let mut bytes = [0; 4];
    // Without randomness all wait equally long, which is no reason to fail.
    aws_lc_rs::rand::fill(&mut bytes).ok();
    u32::from_be_bytes(bytes)
}

/// What an answer of Firestore means for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It may go well if all of it is tried again. It may also have happened.
    Again,
    /// Someone must fix the setup.
    Config,
    /// What was to be written is wrong.
    Refused,
}

/// What the code of an answer means.
pub(super) fn meaning(code: Code) -> Meaning {
    match code {
        Code::PermissionDenied
        | Code::Unauthenticated
        | Code::NotFound
        | Code::FailedPrecondition
        | Code::Unimplemented => Meaning::Config,
        Code::InvalidArgument | Code::OutOfRange => Meaning::Refused,
        // RESOURCE_EXHAUSTED, UNAVAILABLE, DEADLINE_EXCEEDED and ABORTED are what the service
        // says; the others are what a broken connection looks like. The note of the message
        // makes trying again harmless in every case.
        Code::ResourceExhausted
        | Code::Unavailable
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::Cancelled
        | Code::Unknown
        | Code::Internal
        | Code::DataLoss
        | Code::AlreadyExists
        | Code::Ok => Meaning::Again,
    }
}

/// What the code of an answer to a commit means: there a condition that does not hold says that
/// someone was quicker.
pub(super) fn commit_meaning(code: Code) -> Meaning {
    match code {
        Code::AlreadyExists | Code::FailedPrecondition | Code::NotFound => Meaning::Again,
        _ => meaning(code),
    }
}

/// Whether a commit that was answered so may have happened anyway.
pub(super) fn may_have_happened(code: Code) -> bool {
    meaning(code) == Meaning::Again && !matches!(code, Code::Aborted | Code::AlreadyExists)
}

/// The error that remains when there is no further try.
pub(super) fn error(status: &Status, meaning: Meaning) -> StoreError {
    let failure = Failure {
        kind: "Firestore".to_owned(),
        code: Some(code_name(status.code()).to_owned()),
        message: status.message().to_owned(),
    };
    match meaning {
        Meaning::Again => StoreError::Transient(failure),
        Meaning::Config => StoreError::Config(failure),
        Meaning::Refused => StoreError::Refused(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_their_bound_and_differ() {
        let retry = Retry::default();
        let waits = |luck| [1, 2, 3, 7, 4_000_000].map(|attempt| retry.backoff(attempt, luck));
        assert_eq!(waits(u32::MAX), [50, 100, 200, 2_000, 2_000].map(Duration::from_millis));
        assert_eq!(waits(0), [25, 50, 100, 1_000, 1_000].map(Duration::from_millis));
    }

    #[test]
    fn every_code_has_its_meaning() {
        let of = |wanted| {
            let codes = (0..17).map(Code::from_i32);
            codes.filter(|code| meaning(*code) == wanted).map(code_name).collect::<Vec<_>>()
        };
        assert_eq!(of(Meaning::Refused), ["INVALID_ARGUMENT", "OUT_OF_RANGE"]);
        assert_eq!(
            of(Meaning::Config),
            [
                "NOT_FOUND",
                "PERMISSION_DENIED",
                "FAILED_PRECONDITION",
                "UNIMPLEMENTED",
                "UNAUTHENTICATED"
            ]
        );
        for code in [Code::AlreadyExists, Code::FailedPrecondition, Code::NotFound] {
            assert_eq!(commit_meaning(code), Meaning::Again);
            assert!(!may_have_happened(code), "{code:?}");
        }
        assert!(may_have_happened(Code::Unavailable) && !may_have_happened(Code::Aborted));
        assert_eq!(commit_meaning(Code::PermissionDenied), Meaning::Config);
        for code in ["RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED"] {
            assert!(of(Meaning::Again).contains(&code), "{code}");
        }
    }
}
