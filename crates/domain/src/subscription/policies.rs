//! Retry and dead letter policies: the form they have in a document, and how they are changed.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Change, Subscription};
use crate::error::Invalid;
use crate::limits::{DELIVERY_ATTEMPTS_MAX, DELIVERY_ATTEMPTS_MIN};
use crate::name::TopicName;
use crate::policy::{DeadLetterPolicy, RetryPolicy};
use crate::setting::read::{google_time, object, show_google_time};
use crate::setting::{Flag, Form, Part};

const MIN: &str = "minimum_backoff";
const MAX: &str = "maximum_backoff";
const TOPIC: &str = "dead_letter_topic";
const ATTEMPTS: &str = "max_delivery_attempts";

/// The parts of `retry_policy`.
pub(super) const RETRY_PARTS: &[Part] = &[
    Part::new(MIN, Form::Time, "The wait after the first failed attempt, then doubled: 0s to 10m")
        .flag(Flag::new("min-backoff"))
        .title("Backoff from"),
    Part::new(MAX, Form::Time, "The longest wait between attempts: 0s to 10m")
        .flag(Flag::new("max-backoff"))
        .title("Backoff up to"),
];

/// The parts of `dead_letter_policy`.
pub(super) const DEAD_LETTER_PARTS: &[Part] = &[
    Part::new(TOPIC, Form::Topic, "Where messages go after too many failures")
        .flag(Flag::new("dead-letter-topic").value("TOPIC").none("none"))
        .title("Dead letters to"),
    Part::new(
        ATTEMPTS,
        Form::Number,
        "How many failed attempts make a message a dead letter: 5 to 100; without a dead letter \
         topic it is dropped (Postrider, 1 to 100)",
    )
    .flag(Flag::new("max-attempts"))
    .title("Dead after")
    .unit(" attempts"),
];

/// A change of the retry policy: all of it, or bounds of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryChange {
    /// The whole; `Some(None)` ends it.
    pub whole: Option<Option<RetryPolicy>>,
    /// The first backoff, where there is no policy with one; `Some(None)` = the default.
    pub min: Option<Option<Duration>>,
    /// The longest backoff, where there is no policy with one; `Some(None)` = the default.
    pub max: Option<Option<Duration>>,
}

impl RetryChange {
    pub(super) fn apply(self, current: Option<RetryPolicy>) -> Option<RetryPolicy> {
        let default = RetryPolicy::default();
        let gives_bounds = self.min.flatten().is_some() || self.max.flatten().is_some();
        let policy = match self.whole.unwrap_or(current) {
            None if gives_bounds => default,
            policy => policy?,
        };
        let bound = |change: Option<Option<Duration>>, current, default| match change {
            None => current,
            Some(given) => given.unwrap_or(default),
        };
        Some(RetryPolicy {
            min: bound(self.min, policy.min, default.min),
            max: bound(self.max, policy.max, default.max),
        })
    }
}

/// A change of the dead letter policy. One of the whole policy is one of both its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterChange {
    /// The topic; `Some(None)` ends the policy.
    pub topic: Option<Option<TopicName>>,
    /// The attempts; `Some(None)` = the default.
    pub attempts: Option<Option<u32>>,
}

impl DeadLetterChange {
    pub(super) fn apply(
        self,
        current: Option<DeadLetterPolicy>,
        attempts_max: Option<u32>,
    ) -> Result<Option<DeadLetterPolicy>, Invalid> {
        let (topic, attempts) = match current {
            Some(policy) => (Some(policy.topic), Some(policy.max_delivery_attempts)),
            None => (None, None),
        };
        let attempts = self.attempts.unwrap_or(attempts);
        match self.topic.unwrap_or(topic) {
            Some(topic) => Ok(Some(DeadLetterPolicy::new(topic, attempts, attempts_max))),
            None if self.attempts.flatten().is_some() => Err(Invalid::new(
                "dead_letter_policy.dead_letter_topic",
                "max_delivery_attempts needs a dead letter topic",
            )),
            None => Ok(None),
        }
    }

    /// The attempts of the policy after the change, if it has any of its own.
    pub(super) fn attempts_after(&self, current: &Subscription) -> Option<u32> {
        let policy = current.dead_letter_policy.as_ref();
        match self.topic {
            Some(None) => None,
            _ => self.attempts.unwrap_or(policy.map(|policy| policy.max_delivery_attempts)),
        }
    }
}

/// `{"minimumBackoff": "10s", "maximumBackoff": "600s"}`; a bound that is not given is Google's.
pub(super) fn set_retry(change: &mut Change, field: &str, value: &Value) -> Result<(), Invalid> {
    let default = RetryPolicy::default();
    change.joined.retry_policy.whole = Some(match object(field, value)? {
        None => None,
        Some(_) => Some(RetryPolicy {
            min: bound(field, value, MIN)?.unwrap_or(default.min),
            max: bound(field, value, MAX)?.unwrap_or(default.max),
        }),
    });
    Ok(())
}

pub(super) fn set_retry_part(
    change: &mut Change,
    part: &str,
    field: &str,
    value: &Value,
) -> Result<(), Invalid> {
    let given = Some(bound(field, value, part)?);
    match part {
        MIN => change.joined.retry_policy.min = given,
        _ => change.joined.retry_policy.max = given,
    }
    Ok(())
}

fn bound(place: &str, policy: &Value, part: &str) -> Result<Option<Duration>, Invalid> {
    let value = policy.get(crate::setting::camel(part)).unwrap_or(&Value::Null);
    google_time(&format!("{place}.{part}"), value)
}

pub(super) fn show_retry(subscription: &Subscription) -> Value {
    let Some(RetryPolicy { min, max }) = subscription.retry_policy else { return Value::Null };
    let (min, max) = (show_google_time(min), show_google_time(max));
    json!({"minimumBackoff": min, "maximumBackoff": max})
}

/// `{"deadLetterTopic": "projects/p/topics/dead", "maxDeliveryAttempts": 5}`.
pub(super) fn set_dead_letter(
    change: &mut Change,
    field: &str,
    value: &Value,
) -> Result<(), Invalid> {
    set_dead_letter_part(change, TOPIC, field, value)?;
    set_dead_letter_part(change, ATTEMPTS, field, value)
}

pub(super) fn set_dead_letter_part(
    change: &mut Change,
    part: &str,
    field: &str,
    value: &Value,
) -> Result<(), Invalid> {
    let policy = object(field, value)?;
    let given = |name: &str| policy.and_then(|policy| policy.get(name)).unwrap_or(&Value::Null);
    match part {
        TOPIC => {
            let field = format!("{field}.{TOPIC}");
            let name = given("deadLetterTopic").as_str().unwrap_or_default();
            let topic = policy.map(|_| TopicName::parse(&field, name)).transpose()?;
            change.joined.dead_letter_policy.topic = Some(topic);
        }
        _ => {
            let field = format!("{field}.{ATTEMPTS}");
            change.joined.dead_letter_policy.attempts =
                Some(attempts(&field, given("maxDeliveryAttempts"))?);
        }
    }
    Ok(())
}

/// Zero on the wire means that none are given.
fn attempts(field: &str, value: &Value) -> Result<Option<u32>, Invalid> {
    match value.as_i64() {
        None => crate::setting::read::number(field, value),
        Some(0) => Ok(None),
        Some(given) => match u32::try_from(given) {
            Ok(attempts) => Ok(Some(attempts)),
            Err(_) => {
                let (min, max) = (DELIVERY_ATTEMPTS_MIN, DELIVERY_ATTEMPTS_MAX);
                Err(Invalid::new(field, format!("{given}, {min} to {max} are allowed")))
            }
        },
    }
}

pub(super) fn show_dead_letter(subscription: &Subscription) -> Value {
    match &subscription.dead_letter_policy {
        None => Value::Null,
        Some(policy) => json!({
            "deadLetterTopic": policy.topic.to_string(),
            "maxDeliveryAttempts": policy.max_delivery_attempts,
        }),
    }
}
