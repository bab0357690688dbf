//! Poison goes to the dead letter topic with everything known about it.

use std::sync::Arc;

use domain::letter::{
    ATTEMPTS, ERROR_CLASS, FAILURE_REASON, LAST_ERROR, ORIGINAL_MESSAGE_ID, ORIGINAL_SUBSCRIPTION,
    SOURCE_DELIVERY_COUNT, SOURCE_PROJECT, SOURCE_PUBLISH_TIME, SOURCE_SUBSCRIPTION,
};
use wire::pubsub::{PublishRequest, PubsubMessage};

use crate::log::cut;
use crate::metrics::Metrics;
use crate::{Connection, Failure, Message, clock};

/// What forwarded messages give as their reason.
pub const REASON: &str = "poison";
/// Bytes of an attribute's value, at most: Google's limit.
const VALUE_BYTES_MAX: usize = 1_024;

/// Publishes to one dead letter topic.
pub(crate) struct Forwarder {
    connection: Connection,
    topic: String,
    subscription: String,
    metrics: Arc<Metrics>,
}

impl Forwarder {
    pub(crate) fn new(
        connection: Connection,
        topic: String,
        subscription: String,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { connection, topic, subscription, metrics }
    }

    /// Publishes the message with its context. Once this is `Ok` the server has confirmed it, and
    /// the message may be acked.
    pub(crate) async fn forward(&self, message: &Message, failure: &Failure) -> Result<(), String> {
        let letter = letter(message, failure, &self.subscription);
        let publish = PublishRequest { topic: self.topic.clone(), messages: vec![letter] };
        let problem = |status: tonic::Status| {
            let (topic, said) = (&self.topic, status.message());
            format!("it could not be published to {topic}: {said} ({})", status.code())
        };
        let request = self.connection.call(publish).await.map_err(problem)?;
        self.connection.publisher().publish(request).await.map_err(problem)?;
        self.metrics.count_forwarded();
        Ok(())
    }
}

/// The message as a dead letter of `subscription`: Google's attributes and Postrider's.
fn letter(message: &Message, failure: &Failure, subscription: &str) -> PubsubMessage {
    let mut attributes = message.attributes.clone();
    let mut put = |key: &str, value: String| attributes.insert(key.to_owned(), value);
    if let Some((project, id)) = parts(subscription) {
        put(SOURCE_PROJECT, project.to_owned());
        put(SOURCE_SUBSCRIPTION, id.to_owned());
    }
    if let Some(time) = message.publish_time {
        put(SOURCE_PUBLISH_TIME, clock::text(time));
    }
    if let Some(attempt) = message.delivery_attempt {
        put(SOURCE_DELIVERY_COUNT, attempt.to_string());
        put(ATTEMPTS, attempt.to_string());
    }
    put(ORIGINAL_SUBSCRIPTION, subscription.to_owned());
    put(ORIGINAL_MESSAGE_ID, message.dedupe_id().to_owned());
    put(FAILURE_REASON, REASON.to_owned());
    put(ERROR_CLASS, "permanent".to_owned());
    let said = format!("{}: {}", failure.kind, failure.message);
    put(LAST_ERROR, cut(&said, VALUE_BYTES_MAX).to_owned());
    PubsubMessage {
        data: message.data.clone(),
        attributes,
        ordering_key: message.ordering_key.clone(),
        ..PubsubMessage::default()
    }
}

/// Project and id of `projects/{project}/subscriptions/{id}`.
fn parts(subscription: &str) -> Option<(&str, &str)> {
    subscription.strip_prefix("projects/")?.split_once("/subscriptions/")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use domain::{Letter, Timestamp};

    use super::*;

    #[test]
    fn a_forwarded_message_reads_as_a_dead_letter() {
        let subscription = "projects/p/subscriptions/billing";
        let message = Message {
            id: "77".to_owned(),
            data: "{".into(),
            attributes: BTreeMap::from([("color".to_owned(), "red".to_owned())]),
            ordering_key: "k".to_owned(),
            publish_time: Some(Timestamp(1_800_000_000_000_000)),
            delivery_attempt: Some(2),
            subscription: None,
        };
        let failure = Failure::new("InvalidJson", "x".repeat(2_000));
        let letter = letter(&message, &failure, subscription);
        assert_eq!((&letter.data[..], letter.ordering_key.as_str()), (&b"{"[..], "k"));
        assert_eq!(letter.attributes["CloudPubSubDeadLetterSourceSubscription"], "billing");
        assert_eq!(letter.attributes["CloudPubSubDeadLetterSourceDeliveryCount"], "2");
        let time = &letter.attributes["CloudPubSubDeadLetterSourceTopicPublishTime"];
        assert_eq!(time, "2027-01-15T08:00:00Z");
        let attributes = letter.attributes.clone();
        let read = Letter::read(&domain::Message { attributes, ..domain::Message::default() });
        assert_eq!(read.subscription.unwrap().as_str(), subscription);
        assert_eq!(read.message_id.as_deref(), Some("77"));
        assert_eq!(
            (read.reason.as_deref(), read.class.as_deref()),
            (Some("poison"), Some("permanent"))
        );
        assert_eq!((read.attempts, read.last_error.unwrap().len()), (Some(2), 1_024));
        assert_eq!(letter.attributes["color"], "red");
    }

    #[test]
    fn a_message_that_was_replayed_keeps_its_first_id() {
        let mut message = Message { id: "9".to_owned(), ..Message::default() };
        message.attributes.insert("original_message_id".to_owned(), "3".to_owned());
        let letter = letter(&message, &Failure::default(), "billing");
        assert_eq!(letter.attributes["original_message_id"], "3");
    }
}
