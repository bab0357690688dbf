//! Settings whose value is an object or a list: how each is read from a document and shown.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{SigningAsk, Subscription};
use crate::backoff::{Backoff, Phases, show_wait};
use crate::error::Invalid;
use crate::filter::Filter;
use crate::limits::EXPIRATION_DEFAULT;
use crate::policy::RetryPolicy;
use crate::push::{BatchPush, Secret};
use crate::setting::read::{
    google_time, needed, number, object, show_google_time, text, unknown, wait,
};
use crate::setting::{Flag, Form, Part};

/// The parts of `postrider.signing`.
pub(super) const SIGNING_PARTS: &[Part] =
    &[Part::new("secret", Form::Text, "Sign pushes with this secret, whsec_…")
        .flag(Flag::new("secret").value("SECRET").excludes("sign"))];

/// The parts of `postrider.batch`.
pub(super) const BATCH_PARTS: &[Part] = &[
    Part::new("messages", Form::Number, "The most messages in one push")
        .flag(Flag::new("batch").value("MESSAGES").none("0")),
    Part::new("bytes", Form::Number, "The most bytes in one push: 1 KiB to 10 MiB"),
    Part::new("linger", Form::Text, "How long a push waits for more: up to 10s"),
];

/// No policy means the default, a policy without a time means never.
pub(super) fn read_expiration(field: &str, value: &Value) -> Result<Option<Duration>, Invalid> {
    let Some(policy) = object(field, value)? else { return Ok(Some(EXPIRATION_DEFAULT)) };
    let ttl = google_time(&format!("{field}.ttl"), policy.get("ttl").unwrap_or(&Value::Null))?;
    Ok(ttl.filter(|ttl| !ttl.is_zero()))
}

pub(super) fn show_expiration(expiration: Option<Duration>) -> Value {
    match expiration {
        Some(ttl) => json!({"ttl": show_google_time(ttl)}),
        None => json!({}),
    }
}

/// A filter in Google's language or in the CEL spelling. The empty text is no filter.
pub(super) fn read_filter(
    one: &mut Subscription,
    field: &str,
    value: &Value,
    is_cel: bool,
) -> Result<(), Invalid> {
    let Some(text) = text(field, value)?.filter(|text| !text.is_empty()) else { return Ok(()) };
    if one.filter.is_some() {
        let problem = "given together with filter, give only one";
        return Err(Invalid::new(field, problem));
    }
    one.filter = Some(match is_cel {
        false => Filter::parse(field, &text)?,
        true => Filter::parse_cel(field, &text).map_err(|refusal| refusal.invalid().clone())?,
    });
    Ok(())
}

pub(super) fn show_filter(one: &Subscription, is_cel: bool) -> Value {
    match one.filter.as_ref().filter(|filter| filter.is_cel() == is_cel) {
        Some(filter) => filter.text().into(),
        None => Value::Null,
    }
}

pub(super) fn unless_empty(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { text.into() }
}

pub(super) fn show_pairs(pairs: &BTreeMap<String, String>) -> Value {
    if pairs.is_empty() { Value::Null } else { json!(pairs) }
}

/// `["5s", "5m"]`, or `{"fast": {"min", "max", "retries"}, "slow": {"every", "retries"}}`.
pub(super) fn read_backoff(field: &str, value: &Value) -> Result<Option<Backoff>, Invalid> {
    match value {
        Value::Null => Ok(None),
        Value::Array(steps) => {
            let steps = steps.iter().enumerate().map(|(at, step)| {
                let field = format!("{field}[{at}]");
                needed(&field, wait(&field, step)?)
            });
            Ok(Some(Backoff::Ladder(steps.collect::<Result<_, _>>()?)))
        }
        Value::Object(object) => read_phases(field, object).map(Some),
        _ => {
            Err(Invalid::new(field, r#"expected waits as in ["5s", "5m"], or fast and slow ones"#))
        }
    }
}

fn read_phases(field: &str, given: &Map<String, Value>) -> Result<Backoff, Invalid> {
    if let Some(name) = given.keys().find(|name| !matches!(name.as_str(), "fast" | "slow")) {
        return Err(unknown(&format!("{field}.{name}")));
    }
    let fast = Phase::of(field, given, "fast", &["min", "max", "retries"])?;
    let slow = Phase::of(field, given, "slow", &["every", "retries"])?;
    Ok(Backoff::Phases(Phases {
        fast: RetryPolicy { min: fast.wait("min")?, max: fast.wait("max")? },
        fast_retries: fast.retries()?,
        slow_every: slow.wait("every")?,
        slow_retries: slow.retries()?,
    }))
}

/// One phase as it was given: every field of it is needed.
struct Phase<'v> {
    place: String,
    fields: &'v Map<String, Value>,
}

impl<'v> Phase<'v> {
    fn of(
        place: &str,
        given: &'v Map<String, Value>,
        name: &str,
        known: &[&str],
    ) -> Result<Self, Invalid> {
        let place = format!("{place}.{name}");
        let fields = needed(&place, object(&place, given.get(name).unwrap_or(&Value::Null))?)?;
        match fields.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(unknown(&format!("{place}.{key}"))),
            None => Ok(Self { place, fields }),
        }
    }

    fn get(&self, name: &str) -> &'v Value {
        self.fields.get(name).unwrap_or(&Value::Null)
    }

    fn wait(&self, name: &str) -> Result<Duration, Invalid> {
        let field = format!("{}.{name}", self.place);
        needed(&field, wait(&field, self.get(name))?)
    }

    fn retries(&self) -> Result<u32, Invalid> {
        let field = format!("{}.retries", self.place);
        needed(&field, number(&field, self.get("retries"))?)
    }
}

pub(super) fn show_backoff(backoff: Option<&Backoff>) -> Value {
    match backoff {
        Some(Backoff::Ladder(steps)) => steps.iter().map(|step| show_wait(*step)).collect(),
        Some(Backoff::Phases(phases)) => json!({
            "fast": {
                "min": show_wait(phases.fast.min),
                "max": show_wait(phases.fast.max),
                "retries": phases.fast_retries,
            },
            "slow": {"every": show_wait(phases.slow_every), "retries": phases.slow_retries},
        }),
        // Only a retry policy makes one, and is shown as such.
        Some(Backoff::Exponential(_)) | None => Value::Null,
    }
}

/// `{"messages": 100, "bytes": 1048576, "linger": "0s"}`; what is not given has its default.
pub(super) fn read_batch(place: &str, value: &Value) -> Result<Option<BatchPush>, Invalid> {
    let Some(given) = object(place, value)? else { return Ok(None) };
    let mut batch = BatchPush::default();
    for (name, value) in given {
        let field = format!("{place}.{name}");
        match name.as_str() {
            "messages" => batch.messages = number(&field, value)?.unwrap_or(batch.messages),
            "bytes" => batch.bytes = number(&field, value)?.unwrap_or(batch.bytes),
            "linger" => batch.linger = wait(&field, value)?.unwrap_or(batch.linger),
            _ => return Err(unknown(&field)),
        }
    }
    Ok(Some(batch))
}

pub(super) fn show_batch(batch: Option<BatchPush>) -> Value {
    let Some(BatchPush { messages, bytes, linger }) = batch else { return Value::Null };
    json!({"messages": messages, "bytes": bytes, "linger": show_wait(linger)})
}

/// `{}` turns signing on, `{"secret": "whsec_…"}` gives the secret, `null` turns it off.
pub(super) fn read_signing(place: &str, value: &Value) -> Result<SigningAsk, Invalid> {
    let Some(given) = object(place, value)? else { return Ok(SigningAsk::Off) };
    let mut ask = SigningAsk::On;
    for (name, value) in given {
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
    Ok(ask)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

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
            assert_eq!(show_backoff(read_backoff("f", &value).unwrap().as_ref()), value);
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
            assert_eq!(read_backoff("f", &value).unwrap_err().field, field);
        }
    }

    #[test]
    fn batches_have_defaults() {
        let read = |value: Value| read_batch("b", &value);
        assert_eq!(read(json!({})), Ok(Some(BatchPush::default())));
        let given = BatchPush { messages: 7, bytes: 2_048, linger: Duration::from_millis(50) };
        let all = json!({"messages": 7, "bytes": 2_048, "linger": "50ms"});
        assert_eq!(read(all), Ok(Some(given)));
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
        let read = |value: Value| read_signing("s", &value);
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
}
