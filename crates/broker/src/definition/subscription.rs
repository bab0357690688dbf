//! The stored form of a subscription.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::limits::ACK_DEADLINE_DEFAULT;
use domain::subscription::{SETTINGS, Start, cloud_storage};
use domain::{
    DeadLetterPolicy, Filter, Invalid, Offset, Poison, Progress, RetryPolicy, SubscriptionName,
    Timestamp, TopicId, TopicName,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::alerts::{self, AlertForm};
use super::by_path::{beyond, put_back};
use super::push::{self, BackoffForm, BatchForm, PushForm, SigningForm};
use super::snapshot::{decode_progress, encode_progress};
use super::{Unreadable, millis};

/// What came later has a default, so that a definition of an earlier version still reads.
#[derive(Serialize, Deserialize)]
struct Form {
    topic: String,
    topic_id: u64,
    cursor: u64,
    /// What was acked before acked messages were to be kept, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    acked_before: Option<String>,
    ack_deadline_ms: u64,
    retain_acked_messages: bool,
    message_retention_ms: u64,
    labels: BTreeMap<String, String>,
    expiration_ms: Option<u64>,
    start: StartForm,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    description: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    alerts: Vec<AlertForm>,
    #[serde(default, skip_serializing_if = "is_false")]
    message_ordering: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filter: Option<String>,
    /// The filter, if it is in the CEL spelling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cel_filter: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_policy: Option<RetryForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dead_letter_policy: Option<DeadLetterForm>,
    #[serde(default, skip_serializing_if = "is_false")]
    exactly_once: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    detached: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    fifo: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    paused: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    poison: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lane_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempts_max: Option<u32>,
    /// Where it is missing, a deadline other than the default was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    is_ack_deadline_given: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    push: Option<PushForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backoff: Option<BackoffForm>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signing: Option<SigningForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    batch: Option<BatchForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate_max: Option<u32>,
    /// As it is shown.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    cloud_storage: Value,
    /// Settings that have no field of their own here, by their path, as they are shown.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    settings: Map<String, Value>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StartForm {
    Latest,
    Earliest,
    Offset(u64),
    TimeMicros(u64),
}

/// To the nanosecond, so that clients see exactly what they set.
#[derive(Serialize, Deserialize)]
pub(super) struct RetryForm {
    min: Duration,
    max: Duration,
}

#[derive(Serialize, Deserialize)]
struct DeadLetterForm {
    topic: String,
    max_delivery_attempts: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// The text of the filter, if it is in that spelling.
fn filter_text(settings: &domain::Subscription, is_cel: bool) -> Option<String> {
    let filter = settings.filter.as_ref().filter(|filter| filter.is_cel() == is_cel)?;
    Some(filter.text().to_owned())
}

fn read_filter(text: Option<&str>, cel: Option<&str>) -> Result<Option<Filter>, Invalid> {
    match (text, cel) {
        (None, None) => Ok(None),
        (Some(text), _) => Filter::parse("filter", text).map(Some),
        (None, Some(text)) => Filter::parse_cel("cel_filter", text)
            .map(Some)
            .map_err(|refusal| refusal.invalid().clone()),
    }
}

/// A stored subscription: its settings, the life of the topic it reads, and where it began.
pub(crate) struct StoredSubscription {
    pub(crate) settings: domain::Subscription,
    pub(crate) topic: TopicId,
    /// The first offset it was ever to deliver; durable before the subscription is answered.
    pub(crate) cursor: Offset,
    /// What was acked before it was told to keep acked messages, if it was later than made.
    pub(crate) gone: Option<Arc<Progress>>,
}

impl StoredSubscription {
    pub(crate) fn encode(&self) -> Result<Bytes, Unreadable> {
        let settings = &self.settings;
        let mut form = Form {
            topic: settings.topic.to_string(),
            topic_id: self.topic.0,
            cursor: self.cursor.0,
            acked_before: self.gone.as_deref().map(encode_progress),
            ack_deadline_ms: millis(settings.ack_deadline),
            retain_acked_messages: settings.retain_acked_messages,
            message_retention_ms: millis(settings.message_retention),
            labels: settings.labels.clone(),
            expiration_ms: settings.expiration.map(millis),
            start: settings.start.into(),
            description: settings.description.clone(),
            metadata: settings.metadata.clone(),
            alerts: alerts::forms(&settings.alerts),
            message_ordering: settings.message_ordering,
            filter: filter_text(settings, false),
            cel_filter: filter_text(settings, true),
            retry_policy: settings.retry_policy.map(Into::into),
            dead_letter_policy: settings.dead_letter_policy.as_ref().map(Into::into),
            exactly_once: settings.exactly_once,
            detached: settings.detached,
            fifo: settings.fifo,
            paused: settings.paused,
            poison: (settings.poison != Poison::default()).then(|| settings.poison.to_string()),
            lane_by: settings.lane_by.clone(),
            attempts_max: settings.attempts_max,
            is_ack_deadline_given: Some(settings.is_ack_deadline_given),
            push: settings.push.as_ref().map(Into::into),
            backoff: settings.backoff.as_ref().map(Into::into),
            headers: settings.headers.clone(),
            method: push::method_form(settings.method),
            signing: settings.signing.as_ref().map(Into::into),
            batch: settings.batch.map(Into::into),
            rate_max: settings.rate_max,
            cloud_storage: settings.cloud_storage.as_ref().map_or(Value::Null, cloud_storage::show),
            settings: Map::new(),
        };
        let read: Form = serde_json::from_value(serde_json::to_value(&form)?)?;
        form.settings = beyond(SETTINGS, settings, &read.settings(settings.name.clone())?);
        Ok(serde_json::to_vec(&form)?.into())
    }

    pub(crate) fn decode(name: &str, value: &[u8]) -> Result<Self, Unreadable> {
        let form: Form = serde_json::from_slice(value)?;
        let name = SubscriptionName::parse("name", name)?;
        let (topic, cursor) = (TopicId(form.topic_id), Offset(form.cursor));
        let gone = form.acked_before.as_deref().map(decode_progress).transpose()?.map(Arc::new);
        let kept = form.settings.clone();
        let mut settings = form.settings(name)?;
        put_back(SETTINGS, &kept, &mut settings)?;
        Ok(Self { settings, topic, cursor, gone })
    }
}

impl Form {
    fn settings(self, name: SubscriptionName) -> Result<domain::Subscription, Unreadable> {
        let ack_deadline = Duration::from_millis(self.ack_deadline_ms);
        let is_other = ack_deadline != ACK_DEADLINE_DEFAULT;
        Ok(domain::Subscription {
            ack_deadline,
            is_ack_deadline_given: self.is_ack_deadline_given.unwrap_or(is_other),
            retain_acked_messages: self.retain_acked_messages,
            message_retention: Duration::from_millis(self.message_retention_ms),
            labels: self.labels,
            expiration: self.expiration_ms.map(Duration::from_millis),
            message_ordering: self.message_ordering,
            filter: read_filter(self.filter.as_deref(), self.cel_filter.as_deref())?,
            retry_policy: self.retry_policy.map(Into::into),
            dead_letter_policy: self.dead_letter_policy.map(DeadLetterForm::read).transpose()?,
            exactly_once: self.exactly_once,
            detached: self.detached,
            fifo: self.fifo,
            paused: self.paused,
            poison: match self.poison {
                Some(text) => Poison::parse("poison", &text)?,
                None => Poison::default(),
            },
            lane_by: self.lane_by,
            attempts_max: self.attempts_max,
            start: self.start.into(),
            description: self.description,
            metadata: self.metadata,
            alerts: alerts::read(self.alerts)?,
            push: self.push.map(PushForm::read).transpose()?,
            backoff: self.backoff.map(Into::into),
            headers: self.headers,
            method: push::read_method(self.method)?,
            signing: self.signing.map(SigningForm::read).transpose()?,
            batch: self.batch.map(Into::into),
            rate_max: self.rate_max,
            cloud_storage: cloud_storage::read("cloud_storage", &self.cloud_storage)?,
            ..domain::Subscription::new(name, TopicName::parse("topic", &self.topic)?)
        })
    }
}

impl From<Start> for StartForm {
    fn from(start: Start) -> Self {
        match start {
            Start::Latest => Self::Latest,
            Start::Earliest => Self::Earliest,
            Start::Offset(offset) => Self::Offset(offset.0),
            Start::Time(time) => Self::TimeMicros(time.0),
        }
    }
}

impl From<StartForm> for Start {
    fn from(form: StartForm) -> Self {
        match form {
            StartForm::Latest => Self::Latest,
            StartForm::Earliest => Self::Earliest,
            StartForm::Offset(offset) => Self::Offset(Offset(offset)),
            StartForm::TimeMicros(time) => Self::Time(Timestamp(time)),
        }
    }
}

impl From<RetryPolicy> for RetryForm {
    fn from(policy: RetryPolicy) -> Self {
        Self { min: policy.min, max: policy.max }
    }
}

impl From<RetryForm> for RetryPolicy {
    fn from(form: RetryForm) -> Self {
        Self { min: form.min, max: form.max }
    }
}

impl From<&DeadLetterPolicy> for DeadLetterForm {
    fn from(policy: &DeadLetterPolicy) -> Self {
        Self {
            topic: policy.topic.to_string(),
            max_delivery_attempts: policy.max_delivery_attempts,
        }
    }
}

impl DeadLetterForm {
    fn read(self) -> Result<DeadLetterPolicy, Unreadable> {
        Ok(DeadLetterPolicy {
            topic: TopicName::parse("dead_letter_policy.topic", &self.topic)?,
            max_delivery_attempts: self.max_delivery_attempts,
        })
    }
}

#[cfg(test)]
mod tests;
