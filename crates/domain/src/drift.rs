//! Compares what exists with what the configuration declares under the same name.

use std::fmt;

use serde_json::Value;

use crate::setting::{Resource, Setting};
use crate::subscription::Subscription;
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
    by(Topic::table(), declared, is)
}

/// Where a subscription (`is`) differs from what was `declared`.
pub fn of_subscription(declared: &Subscription, is: &Subscription) -> Vec<Drift> {
    let mut found = by(Subscription::table(), declared, is);
    if declared.topic != is.topic {
        let values = Some((declared.topic.to_string(), is.topic.to_string()));
        found.insert(0, Drift { field: "topic", values });
    }
    found
}

/// The settings of `table` that differ.
pub fn by<S: Resource>(table: &[Setting<S>], declared: &S, is: &S) -> Vec<Drift> {
    let mut found = Vec::new();
    for setting in table.iter().filter(|setting| !setting.config.is_empty()) {
        let (declared, is) = ((setting.show)(declared), (setting.show)(is));
        // An address or a header may contain a token.
        let values = if setting.is_secret { None } else { told(setting, &declared, &is) };
        let is_same = values.as_ref().is_some_and(|(declared, is)| declared == is);
        if declared != is && !is_same {
            found.push(Drift { field: setting.config, values });
        }
    }
    found
}

/// Both values as the configuration file has them, where they are short.
fn told<S: Resource>(
    setting: &Setting<S>,
    declared: &Value,
    is: &Value,
) -> Option<(String, String)> {
    let brief = |value: &Value| match value {
        Value::Null => Some(setting.default.to_owned()),
        value => setting.form.brief(value),
    };
    Some((brief(declared)?, brief(is)?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
            "push_attributes is not as declared",
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
