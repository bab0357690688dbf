//! Turns an answer, or the lack of one, into the outcome of the request. What follows from that is
//! in `domain/push/outcome.rs`.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use domain::Timestamp;
use domain::delivery::Failure;
use domain::push::{Class, Health, Outcome, Success};
use domain::text::shortened;
use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};

use super::batch;
use super::exchange::{Answer, NoAnswer};

/// The header in which an endpoint gives the class of a failure.
const ERROR_CLASS: &str = "postrider-error-class";
/// The header in which an endpoint says what went wrong, as text.
const ERROR: &str = "postrider-error";
/// Maximum bytes of a failure's text.
const MESSAGE_BYTES_MAX: usize = 1_024;
/// Maximum bytes of an answer's body that become part of a failure's text.
const BODY_BYTES_SHOWN: usize = 200;
/// The longest an endpoint may ask to be sent nothing.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Classifies the answer to a request with `sent` messages, or the lack of one, received now. The
/// answer to a batch itself says how many it acks.
pub(crate) fn classify(
    answer: &Result<Answer, NoAnswer>,
    success: Success,
    sent: usize,
    is_batch: bool,
    now: Timestamp,
) -> Outcome {
    match answer {
        Err(none) if none.is_ours => Outcome::PutOff,
        Err(none) => {
            let message = Arc::from(shortened(&none.message, MESSAGE_BYTES_MAX));
            failed(none.class, None, message, None)
        }
        Ok(answer) if !success.includes(answer.status.as_u16()) => refusal(answer, now),
        Ok(answer) => {
            let count = if is_batch { batch::acked(&answer.body, sent) } else { sent };
            match count {
                0 => none_acked(answer),
                count => Outcome::Acked { count, status: answer.status.as_u16() },
            }
        }
    }
}

fn refusal(answer: &Answer, now: Timestamp) -> Outcome {
    let status = answer.status;
    let said = answer.headers.get(ERROR_CLASS).and_then(|said| Class::said(said.as_bytes()));
    let class = said.unwrap_or_else(|| Class::of_status(status.as_u16()));
    let message = match header_text(&answer.headers, ERROR) {
        Some(said) => Arc::from(shortened(&said, MESSAGE_BYTES_MAX)),
        None => status_text(answer).into(),
    };
    let retry_after = match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            retry_after(&answer.headers, now)
        }
        _ => None,
    };
    failed(class, Some(status.as_u16()), message, retry_after)
}

fn failed(
    class: Class,
    status: Option<u16>,
    message: Arc<str>,
    retry_after: Option<Duration>,
) -> Outcome {
    let failure = Failure { class: class.as_str(), status, message: Some(message), retry_after };
    Outcome::Failed { class, failure, health: class.health(status) }
}

/// The endpoint took the request and acked none of its messages.
fn none_acked(answer: &Answer) -> Outcome {
    let class = Class::Transient;
    let failure = Failure {
        status: Some(answer.status.as_u16()),
        message: Some(Arc::from("the response acks none of the messages")),
        ..Failure::of(class.as_str())
    };
    Outcome::Failed { class, failure, health: Health::Working }
}

/// How long the endpoint asked to be sent nothing, in seconds or until a date.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let said = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let asked = if !said.is_empty() && said.bytes().all(|byte| byte.is_ascii_digit()) {
        said.parse().map_or(RETRY_AFTER_MAX, Duration::from_secs)
    } else {
        let until = httpdate::parse_http_date(said).ok()?.duration_since(UNIX_EPOCH).ok()?;
        Timestamp::default().plus(until).since(now)
    };
    Some(asked.min(RETRY_AFTER_MAX)).filter(|asked| !asked.is_zero())
}

/// The status line and the beginning of the body, for people.
fn status_text(answer: &Answer) -> String {
    let mut text = format!("HTTP {}", answer.status.as_u16());
    if let Some(reason) = answer.status.canonical_reason() {
        text.push(' ');
        text.push_str(reason);
    }
    let shown = &answer.body[..answer.body.len().min(BODY_BYTES_SHOWN)];
    let shown = printable(String::from_utf8_lossy(shown));
    // If the body was truncated, a character may be cut in half.
    let shown = shown.trim_end_matches(char::REPLACEMENT_CHARACTER).trim();
    if !shown.is_empty() {
        text.push_str(": ");
        text.push_str(shown);
    }
    text
}

fn header_text(headers: &HeaderMap, name: &str) -> Option<String> {
    let text = printable(String::from_utf8_lossy(headers.get(name)?.as_bytes()));
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn printable(text: Cow<'_, str>) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_500_000);

    fn answer(status: u16, headers: &[(&'static str, &[u8])], body: &[u8]) -> Answer {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_bytes(value).unwrap()))
            .collect();
        Answer {
            status: StatusCode::from_u16(status).unwrap(),
            headers,
            body: Bytes::copy_from_slice(body),
            address: ([127, 0, 0, 1], 80).into(),
        }
    }

    /// The outcome of a request with one message.
    fn outcome(answer: Result<Answer, NoAnswer>, success: Success) -> Outcome {
        classify(&answer, success, 1, false, NOW)
    }

    fn refused(answer: Answer) -> (Class, Failure, Health) {
        match outcome(Ok(answer), Success::TwoHundreds) {
            Outcome::Failed { class, failure, health } => {
                assert_eq!(failure.class, class.as_str());
                (class, failure, health)
            }
            other => panic!("{other:?}"),
        }
    }

    fn message(answer: Answer) -> String {
        refused(answer).1.message.unwrap().as_ref().to_owned()
    }

    fn waits(status: u16, retry_after: &str) -> Option<Duration> {
        refused(answer(status, &[("retry-after", retry_after.as_bytes())], b"")).1.retry_after
    }

    #[test]
    fn only_the_success_codes_ack() {
        let acks = |success: Success| -> Vec<u16> {
            (100..=999)
                .filter(|&status| {
                    let outcome = outcome(Ok(answer(status, &[], b"")), success);
                    outcome == Outcome::Acked { count: 1, status }
                })
                .collect()
        };
        let all: Vec<u16> = std::iter::once(102).chain(200..=299).collect();
        assert_eq!(acks(Success::TwoHundreds), all);
        assert_eq!(acks(Success::Google), [102, 200, 201, 202, 204]);
    }

    #[test]
    fn a_success_is_one_whatever_its_headers_say() {
        let answer = answer(200, &[("postrider-error-class", b"permanent")], b"");
        let acked = Outcome::Acked { count: 1, status: 200 };
        assert_eq!(outcome(Ok(answer), Success::Google), acked);
    }

    #[test]
    fn statuses_have_classes_and_tell_of_the_endpoint() {
        for (status, class, health) in [
            (100, Class::Http3xx, Health::Working),
            (301, Class::Http3xx, Health::Working),
            (400, Class::Http4xx, Health::Working),
            (410, Class::Http4xx, Health::Working),
            (429, Class::Http4xx, Health::Down),
            (500, Class::Http5xx, Health::Down),
            (503, Class::Http5xx, Health::Down),
            (999, Class::Http5xx, Health::Down),
        ] {
            let (said, failure, health_said) = refused(answer(status, &[], b""));
            assert_eq!((said, health_said, failure.status), (class, health, Some(status)));
        }
    }

    #[test]
    fn an_endpoint_may_say_itself_what_is_wrong() {
        for (said, class, health) in [
            (&b"permanent"[..], Class::Permanent, Health::Working),
            (b" Config ", Class::Config, Health::Working),
            (b"transient", Class::Transient, Health::Down),
            (b"nonsense", Class::Http4xx, Health::Working),
            (b"\xff", Class::Http4xx, Health::Working),
        ] {
            let (found, _, health_found) =
                refused(answer(400, &[("postrider-error-class", said)], b""));
            assert_eq!((found, health_found), (class, health));
        }
        let said = answer(400, &[("postrider-error", "no such order: é".as_bytes())], b"body");
        assert_eq!(message(said), "no such order: é");
    }

    #[test]
    fn without_words_of_its_own_the_status_and_the_body_are_told() {
        assert_eq!(message(answer(500, &[], b"")), "HTTP 500 Internal Server Error");
        assert_eq!(message(answer(599, &[], b"x")), "HTTP 599: x");
        let body = b" line\r\none\x00\x1b[31m ";
        assert_eq!(message(answer(404, &[], body)), "HTTP 404 Not Found: line  one  [31m");
        let long = "é".repeat(1_000);
        let text = message(answer(404, &[], format!("x{long}").as_bytes()));
        assert_eq!(text, format!("HTTP 404 Not Found: x{}", "é".repeat(99)));
        assert_eq!(message(answer(400, &[("postrider-error", b" ")], b"")), "HTTP 400 Bad Request");
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_and_only_of_429_and_503() {
        let seconds = |seconds: u64| Some(Duration::from_secs(seconds));
        assert_eq!(waits(429, "7"), seconds(7));
        assert_eq!(waits(503, " 120 "), seconds(120));
        assert_eq!(waits(500, "7"), None);
        assert_eq!(waits(503, "99999999999999999999999"), seconds(86_400));
        for nothing in ["0", "", "-1", "1.5", "soon", "Fri, 15 Jan 2027 07:59:00 GMT"] {
            assert_eq!(waits(503, nothing), None, "{nothing}");
        }
        let until = waits(503, "Fri, 15 Jan 2027 08:00:10 GMT");
        assert_eq!(until, Some(Duration::from_millis(9_500)));
        assert_eq!(waits(429, "Fri, 15 Jan 2049 08:00:10 GMT"), seconds(86_400));
    }

    #[test]
    fn no_answer_is_a_failure_with_its_class() {
        for (class, health) in [
            (Class::Timeout, Health::Down),
            (Class::Protocol, Health::Down),
            (Class::Connect, Health::Unreachable),
            (Class::Dns, Health::Unreachable),
            (Class::Tls, Health::Unreachable),
            (Class::Blocked, Health::Unreachable),
        ] {
            let none = NoAnswer { class, message: "why".into(), address: None, is_ours: false };
            let expected = Failure {
                class: class.as_str(),
                status: None,
                message: Some("why".into()),
                retry_after: None,
            };
            assert_eq!(
                outcome(Err(none), Success::TwoHundreds),
                Outcome::Failed { class, failure: expected, health }
            );
        }
    }

    #[test]
    fn what_our_own_limits_held_up_is_put_off() {
        let (class, message) =
            (Class::Connect, "too many other connection attempts are stuck".into());
        let none = NoAnswer { class, message, address: None, is_ours: true };
        assert_eq!(outcome(Err(none), Success::TwoHundreds), Outcome::PutOff);
    }

    #[test]
    fn the_answer_to_a_batch_says_how_many_it_acks() {
        let batch = |status, body: &[u8]| {
            classify(&Ok(answer(status, &[], body)), Success::TwoHundreds, 3, true, NOW)
        };
        for (body, count) in [(&b""[..], 3), (b"{\"acked\": 2}", 2), (b"{\"acked\": 9}", 3)] {
            assert_eq!(batch(201, body), Outcome::Acked { count, status: 201 });
        }
        let Outcome::Failed { class, failure, health } = batch(200, b"{\"acked\": 0}") else {
            panic!("acked")
        };
        assert_eq!((class, health, failure.status), (Class::Transient, Health::Working, Some(200)));
        let Outcome::Failed { class, .. } = batch(500, b"{\"acked\": 2}") else { panic!("acked") };
        assert_eq!(class, Class::Http5xx);
        let whole = Ok(answer(200, &[], b"{\"acked\": 0}"));
        let single = classify(&whole, Success::TwoHundreds, 1, false, NOW);
        assert_eq!(single, Outcome::Acked { count: 1, status: 200 }, "a body of no batch");
    }

    proptest! {
        #[test]
        fn no_text_is_longer_than_its_bound_or_panics(
            said in "\\PC{0,600}",
            body in proptest::collection::vec(any::<u8>(), 0..400),
        ) {
            let with_header = answer(400, &[("postrider-error", said.as_bytes())], &body);
            prop_assert!(message(with_header).len() <= 1_024);
            let text = message(answer(500, &[], &body));
            prop_assert!(text.len() <= 1_024 && !text.chars().any(char::is_control));
            let (class, message) = (Class::Dns, said.into());
            let none = NoAnswer { class, message, address: None, is_ours: false };
            let Outcome::Failed { failure, .. } = outcome(Err(none), Success::Google) else {
                panic!("acked")
            };
            prop_assert!(failure.message.unwrap().len() <= 1_024);
        }
    }
}
