//! Topics and subscriptions in the settings.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::push::{Endpoint, PushConfig};
use domain::subscription::Labelled;
use domain::{
    DeadLetterPolicy, Filter, Invalid, Poison, RetryPolicy, Start, Subscription, SubscriptionName,
    TopicName,
};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::units;
use crate::convert::alerts;

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
    fn build(self) -> Result<domain::Topic, Invalid> {
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
    enable_message_ordering: bool,
    filter: Option<String>,
    retry_policy: Option<RetryEntry>,
    dead_letter_policy: Option<DeadLetterEntry>,
    #[serde(default)]
    enable_exactly_once_delivery: bool,
    fifo: Option<bool>,
    paused: Option<bool>,
    poison: Option<String>,
    lane_by: Option<String>,
    max_attempts: Option<u32>,
    push_endpoint: Option<String>,
    push_timeout_seconds: Option<u32>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    start: Option<String>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    alerts: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RetryEntry {
    #[serde(default, deserialize_with = "units::some_duration")]
    minimum_backoff: Option<Duration>,
    #[serde(default, deserialize_with = "units::some_duration")]
    maximum_backoff: Option<Duration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeadLetterEntry {
    dead_letter_topic: String,
    max_delivery_attempts: Option<u32>,
}

impl SubscriptionEntry {
    fn build(self) -> Result<Subscription, Invalid> {
        let plain = Subscription::new(
            SubscriptionName::parse("name", &self.name)?,
            TopicName::parse("topic", &self.topic)?,
        );
        let labelled = Labelled::read(&self.labels)?;
        let attempts_max = self.max_attempts.or(labelled.attempts_max);
        let start = self.start.map(|text| Start::parse("start", &text)).transpose()?;
        let poison = self.poison.map(|text| Poison::parse("poison", &text)).transpose()?;
        let dead_letter_policy =
            self.dead_letter_policy.map(|entry| entry.build(attempts_max)).transpose()?;
        let alerts = self.alerts.map(|value| alerts::read("alerts", value)).transpose()?;
        let subscription = Subscription {
            alerts: alerts.unwrap_or_default(),
            push: push(self.push_endpoint, self.push_timeout_seconds, labelled.timeout)?,
            headers: self.headers,
            ack_deadline: self.ack_deadline.unwrap_or(plain.ack_deadline),
            is_ack_deadline_given: self.ack_deadline.is_some(),
            message_retention: self.message_retention.unwrap_or(plain.message_retention),
            retain_acked_messages: self.retain_acked_messages,
            expiration: expiration(self.expiration.as_deref(), plain.expiration)?,
            message_ordering: self.enable_message_ordering,
            filter: self.filter.map(|text| Filter::parse("filter", &text)).transpose()?,
            retry_policy: self.retry_policy.map(RetryEntry::build),
            dead_letter_policy,
            exactly_once: self.enable_exactly_once_delivery,
            // Where a label says another thing, the whole does not validate.
            fifo: self.fifo.or(labelled.fifo).unwrap_or_default(),
            paused: self.paused.or(labelled.paused).unwrap_or_default(),
            poison: poison.or(labelled.poison).unwrap_or_default(),
            lane_by: self.lane_by,
            attempts_max,
            labels: self.labels,
            start: start.or(labelled.start).unwrap_or_default(),
            description: self.description,
            metadata: self.metadata,
            ..plain
        };
        subscription.validate()?;
        Ok(subscription)
    }
}

impl RetryEntry {
    fn build(self) -> RetryPolicy {
        let default = RetryPolicy::default();
        RetryPolicy {
            min: self.minimum_backoff.unwrap_or(default.min),
            max: self.maximum_backoff.unwrap_or(default.max),
        }
    }
}

impl DeadLetterEntry {
    fn build(self, attempts_max: Option<u32>) -> Result<DeadLetterPolicy, Invalid> {
        let topic =
            TopicName::parse("dead_letter_policy.dead_letter_topic", &self.dead_letter_topic)?;
        Ok(DeadLetterPolicy::new(topic, self.max_delivery_attempts, attempts_max))
    }
}

fn push(
    endpoint: Option<String>,
    timeout_seconds: Option<u32>,
    labelled: Option<Duration>,
) -> Result<Option<PushConfig>, Invalid> {
    let timeout = timeout_seconds.map(|seconds| Duration::from_secs(seconds.into()));
    match endpoint {
        Some(text) => {
            let endpoint = Endpoint::parse("push_endpoint", &text)?;
            Ok(Some(PushConfig { timeout: timeout.or(labelled), ..PushConfig::new(endpoint) }))
        }
        None if timeout.is_some() => {
            Err(Invalid::new("push_timeout_seconds", "needs a push_endpoint"))
        }
        None => Ok(None),
    }
}

fn expiration(text: Option<&str>, default: Option<Duration>) -> Result<Option<Duration>, Invalid> {
    match text {
        None => Ok(default),
        Some("never") => Ok(None),
        Some(text) => match units::parse_duration(text) {
            Ok(ttl) => Ok(Some(ttl)),
            Err(problem) => Err(Invalid::new("expiration", problem)),
        },
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
) -> Result<Vec<Subscription>, D::Error> {
    let entries = Vec::<SubscriptionEntry>::deserialize(deserializer)?;
    build_all("subscriptions", entries, SubscriptionEntry::build)
}

fn build_all<Entry, Built, E: Error>(
    list: &str,
    entries: Vec<Entry>,
    build: impl Fn(Entry) -> Result<Built, Invalid>,
) -> Result<Vec<Built>, E> {
    let built = entries.into_iter().enumerate().map(|(index, entry)| {
        build(entry).map_err(|invalid| E::custom(format!("{list}[{index}].{invalid}")))
    });
    built.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Settings {
        #[serde(deserialize_with = "subscriptions")]
        subscriptions: Vec<Subscription>,
    }

    fn read(lines: &str) -> Result<Subscription, String> {
        let text = format!(
            "[[subscriptions]]\nname = \"projects/p/subscriptions/sub\"\n\
             topic = \"projects/p/topics/orders\"\n{lines}\n"
        );
        match toml::from_str::<Settings>(&text) {
            Ok(mut settings) => Ok(settings.subscriptions.remove(0)),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_subscription_can_be_given_every_setting() {
        let all = read(
            r#"
            enable_message_ordering = true
            filter = 'attributes:kind'
            retry_policy = { minimum_backoff = "250ms" }
            dead_letter_policy = { dead_letter_topic = "projects/p/topics/dead" }
            enable_exactly_once_delivery = true
            fifo = true
            paused = true
            poison = "halt"
            max_attempts = 3
            "#,
        )
        .unwrap();
        let plain = Subscription::new(all.name.clone(), all.topic.clone());
        let expected = Subscription {
            message_ordering: true,
            filter: Some(Filter::parse("filter", "attributes:kind").unwrap()),
            retry_policy: Some(RetryPolicy {
                min: Duration::from_millis(250),
                max: Duration::from_secs(600),
            }),
            dead_letter_policy: Some(DeadLetterPolicy {
                topic: TopicName::parse("topic", "projects/p/topics/dead").unwrap(),
                max_delivery_attempts: 3,
            }),
            exactly_once: true,
            fifo: true,
            paused: true,
            poison: Poison::Halt,
            attempts_max: Some(3),
            ..plain
        };
        assert_eq!(all, expected);
        assert_eq!(read("lane_by = \"kind\"").unwrap().lane_by.unwrap(), "kind");
    }

    #[test]
    fn a_subscription_can_push() {
        let pushing = read(
            "push_endpoint = \"http://localhost:8080/push\"\npush_timeout_seconds = 7\n\
             headers = { x-tenant = \"blue\" }",
        )
        .unwrap();
        let push = pushing.push.unwrap();
        assert_eq!(push.endpoint.text(), "http://localhost:8080/push");
        assert_eq!(push.timeout, Some(Duration::from_secs(7)));
        assert_eq!(pushing.headers["x-tenant"], "blue");
        assert_eq!(read("").unwrap().push, None);
        assert!(read("ack_deadline = \"10s\"").unwrap().is_ack_deadline_given);
    }

    #[test]
    fn labels_set_what_they_stand_for_and_must_agree() {
        let labelled = read("labels = { postrider-fifo = \"true\" }").unwrap();
        assert!(labelled.fifo);
        let torn = read("fifo = false\nlabels = { postrider-fifo = \"true\" }").unwrap_err();
        assert!(torn.contains(r#"subscriptions[0].labels["postrider-fifo"]"#), "{torn}");
    }

    #[test]
    fn bad_settings_name_entry_and_field() {
        for (lines, field) in [
            ("filter = \"x\"", "filter: at 1"),
            ("poison = \"stop\"", "poison"),
            ("poison = \"halt\"", "postrider.poison"),
            ("max_attempts = 0", "postrider.maxAttempts"),
            ("lane_by = \"\"", "postrider.laneBy"),
            ("push_endpoint = \"localhost\"", "push_endpoint"),
            ("push_timeout_seconds = 5", "push_timeout_seconds"),
            ("headers = { host = \"x\" }", r#"postrider.headers["host"]"#),
            ("retry_policy = { maximum_backoff = \"1h\" }", "retry_policy.maximum_backoff"),
            (
                "dead_letter_policy = { dead_letter_topic = \"dead\" }",
                "dead_letter_policy.dead_letter_topic",
            ),
            (
                "dead_letter_policy = { dead_letter_topic = \"projects/p/topics/dead\", \
                 max_delivery_attempts = 101 }",
                "dead_letter_policy.max_delivery_attempts",
            ),
        ] {
            let error = read(lines).unwrap_err();
            assert!(error.contains(&format!("subscriptions[0].{field}")), "{error}");
        }
    }
}
