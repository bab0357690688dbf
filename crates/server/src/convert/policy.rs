//! Retry and dead letter policies.

use std::time::Duration;

use domain::limits::{DELIVERY_ATTEMPTS_MAX, DELIVERY_ATTEMPTS_MIN};
use domain::subscription::{DeadLetterChange, RetryChange};
use domain::{DeadLetterPolicy, Invalid, RetryPolicy, TopicName};
use wire::protobuf;
use wire::pubsub;

use super::span;
use crate::status::Result;

/// A retry policy; a bound that is not given is Google's default.
pub(super) fn retry_policy(wire: &pubsub::RetryPolicy) -> Result<RetryPolicy> {
    let default = RetryPolicy::default();
    Ok(RetryPolicy {
        min: backoff_min(wire)?.unwrap_or(default.min),
        max: backoff_max(wire)?.unwrap_or(default.max),
    })
}

/// A retry policy as it is shown.
pub(super) fn retry_policy_to_wire(policy: RetryPolicy) -> pubsub::RetryPolicy {
    pubsub::RetryPolicy {
        minimum_backoff: Some(policy.min.into()),
        maximum_backoff: Some(policy.max.into()),
    }
}

/// A part of the retry policy that a mask names.
#[derive(Clone, Copy)]
pub(super) enum RetryPart {
    Whole,
    Min,
    Max,
}

/// Adds what a mask names to the change of a retry policy.
pub(super) fn change_retry(
    change: &mut RetryChange,
    wire: Option<&pubsub::RetryPolicy>,
    part: RetryPart,
) -> Result<()> {
    match part {
        RetryPart::Whole => change.whole = Some(wire.map(retry_policy).transpose()?),
        RetryPart::Min => change.min = Some(bound(wire, backoff_min)?),
        RetryPart::Max => change.max = Some(bound(wire, backoff_max)?),
    }
    Ok(())
}

fn bound(
    wire: Option<&pubsub::RetryPolicy>,
    read: fn(&pubsub::RetryPolicy) -> Result<Option<Duration>>,
) -> Result<Option<Duration>> {
    wire.map_or(Ok(None), read)
}

fn backoff_min(wire: &pubsub::RetryPolicy) -> Result<Option<Duration>> {
    backoff("retry_policy.minimum_backoff", wire.minimum_backoff)
}

fn backoff_max(wire: &pubsub::RetryPolicy) -> Result<Option<Duration>> {
    backoff("retry_policy.maximum_backoff", wire.maximum_backoff)
}

fn backoff(field: &str, wire: Option<protobuf::Duration>) -> Result<Option<Duration>> {
    wire.map(|wire| span(field, wire)).transpose()
}

/// A dead letter policy; where it names no attempts, those given in our own way count.
pub(super) fn dead_letter_policy(
    wire: &pubsub::DeadLetterPolicy,
    attempts_max: Option<u32>,
) -> Result<DeadLetterPolicy> {
    Ok(DeadLetterPolicy::new(dead_letter_topic(wire)?, attempts(wire)?, attempts_max))
}

/// A dead letter policy as it is shown.
pub(super) fn dead_letter_policy_to_wire(policy: &DeadLetterPolicy) -> pubsub::DeadLetterPolicy {
    pubsub::DeadLetterPolicy {
        dead_letter_topic: policy.topic.to_string(),
        max_delivery_attempts: i32::try_from(policy.max_delivery_attempts).unwrap_or(i32::MAX),
    }
}

/// A part of the dead letter policy that a mask names.
#[derive(Clone, Copy)]
pub(super) enum DeadLetterPart {
    Whole,
    Topic,
    Attempts,
}

/// Adds what a mask names to the change of a dead letter policy.
pub(super) fn change_dead_letter(
    change: &mut DeadLetterChange,
    wire: Option<&pubsub::DeadLetterPolicy>,
    part: DeadLetterPart,
) -> Result<()> {
    if matches!(part, DeadLetterPart::Whole | DeadLetterPart::Topic) {
        change.topic = Some(wire.map(dead_letter_topic).transpose()?);
    }
    if matches!(part, DeadLetterPart::Whole | DeadLetterPart::Attempts) {
        change.attempts = Some(wire.map_or(Ok(None), attempts)?);
    }
    Ok(())
}

fn dead_letter_topic(wire: &pubsub::DeadLetterPolicy) -> Result<TopicName, Invalid> {
    TopicName::parse("dead_letter_policy.dead_letter_topic", &wire.dead_letter_topic)
}

/// Zero on the wire means that none are given.
pub(super) fn attempts(wire: &pubsub::DeadLetterPolicy) -> Result<Option<u32>, Invalid> {
    match u32::try_from(wire.max_delivery_attempts) {
        Ok(0) => Ok(None),
        Ok(attempts) => Ok(Some(attempts)),
        Err(_) => Err(Invalid::new(
            "dead_letter_policy.max_delivery_attempts",
            format!(
                "{}, {DELIVERY_ATTEMPTS_MIN} to {DELIVERY_ATTEMPTS_MAX} are allowed",
                wire.max_delivery_attempts
            ),
        )),
    }
}
