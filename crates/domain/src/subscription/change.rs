//! How a subscription's settings may be changed: masks and what they name.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Subscription;
use super::labels::{self, Labelled};
use crate::error::Invalid;
use crate::name::TopicName;
use crate::policy::{DeadLetterPolicy, Poison, RetryPolicy};
use crate::topic::{bad_path, is_path_of};

/// A field that an update mask can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `ack_deadline_seconds`.
    AckDeadline,
    /// `retain_acked_messages`.
    RetainAckedMessages,
    /// `message_retention_duration`.
    MessageRetention,
    /// `labels`.
    Labels,
    /// `expiration_policy`, or its `ttl`.
    Expiration,
    /// `retry_policy`.
    RetryPolicy,
    /// `retry_policy.minimum_backoff`.
    BackoffMin,
    /// `retry_policy.maximum_backoff`.
    BackoffMax,
    /// `dead_letter_policy`.
    DeadLetterPolicy,
    /// `dead_letter_policy.dead_letter_topic`.
    DeadLetterTopic,
    /// `dead_letter_policy.max_delivery_attempts`.
    DeadLetterAttempts,
    /// `enable_exactly_once_delivery`.
    ExactlyOnce,
    /// A field of the `postrider` object.
    Ours(Ours),
    /// The whole `postrider` object: those of its fields that are given.
    Postrider,
    /// A field of Google's that only its default value is accepted for, by its wire name.
    NotBuilt(&'static str),
}

/// A field of the `postrider` object that can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ours {
    /// `fifo`.
    Fifo,
    /// `paused`.
    Paused,
    /// `poison`.
    Poison,
    /// `laneBy`.
    LaneBy,
    /// `maxAttempts`.
    AttemptsMax,
    /// `description`.
    Description,
    /// `metadata`.
    Metadata,
}

const NOT_BUILT: [&str; 5] = [
    "bigquery_config",
    "bigtable_config",
    "cloud_storage_config",
    "message_transforms",
    "push_config",
];

const FIXED: [&str; 10] = [
    "analytics_hub_subscription_info",
    "detached",
    "enable_message_ordering",
    "filter",
    "name",
    "postrider.start",
    "state",
    "tags",
    "topic",
    "topic_message_retention_duration",
];

impl Field {
    /// Reads one path of an update mask. Refuses fields that cannot be changed or do not exist.
    pub fn parse(path: &str) -> Result<Self, Invalid> {
        let found = match path {
            "ack_deadline_seconds" => Some(Self::AckDeadline),
            "retain_acked_messages" => Some(Self::RetainAckedMessages),
            "message_retention_duration" => Some(Self::MessageRetention),
            "labels" => Some(Self::Labels),
            "expiration_policy" | "expiration_policy.ttl" => Some(Self::Expiration),
            "retry_policy" => Some(Self::RetryPolicy),
            "retry_policy.minimum_backoff" => Some(Self::BackoffMin),
            "retry_policy.maximum_backoff" => Some(Self::BackoffMax),
            "dead_letter_policy" => Some(Self::DeadLetterPolicy),
            "dead_letter_policy.dead_letter_topic" => Some(Self::DeadLetterTopic),
            "dead_letter_policy.max_delivery_attempts" => Some(Self::DeadLetterAttempts),
            "enable_exactly_once_delivery" => Some(Self::ExactlyOnce),
            "postrider" => Some(Self::Postrider),
            _ => match path.strip_prefix("postrider.") {
                Some(name) => Ours::parse(name).map(Self::Ours),
                None => {
                    NOT_BUILT.into_iter().find(|known| is_path_of(path, known)).map(Self::NotBuilt)
                }
            },
        };
        found.ok_or_else(|| no_such_path(path))
    }

    /// Whether it is no field of Google's: a call over gRPC cannot give its value.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Ours(_) | Self::Postrider)
    }
}

/// Why `path` of an update mask is refused.
pub fn no_such_path(path: &str) -> Invalid {
    bad_path(path, &FIXED, "subscription")
}

impl Ours {
    /// The name within the object; a mask in JSON arrives in snake case.
    fn parse(name: &str) -> Option<Self> {
        match name {
            "fifo" => Some(Self::Fifo),
            "paused" => Some(Self::Paused),
            "poison" => Some(Self::Poison),
            "laneBy" | "lane_by" => Some(Self::LaneBy),
            "maxAttempts" | "max_attempts" => Some(Self::AttemptsMax),
            "description" => Some(Self::Description),
            "metadata" => Some(Self::Metadata),
            _ => None,
        }
    }
}

/// What an update changes; `None` leaves a setting as it is.
///
/// Labels that an update gives also set what the reserved ones among them stand for. A setting
/// whose label is missing stays as it is, so that a caller who knows nothing of it clears nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The ack deadline of leases to come.
    pub ack_deadline: Option<Duration>,
    /// Whether acked messages are kept from now on.
    pub retain_acked_messages: Option<bool>,
    /// How long messages are kept.
    pub message_retention: Option<Duration>,
    /// All labels, replacing those before.
    pub labels: Option<BTreeMap<String, String>>,
    /// When it expires; `Some(None)` = never.
    pub expiration: Option<Option<Duration>>,
    /// The retry policy.
    pub retry_policy: RetryChange,
    /// The dead letter policy.
    pub dead_letter_policy: DeadLetterChange,
    /// Whether only the current lease's ack id settles a message, and for good.
    pub exactly_once: Option<bool>,
    /// Whether the whole subscription is one lane.
    pub fifo: Option<bool>,
    /// Whether delivery is held back.
    pub paused: Option<bool>,
    /// What a lane does with an exhausted message.
    pub poison: Option<Poison>,
    /// The attribute whose value names the lane; `Some(None)` = none.
    pub lane_by: Option<Option<String>>,
    /// How often a message is tried; `Some(None)` = as the dead letter policy says.
    pub attempts_max: Option<Option<u32>>,
    /// The free text.
    pub description: Option<String>,
    /// All free names and values, replacing those before.
    pub metadata: Option<BTreeMap<String, String>>,
}

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
    fn apply(self, current: Option<RetryPolicy>) -> Option<RetryPolicy> {
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
    fn apply(
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
                "max_delivery_attempts needs a dead letter topic, and there is none",
            )),
            None => Ok(None),
        }
    }
}

impl Change {
    /// `current` with the change made, if the rules allow the outcome.
    pub fn apply(self, current: &Subscription) -> Result<Subscription, Invalid> {
        let labelled = match &self.labels {
            Some(labels) => Labelled::read(labels)?,
            None => Labelled::default(),
        };
        let by_label = self.labels.is_some();
        let mut updated = self.merge(labelled, current)?;
        if !by_label {
            labels::follow(&mut updated);
        }
        updated.validate()?;
        Ok(updated)
    }

    /// What the object says goes before what a label says; that they agree is checked later.
    fn merge(self, labelled: Labelled, current: &Subscription) -> Result<Subscription, Invalid> {
        let kept = current.clone();
        let attempts_max = self.attempts_max.or(labelled.attempts_max.map(Some));
        let attempts_max = attempts_max.unwrap_or(kept.attempts_max);
        let dead_letter_policy =
            self.dead_letter_policy.apply(kept.dead_letter_policy, attempts_max)?;
        Ok(Subscription {
            ack_deadline: self.ack_deadline.unwrap_or(kept.ack_deadline),
            retain_acked_messages: self.retain_acked_messages.unwrap_or(kept.retain_acked_messages),
            message_retention: self.message_retention.unwrap_or(kept.message_retention),
            labels: self.labels.unwrap_or(kept.labels),
            expiration: self.expiration.unwrap_or(kept.expiration),
            retry_policy: self.retry_policy.apply(kept.retry_policy),
            dead_letter_policy,
            exactly_once: self.exactly_once.unwrap_or(kept.exactly_once),
            fifo: self.fifo.or(labelled.fifo).unwrap_or(kept.fifo),
            paused: self.paused.or(labelled.paused).unwrap_or(kept.paused),
            poison: self.poison.or(labelled.poison).unwrap_or(kept.poison),
            lane_by: self.lane_by.unwrap_or(kept.lane_by),
            attempts_max,
            description: self.description.unwrap_or(kept.description),
            metadata: self.metadata.unwrap_or(kept.metadata),
            ..kept
        })
    }
}
