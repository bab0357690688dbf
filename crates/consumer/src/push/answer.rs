//! The HTTP answer: the status settles the message, headers say what was wrong.

use axum::body::Body;
use axum::response::Response;
use http::header::RETRY_AFTER;
use http::{HeaderName, HeaderValue, StatusCode};

use crate::Outcome;
use crate::log::cut;

/// What kind of failure it was; Postrider keeps it with the attempt and with the dead letter.
const ERROR_CLASS: HeaderName = HeaderName::from_static("postrider-error-class");
/// What was wrong, in words.
const ERROR: HeaderName = HeaderName::from_static("postrider-error");
/// Bytes of that, at most.
const ERROR_BYTES_MAX: usize = 1_024;
/// How long a sender is asked to wait when there are too many requests, in seconds.
const WAIT_S: HeaderValue = HeaderValue::from_static("1");

/// The answer of this status to a request whose message ended so.
pub(super) fn response(status: u16, outcome: &Outcome) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    if let (Some(class), Some(failure)) = (outcome.error_class(), outcome.failure()) {
        headers.insert(ERROR_CLASS, HeaderValue::from_static(class));
        if let Some(value) = header_text(&format!("{}: {}", failure.kind, failure.message)) {
            headers.insert(ERROR, value);
        }
    }
    if status == StatusCode::SERVICE_UNAVAILABLE.as_u16() {
        headers.insert(RETRY_AFTER, WAIT_S);
    }
    response
}

/// Text as a header may have it: control characters become spaces.
fn header_text(text: &str) -> Option<HeaderValue> {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    HeaderValue::from_bytes(cut(&text, ERROR_BYTES_MAX).as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Failure;

    #[test]
    fn an_answer_says_what_was_wrong_in_words_a_header_may_have() {
        let failure = Failure::new("InvalidJson", format!("line\n2: ü {}", "x".repeat(2_000)));
        let answer = response(400, &Outcome::Poison(failure));
        assert_eq!(answer.status(), 400);
        assert_eq!(answer.headers()[&ERROR_CLASS], "permanent");
        let said = answer.headers()[&ERROR].as_bytes();
        assert!(said.starts_with("InvalidJson: line 2: ü x".as_bytes()));
        assert_eq!(said.len(), ERROR_BYTES_MAX);
    }

    #[test]
    fn a_success_says_nothing() {
        let answer = response(204, &Outcome::Applied);
        assert_eq!(answer.status(), 204);
        assert!(answer.headers().is_empty());
    }
}
