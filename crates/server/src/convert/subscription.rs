//! Subscriptions, with what is ours beside Google's fields.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::limits::{ACK_DEADLINE_DEFAULT, EXPIRATION_DEFAULT, RETENTION_DEFAULT};
use domain::name::DELETED_TOPIC;
use domain::push::{BatchPush, Method, PushConfig};
use domain::subscription::{self, Change, Field, Labelled, Ours, PushRetry, no_such_path};
use domain::{
    Backoff, Filter, Invalid, Poison, RetryPolicy, Start, Subscription, SubscriptionName, TopicName,
};
use wire::pubsub;

use super::policy::{self, DeadLetterPart, RetryPart};
use super::push::{self, SigningAsk};
use super::{needed, refuse, retention, span};
use crate::status::Result;

/// What a subscription can be given beside Google's fields; `None` = not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extras {
    /// Where it starts.
    pub(crate) start: Option<Start>,
    /// Which messages it wants, in the CEL spelling.
    pub(crate) filter: Option<String>,
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
    /// How the rules of alerts differ.
    pub(crate) alerts: Option<domain::alert::Settings>,
    /// How long an endpoint has for its answer.
    pub(crate) push_timeout: Option<Duration>,
    /// Waits and attempts, given inside the push config.
    pub(crate) push_retry: Option<PushRetry>,
    /// Waits between attempts; `Some(None)` = none.
    pub(crate) backoff: Option<Option<Backoff>>,
    /// Headers of a push.
    pub(crate) headers: Option<BTreeMap<String, String>>,
    /// The method of a push.
    pub(crate) method: Option<Method>,
    /// How pushes are signed.
    pub(crate) signing: Option<SigningAsk>,
    /// Several messages in one push; `Some(None)` = one.
    pub(crate) batch: Option<Option<BatchPush>>,
    /// Most pushes a second; `Some(None)` = as the endpoint takes them.
    pub(crate) rate_max: Option<Option<u32>>,
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
    let labelled = Labelled::read(&wire.labels)?;
    let (retry_policy, attempts_max) = retries(&wire, &extras, &labelled)?;
    let backoff = extras.backoff.flatten();
    let asked = attempts_max.or(backoff.as_ref().and_then(Backoff::attempts));
    let dead_letter_policy = wire.dead_letter_policy.as_ref();
    let dead_letter_policy = dead_letter_policy.map(|wire| policy::dead_letter_policy(wire, asked));
    let ack_deadline = ack_deadline(&wire)?;
    let signing = extras.signing.as_ref().map(SigningAsk::change).transpose()?;
    Ok(Subscription {
        ack_deadline: ack_deadline.unwrap_or(ACK_DEADLINE_DEFAULT),
        is_ack_deadline_given: ack_deadline.is_some(),
        retain_acked_messages: wire.retain_acked_messages,
        message_retention: subscription_retention(&wire)?,
        expiration: expiration(&wire)?,
        message_ordering: wire.enable_message_ordering,
        filter: filter(&wire.filter, extras.filter.as_deref().unwrap_or_default())?,
        retry_policy,
        dead_letter_policy: dead_letter_policy.transpose()?,
        exactly_once: wire.enable_exactly_once_delivery,
        push: push_config(&wire, extras.push_timeout, labelled.timeout)?,
        labels: wire.labels,
        start: extras.start.or(labelled.start).unwrap_or_default(),
        fifo: extras.fifo.or(labelled.fifo).unwrap_or_default(),
        paused: extras.paused.or(labelled.paused).unwrap_or_default(),
        poison: extras.poison.or(labelled.poison).unwrap_or_default(),
        lane_by: extras.lane_by.and_then(lane_by),
        attempts_max,
        description: extras.description.unwrap_or_default(),
        metadata: extras.metadata.unwrap_or_default(),
        alerts: extras.alerts.unwrap_or_default(),
        backoff,
        headers: extras.headers.unwrap_or_default(),
        method: extras.method.unwrap_or_default(),
        signing: signing.and_then(|change| change.apply(None)),
        batch: extras.batch.flatten(),
        rate_max: extras.rate_max.flatten(),
        ..Subscription::new(name, topic)
    })
}

/// The retry policy and the attempts that were asked for, whichever way they were.
fn retries(
    wire: &pubsub::Subscription,
    extras: &Extras,
    labelled: &Labelled,
) -> Result<(Option<RetryPolicy>, Option<u32>)> {
    let asked = extras.attempts_max.or(labelled.attempts_max);
    let policy = wire.retry_policy.as_ref().map(policy::retry_policy).transpose()?;
    let Some(retry) = extras.push_retry else { return Ok((policy, asked)) };
    PushRetry::only(policy.is_some())?;
    let dead_letter = wire.dead_letter_policy.as_ref().map_or(Ok(None), policy::attempts)?;
    Ok((Some(retry.policy), Some(retry.attempts_max(asked, dead_letter)?)))
}

/// The push config with its timeout, which a label may give for one that is made later.
fn push_config(
    wire: &pubsub::Subscription,
    timeout: Option<Duration>,
    labelled: Option<Duration>,
) -> Result<Option<PushConfig>> {
    match push::push_config(wire.push_config.as_ref())? {
        Some(push) => Ok(Some(PushConfig { timeout: timeout.or(labelled), ..push })),
        None if timeout.is_some() => Err(push::no_endpoint().into()),
        None => Ok(None),
    }
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
        push_config: Some(push::push_config_to_wire(settings.push.as_ref())),
        ack_deadline_seconds: whole_seconds(settings.ack_deadline),
        retain_acked_messages: settings.retain_acked_messages,
        message_retention_duration: Some(settings.message_retention.into()),
        labels: settings.labels.clone(),
        enable_message_ordering: settings.message_ordering,
        expiration_policy: Some(pubsub::ExpirationPolicy {
            ttl: settings.expiration.map(Into::into),
        }),
        filter: google_filter(settings),
        dead_letter_policy: dead_letter_policy.map(policy::dead_letter_policy_to_wire),
        retry_policy: settings.retry_policy.map(policy::retry_policy_to_wire),
        detached: settings.detached,
        enable_exactly_once_delivery: settings.exactly_once,
        state: pubsub::subscription::State::Active.into(),
        ..pubsub::Subscription::default()
    }
}

/// Whether `path` names what cannot be changed, and the update gives it as it is.
pub(crate) fn is_unchanged(
    path: &str,
    wanted: &pubsub::Subscription,
    extras: Option<&Extras>,
    current: &broker::Subscription,
) -> bool {
    let shown = subscription_to_wire(current);
    let settings = current.settings();
    match path {
        "name" => wanted.name == shown.name,
        "topic" => wanted.topic == shown.topic,
        "filter" => wanted.filter == shown.filter,
        "enable_message_ordering" => {
            wanted.enable_message_ordering == shown.enable_message_ordering
        }
        "detached" => wanted.detached == shown.detached,
        "state" => wanted.state == shown.state,
        "tags" => wanted.tags == shown.tags,
        "topic_message_retention_duration" => {
            wanted.topic_message_retention_duration == shown.topic_message_retention_duration
        }
        "analytics_hub_subscription_info" => {
            wanted.analytics_hub_subscription_info == shown.analytics_hub_subscription_info
        }
        "postrider.filter" => {
            let cel = settings.filter.as_ref().filter(|filter| filter.is_cel()).map(Filter::text);
            extras.is_some_and(|extras| {
                extras.filter.as_deref().unwrap_or_default() == cel.unwrap_or_default()
            })
        }
        "postrider.start" => extras.is_some_and(|extras| extras.start == Some(settings.start)),
        _ => false,
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
            (Field::Ours(field), Some(extras)) => change_ours(&mut change, extras, field)?,
            (Field::Postrider, Some(extras)) => change_given(&mut change, extras)?,
            (Field::Push(part), extras) => {
                push::change_push(&mut change, wire.push_config.as_ref(), extras, part)?;
            }
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
        Field::Labels => change.labels = Some(wire.labels.clone()),
        Field::Expiration => change.expiration = Some(expiration(wire)?),
        Field::RetryPolicy => retry(RetryPart::Whole)?,
        Field::BackoffMin => retry(RetryPart::Min)?,
        Field::BackoffMax => retry(RetryPart::Max)?,
        Field::DeadLetterPolicy => dead_letter(DeadLetterPart::Whole)?,
        Field::DeadLetterTopic => dead_letter(DeadLetterPart::Topic)?,
        Field::DeadLetterAttempts => dead_letter(DeadLetterPart::Attempts)?,
        Field::ExactlyOnce => change.exactly_once = Some(wire.enable_exactly_once_delivery),
        Field::NotBuilt(field) => refuse_field(wire, field)?,
        Field::Push(_) | Field::Ours(_) | Field::Postrider => {}
    }
    Ok(())
}

/// Adds one of our fields to a change; one that is not given goes back to its default.
fn change_ours(change: &mut Change, extras: &Extras, field: Ours) -> Result<()> {
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
        Ours::Alerts => change.alerts = Some(extras.alerts.clone().unwrap_or_default()),
        Ours::Backoff => change.backoff = Some(extras.backoff.clone().flatten()),
        Ours::Headers => change.headers = Some(extras.headers.clone().unwrap_or_default()),
        Ours::Method => change.method = Some(extras.method.unwrap_or_default()),
        Ours::Signing => {
            change.signing = Some(extras.signing.as_ref().unwrap_or(&SigningAsk::Off).change()?);
        }
        Ours::Batch => change.batch = Some(extras.batch.flatten()),
        Ours::RateMax => change.rate_max = Some(extras.rate_max.flatten()),
    }
    Ok(())
}

/// Adds those of our fields to a change that are given.
fn change_given(change: &mut Change, extras: &Extras) -> Result<()> {
    let given = extras.clone();
    change.fifo = given.fifo.or(change.fifo);
    change.paused = given.paused.or(change.paused);
    change.poison = given.poison.or(change.poison);
    change.lane_by = given.lane_by.map(lane_by).or(change.lane_by.take());
    change.attempts_max = given.attempts_max.map(Some).or(change.attempts_max);
    change.description = given.description.or(change.description.take());
    change.metadata = given.metadata.or(change.metadata.take());
    change.alerts = given.alerts.or(change.alerts.take());
    change.backoff = given.backoff.or(change.backoff.take());
    change.headers = given.headers.or(change.headers.take());
    change.method = given.method.or(change.method);
    change.batch = given.batch.or(change.batch);
    change.rate_max = given.rate_max.or(change.rate_max);
    if let Some(signing) = given.signing {
        change.signing = Some(signing.change()?);
    }
    Ok(())
}

const NOT_BUILT: [&str; 4] =
    ["bigquery_config", "cloud_storage_config", "bigtable_config", "message_transforms"];

fn refuse_field(wire: &pubsub::Subscription, field: &'static str) -> Result<()> {
    let is_given = match field {
        "bigquery_config" => wire.bigquery_config.is_some(),
        "cloud_storage_config" => wire.cloud_storage_config.is_some(),
        "bigtable_config" => wire.bigtable_config.is_some(),
        _ => !wire.message_transforms.is_empty(),
    };
    refuse(field, is_given)
}

/// The filter, in Google's language or in the CEL spelling. The empty text is no filter.
fn filter(text: &str, cel: &str) -> Result<Option<Filter>, Invalid> {
    const OURS: &str = "postrider.filter";
    match (text, cel) {
        ("", "") => Ok(None),
        (_, "") => Filter::parse("filter", text).map(Some),
        ("", _) => {
            Filter::parse_cel(OURS, cel).map(Some).map_err(|refusal| refusal.invalid().clone())
        }
        _ => Err(Invalid::new(OURS, "given together with filter, which says the same; give one")),
    }
}

/// The filter's text if Google's clients can read it; one in the CEL spelling is shown as ours.
fn google_filter(settings: &Subscription) -> String {
    let filter = settings.filter.as_ref().filter(|filter| !filter.is_cel());
    filter.map(|filter| filter.text().to_owned()).unwrap_or_default()
}

fn lane_by(key: String) -> Option<String> {
    Some(key).filter(|key| !key.is_empty())
}

fn ack_deadline(wire: &pubsub::Subscription) -> Result<Option<Duration>> {
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
