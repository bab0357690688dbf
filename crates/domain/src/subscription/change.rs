//! How a subscription's settings may be changed: masks and what they name.

use std::collections::BTreeMap;
use std::time::Duration;

use super::labels::{self, Labelled};
use super::{PushChange, PushRetry, SigningChange, Subscription};
use crate::alert;
use crate::backoff::Backoff;
use crate::error::Invalid;
use crate::limits::ACK_DEADLINE_DEFAULT;
use crate::name::TopicName;
use crate::policy::{DeadLetterPolicy, Poison, RetryPolicy};
use crate::push::{BatchPush, Method};
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
    /// `push_config`, or a part of it.
    Push(PushPart),
    /// A field of the `postrider` object.
    Ours(Ours),
    /// The whole `postrider` object: those of its fields that are given.
    Postrider,
    /// A field of Google's that only its default value is accepted for, by its wire name.
    NotBuilt(&'static str),
}

/// A part of `push_config` that can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushPart {
    /// All of it.
    Whole,
    /// `push_endpoint`.
    Endpoint,
    /// `attributes`.
    Attributes,
    /// `oidc_token`, with all its fields.
    Oidc,
    /// `pubsub_wrapper` or `no_wrapper`.
    Form,
    /// `timeout_seconds`: ours.
    Timeout,
    /// `retry_policy`: ours.
    Retry,
}

impl PushPart {
    /// The name within `push_config`.
    fn parse(name: &str) -> Option<Self> {
        match name {
            "push_endpoint" => Some(Self::Endpoint),
            "attributes" => Some(Self::Attributes),
            "oidc_token" | "oidc_token.service_account_email" | "oidc_token.audience" => {
                Some(Self::Oidc)
            }
            "pubsub_wrapper" | "no_wrapper" | "no_wrapper.write_metadata" => Some(Self::Form),
            "timeout_seconds" => Some(Self::Timeout),
            "retry_policy" => Some(Self::Retry),
            _ => None,
        }
    }
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
    /// `alerts`.
    Alerts,
    /// `backoff`.
    Backoff,
    /// `headers`.
    Headers,
    /// `method`.
    Method,
    /// `signing`.
    Signing,
    /// `batch`.
    Batch,
    /// `rateLimit`.
    RateMax,
}

const NOT_BUILT: [&str; 4] =
    ["bigquery_config", "bigtable_config", "cloud_storage_config", "message_transforms"];

const FIXED: [&str; 11] = [
    "analytics_hub_subscription_info",
    "detached",
    "enable_message_ordering",
    "filter",
    "name",
    "postrider.filter",
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
            "push_config" => Some(Self::Push(PushPart::Whole)),
            "postrider" => Some(Self::Postrider),
            _ => Self::parse_inner(path),
        };
        found.ok_or_else(|| no_such_path(path))
    }

    fn parse_inner(path: &str) -> Option<Self> {
        if let Some(name) = path.strip_prefix("postrider.") {
            return Ours::parse(name).map(Self::Ours);
        }
        if let Some(name) = path.strip_prefix("push_config.") {
            return PushPart::parse(name).map(Self::Push);
        }
        NOT_BUILT.into_iter().find(|known| is_path_of(path, known)).map(Self::NotBuilt)
    }

    /// Whether it is no field of Google's: a call over gRPC cannot give its value.
    pub fn is_ours(self) -> bool {
        matches!(
            self,
            Self::Ours(_) | Self::Postrider | Self::Push(PushPart::Timeout | PushPart::Retry)
        )
    }
}

/// Whether `path` of an update mask names what is decided at creation, or by the server. It may be
/// given as it is, by programs that name all they know; anything else is refused.
pub fn is_fixed(path: &str) -> bool {
    FIXED.contains(&path)
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
            "alerts" => Some(Self::Alerts),
            "backoff" => Some(Self::Backoff),
            "headers" => Some(Self::Headers),
            "method" => Some(Self::Method),
            "signing" => Some(Self::Signing),
            "batch" => Some(Self::Batch),
            "rateLimit" | "rate_limit" => Some(Self::RateMax),
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
    /// The ack deadline of leases to come; `Some(None)` = the default, as if none was ever given.
    pub ack_deadline: Option<Option<Duration>>,
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
    /// How the rules of alerts differ, replacing what was before.
    pub alerts: Option<alert::Settings>,
    /// Where and in what form messages are pushed.
    pub push: PushChange,
    /// The retry policy and the attempts, given inside the push config; `Some(None)` ends both.
    pub push_retry: Option<Option<PushRetry>>,
    /// Waits given in our own way; `Some(None)` = none.
    pub backoff: Option<Option<Backoff>>,
    /// All headers of a push, replacing those before.
    pub headers: Option<BTreeMap<String, String>>,
    /// The method of a push.
    pub method: Option<Method>,
    /// How pushes are signed.
    pub signing: Option<SigningChange>,
    /// Several messages in one push; `Some(None)` = one.
    pub batch: Option<Option<BatchPush>>,
    /// Most pushes a second; `Some(None)` = as the endpoint takes them.
    pub rate_max: Option<Option<u32>>,
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
            None => Labelled::waiting(current)?,
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
    fn merge(
        mut self,
        labelled: Labelled,
        current: &Subscription,
    ) -> Result<Subscription, Invalid> {
        let kept = current.clone();
        self.take_push_retry(&labelled, current)?;
        let attempts_max = self.attempts_max.or(labelled.attempts_max.map(Some));
        let attempts_max = attempts_max.unwrap_or(kept.attempts_max);
        let backoff = self.backoff.unwrap_or(kept.backoff);
        let asked = attempts_max.or(backoff.as_ref().and_then(Backoff::attempts));
        let dead_letter_policy = self.dead_letter_policy.apply(kept.dead_letter_policy, asked)?;
        let (ack_deadline, is_ack_deadline_given) = match self.ack_deadline {
            None => (kept.ack_deadline, kept.is_ack_deadline_given),
            Some(given) => (given.unwrap_or(ACK_DEADLINE_DEFAULT), given.is_some()),
        };
        Ok(Subscription {
            ack_deadline,
            is_ack_deadline_given,
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
            alerts: self.alerts.unwrap_or(kept.alerts),
            push: self.push.apply(kept.push, labelled.timeout)?,
            backoff,
            headers: self.headers.unwrap_or(kept.headers),
            method: self.method.unwrap_or(kept.method),
            signing: match self.signing {
                Some(change) => change.apply(kept.signing),
                None => kept.signing,
            },
            batch: self.batch.unwrap_or(kept.batch),
            rate_max: self.rate_max.unwrap_or(kept.rate_max),
            ..kept
        })
    }

    /// Puts what is given inside the push config where it belongs.
    fn take_push_retry(
        &mut self,
        labelled: &Labelled,
        current: &Subscription,
    ) -> Result<(), Invalid> {
        let Some(retry) = self.push_retry.take() else { return Ok(()) };
        PushRetry::only(self.retry_policy != RetryChange::default())?;
        self.retry_policy.whole = Some(retry.map(|retry| retry.policy));
        let asked = self.attempts_max.flatten().or(labelled.attempts_max);
        self.attempts_max = Some(match retry {
            Some(retry) => Some(retry.attempts_max(asked, self.dead_letter_attempts(current))?),
            None => asked,
        });
        Ok(())
    }

    /// The attempts of the dead letter policy after the change, if it has any of its own.
    fn dead_letter_attempts(&self, current: &Subscription) -> Option<u32> {
        let DeadLetterChange { topic, attempts } = &self.dead_letter_policy;
        let policy = current.dead_letter_policy.as_ref();
        match topic {
            Some(None) => None,
            _ => attempts.unwrap_or(policy.map(|policy| policy.max_delivery_attempts)),
        }
    }
}
