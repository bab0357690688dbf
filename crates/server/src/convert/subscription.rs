//! Subscriptions, with what is ours beside Google's fields.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::limits::{EXPIRATION_DEFAULT, RETENTION_DEFAULT};
use domain::name::DELETED_TOPIC;
use domain::subscription::{self, Change, Field, LABELS_NOT_BUILT, Labelled, Ours, no_such_path};
use domain::{Filter, Invalid, Poison, Start, Subscription, SubscriptionName, TopicName};
use wire::pubsub;

use super::policy::{self, DeadLetterPart, RetryPart};
use super::{needed, refuse, retention, span};
use crate::status::Result;

/// What a subscription can be given beside Google's fields; `None` = not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extras {
    /// Where it starts.
    pub(crate) start: Option<Start>,
    /// Whether all its messages are one lane.
    pub(crate) fifo: Option<bool>,
    /// Whether delivery is held back.
    pub(crate) paused: Option<bool>,
    /// What a lane does with an exhausted message.
    pub(crate) poison: Option<Poison>,
    /// The attribute whose value names the lane; empty = none.
    pub(crate) lane_by: Option<String>,
    /// How often a message is tried.
    pub(crate) attempts_max: Option<u32>,
    /// Free text.
    pub(crate) description: Option<String>,
    /// Free names and values.
    pub(crate) metadata: Option<BTreeMap<String, String>>,
}

/// A subscription to be created. Where a label says another thing than `extras` do, the outcome
/// is one that does not validate.
pub(crate) fn subscription_from_wire(
    wire: pubsub::Subscription,
    extras: Extras,
) -> Result<Subscription> {
    let name = SubscriptionName::parse("name", &wire.name)?;
    let topic = TopicName::parse("topic", &wire.topic)?;
    for field in NOT_BUILT {
        refuse_field(&wire, field)?;
    }
    refuse("tags", !wire.tags.is_empty())?;
    refuse_labels(&wire.labels)?;
    let labelled = Labelled::read(&wire.labels)?;
    let attempts_max = extras.attempts_max.or(labelled.attempts_max);
    let dead_letter_policy = wire.dead_letter_policy.as_ref();
    let dead_letter_policy =
        dead_letter_policy.map(|wire| policy::dead_letter_policy(wire, attempts_max));
    Ok(Subscription {
        ack_deadline: ack_deadline(&wire)?,
        retain_acked_messages: wire.retain_acked_messages,
        message_retention: subscription_retention(&wire)?,
        expiration: expiration(&wire)?,
        message_ordering: wire.enable_message_ordering,
        filter: filter(&wire.filter)?,
        retry_policy: wire.retry_policy.as_ref().map(policy::retry_policy).transpose()?,
        dead_letter_policy: dead_letter_policy.transpose()?,
        exactly_once: wire.enable_exactly_once_delivery,
        labels: wire.labels,
        start: extras.start.or(labelled.start).unwrap_or_default(),
        fifo: extras.fifo.or(labelled.fifo).unwrap_or_default(),
        paused: extras.paused.or(labelled.paused).unwrap_or_default(),
        poison: extras.poison.or(labelled.poison).unwrap_or_default(),
        lane_by: extras.lane_by.and_then(lane_by),
        attempts_max,
        description: extras.description.unwrap_or_default(),
        metadata: extras.metadata.unwrap_or_default(),
        ..Subscription::new(name, topic)
    })
}

/// A subscription as it is shown.
pub(crate) fn subscription_to_wire(subscription: &broker::Subscription) -> pubsub::Subscription {
    let topic = subscription.topic();
    let topic_retention = topic.settings().message_retention.filter(|_| !topic.is_deleted());
    let mut wire = settings_to_wire(&subscription.settings());
    if topic.is_deleted() {
        DELETED_TOPIC.clone_into(&mut wire.topic);
    }
    wire.topic_message_retention_duration = topic_retention.map(Into::into);
    wire
}

/// What follows from the settings alone.
pub(super) fn settings_to_wire(settings: &Subscription) -> pubsub::Subscription {
    let dead_letter_policy = settings.dead_letter_policy.as_ref();
    pubsub::Subscription {
        name: settings.name.to_string(),
        topic: settings.topic.to_string(),
        push_config: Some(pubsub::PushConfig::default()),
        ack_deadline_seconds: whole_seconds(settings.ack_deadline),
        retain_acked_messages: settings.retain_acked_messages,
        message_retention_duration: Some(settings.message_retention.into()),
        labels: settings.labels.clone(),
        enable_message_ordering: settings.message_ordering,
        expiration_policy: Some(pubsub::ExpirationPolicy {
            ttl: settings.expiration.map(Into::into),
        }),
        filter: settings.filter.as_ref().map(|filter| filter.text().to_owned()).unwrap_or_default(),
        dead_letter_policy: dead_letter_policy.map(policy::dead_letter_policy_to_wire),
        retry_policy: settings.retry_policy.map(policy::retry_policy_to_wire),
        detached: settings.detached,
        enable_exactly_once_delivery: settings.exactly_once,
        state: pubsub::subscription::State::Active.into(),
        ..pubsub::Subscription::default()
    }
}

/// What an update of a subscription changes: the fields that `paths` name. Without `extras` the
/// call came on a way that cannot give them, so it cannot name them either.
pub(crate) fn subscription_change(
    wire: &pubsub::Subscription,
    extras: Option<&Extras>,
    paths: &[String],
) -> Result<Change> {
    let mut change = Change::default();
    for path in needed(paths)? {
        match (Field::parse(path)?, extras) {
            (field, None) if field.is_ours() => return Err(no_such_path(path).into()),
            (Field::Ours(field), Some(extras)) => change_ours(&mut change, extras, field),
            (Field::Postrider, Some(extras)) => change_given(&mut change, extras),
            (field, _) => change_field(&mut change, wire, field)?,
        }
    }
    Ok(change)
}

/// Adds one of Google's fields to a change.
fn change_field(change: &mut Change, wire: &pubsub::Subscription, field: Field) -> Result<()> {
    let retry_policy = wire.retry_policy.as_ref();
    let dead_letter_policy = wire.dead_letter_policy.as_ref();
    let mut retry = |part| policy::change_retry(&mut change.retry_policy, retry_policy, part);
    let mut dead_letter =
        |part| policy::change_dead_letter(&mut change.dead_letter_policy, dead_letter_policy, part);
    match field {
        Field::AckDeadline => change.ack_deadline = Some(ack_deadline(wire)?),
        Field::RetainAckedMessages => {
            change.retain_acked_messages = Some(wire.retain_acked_messages);
        }
        Field::MessageRetention => change.message_retention = Some(subscription_retention(wire)?),
        Field::Labels => {
            refuse_labels(&wire.labels)?;
            change.labels = Some(wire.labels.clone());
        }
        Field::Expiration => change.expiration = Some(expiration(wire)?),
        Field::RetryPolicy => retry(RetryPart::Whole)?,
        Field::BackoffMin => retry(RetryPart::Min)?,
        Field::BackoffMax => retry(RetryPart::Max)?,
        Field::DeadLetterPolicy => dead_letter(DeadLetterPart::Whole)?,
        Field::DeadLetterTopic => dead_letter(DeadLetterPart::Topic)?,
        Field::DeadLetterAttempts => dead_letter(DeadLetterPart::Attempts)?,
        Field::ExactlyOnce => change.exactly_once = Some(wire.enable_exactly_once_delivery),
        Field::NotBuilt(field) => refuse_field(wire, field)?,
        Field::Ours(_) | Field::Postrider => {}
    }
    Ok(())
}

/// Adds one of our fields to a change; one that is not given goes back to its default.
fn change_ours(change: &mut Change, extras: &Extras, field: Ours) {
    match field {
        Ours::Fifo => change.fifo = Some(extras.fifo.unwrap_or_default()),
        Ours::Paused => change.paused = Some(extras.paused.unwrap_or_default()),
        Ours::Poison => change.poison = Some(extras.poison.unwrap_or_default()),
        Ours::LaneBy => change.lane_by = Some(extras.lane_by.clone().and_then(lane_by)),
        Ours::AttemptsMax => change.attempts_max = Some(extras.attempts_max),
        Ours::Description => {
            change.description = Some(extras.description.clone().unwrap_or_default());
        }
        Ours::Metadata => change.metadata = Some(extras.metadata.clone().unwrap_or_default()),
    }
}

/// Adds those of our fields to a change that are given.
fn change_given(change: &mut Change, extras: &Extras) {
    let given = extras.clone();
    change.fifo = given.fifo.or(change.fifo);
    change.paused = given.paused.or(change.paused);
    change.poison = given.poison.or(change.poison);
    change.lane_by = given.lane_by.map(lane_by).or(change.lane_by.take());
    change.attempts_max = given.attempts_max.map(Some).or(change.attempts_max);
    change.description = given.description.or(change.description.take());
    change.metadata = given.metadata.or(change.metadata.take());
}

const NOT_BUILT: [&str; 5] = [
    "push_config",
    "bigquery_config",
    "cloud_storage_config",
    "bigtable_config",
    "message_transforms",
];

fn refuse_field(wire: &pubsub::Subscription, field: &'static str) -> Result<()> {
    let is_given = match field {
        "push_config" => is_push(wire.push_config.as_ref()),
        "bigquery_config" => wire.bigquery_config.is_some(),
        "cloud_storage_config" => wire.cloud_storage_config.is_some(),
        "bigtable_config" => wire.bigtable_config.is_some(),
        _ => !wire.message_transforms.is_empty(),
    };
    refuse(field, is_given)
}

/// An empty message means pull: Java clients always send one.
pub(crate) fn is_push(config: Option<&pubsub::PushConfig>) -> bool {
    config.is_some_and(|config| *config != pubsub::PushConfig::default())
}

fn refuse_labels(labels: &BTreeMap<String, String>) -> Result<()> {
    for label in LABELS_NOT_BUILT {
        refuse(&format!("labels[{label:?}]"), labels.contains_key(label))?;
    }
    Ok(())
}

/// The empty text is no filter.
fn filter(text: &str) -> Result<Option<Filter>, Invalid> {
    if text.is_empty() { Ok(None) } else { Filter::parse("filter", text).map(Some) }
}

fn lane_by(key: String) -> Option<String> {
    Some(key).filter(|key| !key.is_empty())
}

fn ack_deadline(wire: &pubsub::Subscription) -> Result<Duration> {
    Ok(subscription::ack_deadline("ack_deadline_seconds", wire.ack_deadline_seconds)?)
}

fn subscription_retention(wire: &pubsub::Subscription) -> Result<Duration> {
    wire.message_retention_duration.map_or(Ok(RETENTION_DEFAULT), retention)
}

/// No policy means the default, a policy without a time means never.
fn expiration(wire: &pubsub::Subscription) -> Result<Option<Duration>> {
    let Some(policy) = &wire.expiration_policy else { return Ok(Some(EXPIRATION_DEFAULT)) };
    let ttl = policy.ttl.map(|ttl| span("expiration_policy.ttl", ttl)).transpose()?;
    Ok(ttl.filter(|ttl| !ttl.is_zero()))
}

fn whole_seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)
}
