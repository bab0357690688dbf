//! Definitions as the catalogue keeps them: JSON, so that a later version can add fields.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use domain::subscription::Start;
use domain::{Invalid, Offset, SubscriptionName, Timestamp, TopicId, TopicName};
use serde::{Deserialize, Serialize};

/// A definition that this version cannot read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// Not the JSON it should be.
    #[error("definition is not readable: {0}")]
    Json(#[from] serde_json::Error),
    /// A name that breaks the rules.
    #[error("definition is not valid: {0}")]
    Invalid(#[from] Invalid),
}

#[derive(Serialize, Deserialize)]
struct TopicForm {
    labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message_retention_ms: Option<u64>,
    first_offset: u64,
}

/// A stored topic: its settings and where its log begins.
pub(crate) struct StoredTopic {
    pub(crate) settings: domain::Topic,
    pub(crate) first: Offset,
}

impl StoredTopic {
    pub(crate) fn encode(&self) -> Result<Bytes, Unreadable> {
        let form = TopicForm {
            labels: self.settings.labels.clone(),
            message_retention_ms: self.settings.message_retention.map(millis),
            first_offset: self.first.0,
        };
        Ok(serde_json::to_vec(&form)?.into())
    }

    pub(crate) fn decode(name: &str, value: &[u8]) -> Result<Self, Unreadable> {
        let form: TopicForm = serde_json::from_slice(value)?;
        let settings = domain::Topic {
            labels: form.labels,
            message_retention: form.message_retention_ms.map(Duration::from_millis),
            ..domain::Topic::new(TopicName::parse("name", name)?)
        };
        Ok(Self { settings, first: Offset(form.first_offset) })
    }
}

#[derive(Serialize, Deserialize)]
struct SubscriptionForm {
    topic: String,
    topic_id: u64,
    cursor: u64,
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
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StartForm {
    Latest,
    Earliest,
    Offset(u64),
    TimeMicros(u64),
}

/// A stored subscription: its settings, the life of the topic it reads, and where it began.
pub(crate) struct StoredSubscription {
    pub(crate) settings: domain::Subscription,
    pub(crate) topic: TopicId,
    /// The first offset it was ever to deliver; durable before the subscription is answered.
    pub(crate) cursor: Offset,
}

impl StoredSubscription {
    pub(crate) fn encode(&self) -> Result<Bytes, Unreadable> {
        let settings = &self.settings;
        let form = SubscriptionForm {
            topic: settings.topic.to_string(),
            topic_id: self.topic.0,
            cursor: self.cursor.0,
            ack_deadline_ms: millis(settings.ack_deadline),
            retain_acked_messages: settings.retain_acked_messages,
            message_retention_ms: millis(settings.message_retention),
            labels: settings.labels.clone(),
            expiration_ms: settings.expiration.map(millis),
            start: match settings.start {
                Start::Latest => StartForm::Latest,
                Start::Earliest => StartForm::Earliest,
                Start::Offset(offset) => StartForm::Offset(offset.0),
                Start::Time(time) => StartForm::TimeMicros(time.0),
            },
            description: settings.description.clone(),
            metadata: settings.metadata.clone(),
        };
        Ok(serde_json::to_vec(&form)?.into())
    }

    pub(crate) fn decode(name: &str, value: &[u8]) -> Result<Self, Unreadable> {
        let form: SubscriptionForm = serde_json::from_slice(value)?;
        let topic = TopicName::parse("topic", &form.topic)?;
        let settings = domain::Subscription {
            ack_deadline: Duration::from_millis(form.ack_deadline_ms),
            retain_acked_messages: form.retain_acked_messages,
            message_retention: Duration::from_millis(form.message_retention_ms),
            labels: form.labels,
            expiration: form.expiration_ms.map(Duration::from_millis),
            start: match form.start {
                StartForm::Latest => Start::Latest,
                StartForm::Earliest => Start::Earliest,
                StartForm::Offset(offset) => Start::Offset(Offset(offset)),
                StartForm::TimeMicros(time) => Start::Time(Timestamp(time)),
            },
            description: form.description,
            metadata: form.metadata,
            ..domain::Subscription::new(SubscriptionName::parse("name", name)?, topic)
        };
        Ok(Self { settings, topic: TopicId(form.topic_id), cursor: Offset(form.cursor) })
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_comes_back_as_it_was() {
        let settings = domain::Subscription {
            expiration: None,
            start: Start::Time(Timestamp(77)),
            metadata: BTreeMap::from([("owner".to_owned(), "ops".to_owned())]),
            retain_acked_messages: true,
            ..domain::Subscription::new(
                SubscriptionName::parse("name", "projects/p/subscriptions/sub").unwrap(),
                TopicName::parse("topic", "projects/p/topics/orders").unwrap(),
            )
        };
        let stored = StoredSubscription {
            settings: settings.clone(),
            topic: TopicId(9),
            cursor: Offset(1_234),
        };
        let value = stored.encode().unwrap();
        let back = StoredSubscription::decode(settings.name.as_str(), &value).unwrap();
        assert_eq!(back.settings, settings);
        assert_eq!((back.topic, back.cursor), (TopicId(9), Offset(1_234)));
    }

    #[test]
    fn a_topic_comes_back_as_it_was() {
        let settings = domain::Topic {
            message_retention: Some(Duration::from_secs(600)),
            labels: BTreeMap::from([("team".to_owned(), "a".to_owned())]),
            ..domain::Topic::new(TopicName::parse("name", "projects/p/topics/orders").unwrap())
        };
        let stored = StoredTopic { settings: settings.clone(), first: Offset(5) };
        let value = stored.encode().unwrap();
        let back = StoredTopic::decode(settings.name.as_str(), &value).unwrap();
        assert_eq!((back.settings, back.first), (settings, Offset(5)));
    }

    #[test]
    fn rubbish_is_unreadable() {
        assert!(StoredTopic::decode("projects/p/topics/orders", b"{").is_err());
        assert!(StoredSubscription::decode("projects/p/subscriptions/sub", b"{}").is_err());
    }
}
