//! The message that goes to the dead letter topic.

use domain::delivery::{Exhausted, Failure};
use domain::letter::{
    ATTEMPTS, ERROR_CLASS, FAILURE_REASON, LAST_ERROR, LAST_STATUS, ORIGINAL_MESSAGE_ID,
    ORIGINAL_SUBSCRIPTION, SOURCE_DELIVERY_COUNT, SOURCE_PROJECT, SOURCE_PUBLISH_TIME,
    SOURCE_SUBSCRIPTION,
};
use domain::text::shortened;
use domain::{Invalid, Message, Record, Subscription, message};

/// Maximum bytes of `last_error`.
const LAST_ERROR_BYTES_MAX: usize = 1_024;

/// Why a message is dead-lettered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// It has used up its attempts.
    Exhausted,
    /// An operator skipped it.
    Skipped,
}

impl Reason {
    /// The word in `failure_reason`.
    fn word(self, subscription: &Subscription) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::Exhausted if subscription.push.is_some() => "max_push_attempts_exceeded",
            Self::Exhausted => "max_delivery_attempts_exceeded",
        }
    }
}

/// The message of `record`, with attributes that say what happened to it: Google's, and ours.
///
/// A message that went through a dead letter topic before keeps its first `original_message_id`.
pub(super) fn write(
    subscription: &Subscription,
    exhausted: &Exhausted,
    reason: Reason,
    record: &Record,
) -> Result<Message, Invalid> {
    let read = message::decode(&record.body);
    let mut message = read.map_err(|error| Invalid::new("message", error.to_string()))?;
    let attempts = exhausted.attempts.to_string();
    let name = &subscription.name;
    let mut set = |key: &str, value: String| message.attributes.insert(key.to_owned(), value);
    set(SOURCE_SUBSCRIPTION, name.id().to_owned());
    set(SOURCE_PROJECT, name.project().id().to_owned());
    let published = record.publish_time.rfc3339_micros();
    set(SOURCE_PUBLISH_TIME, published);
    set(SOURCE_DELIVERY_COUNT, attempts.clone());
    set(ORIGINAL_SUBSCRIPTION, name.to_string());
    set(FAILURE_REASON, reason.word(subscription).to_owned());
    set(ATTEMPTS, attempts);
    let id = || record.offset.to_string();
    message.attributes.entry(ORIGINAL_MESSAGE_ID.to_owned()).or_insert_with(id);
    tell_failure(&mut message, exhausted.failure.as_ref());
    Ok(message)
}

/// Removes what an earlier dead-lettering said about its own failure.
fn tell_failure(message: &mut Message, failure: Option<&Failure>) {
    let class = failure.map(|failure| failure.class.to_owned());
    let error = failure.and_then(|failure| failure.message.as_deref());
    let error = error.map(|error| shortened(error, LAST_ERROR_BYTES_MAX).into_owned());
    let status = failure.and_then(|failure| failure.status).map(|status| status.to_string());
    for (key, value) in [(ERROR_CLASS, class), (LAST_ERROR, error), (LAST_STATUS, status)] {
        match value {
            Some(value) => message.attributes.insert(key.to_owned(), value),
            None => message.attributes.remove(key),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use bytes::{Bytes, BytesMut};
    use domain::{DeadLetterPolicy, Offset, SubscriptionName, Timestamp, TopicName};

    use super::*;

    fn subscription() -> Subscription {
        let topic = |id| TopicName::parse("topic", &format!("projects/p/topics/{id}")).unwrap();
        let name = SubscriptionName::parse("name", "projects/p/subscriptions/sub").unwrap();
        Subscription {
            dead_letter_policy: Some(DeadLetterPolicy::new(topic("dead"), Some(5), None)),
            ..Subscription::new(name, topic("orders"))
        }
    }

    fn record(message: &Message) -> Record {
        let (offset, publish_time) = (Offset(77), Timestamp(1_800_000_000_000_001));
        let mut body = BytesMut::new();
        message::encode(message, offset, publish_time, &mut body);
        Record { offset, publish_time, addressee: None, body: body.freeze() }
    }

    fn exhausted(attempts: u32, failure: Option<Failure>) -> Exhausted {
        Exhausted { offset: Offset(77), attempts, failure }
    }

    fn original() -> Message {
        Message {
            data: Bytes::from_static(b"hello"),
            attributes: BTreeMap::from([("color".to_owned(), "red".to_owned())]),
            ordering_key: "k".to_owned(),
        }
    }

    #[test]
    fn it_is_the_message_and_what_happened_to_it() {
        let failure = Failure {
            class: "timeout",
            status: Some(504),
            message: Some(Arc::from("ä".repeat(600))),
            retry_after: None,
        };
        let exhausted = exhausted(5, Some(failure));
        let record = record(&original());
        let letter = write(&subscription(), &exhausted, Reason::Exhausted, &record).unwrap();
        assert_eq!(letter.data, original().data);
        assert_eq!(letter.ordering_key, "k");
        let expected = [
            ("CloudPubSubDeadLetterSourceDeliveryCount", "5"),
            ("CloudPubSubDeadLetterSourceSubscription", "sub"),
            ("CloudPubSubDeadLetterSourceSubscriptionProject", "p"),
            ("CloudPubSubDeadLetterSourceTopicPublishTime", "2027-01-15T08:00:00.000001Z"),
            ("attempts", "5"),
            ("color", "red"),
            ("error_class", "timeout"),
            ("failure_reason", "max_delivery_attempts_exceeded"),
            ("last_error", &format!("{0}…{0}", "ä".repeat(255))),
            ("last_status", "504"),
            ("original_message_id", "77"),
            ("original_subscription", "projects/p/subscriptions/sub"),
        ];
        let attributes =
            letter.attributes.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        assert_eq!(attributes.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_first_message_id_stays_and_an_old_failure_does_not() {
        let mut message = original();
        for (key, value) in [("original_message_id", "3"), ("last_status", "500")] {
            message.attributes.insert(key.to_owned(), value.to_owned());
        }
        let nacked = exhausted(5, Some(Failure::NACK));
        let letter = write(&subscription(), &nacked, Reason::Exhausted, &record(&message)).unwrap();
        let get = |key: &str| letter.attributes.get(key).map(String::as_str);
        assert_eq!(get("original_message_id"), Some("3"));
        assert_eq!((get("error_class"), get("last_status")), (Some("nack"), None));
    }

    #[test]
    fn one_that_an_operator_gave_up_says_so_however_often_it_was_tried() {
        for attempts in [2, 5, 6] {
            let exhausted = exhausted(attempts, None);
            let record = record(&original());
            let letter = write(&subscription(), &exhausted, Reason::Skipped, &record).unwrap();
            let get = |key: &str| letter.attributes.get(key).map(String::as_str);
            assert_eq!((get("failure_reason"), get("error_class")), (Some("skipped"), None));
        }
    }
}
