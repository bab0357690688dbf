//! Whether a request is signed as Standard Webhooks has it.

use consumer::push::Verifier;
use domain::Timestamp;
use http::HeaderMap;

/// What is known about a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// No secret was given to check with.
    Unchecked,
    /// It is right.
    Good,
    /// Why it is not.
    Bad(&'static str),
}

impl Check {
    pub(super) fn is_bad(self) -> bool {
        matches!(self, Self::Bad(_))
    }

    /// For programs.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Unchecked => "unchecked",
            Self::Good => "good",
            Self::Bad(_) => "bad",
        }
    }

    /// For people; `None` where there is nothing to say.
    pub(super) fn text(self) -> Option<String> {
        match self {
            Self::Unchecked => None,
            Self::Good => Some("signed".to_owned()),
            Self::Bad(why) => Some(format!("BAD SIGNATURE: {why}")),
        }
    }

    pub(super) fn problem(self) -> Option<String> {
        match self {
            Self::Bad(why) => Some(why.to_owned()),
            _ => None,
        }
    }
}

/// Checks the signatures of a request; without a verifier there is nothing to check with.
pub(super) fn check(
    verifier: Option<&Verifier>,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Check {
    match verifier.map(|verifier| verifier.check(headers, body, now)) {
        None => Check::Unchecked,
        Some(Ok(())) => Check::Good,
        Some(Err(why)) => Check::Bad(why),
    }
}
