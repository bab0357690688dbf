//! Compares what exists with what the configuration declares under the same name.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use crate::backoff::show_wait;
use crate::subscription::{Entry, SETTINGS, Subscription};
use crate::topic::Topic;

/// A setting that differs from its declaration, under its declared name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The setting.
    pub field: &'static str,
    /// The declared and the actual value, if both are short and not secret.
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

/// Where a topic (`is`) differs from what was `declared`.
pub fn of_topic(declared: &Topic, is: &Topic) -> Vec<Drift> {
    let mut found = Found::default();
    found.shown("message_retention", declared.message_retention, is.message_retention, maybe);
    found.named("labels", &declared.labels, &is.labels);
    found.0
}

/// Where a subscription (`is`) differs from what was `declared`.
pub fn of_subscription(declared: &Subscription, is: &Subscription) -> Vec<Drift> {
    of_subscription_by(SETTINGS, declared, is)
}

/// The same, using another table of settings.
pub fn of_subscription_by(
    table: &[Entry],
    declared: &Subscription,
    is: &Subscription,
) -> Vec<Drift> {
    let mut found = Found::default();
    found.shown("topic", &declared.topic, &is.topic, |topic| topic.to_string());
    for setting in table.iter().filter(|setting| !setting.config.is_empty()) {
        let (declared, is) = ((setting.show)(declared), (setting.show)(is));
        // An address or a header may contain a token.
        let values = if setting.is_secret { None } else { told(setting, &declared, &is) };
        let is_same = values.as_ref().is_some_and(|(declared, is)| declared == is);
        if declared != is && !is_same {
            found.0.push(Drift { field: setting.config, values });
        }
    }
    found.0
}

/// Both values as the configuration file spells them, if they are short.
fn told(setting: &Entry, declared: &Value, is: &Value) -> Option<(String, String)> {
    let brief = |value: &Value| match value {
        Value::Null => Some(setting.default.to_owned()),
        value => setting.form.brief(value),
    };
    Some((brief(declared)?, brief(is)?))
}

fn maybe(time: Option<Duration>) -> String {
    time.map_or_else(|| "none".to_owned(), show_wait)
}

#[derive(Default)]
struct Found(Vec<Drift>);

impl Found {
    /// Adds the setting with both values.
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

    /// Adds only the setting's name.
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
            "push_endpoint is not as declared",
            "paused is true, declared false",
            "headers is not as declared",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn every_setting_counts_and_whether_a_default_was_given_does_not() {
        let is = Subscription { rate_max: Some(5), is_ack_deadline_given: true, ..subscription() };
        let told: Vec<String> =
            of_subscription(&subscription(), &is).iter().map(Drift::to_string).collect();
        assert_eq!(told, ["rate_limit is 5, declared as many as the endpoint takes"]);
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
