//! Dead letters: what their attributes say, and the original message.

use crate::message::{self, Message};
use crate::name::SubscriptionName;

/// Google's attributes of a dead letter.
pub const SOURCE_SUBSCRIPTION: &str = "CloudPubSubDeadLetterSourceSubscription";
/// The project of that subscription.
pub const SOURCE_PROJECT: &str = "CloudPubSubDeadLetterSourceSubscriptionProject";
/// When the message was published to its topic.
pub const SOURCE_PUBLISH_TIME: &str = "CloudPubSubDeadLetterSourceTopicPublishTime";
/// How often it was delivered.
pub const SOURCE_DELIVERY_COUNT: &str = "CloudPubSubDeadLetterSourceDeliveryCount";
/// The full name of the subscription that gave up on it.
pub const ORIGINAL_SUBSCRIPTION: &str = "original_subscription";
/// The message's original id; it is kept when the message is replayed.
pub const ORIGINAL_MESSAGE_ID: &str = "original_message_id";
/// Why the subscription gave up on it.
pub const FAILURE_REASON: &str = "failure_reason";
/// How often it was tried.
pub const ATTEMPTS: &str = "attempts";
/// The error class of the last attempt.
pub const ERROR_CLASS: &str = "error_class";
/// The error of the last attempt.
pub const LAST_ERROR: &str = "last_error";
/// The HTTP status of the last attempt.
pub const LAST_STATUS: &str = "last_status";

/// The attributes that dead-lettering adds to a message and a replay removes again.
const ADDED: [&str; 10] = [
    SOURCE_SUBSCRIPTION,
    SOURCE_PROJECT,
    SOURCE_PUBLISH_TIME,
    SOURCE_DELIVERY_COUNT,
    ORIGINAL_SUBSCRIPTION,
    FAILURE_REASON,
    ATTEMPTS,
    ERROR_CLASS,
    LAST_ERROR,
    LAST_STATUS,
];

/// What a dead letter says about itself. Any of it may be missing: anyone can publish to a dead
/// letter topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Letter {
    /// The subscription that gave up on it.
    pub subscription: Option<SubscriptionName>,
    /// The message's original id.
    pub message_id: Option<String>,
    /// Why the subscription gave up on it.
    pub reason: Option<String>,
    /// How often it was tried.
    pub attempts: Option<u32>,
    /// The error class of the last attempt.
    pub class: Option<String>,
    /// The error of the last attempt.
    pub last_error: Option<String>,
    /// The HTTP status of the last attempt.
    pub last_status: Option<u16>,
}

impl Letter {
    /// Reads the attributes of `message`.
    pub fn read(message: &Message) -> Self {
        let text = |key: &str| message.attributes.get(key).cloned();
        Self {
            subscription: source(text),
            message_id: text(ORIGINAL_MESSAGE_ID),
            reason: text(FAILURE_REASON),
            attempts: text(ATTEMPTS).and_then(|text| text.parse().ok()),
            class: text(ERROR_CLASS),
            last_error: text(LAST_ERROR),
            last_status: text(LAST_STATUS).and_then(|text| text.parse().ok()),
        }
    }
}

/// The subscription that gave up on the message in a record body; `None` if it does not say.
pub fn subscription(body: &[u8]) -> Option<SubscriptionName> {
    source(|key| message::attribute(body, key).ok().flatten().map(str::to_owned))
}

/// From our attribute, or else from Google's two.
fn source(text: impl Fn(&str) -> Option<String>) -> Option<SubscriptionName> {
    let parse = |name: &str| SubscriptionName::parse("", name).ok();
    if let Some(name) = text(ORIGINAL_SUBSCRIPTION) {
        return parse(&name);
    }
    let (project, id) = (text(SOURCE_PROJECT)?, text(SOURCE_SUBSCRIPTION)?);
    parse(&format!("projects/{project}/subscriptions/{id}"))
}

/// The message as it was before it was dead-lettered, plus its original id.
#[must_use]
pub fn restore(mut message: Message) -> Message {
    for key in ADDED {
        message.attributes.remove(key);
    }
    message
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::{Bytes, BytesMut};

    use super::*;
    use crate::offset::Offset;
    use crate::time::Timestamp;

    fn message(attributes: &[(&str, &str)]) -> Message {
        let own = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        Message {
            data: Bytes::from_static(b"hello"),
            attributes: attributes.iter().map(own).collect(),
            ordering_key: "k".to_owned(),
        }
    }

    fn letter() -> Message {
        message(&[
            ("CloudPubSubDeadLetterSourceDeliveryCount", "5"),
            ("CloudPubSubDeadLetterSourceSubscription", "billing"),
            ("CloudPubSubDeadLetterSourceSubscriptionProject", "p"),
            ("CloudPubSubDeadLetterSourceTopicPublishTime", "2027-01-15T08:00:00Z"),
            ("attempts", "5"),
            ("color", "red"),
            ("error_class", "http_5xx"),
            ("failure_reason", "max_push_attempts_exceeded"),
            ("last_error", "out of paper"),
            ("last_status", "503"),
            ("original_message_id", "77"),
            ("original_subscription", "projects/p/subscriptions/billing"),
        ])
    }

    #[test]
    fn a_letter_says_what_happened_to_it() {
        let read = Letter::read(&letter());
        let name = SubscriptionName::parse("", "projects/p/subscriptions/billing").unwrap();
        let expected = Letter {
            subscription: Some(name),
            message_id: Some("77".to_owned()),
            reason: Some("max_push_attempts_exceeded".to_owned()),
            attempts: Some(5),
            class: Some("http_5xx".to_owned()),
            last_error: Some("out of paper".to_owned()),
            last_status: Some(503),
        };
        assert_eq!(read, expected);
        assert_eq!(Letter::read(&message(&[("attempts", "many")])), Letter::default());
    }

    #[test]
    fn googles_own_attributes_name_the_subscription_too() {
        let mut letter = letter();
        letter.attributes.remove(ORIGINAL_SUBSCRIPTION);
        let named = Letter::read(&letter).subscription.unwrap();
        assert_eq!(named.as_str(), "projects/p/subscriptions/billing");
        letter.attributes.insert(ORIGINAL_SUBSCRIPTION.to_owned(), "rubbish".to_owned());
        assert_eq!(Letter::read(&letter).subscription, None);
    }

    #[test]
    fn the_subscription_is_found_in_the_bytes_of_a_record() {
        let mut body = BytesMut::new();
        message::encode(&letter(), Offset(1), Timestamp(1), &mut body);
        let named = subscription(&body).unwrap();
        assert_eq!(named.as_str(), "projects/p/subscriptions/billing");
        assert_eq!(subscription(b"\xff"), None);
    }

    #[test]
    fn what_is_restored_is_the_message_and_its_first_id() {
        let restored = restore(letter());
        let expected = BTreeMap::from([
            ("color".to_owned(), "red".to_owned()),
            ("original_message_id".to_owned(), "77".to_owned()),
        ]);
        assert_eq!(restored.attributes, expected);
        assert_eq!((&restored.data[..], restored.ordering_key.as_str()), (&b"hello"[..], "k"));
    }
}
