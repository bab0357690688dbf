//! Topics and subscriptions in the settings.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{Start, SubscriptionName, TopicName};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::units;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TopicEntry {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "units::some_duration")]
    message_retention: Option<Duration>,
}

impl TopicEntry {
    fn build(self) -> Result<domain::Topic, domain::Invalid> {
        let topic = domain::Topic {
            labels: self.labels,
            message_retention: self.message_retention,
            ..domain::Topic::new(TopicName::parse("name", &self.name)?)
        };
        topic.validate()?;
        Ok(topic)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubscriptionEntry {
    name: String,
    topic: String,
    #[serde(default, deserialize_with = "units::some_duration")]
    ack_deadline: Option<Duration>,
    #[serde(default, deserialize_with = "units::some_duration")]
    message_retention: Option<Duration>,
    #[serde(default)]
    retain_acked_messages: bool,
    expiration: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    start: Option<String>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

impl SubscriptionEntry {
    fn build(self) -> Result<domain::Subscription, domain::Invalid> {
        let plain = domain::Subscription::new(
            SubscriptionName::parse("name", &self.name)?,
            TopicName::parse("topic", &self.topic)?,
        );
        let expiration = match self.expiration.as_deref() {
            None => plain.expiration,
            Some("never") => None,
            Some(text) => Some(
                units::parse_duration(text)
                    .map_err(|problem| domain::Invalid::new("expiration", problem))?,
            ),
        };
        let start = match (&self.start, domain::subscription::label_start(&self.labels)?) {
            (Some(text), _) => Start::parse("start", text)?,
            (None, by_label) => by_label.unwrap_or_default(),
        };
        let subscription = domain::Subscription {
            ack_deadline: self.ack_deadline.unwrap_or(plain.ack_deadline),
            message_retention: self.message_retention.unwrap_or(plain.message_retention),
            retain_acked_messages: self.retain_acked_messages,
            labels: self.labels,
            expiration,
            start,
            description: self.description,
            metadata: self.metadata,
            ..plain
        };
        subscription.validate()?;
        Ok(subscription)
    }
}

/// For `#[serde(deserialize_with)]` on the topics to make.
pub(super) fn topics<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<domain::Topic>, D::Error> {
    let entries = Vec::<TopicEntry>::deserialize(deserializer)?;
    build_all("topics", entries, TopicEntry::build)
}

/// For `#[serde(deserialize_with)]` on the subscriptions to make.
pub(super) fn subscriptions<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<domain::Subscription>, D::Error> {
    let entries = Vec::<SubscriptionEntry>::deserialize(deserializer)?;
    build_all("subscriptions", entries, SubscriptionEntry::build)
}

fn build_all<Entry, Built, E: Error>(
    list: &str,
    entries: Vec<Entry>,
    build: impl Fn(Entry) -> Result<Built, domain::Invalid>,
) -> Result<Vec<Built>, E> {
    let built = entries.into_iter().enumerate().map(|(index, entry)| {
        build(entry).map_err(|invalid| E::custom(format!("{list}[{index}].{invalid}")))
    });
    built.collect()
}
