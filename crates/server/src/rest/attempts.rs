//! `/v1/{subscription}/attempts`: push attempts and their results.

use std::time::Duration;

use broker::NumberedAttempt;
use domain::Invalid;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use wire::json::from_value;

use super::postrider::show_time;
use crate::api::{Api, AttemptsPage, ListAttempts};
use crate::status::Result;

pub(super) async fn list(api: &Api, request: Value) -> Result<Value> {
    Ok(show(&api.list_attempts(&ListRequest::read(request)?).await?))
}

/// What the query says, all of it text.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ListRequest {
    subscription: String,
    class: String,
    #[serde(alias = "message_id")]
    message_id: String,
    #[serde(alias = "page_size")]
    page_size: String,
    #[serde(alias = "page_token")]
    page_token: String,
}

impl ListRequest {
    fn read(request: Value) -> Result<ListAttempts> {
        let Self { subscription, class, message_id, page_size, page_token } = from_value(request)?;
        let page_size = match page_size.as_str() {
            "" => 0,
            text => text.parse().map_err(|_| Invalid::new("page_size", "expected a number"))?,
        };
        Ok(ListAttempts { subscription, class, message_id, page_size, page_token })
    }
}

fn show(page: &AttemptsPage) -> Value {
    let attempts: Vec<Value> = page.attempts.iter().map(show_attempt).collect();
    json!({ "attempts": attempts, "nextPageToken": page.next_page_token })
}

/// One attempt; what it does not have is left out.
fn show_attempt(numbered: &NumberedAttempt) -> Value {
    let attempt = &numbered.attempt;
    let response = String::from_utf8_lossy(&attempt.response);
    let fields = [
        ("time", Some(show_time(attempt.at))),
        ("messageId", Some(json!(attempt.offset.to_string()))),
        ("attempt", Some(json!(attempt.attempt))),
        ("address", attempt.address.map(|address| json!(address.to_string()))),
        ("status", attempt.status.map(|status| json!(status))),
        ("class", Some(json!(attempt.class))),
        ("durationMs", Some(millis(attempt.duration))),
        ("response", (!response.is_empty()).then(|| json!(response))),
        ("error", attempt.error.as_ref().map(|error| json!(**error))),
    ];
    let known = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(Map::from_iter(known))
}

/// Milliseconds, to the microsecond.
fn millis(duration: Duration) -> Value {
    json!((duration.as_secs_f64() * 1_000_000.0).round() / 1_000.0)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use domain::{Offset, SubscriptionId, Timestamp};
    use storage::Attempt;
    use tonic::Code;

    use super::*;

    #[test]
    fn queries_are_read_and_nothing_else_is() {
        let request = json!({
            "subscription": "s", "class": "dns", "messageId": "7", "pageSize": "5",
            "pageToken": "t",
        });
        let read = ListRequest::read(request).unwrap();
        assert_eq!((read.subscription.as_str(), read.class.as_str()), ("s", "dns"));
        assert_eq!((read.message_id.as_str(), read.page_token.as_str()), ("7", "t"));
        assert_eq!(read.page_size, 5);
        for (request, name) in
            [(json!({"klass": "dns"}), "klass"), (json!({"pageSize": "many"}), "page_size")]
        {
            let refusal = ListRequest::read(request).unwrap_err();
            assert_eq!(refusal.code, Code::InvalidArgument);
            assert!(refusal.to_string().starts_with(&format!("{name}: ")), "{refusal}");
        }
    }

    #[test]
    fn an_attempt_shows_what_is_known_of_it() {
        let failed = Attempt {
            subscription: SubscriptionId(1),
            offset: Offset(7),
            attempt: 2,
            at: Timestamp(1_500_000),
            duration: Duration::from_micros(12_300),
            address: Some(([127, 0, 0, 1], 8_080).into()),
            status: Some(500),
            class: "http_5xx".into(),
            error: Some("out of paper".into()),
            response: Bytes::from_static(b"no\xff"),
        };
        let plain = Attempt {
            address: None,
            status: None,
            class: "dns".into(),
            error: None,
            response: Bytes::new(),
            ..failed
        };
        let number = |number, attempt| NumberedAttempt { number, attempt };
        let page = AttemptsPage {
            attempts: vec![number(2, failed), number(1, plain)],
            next_page_token: String::new(),
        };
        let expected = json!({
            "attempts": [
                {
                    "time": "1970-01-01T00:00:01.500Z", "messageId": "7", "attempt": 2,
                    "address": "127.0.0.1:8080", "status": 500, "class": "http_5xx",
                    "durationMs": 12.3, "response": "no\u{fffd}", "error": "out of paper",
                },
                {
                    "time": "1970-01-01T00:00:01.500Z", "messageId": "7", "attempt": 2,
                    "class": "dns", "durationMs": 12.3,
                },
            ],
            "nextPageToken": "",
        });
        assert_eq!(show(&page), expected);
    }
}
