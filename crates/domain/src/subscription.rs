//! The settings of a subscription, their rules, and how they may be changed.

mod change;
mod deadline;
mod labels;
mod push_change;
mod pushing;
mod start;
#[cfg(test)]
mod tests;
mod warnings;

use std::collections::BTreeMap;
use std::time::Duration;

pub use change::{
    Change, DeadLetterChange, Field, Ours, PushPart, RetryChange, is_fixed, no_such_path,
};
pub use deadline::{ack_deadline, lease_deadline, stream_ack_deadline};
pub use labels::{
    FIFO_LABEL, Labelled, MAX_ATTEMPTS_LABEL, PAUSED_LABEL, POISON_LABEL, START_LABEL,
    TIMEOUT_LABEL,
};
pub use push_change::{PushChange, PushRetry, SigningChange};
pub use start::Start;
pub use warnings::warnings;

use deadline::ack_deadline_in_range;

use crate::alert;
use crate::backoff::Backoff;
use crate::delivery::Ordering;
use crate::error::Invalid;
use crate::filter::Filter;
use crate::limits::{
    ACK_DEADLINE_DEFAULT, ATTEMPTS_MAX, ATTEMPTS_MIN, ATTRIBUTE_KEY_BYTES_MAX,
    DESCRIPTION_BYTES_MAX, EXPIRATION_DEFAULT, EXPIRATION_MIN, METADATA_KEY_BYTES_MAX,
    METADATA_MAX, METADATA_VALUE_BYTES_MAX, PACE_MAX, PACE_MIN, RETENTION_DEFAULT,
};
use crate::name::{SubscriptionName, TopicName};
use crate::policy::{DeadLetterPolicy, Poison, RetryPolicy};
use crate::push::{BatchPush, Method, PushConfig, Signing};
use crate::validate;

/// A subscription as its owner set it up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// Its name.
    pub name: SubscriptionName,
    /// The topic it gets its messages from, under the name it had at creation.
    pub topic: TopicName,
    /// How long a lease lasts unless a stream or an extension says otherwise.
    pub ack_deadline: Duration,
    /// Whether acked messages are kept too, within `message_retention`.
    pub retain_acked_messages: bool,
    /// How long messages are kept that are not acked.
    pub message_retention: Duration,
    /// Free marks for people and programs, and reserved ones that set something.
    pub labels: BTreeMap<String, String>,
    /// After so long without use it is deleted; `None` = never.
    pub expiration: Option<Duration>,
    /// Whether messages of one ordering key go in order. Decided at creation.
    pub message_ordering: bool,
    /// Which messages it is for; `None` = all. Decided at creation.
    pub filter: Option<Filter>,
    /// How long a message waits after a failed attempt; `None` = not at all.
    pub retry_policy: Option<RetryPolicy>,
    /// Where exhausted messages go; `None` = nowhere.
    pub dead_letter_policy: Option<DeadLetterPolicy>,
    /// Whether only the current lease's ack id settles a message, and for good.
    pub exactly_once: bool,
    /// Whether it was cut off from its topic: it has no messages and gets none.
    pub detached: bool,
    /// Whether all its messages are one lane.
    pub fifo: bool,
    /// Whether delivery is held back. The backlog is kept.
    pub paused: bool,
    /// What a lane does with an exhausted message.
    pub poison: Poison,
    /// The attribute whose value names a message's lane, in place of the ordering key.
    pub lane_by: Option<String>,
    /// How often a message is tried, given in our own way; with a dead letter policy it is the
    /// same number.
    pub attempts_max: Option<u32>,
    /// Where in the topic it began. Decided at creation, kept for show.
    pub start: Start,
    /// Free text; empty = none.
    pub description: String,
    /// Free names and values, without the limits of labels.
    pub metadata: BTreeMap<String, String>,
    /// How the rules of alerts differ for it.
    pub alerts: alert::Settings,
    /// Whether the ack deadline was given, and is not just the default: it is then the time an
    /// endpoint has for its answer too.
    pub is_ack_deadline_given: bool,
    /// Where its messages are pushed to; `None` = they are pulled.
    pub push: Option<PushConfig>,
    /// Waits between attempts given in our own way, in place of a retry policy.
    pub backoff: Option<Backoff>,
    /// Headers sent with each push, beside those that are always sent.
    pub headers: BTreeMap<String, String>,
    /// The HTTP method of a push.
    pub method: Method,
    /// How pushes are signed; `None` = not at all.
    pub signing: Option<Signing>,
    /// Several messages in one push; `None` = one.
    pub batch: Option<BatchPush>,
    /// Most pushes a second; `None` = as the endpoint takes them.
    pub rate_max: Option<u32>,
}

impl Subscription {
    /// A subscription with the default settings.
    pub fn new(name: SubscriptionName, topic: TopicName) -> Self {
        Self {
            name,
            topic,
            ack_deadline: ACK_DEADLINE_DEFAULT,
            retain_acked_messages: false,
            message_retention: RETENTION_DEFAULT,
            labels: BTreeMap::new(),
            expiration: Some(EXPIRATION_DEFAULT),
            message_ordering: false,
            filter: None,
            retry_policy: None,
            dead_letter_policy: None,
            exactly_once: false,
            detached: false,
            fifo: false,
            paused: false,
            poison: Poison::Skip,
            lane_by: None,
            attempts_max: None,
            start: Start::Latest,
            description: String::new(),
            metadata: BTreeMap::new(),
            alerts: alert::Settings::default(),
            is_ack_deadline_given: false,
            push: None,
            backoff: None,
            headers: BTreeMap::new(),
            method: Method::Post,
            signing: None,
            batch: None,
            rate_max: None,
        }
    }

    /// Checks every setting, that they fit together, and that reserved labels say the same.
    pub fn validate(&self) -> Result<(), Invalid> {
        ack_deadline_in_range("ack_deadline_seconds", self.ack_deadline)?;
        validate::retention("message_retention_duration", self.message_retention)?;
        check_expiration(self.expiration, self.message_retention)?;
        validate::labels(&self.labels)?;
        labels::check(self)?;
        if let Some(policy) = &self.retry_policy {
            policy.validate()?;
        }
        pushing::check(self)?;
        self.check_attempts()?;
        self.check_lane_by()?;
        self.check_poison()?;
        check_description(&self.description)?;
        check_metadata(&self.metadata)?;
        self.alerts.validate()
    }

    /// In which order its messages go out.
    pub fn ordering(&self) -> Ordering {
        if self.fifo {
            Ordering::Fifo
        } else if self.message_ordering || self.lane_by.is_some() {
            Ordering::ByKey
        } else {
            Ordering::None
        }
    }

    /// After how many failed attempts a message is exhausted; `None` = never.
    pub fn attempts_allowed(&self) -> Option<u32> {
        let policy = self.dead_letter_policy.as_ref();
        policy.map(|policy| policy.max_delivery_attempts).or(self.attempts_asked())
    }

    /// The attempts that were asked for in our own way, as a number or by the waits between them.
    pub fn attempts_asked(&self) -> Option<u32> {
        self.attempts_max.or(self.backoff.as_ref().and_then(Backoff::attempts))
    }

    /// How long a message waits after a failed attempt; `None` = not at all. Without a policy a
    /// push is paced as an endpoint's breaker is.
    pub fn waits(&self) -> Option<Backoff> {
        const PACE: RetryPolicy = RetryPolicy { min: PACE_MIN, max: PACE_MAX };
        let given = self.backoff.clone().or(self.retry_policy.map(Backoff::Exponential));
        given.or(self.push.as_ref().map(|_| Backoff::Exponential(PACE)))
    }

    /// How long an endpoint has for its answer; `default` where the owner did not say.
    pub fn push_timeout(&self, default: Duration) -> Duration {
        let given = self.push.as_ref().and_then(|push| push.timeout);
        given.or(self.is_ack_deadline_given.then_some(self.ack_deadline)).unwrap_or(default)
    }

    fn check_attempts(&self) -> Result<(), Invalid> {
        if let Some(attempts) = self.attempts_max {
            attempts_in_range("postrider.maxAttempts", attempts)?;
        }
        match &self.dead_letter_policy {
            Some(policy) => policy.validate(self.attempts_asked()),
            None => Ok(()),
        }
    }

    fn check_lane_by(&self) -> Result<(), Invalid> {
        let Some(key) = &self.lane_by else { return Ok(()) };
        let problem = if key.is_empty() || key.len() > ATTRIBUTE_KEY_BYTES_MAX {
            format!("an attribute's key is 1 to {ATTRIBUTE_KEY_BYTES_MAX} bytes long")
        } else if self.fifo {
            "a FIFO subscription is one lane; turn fifo off, or leave laneBy out".to_owned()
        } else if self.message_ordering {
            "enable_message_ordering makes the ordering key the lane; for lanes by attribute \
             create the subscription without it"
                .to_owned()
        } else {
            return Ok(());
        };
        Err(Invalid::new("postrider.laneBy", problem))
    }

    /// Only a lane can halt, and only when an attempt can be the last.
    fn check_poison(&self) -> Result<(), Invalid> {
        let problem = match (self.poison, self.ordering(), self.attempts_allowed()) {
            (Poison::Halt, Ordering::None, _) => {
                "halt needs lanes: set enable_message_ordering, postrider.laneBy or postrider.fifo"
            }
            (Poison::Halt, _, None) => {
                "halt needs an end of attempts: set dead_letter_policy or postrider.maxAttempts"
            }
            _ => return Ok(()),
        };
        Err(Invalid::new("postrider.poison", problem))
    }
}

fn attempts_in_range(field: &str, attempts: u32) -> Result<(), Invalid> {
    if (ATTEMPTS_MIN..=ATTEMPTS_MAX).contains(&attempts) {
        return Ok(());
    }
    let problem = format!("{attempts}, {ATTEMPTS_MIN} to {ATTEMPTS_MAX} are allowed");
    Err(Invalid::new(field, problem))
}

/// Google also demands that a subscription outlive its messages; with both at their greatest
/// defaults (31 days) it accepts equality.
fn check_expiration(expiration: Option<Duration>, retention: Duration) -> Result<(), Invalid> {
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

fn check_description(description: &str) -> Result<(), Invalid> {
    let bytes = description.len();
    if bytes <= DESCRIPTION_BYTES_MAX {
        return Ok(());
    }
    let problem = format!("{bytes} bytes, at most {DESCRIPTION_BYTES_MAX} are allowed");
    Err(Invalid::new("postrider.description", problem))
}

fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), Invalid> {
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
