//! What a consumer counts, as text for Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::Outcome;
use crate::consumer::Settled;
use crate::log::cut;
use crate::rules::Way;

/// Upper bounds of the buckets of handling time, in microseconds.
const BUCKETS_US: [u64; 12] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 250_000, 1_000_000, 5_000_000, 15_000_000,
    60_000_000,
];
/// Different codes of errors that are counted apart, at most; further ones are `other`.
const CODES_MAX: usize = 64;
/// Bytes of a code, at most.
const CODE_BYTES_MAX: usize = 64;

const WAYS: [&str; 2] = ["push", "pull"];
const OUTCOMES: [&str; 5] = ["applied", "duplicate", "stale_ignored", "poison", "retry"];

/// What was counted since the start.
#[derive(Debug, Default)]
pub struct Metrics {
    /// By way and outcome.
    messages: [[AtomicU64; 5]; 2],
    /// By bucket; the last one holds what took longer than all bounds.
    buckets: [AtomicU64; 13],
    took_us: AtomicU64,
    errors: Mutex<BTreeMap<(&'static str, String), u64>>,
    forwarded: AtomicU64,
    reconnects: AtomicU64,
    extended: AtomicU64,
    acks_refused: AtomicU64,
    outstanding: AtomicU64,
    is_unhealthy: AtomicBool,
}

impl Metrics {
    pub(crate) fn count(&self, settled: &Settled<'_>) {
        let outcome = &settled.handled.outcome;
        let way = match settled.way {
            Way::Push => 0,
            Way::Pull => 1,
        };
        if let Some(count) = self.messages.get(way).and_then(|counts| counts.get(place(outcome))) {
            add(count, 1);
        }
        self.count_time(settled.took);
        if let (Some(class), Some(failure)) = (outcome.error_class(), outcome.failure()) {
            self.count_error(class, failure.code.as_deref().unwrap_or(&failure.kind));
        }
    }

    fn count_time(&self, took: Duration) {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let at = BUCKETS_US.iter().position(|bound| took_us <= *bound);
        if let Some(bucket) = self.buckets.get(at.unwrap_or(BUCKETS_US.len())) {
            add(bucket, 1);
        }
        add(&self.took_us, took_us);
    }

    fn count_error(&self, class: &'static str, code: &str) {
        let mut errors = self.errors.lock();
        let code = cut(code, CODE_BYTES_MAX).to_owned();
        let is_full = errors.len() >= CODES_MAX && !errors.contains_key(&(class, code.clone()));
        let code = if is_full { "other".to_owned() } else { code };
        *errors.entry((class, code)).or_default() += 1;
    }

    pub(crate) fn count_forwarded(&self) {
        add(&self.forwarded, 1);
    }

    pub(crate) fn count_reconnect(&self) {
        add(&self.reconnects, 1);
    }

    pub(crate) fn count_extended(&self, leases: usize) {
        add(&self.extended, leases as u64);
    }

    pub(crate) fn count_acks_refused(&self, acks: usize) {
        add(&self.acks_refused, acks as u64);
    }

    pub(crate) fn set_outstanding(&self, leases: usize) {
        self.outstanding.store(leases as u64, Ordering::Relaxed);
    }

    pub(crate) fn set_healthy(&self, is_healthy: bool) {
        self.is_unhealthy.store(!is_healthy, Ordering::Relaxed);
    }

    /// Whether messages can come: a pull consumer has its stream.
    pub fn is_healthy(&self) -> bool {
        !self.is_unhealthy.load(Ordering::Relaxed)
    }

    /// How many messages ended so: `way` is `push` or `pull`, `outcome` a word of the log line.
    pub fn messages(&self, way: &str, outcome: &str) -> u64 {
        let way = WAYS.iter().position(|word| *word == way);
        let outcome = OUTCOMES.iter().position(|word| *word == outcome);
        let counts = way.and_then(|way| self.messages.get(way));
        let count = counts.zip(outcome).and_then(|(counts, outcome)| counts.get(outcome));
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// All of it, in Prometheus's text format.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.put_messages(&mut out);
        self.put_times(&mut out);
        self.put_errors(&mut out);
        for (name, kind, help, value) in [
            (
                "forwarded_total",
                "counter",
                "Poison published to dead letter topics",
                &self.forwarded,
            ),
            ("reconnects_total", "counter", "Streams reopened", &self.reconnects),
            ("leases_extended_total", "counter", "Ack deadlines moved", &self.extended),
            ("acks_refused_total", "counter", "Acks that the server refused", &self.acks_refused),
            ("outstanding_messages", "gauge", "Leases not yet settled", &self.outstanding),
        ] {
            head(&mut out, name, kind, help);
            sample(&mut out, name, "", value.load(Ordering::Relaxed));
        }
        head(&mut out, "up", "gauge", "Whether messages can arrive");
        sample(&mut out, "up", "", u64::from(self.is_healthy()));
        out
    }

    fn put_messages(&self, out: &mut String) {
        head(out, "messages_total", "counter", "Messages handled, by way and outcome");
        for (way, counts) in WAYS.iter().zip(&self.messages) {
            for (outcome, count) in OUTCOMES.iter().zip(counts) {
                let labels = format!("{{way=\"{way}\",outcome=\"{outcome}\"}}");
                sample(out, "messages_total", &labels, count.load(Ordering::Relaxed));
            }
        }
    }

    fn put_times(&self, out: &mut String) {
        head(out, "handle_seconds", "histogram", "Time to handle a message");
        let mut sum = 0;
        for (at, bucket) in self.buckets.iter().enumerate() {
            sum += bucket.load(Ordering::Relaxed);
            let bound = BUCKETS_US.get(at).map_or("+Inf".to_owned(), |bound| seconds(*bound));
            sample(out, "handle_seconds_bucket", &format!("{{le=\"{bound}\"}}"), sum);
        }
        let took = seconds(self.took_us.load(Ordering::Relaxed));
        put(out, format_args!("postrider_consumer_handle_seconds_sum {took}\n"));
        sample(out, "handle_seconds_count", "", sum);
    }

    fn put_errors(&self, out: &mut String) {
        head(out, "errors_total", "counter", "Messages that failed, by class and code");
        for ((class, code), count) in &*self.errors.lock() {
            let labels = format!("{{class=\"{class}\",code=\"{}\"}}", escaped(code));
            sample(out, "errors_total", &labels, *count);
        }
    }
}

/// Where an outcome stands in `OUTCOMES`.
fn place(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Applied => 0,
        Outcome::Duplicate => 1,
        Outcome::StaleIgnored => 2,
        Outcome::Poison(_) => 3,
        Outcome::Transient(_) | Outcome::Config(_) => 4,
    }
}

fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

fn seconds(micros: u64) -> String {
    Duration::from_micros(micros).as_secs_f64().to_string()
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    put(out, format_args!("# HELP postrider_consumer_{name} {help}.\n"));
    put(out, format_args!("# TYPE postrider_consumer_{name} {kind}\n"));
}

fn sample(out: &mut String, name: &str, labels: &str, value: u64) {
    put(out, format_args!("postrider_consumer_{name}{labels} {value}\n"));
}

#[expect(clippy::expect_used, reason = "writing to a string cannot fail")]
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes all text");
}

fn escaped(text: &str) -> String {
    let keep = |c: char| if c == '"' || c == '\\' || c.is_control() { '_' } else { c };
    text.chars().map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Failure;

    #[test]
    fn every_outcome_is_counted_under_its_word() {
        let failure = Failure::default;
        for outcome in [
            Outcome::Applied,
            Outcome::Duplicate,
            Outcome::StaleIgnored,
            Outcome::Poison(failure()),
            Outcome::Transient(failure()),
            Outcome::Config(failure()),
        ] {
            assert_eq!(OUTCOMES[place(&outcome)], outcome.word());
        }
    }
}
