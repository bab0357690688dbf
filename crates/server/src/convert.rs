//! Between Google's definitions on the wire and the words of `domain`.
//!
//! A field that is not built is refused by name unless it has its default value: nothing a client
//! asks for is silently dropped.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::delivery::Lease;
use domain::limits::{EXPIRATION_DEFAULT, RETENTION_DEFAULT};
use domain::name::DELETED_TOPIC;
use domain::subscription::{self, LABELS_NOT_BUILT, label_start};
use domain::{Invalid, Message, Start, Subscription, SubscriptionName, Topic, TopicName, topic};
use wire::protobuf;
use wire::pubsub;

use crate::status::{Refusal, Result};

/// What a subscription can be given beside Google's fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extras {
    /// Where it starts.
    pub(crate) start: Option<Start>,
    /// Free text.
    pub(crate) description: Option<String>,
    /// Free names and values.
    pub(crate) metadata: Option<BTreeMap<String, String>>,
}

/// A topic to be created.
pub(crate) fn topic_from_wire(wire: pubsub::Topic) -> Result<Topic> {
    let name = TopicName::parse("name", &wire.name)?;
    for field in TOPIC_NOT_BUILT {
        refuse_topic_field(&wire, field)?;
    }
    refuse("tags", !wire.tags.is_empty())?;
    Ok(Topic {
        name,
        labels: wire.labels,
        message_retention: wire.message_retention_duration.map(retention).transpose()?,
    })
}

/// A topic as it is shown.
pub(crate) fn topic_to_wire(topic: &Topic) -> pubsub::Topic {
    pubsub::Topic {
        name: topic.name.to_string(),
        labels: topic.labels.clone(),
        message_retention_duration: topic.message_retention.map(Into::into),
        state: pubsub::topic::State::Active.into(),
        ..pubsub::Topic::default()
    }
}

/// What an update of a topic changes: the fields that `paths` name.
pub(crate) fn topic_change(wire: &pubsub::Topic, paths: &[String]) -> Result<topic::Change> {
    let mut change = topic::Change::default();
    for path in needed(paths)? {
        match topic::Field::parse(path)? {
            topic::Field::Labels => change.labels = Some(wire.labels.clone()),
            topic::Field::MessageRetention => {
                let given = wire.message_retention_duration;
                change.message_retention = Some(given.map(retention).transpose()?);
            }
            topic::Field::NotBuilt(field) => refuse_topic_field(wire, field)?,
        }
    }
    Ok(change)
}

const TOPIC_NOT_BUILT: [&str; 5] = [
    "message_storage_policy",
    "kms_key_name",
    "schema_settings",
    "ingestion_data_source_settings",
    "message_transforms",
];

fn refuse_topic_field(wire: &pubsub::Topic, field: &'static str) -> Result<()> {
    let is_given = match field {
        "message_storage_policy" => wire.message_storage_policy.is_some(),
        "kms_key_name" => !wire.kms_key_name.is_empty(),
        "schema_settings" => wire.schema_settings.is_some(),
        "ingestion_data_source_settings" => wire.ingestion_data_source_settings.is_some(),
        _ => !wire.message_transforms.is_empty(),
    };
    refuse(field, is_given)
}

/// A subscription to be created.
pub(crate) fn subscription_from_wire(
    wire: pubsub::Subscription,
    extras: Extras,
) -> Result<Subscription> {
    let name = SubscriptionName::parse("name", &wire.name)?;
    let topic = TopicName::parse("topic", &wire.topic)?;
    for field in SUBSCRIPTION_NOT_BUILT {
        refuse_subscription_field(&wire, field)?;
    }
    refuse("filter", !wire.filter.is_empty())?;
    refuse("enable_message_ordering", wire.enable_message_ordering)?;
    refuse("tags", !wire.tags.is_empty())?;
    refuse_labels(&wire.labels)?;
    let by_label = label_start(&wire.labels)?;
    Ok(Subscription {
        ack_deadline: ack_deadline(&wire)?,
        retain_acked_messages: wire.retain_acked_messages,
        message_retention: subscription_retention(&wire)?,
        expiration: expiration(&wire)?,
        labels: wire.labels,
        // A label that says otherwise is refused when the whole is validated.
        start: extras.start.or(by_label).unwrap_or_default(),
        description: extras.description.unwrap_or_default(),
        metadata: extras.metadata.unwrap_or_default(),
        ..Subscription::new(name, topic)
    })
}

/// A subscription as it is shown.
pub(crate) fn subscription_to_wire(subscription: &broker::Subscription) -> pubsub::Subscription {
    let settings = subscription.settings();
    let topic = subscription.topic();
    let topic_name = if topic.is_deleted() { DELETED_TOPIC } else { settings.topic.as_str() };
    let topic_retention = topic.settings().message_retention.filter(|_| !topic.is_deleted());
    pubsub::Subscription {
        name: settings.name.to_string(),
        topic: topic_name.to_owned(),
        push_config: Some(pubsub::PushConfig::default()),
        ack_deadline_seconds: whole_seconds(settings.ack_deadline),
        retain_acked_messages: settings.retain_acked_messages,
        message_retention_duration: Some(settings.message_retention.into()),
        labels: settings.labels.clone(),
        expiration_policy: Some(pubsub::ExpirationPolicy {
            ttl: settings.expiration.map(Into::into),
        }),
        topic_message_retention_duration: topic_retention.map(Into::into),
        state: pubsub::subscription::State::Active.into(),
        ..pubsub::Subscription::default()
    }
}

/// What an update of a subscription changes: the fields that `paths` name.
pub(crate) fn subscription_change(
    wire: &pubsub::Subscription,
    extras: Extras,
    paths: &[String],
) -> Result<subscription::Change> {
    use subscription::Field;
    let mut change = subscription::Change::default();
    let given = &extras;
    for path in needed(paths)? {
        match Field::parse(path)? {
            Field::AckDeadline => change.ack_deadline = Some(ack_deadline(wire)?),
            Field::RetainAckedMessages => {
                change.retain_acked_messages = Some(wire.retain_acked_messages);
            }
            Field::MessageRetention => {
                change.message_retention = Some(subscription_retention(wire)?);
            }
            Field::Labels => {
                refuse_labels(&wire.labels)?;
                change.labels = Some(wire.labels.clone());
            }
            Field::Expiration => change.expiration = Some(expiration(wire)?),
            Field::Description => {
                change.description = Some(given.description.clone().unwrap_or_default());
            }
            Field::Metadata => change.metadata = Some(given.metadata.clone().unwrap_or_default()),
            Field::Postrider => {
                change.description = given.description.clone().or(change.description);
                change.metadata = given.metadata.clone().or(change.metadata);
            }
            Field::NotBuilt(field) => refuse_subscription_field(wire, field)?,
        }
    }
    Ok(change)
}

const SUBSCRIPTION_NOT_BUILT: [&str; 8] = [
    "push_config",
    "bigquery_config",
    "cloud_storage_config",
    "bigtable_config",
    "dead_letter_policy",
    "retry_policy",
    "enable_exactly_once_delivery",
    "message_transforms",
];

fn refuse_subscription_field(wire: &pubsub::Subscription, field: &'static str) -> Result<()> {
    let is_given = match field {
        "push_config" => is_push(wire.push_config.as_ref()),
        "bigquery_config" => wire.bigquery_config.is_some(),
        "cloud_storage_config" => wire.cloud_storage_config.is_some(),
        "bigtable_config" => wire.bigtable_config.is_some(),
        "dead_letter_policy" => wire.dead_letter_policy.is_some(),
        "retry_policy" => wire.retry_policy.is_some(),
        "enable_exactly_once_delivery" => wire.enable_exactly_once_delivery,
        _ => !wire.message_transforms.is_empty(),
    };
    refuse(field, is_given)
}

/// An empty message means pull: Java clients always send one.
pub(crate) fn is_push(config: Option<&pubsub::PushConfig>) -> bool {
    config.is_some_and(|config| *config != pubsub::PushConfig::default())
}

fn refuse_labels(labels: &BTreeMap<String, String>) -> Result<()> {
    for (key, default) in LABELS_NOT_BUILT {
        let is_given = labels.get(key).is_some_and(|value| Some(value.as_str()) != default);
        refuse(&format!("labels[{key:?}]"), is_given)?;
    }
    Ok(())
}

fn refuse(field: &str, is_given: bool) -> Result<()> {
    if is_given { Err(Refusal::field_not_built(field)) } else { Ok(()) }
}

/// An update must say what it changes.
fn needed(paths: &[String]) -> Result<&[String]> {
    if paths.is_empty() {
        return Err(Invalid::new("update_mask", "must name at least one field").into());
    }
    Ok(paths)
}

fn ack_deadline(wire: &pubsub::Subscription) -> Result<Duration> {
    Ok(subscription::ack_deadline("ack_deadline_seconds", wire.ack_deadline_seconds)?)
}

fn subscription_retention(wire: &pubsub::Subscription) -> Result<Duration> {
    wire.message_retention_duration.map_or(Ok(RETENTION_DEFAULT), retention)
}

fn retention(wire: protobuf::Duration) -> Result<Duration> {
    span("message_retention_duration", wire)
}

/// No policy means the default, a policy without a time means never.
fn expiration(wire: &pubsub::Subscription) -> Result<Option<Duration>> {
    let Some(policy) = &wire.expiration_policy else { return Ok(Some(EXPIRATION_DEFAULT)) };
    let ttl = policy.ttl.map(|ttl| span("expiration_policy.ttl", ttl)).transpose()?;
    Ok(ttl.filter(|ttl| !ttl.is_zero()))
}

fn span(field: &str, wire: protobuf::Duration) -> Result<Duration> {
    let span = Duration::try_from(wire);
    Ok(span.map_err(|_| Invalid::new(field, "negative, or not a valid span of time"))?)
}

fn whole_seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)
}

/// A message to be published. What only the server sets is ignored, as Google does.
pub(crate) fn message_from_wire(wire: pubsub::PubsubMessage) -> Message {
    Message { data: wire.data, attributes: wire.attributes, ordering_key: wire.ordering_key }
}

/// A lease as the consumer sees it. The attempt is shown only where a dead letter policy counts
/// attempts, and there is none yet.
pub(crate) fn lease_to_wire(lease: Lease) -> wire::ReceivedMessage {
    let mut ack_id = String::with_capacity(ACK_ID_BYTES);
    lease.ack_id.write_to(&mut ack_id);
    wire::ReceivedMessage { ack_id, message: lease.record.body, delivery_attempt: 0 }
}

/// Room for an ack id's text.
const ACK_ID_BYTES: usize = 48;

#[cfg(test)]
mod tests;
