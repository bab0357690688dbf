//! Facts that hold for any input.

use std::time::{Duration as Span, SystemTime};

use proptest::prelude::*;
use wire::json;
use wire::protobuf::{Duration, Timestamp};
use wire::pubsub::{PublishRequest, PubsubMessage, Subscription};
use wire::rest::{self, METHODS};

/// Pieces that JSON and paths are made of, so that random texts get past the first character.
fn pieces(pieces: &'static [&'static str]) -> impl Strategy<Value = String> {
    let known = prop::sample::select(pieces).prop_map(str::to_owned);
    let piece = prop_oneof![8 => known, 1 => any::<String>()];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

const JSON: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "null",
    "true",
    "-1",
    "1e9",
    "2.5",
    "\"",
    "\"\"",
    "\"messages\":[{",
    "\"data\":",
    "\"aGk=\"",
    "\"attributes\":{",
    "\"publishTime\":",
    "\"2026-01-31T08:30:00Z\"",
    "\"retryPolicy\":{\"minimumBackoff\":",
    "\"10s\"",
    "\\u",
    "\\ud800",
    "\n",
    "é",
];

const PATH: &[&str] = &[
    "/v1/", "/", "projects", "/p", "/topics", "/t", ":publish", ":", "%2F", "%", "%c3", "%A9", "é",
    "..",
];

proptest! {
    #[test]
    fn no_text_breaks_the_reader(text in pieces(JSON)) {
        if let Err(error) = json::from_slice::<PublishRequest>(text.as_bytes()) {
            prop_assert!(!error.to_string().contains('\n'));
        }
        if let Err(error) = json::from_slice::<Subscription>(text.as_bytes()) {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }

    #[test]
    fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let mut text = b"{\"messages\":[{\"data\":\"".to_vec();
        text.extend_from_slice(&bytes);
        if let Err(error) = json::from_slice::<PublishRequest>(&text) {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }

    #[test]
    fn no_path_breaks_the_router(path in pieces(PATH), query in any::<String>()) {
        for method in METHODS.iter().take(6) {
            if let Ok(found) = rest::route(method.verb.as_str(), &path)
                && let Ok(request) = found.request(&query, None)
            {
                prop_assert!(request.is_object());
            }
        }
    }

    #[test]
    fn any_data_survives_json(data: Vec<u8>, key: String, value: String) {
        let message = PubsubMessage {
            data: data.into(),
            attributes: [(key, value)].into(),
            ..PubsubMessage::default()
        };
        let text = json::to_vec(&message).unwrap();
        prop_assert_eq!(json::from_slice(&text), Ok(message));
    }

    #[test]
    fn any_moment_survives_json(
        seconds in -62_135_596_800_i64..=253_402_300_799,
        nanos in 0..1_000_000_000,
    ) {
        let timestamp = Timestamp { seconds, nanos };
        let text = json::to_vec(&timestamp).unwrap();
        prop_assert_eq!(json::from_slice(&text), Ok(timestamp));
        let time = SystemTime::try_from(timestamp).unwrap();
        prop_assert_eq!(Timestamp::from(time), timestamp);
    }

    #[test]
    fn any_span_survives_json(seconds in 0..315_576_000_000_u64, nanos in 0..1_000_000_000_u32) {
        let span = Span::new(seconds, nanos);
        let text = json::to_vec(&Duration::from(span)).unwrap();
        let read: Duration = json::from_slice(&text).unwrap();
        prop_assert_eq!(Span::try_from(read), Ok(span));
    }
}
