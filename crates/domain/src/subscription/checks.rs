//! The rules of single settings.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Subscription;
use crate::delivery::Ordering;
use crate::error::Invalid;
use crate::limits::{
    ATTEMPTS_MAX, ATTEMPTS_MIN, ATTRIBUTE_KEY_BYTES_MAX, DESCRIPTION_BYTES_MAX, EXPIRATION_MIN,
    METADATA_KEY_BYTES_MAX, METADATA_MAX, METADATA_VALUE_BYTES_MAX,
};
use crate::policy::Poison;

/// How often a message is tried, and that both ways of saying it agree.
pub(super) fn attempts(one: &Subscription) -> Result<(), Invalid> {
    if let Some(attempts) = one.attempts_max {
        attempts_in_range("postrider.maxAttempts", attempts)?;
    }
    match &one.dead_letter_policy {
        Some(policy) => policy.validate(one.attempts_asked()),
        None => Ok(()),
    }
}

/// The attribute that names the lanes.
pub(super) fn lane_by(one: &Subscription) -> Result<(), Invalid> {
    let Some(key) = &one.lane_by else { return Ok(()) };
    let problem = if key.is_empty() || key.len() > ATTRIBUTE_KEY_BYTES_MAX {
        format!("an attribute's key is 1 to {ATTRIBUTE_KEY_BYTES_MAX} bytes long")
    } else if one.fifo {
        "a FIFO subscription is one lane; turn fifo off, or leave laneBy out".to_owned()
    } else if one.message_ordering {
        "enable_message_ordering makes the ordering key the lane; for lanes by attribute \
         create the subscription without it"
            .to_owned()
    } else {
        return Ok(());
    };
    Err(Invalid::new("postrider.laneBy", problem))
}

/// Only a lane can halt, and only when an attempt can be the last.
pub(super) fn poison(one: &Subscription) -> Result<(), Invalid> {
    let problem = match (one.poison, one.ordering(), one.attempts_allowed()) {
        (Poison::Halt, Ordering::None, _) => {
            "halt needs lanes: set enable_message_ordering, postrider.laneBy or postrider.fifo"
        }
        (Poison::Halt, _, None) => {
            "halt needs a limit on attempts: set dead_letter_policy or postrider.maxAttempts"
        }
        _ => return Ok(()),
    };
    Err(Invalid::new("postrider.poison", problem))
}

/// The waits are given in one way, and ask for as many attempts as the other settings do.
pub(super) fn backoff(subscription: &Subscription) -> Result<(), Invalid> {
    const FIELD: &str = "postrider.backoff";
    let Some(backoff) = &subscription.backoff else { return Ok(()) };
    backoff.validate(FIELD)?;
    if subscription.retry_policy.is_some() {
        let problem = "conflicts with retry_policy; keep one and clear the other";
        return Err(Invalid::new(FIELD, problem));
    }
    let Some(made) = backoff.attempts() else { return Ok(()) };
    let policy = subscription.dead_letter_policy.as_ref();
    let others = [
        ("postrider.maxAttempts", subscription.attempts_max),
        (
            "dead_letter_policy.max_delivery_attempts",
            policy.map(|policy| policy.max_delivery_attempts),
        ),
    ];
    for (name, attempts) in others {
        if let Some(attempts) = attempts.filter(|attempts| *attempts != made) {
            let problem = format!(
                "its retries add up to {made} attempts, but {name} is \
                                   {attempts}"
            );
            return Err(Invalid::new(FIELD, problem));
        }
    }
    Ok(())
}

/// Checks a number of attempts.
pub(super) fn attempts_in_range(field: &str, attempts: u32) -> Result<(), Invalid> {
    if (ATTEMPTS_MIN..=ATTEMPTS_MAX).contains(&attempts) {
        return Ok(());
    }
    let problem = format!("{attempts}, {ATTEMPTS_MIN} to {ATTEMPTS_MAX} are allowed");
    Err(Invalid::new(field, problem))
}

/// Google also demands that a subscription outlive its messages; with both at their greatest
/// defaults (31 days) it accepts equality.
pub(super) fn expiration(expiration: Option<Duration>, retention: Duration) -> Result<(), Invalid> {
    const FIELD: &str = "expiration_policy.ttl";
    match expiration {
        Some(ttl) if ttl < EXPIRATION_MIN => {
            let (ttl, min) = (ttl.as_secs_f64(), EXPIRATION_MIN.as_secs());
            Err(Invalid::new(FIELD, format!("{ttl} s, at least {min} s (1 day) are needed")))
        }
        Some(ttl) if ttl < retention => Err(Invalid::new(
            FIELD,
            format!(
                "{} s is shorter than the message retention of {} s",
                ttl.as_secs_f64(),
                retention.as_secs_f64()
            ),
        )),
        _ => Ok(()),
    }
}

/// The free text.
pub(super) fn description(description: &str) -> Result<(), Invalid> {
    let bytes = description.len();
    if bytes <= DESCRIPTION_BYTES_MAX {
        return Ok(());
    }
    let problem = format!("{bytes} bytes, at most {DESCRIPTION_BYTES_MAX} are allowed");
    Err(Invalid::new("postrider.description", problem))
}

/// The free names and values.
pub(super) fn metadata(metadata: &BTreeMap<String, String>) -> Result<(), Invalid> {
    const FIELD: &str = "postrider.metadata";
    if metadata.len() > METADATA_MAX {
        let count = metadata.len();
        return Err(Invalid::new(FIELD, format!("{count} entries, at most {METADATA_MAX}")));
    }
    for (key, value) in metadata {
        if key.is_empty() || key.len() > METADATA_KEY_BYTES_MAX {
            let problem = format!("a key is not 1 to {METADATA_KEY_BYTES_MAX} bytes long");
            return Err(Invalid::new(FIELD, problem));
        }
        if value.len() > METADATA_VALUE_BYTES_MAX {
            let problem = format!("more than {METADATA_VALUE_BYTES_MAX} bytes");
            return Err(Invalid::new(format!("{FIELD}[{key:?}]"), problem));
        }
    }
    Ok(())
}
