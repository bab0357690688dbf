//! The one line of JSON that is written for each message.
//!
//! `docs/consumer/log-line.schema.json` says what is in it. Every field is in every line; what is
//! not known is null.

use std::io::Write;

use serde::Serialize;

use crate::consumer::Settled;
use crate::rules::{Level, Settle};
use crate::{Failure, Known, Outcome, Settings, clock};

/// Bytes of an error's text, at most.
const ERROR_BYTES_MAX: usize = 1_024;

/// Where lines go. Called for each message, so it must be quick.
pub trait Lines: Send + Sync + 'static {
    /// Writes one line, which has no line end yet.
    fn write(&self, level: Level, line: &str);
}

/// Writes lines to standard output.
#[derive(Clone, Copy, Debug)]
pub struct Stdout;

impl Lines for Stdout {
    fn write(&self, _level: Level, line: &str) {
        let mut out = std::io::stdout().lock();
        // Nobody is left to be told when standard output is gone.
        let written = out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n"));
        drop(written);
    }
}

/// What is said of one message.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line<'a> {
    severity: &'static str,
    time: String,
    message: &'static str,
    service: &'a str,
    env: &'a str,
    version: &'a str,
    subscription: Option<&'a str>,
    topic: Option<&'a str>,
    #[serde(rename = "messageId")]
    message_id: Option<&'a str>,
    #[serde(rename = "publishTime")]
    publish_time: Option<String>,
    #[serde(rename = "deliveryAttempt")]
    delivery_attempt: Option<u32>,
    handler: Option<&'a str>,
    event_type: Option<&'a str>,
    #[serde(rename = "schemaVersion")]
    schema_version: Option<&'a str>,
    outcome: &'static str,
    http_status: Option<u16>,
    ack_action: Option<&'static str>,
    write_kind: Option<&'a str>,
    doc_path: Option<&'a str>,
    idempotency_doc: Option<&'a str>,
    error_class: Option<&'static str>,
    error_type: Option<&'a str>,
    error_code: Option<&'a str>,
    error: Option<&'a str>,
    retryable: bool,
    duration_ms: f64,
}

impl<'a> Line<'a> {
    pub(crate) fn new(settings: &'a Settings, known: &'a Known, settled: &Settled<'a>) -> Self {
        let Settled { message, handled, answer, took, .. } = *settled;
        let about = &handled.about;
        let failure = handled.outcome.failure();
        let (http_status, ack_action) = settled_as(answer.settle);
        Self {
            severity: severity(answer.level),
            time: clock::text(clock::wall()),
            message: summary(&handled.outcome, answer.settle),
            service: &settings.service,
            env: &settings.environment,
            version: &settings.version,
            subscription: message.subscription.as_deref().or(known.subscription.as_deref()),
            topic: known.topic.as_deref(),
            message_id: Some(message.id.as_str()).filter(|id| !id.is_empty()),
            publish_time: message.publish_time.map(clock::text),
            delivery_attempt: message.delivery_attempt,
            handler: about.handler.as_deref(),
            event_type: about.event_type.as_deref(),
            schema_version: about.schema_version.as_deref(),
            outcome: handled.outcome.word(),
            http_status,
            ack_action,
            write_kind: about.write_kind.as_deref(),
            doc_path: about.doc_path.as_deref(),
            idempotency_doc: about.idempotency_doc.as_deref(),
            error_class: handled.outcome.error_class(),
            error_type: failure.map(|failure| failure.kind.as_str()),
            error_code: failure.and_then(|failure| failure.code.as_deref()),
            error: failure.map(bounded),
            retryable: answer.retryable,
            duration_ms: took.as_secs_f64() * 1_000.0,
        }
    }

    /// The line, without its end.
    pub(crate) fn text(&self) -> String {
        // Text and numbers always have a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn settled_as(settle: Settle) -> (Option<u16>, Option<&'static str>) {
    match settle {
        Settle::Status(status) => (Some(status), None),
        Settle::Ack => (None, Some("ack")),
        Settle::Nack => (None, Some("nack")),
    }
}

fn severity(level: Level) -> &'static str {
    match level {
        Level::Info => "INFO",
        Level::Error => "ERROR",
    }
}

fn summary(outcome: &Outcome, settle: Settle) -> &'static str {
    match (outcome, settle.is_ack()) {
        (Outcome::Applied, _) => "message applied",
        (Outcome::Duplicate, _) => "message was handled before",
        (Outcome::StaleIgnored, _) => "message was overtaken by a later one",
        (Outcome::Poison(_), true) => "message can never be handled",
        (Outcome::Poison(_), false) => "message can never be handled, given back",
        (Outcome::Transient(_), _) => "message is to be tried again",
        (Outcome::Config(_), _) => "message waits for the set-up to be put right",
    }
}

fn bounded(failure: &Failure) -> &str {
    cut(&failure.message, ERROR_BYTES_MAX)
}

/// The beginning of `text`, at most so many bytes and whole characters.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or_default()
}
