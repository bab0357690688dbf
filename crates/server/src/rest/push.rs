//! What is ours about pushing: inside `pushConfig`, and in the `postrider` object.

use std::time::Duration;

use domain::backoff::{Backoff, Phases, parse_wait, show_wait};
use domain::push::{BatchPush, Method, Secret, Signing};
use domain::subscription::PushRetry;
use domain::{Invalid, RetryPolicy, Timestamp};
use serde_json::{Map, Value, json};

use super::postrider::{number, show_time, text};
use crate::convert::{Extras, SigningAsk};

/// Takes what is ours out of a push config's JSON, so that the rest is Google's.
pub(super) fn take(place: &str, config: &mut Value, extras: &mut Extras) -> Result<(), Invalid> {
    let Value::Object(fields) = config else { return Ok(()) };
    for name in ["timeoutSeconds", "timeout_seconds"] {
        let field = format!("{place}{name}");
        let given = fields.remove(name).map_or(Ok(None), |value| seconds(&field, &value))?;
        agree(&field, &mut extras.push_timeout, given)?;
    }
    for name in ["retryPolicy", "retry_policy"] {
        let field = format!("{place}{name}");
        let given = fields.remove(name).map_or(Ok(None), |value| retry(&field, value))?;
        agree(&field, &mut extras.push_retry, given)?;
    }
    Ok(())
}

/// Puts a setting that was given in one more spelling where it belongs.
fn agree<T: PartialEq>(
    field: &str,
    setting: &mut Option<T>,
    given: Option<T>,
) -> Result<(), Invalid> {
    match (&*setting, given) {
        (Some(before), Some(given)) if *before != given => {
            Err(Invalid::new(field, "says another thing than another spelling of the setting"))
        }
        (None, given) => {
            *setting = given;
            Ok(())
        }
        (Some(_), _) => Ok(()),
    }
}

fn seconds(field: &str, value: &Value) -> Result<Option<Duration>, Invalid> {
    let seconds = number(field, value)?;
    Ok(seconds.map(|seconds| Duration::from_secs(seconds.into())))
}

/// `{"minimumBackoff": "10s", "maximumBackoff": "600s", "maxAttempts": 5}`, the waits also in
/// seconds.
fn retry(place: &str, value: Value) -> Result<Option<PushRetry>, Invalid> {
    let Some(object) = object(place, value)? else { return Ok(None) };
    let (mut min, mut max, mut attempts) = (None, None, None);
    for (name, value) in object {
        let field = format!("{place}.{name}");
        match name.as_str() {
            "minimumBackoff" | "minimum_backoff" => agree(&field, &mut min, wait(&field, value)?)?,
            "minBackoffSeconds" | "min_backoff_seconds" => {
                agree(&field, &mut min, seconds(&field, &value)?)?;
            }
            "maximumBackoff" | "maximum_backoff" => agree(&field, &mut max, wait(&field, value)?)?,
            "maxBackoffSeconds" | "max_backoff_seconds" => {
                agree(&field, &mut max, seconds(&field, &value)?)?;
            }
            "maxAttempts" | "max_attempts" => {
                agree(&field, &mut attempts, number(&field, &value)?)?;
            }
            _ => return Err(unknown(&field)),
        }
    }
    let default = RetryPolicy::default();
    let policy = RetryPolicy { min: min.unwrap_or(default.min), max: max.unwrap_or(default.max) };
    policy.validate().map_err(|invalid| {
        Invalid::new(format!("push_config.{}", invalid.field), invalid.problem)
    })?;
    Ok(Some(PushRetry { policy, attempts }))
}

/// A setting that `null` ends.
pub(super) fn or_none<T>(
    field: &str,
    value: Value,
    read: fn(&str, Value) -> Result<T, Invalid>,
) -> Result<Option<Option<T>>, Invalid> {
    if value.is_null() { Ok(Some(None)) } else { read(field, value).map(|read| Some(Some(read))) }
}

/// `["5s", "5m"]`, or `{"fast": {"min", "max", "retries"}, "slow": {"every", "retries"}}`.
pub(super) fn backoff(field: &str, value: Value) -> Result<Backoff, Invalid> {
    match value {
        Value::Array(steps) => {
            let steps = steps.into_iter().enumerate().map(|(at, step)| {
                let field = format!("{field}[{at}]");
                needed(&field, wait(&field, step)?)
            });
            Ok(Backoff::Ladder(steps.collect::<Result<_, _>>()?))
        }
        Value::Object(mut object) => {
            let fast = part(field, &mut object, "fast", ["min", "max", "retries"])?;
            let slow = part(field, &mut object, "slow", ["every", "retries", ""])?;
            if let Some(name) = object.keys().next() {
                return Err(unknown(&format!("{field}.{name}")));
            }
            Ok(Backoff::Phases(Phases {
                fast: RetryPolicy { min: fast.wait("min")?, max: fast.wait("max")? },
                fast_retries: fast.retries()?,
                slow_every: slow.wait("every")?,
                slow_retries: slow.retries()?,
            }))
        }
        _ => {
            Err(Invalid::new(field, r#"expected waits as in ["5s", "5m"], or fast and slow ones"#))
        }
    }
}

/// One phase as it was given: every field of it is needed.
struct Phase {
    place: String,
    fields: Map<String, Value>,
}

fn part(
    place: &str,
    object: &mut Map<String, Value>,
    name: &str,
    known: [&str; 3],
) -> Result<Phase, Invalid> {
    let place = format!("{place}.{name}");
    let given = object.remove(name).unwrap_or_default();
    let fields = needed(&place, self::object(&place, given)?)?;
    match fields.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(unknown(&format!("{place}.{key}"))),
        None => Ok(Phase { place, fields }),
    }
}

impl Phase {
    fn wait(&self, name: &str) -> Result<Duration, Invalid> {
        let field = format!("{}.{name}", self.place);
        let given = self.fields.get(name).cloned().unwrap_or_default();
        needed(&field, wait(&field, given)?)
    }

    fn retries(&self) -> Result<u32, Invalid> {
        let field = format!("{}.retries", self.place);
        let given = self.fields.get("retries").unwrap_or(&Value::Null);
        needed(&field, number(&field, given)?)
    }
}

/// `{"messages": 100, "bytes": 1048576, "linger": "0s"}`; what is not given has its default.
pub(super) fn batch(place: &str, value: Value) -> Result<BatchPush, Invalid> {
    let mut batch = BatchPush::default();
    for (name, value) in object(place, value)?.unwrap_or_default() {
        let field = format!("{place}.{name}");
        match name.as_str() {
            "messages" => batch.messages = number(&field, &value)?.unwrap_or(batch.messages),
            "bytes" => batch.bytes = number(&field, &value)?.unwrap_or(batch.bytes),
            "linger" => batch.linger = wait(&field, value)?.unwrap_or(batch.linger),
            _ => return Err(unknown(&field)),
        }
    }
    Ok(batch)
}

pub(super) fn rate(field: &str, value: Value) -> Result<u32, Invalid> {
    needed(field, number(field, &value)?)
}

pub(super) fn method(field: &str, value: Value) -> Result<Option<Method>, Invalid> {
    text(field, value)?.map(|text| Method::parse(field, &text)).transpose()
}

/// `{}` turns signing on, `{"secret": "whsec_…"}` gives the secret, `null` turns it off.
pub(super) fn signing(place: &str, value: Value) -> Result<Option<SigningAsk>, Invalid> {
    let Some(object) = object(place, value)? else { return Ok(Some(SigningAsk::Off)) };
    let mut ask = SigningAsk::On;
    for (name, value) in object {
        let field = format!("{place}.{name}");
        match name.as_str() {
            "secret" => {
                if let Some(text) = text(&field, value)? {
                    ask = SigningAsk::With(Secret::parse(&field, &text)?);
                }
            }
            // An answer that is sent back may still hold it; it sets nothing.
            "previousValidUntil" | "previous_valid_until" => {}
            _ => return Err(unknown(&field)),
        }
    }
    Ok(Some(ask))
}

fn wait(field: &str, value: Value) -> Result<Option<Duration>, Invalid> {
    text(field, value)?.map(|text| parse_wait(field, &text)).transpose()
}

fn object(field: &str, value: Value) -> Result<Option<Map<String, Value>>, Invalid> {
    match value {
        Value::Null => Ok(None),
        Value::Object(object) => Ok(Some(object)),
        _ => Err(Invalid::new(field, "expected an object")),
    }
}

fn needed<T>(field: &str, value: Option<T>) -> Result<T, Invalid> {
    value.ok_or_else(|| Invalid::new(field, "must be given"))
}

pub(super) fn unknown(field: &str) -> Invalid {
    let shown: String = field.chars().take(100).collect();
    Invalid::new(shown, "unknown field")
}

/// Adds what is ours to a push config that is shown.
pub(super) fn show_config(settings: &domain::Subscription, shown: &mut Map<String, Value>) {
    let timeout = settings.push.as_ref().and_then(|push| push.timeout);
    if let (Some(timeout), Some(Value::Object(config))) = (timeout, shown.get_mut("pushConfig")) {
        config.insert("timeoutSeconds".to_owned(), timeout.as_secs().into());
    }
}

/// Adds the push settings to our object: those that are set. `secret` is shown where it was set
/// just now.
pub(super) fn show_ours(
    settings: &domain::Subscription,
    secret: Option<&Secret>,
    now: Timestamp,
    ours: &mut Map<String, Value>,
) {
    if let Some(backoff) = &settings.backoff {
        ours.insert("backoff".to_owned(), show_backoff(backoff));
    }
    if !settings.headers.is_empty() {
        ours.insert("headers".to_owned(), json!(settings.headers));
    }
    if settings.push.is_some() || settings.method != Method::default() {
        ours.insert("method".to_owned(), settings.method.as_str().into());
    }
    if let Some(signing) = &settings.signing {
        ours.insert("signing".to_owned(), show_signing(signing, secret, now));
    }
    if let Some(BatchPush { messages, bytes, linger }) = settings.batch {
        let linger = show_wait(linger);
        let batch = json!({"messages": messages, "bytes": bytes, "linger": linger});
        ours.insert("batch".to_owned(), batch);
    }
    if let Some(rate) = settings.rate_max {
        ours.insert("rateLimit".to_owned(), rate.into());
    }
}

fn show_backoff(backoff: &Backoff) -> Value {
    match backoff {
        Backoff::Ladder(steps) => steps.iter().map(|step| show_wait(*step)).collect(),
        Backoff::Phases(phases) => json!({
            "fast": {
                "min": show_wait(phases.fast.min),
                "max": show_wait(phases.fast.max),
                "retries": phases.fast_retries,
            },
            "slow": {"every": show_wait(phases.slow_every), "retries": phases.slow_retries},
        }),
        // Only a retry policy makes one, and is shown as such.
        Backoff::Exponential(_) => Value::Null,
    }
}

fn show_signing(signing: &Signing, secret: Option<&Secret>, now: Timestamp) -> Value {
    let mut shown = Map::new();
    if let Some(secret) = secret {
        shown.insert("secret".to_owned(), secret.text().into());
    }
    if let Some(until) = signing.previous_valid_until(now) {
        shown.insert("previousValidUntil".to_owned(), show_time(until));
    }
    Value::Object(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn taken(mut config: Value) -> Result<Extras, Invalid> {
        let mut extras = Extras::default();
        take("push_config.", &mut config, &mut extras).map(|()| extras)
    }

    #[test]
    fn what_is_ours_is_taken_out_of_a_push_config() {
        let mut config = json!({
            "pushEndpoint": "http://h/", "timeoutSeconds": 7,
            "retryPolicy": {"minimumBackoff": "1s", "maxAttempts": 3},
        });
        let mut extras = Extras::default();
        take("", &mut config, &mut extras).unwrap();
        assert_eq!(config, json!({"pushEndpoint": "http://h/"}));
        assert_eq!(extras.push_timeout, Some(secs(7)));
        let policy = RetryPolicy { min: secs(1), max: secs(600) };
        assert_eq!(extras.push_retry, Some(PushRetry { policy, attempts: Some(3) }));
    }

    #[test]
    fn every_spelling_of_a_push_config_is_read() {
        let policy = RetryPolicy { min: secs(2), max: secs(20) };
        for retry in [
            json!({"minimumBackoff": "2s", "maximumBackoff": "20s"}),
            json!({"minimum_backoff": "2s", "maximum_backoff": "20s"}),
            json!({"minBackoffSeconds": 2, "maxBackoffSeconds": 20}),
            json!({"min_backoff_seconds": 2, "max_backoff_seconds": 20}),
            json!({"minBackoffSeconds": 2, "minimumBackoff": "2s", "maximumBackoff": "20s"}),
        ] {
            let extras = taken(json!({"retry_policy": retry, "timeout_seconds": 9})).unwrap();
            assert_eq!(extras.push_retry, Some(PushRetry { policy, attempts: None }));
            assert_eq!(extras.push_timeout, Some(secs(9)));
        }
        assert_eq!(
            taken(json!({"timeoutSeconds": null, "retryPolicy": null})),
            Ok(Extras::default())
        );
    }

    #[test]
    fn a_bad_push_config_is_refused_by_name() {
        for (config, field) in [
            (json!({"timeoutSeconds": "soon"}), "push_config.timeoutSeconds"),
            (json!({"timeoutSeconds": 1.5}), "push_config.timeoutSeconds"),
            (json!({"timeoutSeconds": -1}), "push_config.timeoutSeconds"),
            (json!({"timeoutSeconds": 1, "timeout_seconds": 2}), "push_config.timeout_seconds"),
            (json!({"retryPolicy": 5}), "push_config.retryPolicy"),
            (json!({"retryPolicy": {"min": "5s"}}), "push_config.retryPolicy.min"),
            (
                json!({"retryPolicy": {"minBackoffSeconds": 1, "minimumBackoff": "2s"}}),
                "push_config.retryPolicy.minimumBackoff",
            ),
            (
                json!({"retryPolicy": {"maximumBackoff": "1h"}}),
                "push_config.retry_policy.maximum_backoff",
            ),
            (
                json!({"retryPolicy": {"minBackoffSeconds": 700}}),
                "push_config.retry_policy.minimum_backoff",
            ),
        ] {
            assert_eq!(taken(config).unwrap_err().field, field);
        }
    }

    #[test]
    fn backoffs_are_read_as_they_are_shown() {
        for value in [
            json!(["5s", "5m", "30m", "2h"]),
            json!(["250ms", "5.5s"]),
            json!({
                "fast": {"min": "5s", "max": "5m", "retries": 30},
                "slow": {"every": "1h", "retries": 30},
            }),
        ] {
            assert_eq!(show_backoff(&backoff("f", value.clone()).unwrap()), value);
        }
        for (value, field) in [
            (json!("5s"), "f"),
            (json!(5), "f"),
            (json!([5]), "f[0]"),
            (json!(["5s", "soon"]), "f[1]"),
            (json!(["5s", null]), "f[1]"),
            (json!({}), "f.fast"),
            (json!({"fast": {"min": "5s", "max": "5m", "retries": 30}}), "f.slow"),
            (json!({"fast": {"min": "5s", "retries": 3}, "slow": {}}), "f.fast.max"),
            (json!({"fast": {"min": "5s", "max": "5s"}, "slow": {}}), "f.fast.retries"),
            (json!({"fast": {"mni": "5s"}, "slow": {}}), "f.fast.mni"),
            (json!({"fast": {}, "slow": {}, "mid": {}}), "f.mid"),
        ] {
            assert_eq!(backoff("f", value).unwrap_err().field, field);
        }
    }

    #[test]
    fn batches_have_defaults() {
        let read = |value| batch("b", value);
        assert_eq!(read(json!({})), Ok(BatchPush::default()));
        let given = BatchPush { messages: 7, bytes: 2_048, linger: Duration::from_millis(50) };
        let all = json!({"messages": 7, "bytes": 2_048, "linger": "50ms"});
        assert_eq!(read(all), Ok(given));
        for (value, field) in [
            (json!(5), "b"),
            (json!({"size": 5}), "b.size"),
            (json!({"messages": "many"}), "b.messages"),
            (json!({"linger": 5}), "b.linger"),
        ] {
            assert_eq!(read(value).unwrap_err().field, field);
        }
    }

    #[test]
    fn signing_is_off_on_or_with_a_secret() {
        let read = |value| signing("s", value).map(Option::unwrap);
        assert_eq!(read(json!(null)), Ok(SigningAsk::Off));
        assert_eq!(read(json!({})), Ok(SigningAsk::On));
        assert_eq!(read(json!({"previousValidUntil": "soon"})), Ok(SigningAsk::On));
        let secret = Secret::new(&[1; 32]);
        assert_eq!(secret.text(), SECRET);
        assert_eq!(read(json!({"secret": SECRET})), Ok(SigningAsk::With(secret)));
        for (value, field) in [
            (json!(true), "s"),
            (json!({"secret": 5}), "s.secret"),
            (json!({"secret": "whsec_AQE="}), "s.secret"),
            (json!({"key": SECRET}), "s.key"),
        ] {
            let error = read(value).unwrap_err();
            assert_eq!(error.field, field);
            assert!(!error.problem.contains("AQE"), "{error}");
        }
    }

    #[test]
    fn a_secret_is_shown_only_where_it_was_just_set() {
        let secret = Secret::new(&[1; 32]);
        let now = Timestamp(1_000_000);
        let signing = Signing::new(secret.clone());
        assert_eq!(show_signing(&signing, None, now), json!({}));
        assert_eq!(show_signing(&signing, Some(&secret), now), json!({"secret": SECRET}));
        let rotated = signing.rotated(Secret::new(&[2; 32]), now);
        let until = json!({"previousValidUntil": "1970-01-02T00:00:01Z"});
        assert_eq!(show_signing(&rotated, None, now), until);
        assert_eq!(show_signing(&rotated, None, now.plus(secs(86_400))), json!({}));
    }
}
