//! What exists and what the settings of the program declare under the same name, compared.

use std::fmt;
use std::time::Duration;

use crate::backoff::show_wait;
use crate::subscription::Subscription;
use crate::topic::Topic;

/// A setting that is not what was declared, under the name it is declared by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The setting.
    pub field: &'static str,
    /// What was declared and what is, where both are short and no secrets.
    pub values: Option<(String, String)>,
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.values {
            Some((declared, is)) => write!(f, "{} is {is}, declared {declared}", self.field),
            None => write!(f, "{} is not as declared", self.field),
        }
    }
}

/// Where a topic `is` not as `declared`.
pub fn of_topic(declared: &Topic, is: &Topic) -> Vec<Drift> {
    let mut found = Found::default();
    found.shown("message_retention", declared.message_retention, is.message_retention, maybe);
    found.named("labels", &declared.labels, &is.labels);
    found.0
}

/// Where a subscription `is` not as `declared`. Settings that cannot be declared do not count.
pub fn of_subscription(declared: &Subscription, is: &Subscription) -> Vec<Drift> {
    let mut found = Found::default();
    let yes = |is: bool| is.to_string();
    found.shown("topic", &declared.topic, &is.topic, |topic| topic.to_string());
    found.shown("ack_deadline", declared.ack_deadline, is.ack_deadline, show_wait);
    found.shown("message_retention", declared.message_retention, is.message_retention, show_wait);
    let retained = (declared.retain_acked_messages, is.retain_acked_messages);
    found.shown("retain_acked_messages", retained.0, retained.1, yes);
    found.shown("expiration", declared.expiration, is.expiration, |time| {
        time.map_or_else(|| "never".to_owned(), show_wait)
    });
    let ordering = (declared.message_ordering, is.message_ordering);
    found.shown("enable_message_ordering", ordering.0, ordering.1, yes);
    found.named("filter", &declared.filter, &is.filter);
    found.named("retry_policy", &declared.retry_policy, &is.retry_policy);
    found.named("dead_letter_policy", &declared.dead_letter_policy, &is.dead_letter_policy);
    found.shown("enable_exactly_once_delivery", declared.exactly_once, is.exactly_once, yes);
    found.shown("fifo", declared.fifo, is.fifo, yes);
    found.shown("paused", declared.paused, is.paused, yes);
    found.shown("poison", declared.poison, is.poison, |poison| poison.to_string());
    found.named("lane_by", &declared.lane_by, &is.lane_by);
    found.named("max_attempts", &declared.attempts_max, &is.attempts_max);
    // An address may hold a token.
    let endpoint = |one: &Subscription| one.push.as_ref().map(|push| push.endpoint.clone());
    found.named("push_endpoint", &endpoint(declared), &endpoint(is));
    let timeout = |one: &Subscription| one.push.as_ref().and_then(|push| push.timeout);
    found.shown("push_timeout_seconds", timeout(declared), timeout(is), maybe);
    found.named("headers", &declared.headers, &is.headers);
    found.named("labels", &declared.labels, &is.labels);
    found.named("start", &declared.start, &is.start);
    found.named("description", &declared.description, &is.description);
    found.named("metadata", &declared.metadata, &is.metadata);
    found.named("alerts", &declared.alerts, &is.alerts);
    found.0
}

fn maybe(time: Option<Duration>) -> String {
    time.map_or_else(|| "none".to_owned(), show_wait)
}

#[derive(Default)]
struct Found(Vec<Drift>);

impl Found {
    /// With both values.
    fn shown<T: PartialEq>(
        &mut self,
        field: &'static str,
        declared: T,
        is: T,
        show: impl Fn(T) -> String,
    ) {
        if declared != is {
            self.0.push(Drift { field, values: Some((show(declared), show(is))) });
        }
    }

    /// The name alone.
    fn named<T: PartialEq>(&mut self, field: &'static str, declared: &T, is: &T) {
        if declared != is {
            self.0.push(Drift { field, values: None });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{SubscriptionName, TopicName};
    use crate::push::{Endpoint, PushConfig};

    fn subscription() -> Subscription {
        let name = SubscriptionName::parse("", "projects/p/subscriptions/billing").unwrap();
        Subscription::new(name, TopicName::parse("", "projects/p/topics/orders").unwrap())
    }

    #[test]
    fn what_differs_is_named_and_nothing_else() {
        assert_eq!(of_subscription(&subscription(), &subscription()), []);
        let endpoint = Endpoint::parse("", "http://h/?token=secret").unwrap();
        let is = Subscription {
            ack_deadline: Duration::from_secs(60),
            paused: true,
            expiration: None,
            push: Some(PushConfig::new(endpoint)),
            headers: [("authorization".to_owned(), "secret".to_owned())].into(),
            ..subscription()
        };
        let told: Vec<String> =
            of_subscription(&subscription(), &is).iter().map(Drift::to_string).collect();
        let expected = [
            "ack_deadline is 1m, declared 10s",
            "expiration is never, declared 744h",
            "paused is true, declared false",
            "push_endpoint is not as declared",
            "headers is not as declared",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn what_cannot_be_declared_does_not_count() {
        let is = Subscription { rate_max: Some(5), is_ack_deadline_given: true, ..subscription() };
        assert_eq!(of_subscription(&subscription(), &is), []);
    }

    #[test]
    fn topics_are_compared_too() {
        let declared = Topic::new(TopicName::parse("", "projects/p/topics/orders").unwrap());
        let retention = Some(Duration::from_secs(600));
        let is = Topic { message_retention: retention, ..declared.clone() };
        assert_eq!(of_topic(&declared, &declared), []);
        let told: Vec<String> = of_topic(&declared, &is).iter().map(Drift::to_string).collect();
        assert_eq!(told, ["message_retention is 10m, declared none"]);
    }
}
