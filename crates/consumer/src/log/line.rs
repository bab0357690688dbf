//! What a line says. `docs/consumer/log-line.schema.json` has its fields; every field is in every
//! line, and what is not known is null.
//!
//! It is written by hand and not by a serializer, since it is made for each message: names are
//! constants, and what is the same in all lines is made once.

use std::time::Duration;

use crate::consumer::Settled;
use crate::rules::{Answer, Level, Settle};
use crate::{About, Failure, Known, Outcome, Settings, clock};

/// Bytes of an error's text, at most.
const ERROR_BYTES_MAX: usize = 1_024;

/// About how long a line is.
const LINE_BYTES: usize = 1_000;

/// What all lines of a consumer have in common.
#[derive(Debug)]
pub(crate) struct Template {
    /// `service`, `env` and `version`.
    program: String,
    /// `subscription` and `topic`, for messages of the subscription that is known.
    source: String,
    subscription: Option<String>,
    topic: Option<String>,
}

impl Template {
    pub(crate) fn new(settings: &Settings, known: &Known) -> Self {
        let mut program = String::new();
        put(&mut program, ",\"service\":", Some(&settings.service));
        put(&mut program, ",\"env\":", Some(&settings.environment));
        put(&mut program, ",\"version\":", Some(&settings.version));
        let (subscription, topic) = (known.subscription.clone(), known.topic.clone());
        let source = source(subscription.as_deref(), topic.as_deref());
        Self { program, source, subscription, topic }
    }

    /// The line of a message, without its end.
    pub(crate) fn line(&self, settled: &Settled<'_>) -> String {
        let Settled { message, handled, answer, took, .. } = *settled;
        let mut out = String::with_capacity(LINE_BYTES);
        out.push_str(severity(answer.level));
        out.push_str(",\"time\":\"");
        clock::write_text(clock::wall(), &mut out);
        out.push_str("\",\"message\":\"");
        out.push_str(summary(&handled.outcome, answer.settle));
        out.push('"');
        out.push_str(&self.program);
        match message.subscription.as_deref() {
            Some(other) if Some(other) != self.subscription.as_deref() => {
                out.push_str(&source(Some(other), self.topic.as_deref()));
            }
            _ => out.push_str(&self.source),
        }
        put(&mut out, ",\"messageId\":", Some(message.id.as_str()).filter(|id| !id.is_empty()));
        put_time(&mut out, ",\"publishTime\":", message.publish_time);
        put_number(&mut out, ",\"deliveryAttempt\":", message.delivery_attempt);
        put_about(&mut out, &handled.about);
        put_error(&mut out, &handled.outcome);
        put_answer(&mut out, &handled.outcome, answer);
        put_milliseconds(&mut out, took);
        out.push('}');
        out
    }
}

fn source(subscription: Option<&str>, topic: Option<&str>) -> String {
    let mut out = String::new();
    put(&mut out, ",\"subscription\":", subscription);
    put(&mut out, ",\"topic\":", topic);
    out
}

/// Mostly a handler says nothing of these, and they are added in one piece.
fn put_about(out: &mut String, about: &About) {
    if *about == About::default() {
        return out.push_str(
            ",\"handler\":null,\"event_type\":null,\"schemaVersion\":null,\"write_kind\":null,\
             \"doc_path\":null,\"idempotency_doc\":null",
        );
    }
    put(out, ",\"handler\":", about.handler.as_deref());
    put(out, ",\"event_type\":", about.event_type.as_deref());
    put(out, ",\"schemaVersion\":", about.schema_version.as_deref());
    put(out, ",\"write_kind\":", about.write_kind.as_deref());
    put(out, ",\"doc_path\":", about.doc_path.as_deref());
    put(out, ",\"idempotency_doc\":", about.idempotency_doc.as_deref());
}

fn put_error(out: &mut String, outcome: &Outcome) {
    let Some(failure) = outcome.failure() else {
        return out.push_str(
            ",\"error_class\":null,\"error_type\":null,\"error_code\":null,\"error\":null",
        );
    };
    put(out, ",\"error_class\":", outcome.error_class());
    put(out, ",\"error_type\":", Some(kind(failure)));
    put(out, ",\"error_code\":", failure.code.as_deref());
    put(out, ",\"error\":", Some(cut(&failure.message, ERROR_BYTES_MAX)));
}

fn put_answer(out: &mut String, outcome: &Outcome, answer: Answer) {
    out.push_str(",\"outcome\":\"");
    out.push_str(outcome.word());
    match answer.settle {
        Settle::Ack => out.push_str("\",\"http_status\":null,\"ack_action\":\"ack\""),
        Settle::Nack => out.push_str("\",\"http_status\":null,\"ack_action\":\"nack\""),
        Settle::Status(status) => {
            put_number(out, "\",\"http_status\":", Some(status.into()));
            put(out, ",\"ack_action\":", None);
        }
    }
    out.push_str(if answer.retryable { ",\"retryable\":true" } else { ",\"retryable\":false" });
}

/// Adds a field; its name comes with the comma before it and the colon.
fn put(out: &mut String, name: &str, value: Option<&str>) {
    out.push_str(name);
    let Some(value) = value else { return out.push_str("null") };
    if value.bytes().any(|byte| byte < b' ' || byte == b'"' || byte == b'\\') {
        // Text always has a JSON form.
        return out.push_str(&serde_json::to_string(value).unwrap_or_default());
    }
    out.push('"');
    out.push_str(value);
    out.push('"');
}

fn put_time(out: &mut String, name: &str, time: Option<domain::Timestamp>) {
    let Some(time) = time else { return put(out, name, None) };
    out.push_str(name);
    out.push('"');
    clock::write_text(time, out);
    out.push('"');
}

fn put_number(out: &mut String, name: &str, number: Option<u32>) {
    out.push_str(name);
    match number {
        Some(number) => out.push_str(itoa::Buffer::new().format(number)),
        None => out.push_str("null"),
    }
}

/// Whole microseconds, as milliseconds.
fn put_milliseconds(out: &mut String, took: Duration) {
    let micros = took.as_micros();
    let (whole, mut rest) = (micros / 1_000, micros % 1_000);
    out.push_str(",\"duration_ms\":");
    out.push_str(itoa::Buffer::new().format(whole));
    out.push('.');
    for place in [100, 10, 1] {
        out.push(char::from(b'0' + u8::try_from(rest / place).unwrap_or_default()));
        rest %= place;
    }
}

/// The beginning of a line.
fn severity(level: Level) -> &'static str {
    match level {
        Level::Info => "{\"severity\":\"INFO\"",
        Level::Error => "{\"severity\":\"ERROR\"",
    }
}

fn summary(outcome: &Outcome, settle: Settle) -> &'static str {
    match (outcome, settle.is_ack()) {
        (Outcome::Applied, _) => "message applied",
        (Outcome::Duplicate, _) => "message was handled before",
        (Outcome::StaleIgnored, _) => "a later message was already applied",
        (Outcome::Poison(_), true) => "message can never be handled",
        (Outcome::Poison(_), false) => "message can never be handled, nacked",
        (Outcome::Transient(_), _) => "message will be retried",
        (Outcome::Config(_), _) => "message waits for the setup to be fixed",
    }
}

/// A handler may have left it out; the line may not.
fn kind(failure: &Failure) -> &str {
    if failure.kind.is_empty() { "Unknown" } else { &failure.kind }
}

/// The beginning of `text`, at most this many bytes and whole characters.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::consumer::given_back;
    use crate::rules::Way;
    use crate::{Handled, Message};

    fn line(message: &Message, handled: &Handled, took: Duration) -> Value {
        let settings = Settings::new("a \"service\"", "1\n2");
        let known = Known::without_policy("projects/p/subscriptions/known");
        let (way, answer) = (Way::Pull, given_back(Way::Pull));
        let text =
            Template::new(&settings, &known).line(&Settled { message, way, handled, answer, took });
        assert!(!text.contains('\n'), "{text}");
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn whatever_is_in_a_field_the_line_is_json() {
        let odd = "\u{0}\"\\\u{7f}ü\u{2028}\r\n";
        let message = Message {
            id: odd.to_owned(),
            subscription: Some(odd.into()),
            publish_time: Some(domain::Timestamp(1_800_000_000_000_001)),
            delivery_attempt: Some(u32::MAX),
            ..Message::default()
        };
        let failure = Failure { code: Some(odd.to_owned()), ..Failure::new(odd, odd) };
        let handled = Handled {
            about: About {
                handler: Some(odd.to_owned()),
                doc_path: Some(odd.to_owned()),
                ..About::default()
            },
            outcome: Outcome::Poison(failure),
        };
        let line = line(&message, &handled, Duration::from_micros(1_234_056));
        for field in [
            "messageId",
            "subscription",
            "handler",
            "doc_path",
            "error_type",
            "error_code",
            "error",
        ] {
            assert_eq!(line[field], odd, "{field}");
        }
        assert_eq!(line["service"], "a \"service\"");
        assert_eq!(line["version"], "1\n2");
        assert_eq!(line["publishTime"], "2027-01-15T08:00:00.000001Z");
        assert_eq!(line["deliveryAttempt"], json!(u32::MAX));
        assert_eq!(line["duration_ms"], json!(1_234.056));
        assert_eq!(line["severity"], "ERROR");
    }

    #[test]
    fn what_is_not_known_is_null_and_the_known_subscription_stands_in() {
        let handled = Handled::from(Outcome::Transient(Failure::default()));
        let line = line(&Message::default(), &handled, Duration::ZERO);
        assert_eq!(line["subscription"], "projects/p/subscriptions/known");
        assert_eq!(line["duration_ms"], json!(0.0));
        assert_eq!(line["error_type"], "Unknown");
        for field in ["topic", "messageId", "publishTime", "deliveryAttempt", "handler"] {
            assert_eq!(line[field], Value::Null, "{field}");
        }
    }
}
