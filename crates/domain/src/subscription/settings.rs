//! The settings of a subscription: what there is, and the table that every surface reads.
//!
//! A new setting is a field here, its default, and an entry of the table.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::change::Joined;
use super::{Start, checks, cloud_storage, deadline, elsewhere, policies, push_settings, shapes};
use crate::alert;
use crate::backoff::Backoff;
use crate::error::Invalid;
use crate::export::CloudStorage;
use crate::filter::Filter;
use crate::limits::{
    ACK_DEADLINE_DEFAULT, ATTEMPTS_MAX, ATTEMPTS_MIN, EXPIRATION_DEFAULT, RETENTION_DEFAULT,
};
use crate::name::{SubscriptionName, TopicName};
use crate::policy::{DeadLetterPolicy, Poison, RetryPolicy};
use crate::push::{BatchPush, Method, PushConfig, Signing};
use crate::setting::read::{google_time, number_between, pairs, show_google_time, switch, text};
use crate::setting::shape::Shaped;
use crate::setting::{self, Flag, Form, Label, Part, Resource, Set, Setting, Spelling};
use crate::transform::{self, Transform};
use crate::validate;

/// An entry of the table.
pub type Entry = Setting<Subscription>;

/// What an update changes, or what a new subscription is given over the defaults.
pub type Change = setting::Change<Subscription>;

/// A subscription as its owner set it up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// Its name.
    pub name: SubscriptionName,
    /// The topic it gets its messages from, under the name it had at creation.
    pub topic: TopicName,
    /// How long a lease lasts unless a stream or an extension says otherwise.
    pub ack_deadline: Duration,
    /// Whether acked messages are kept too, within `message_retention`.
    pub retain_acked_messages: bool,
    /// How long messages are kept that are not acked.
    pub message_retention: Duration,
    /// Free marks for people and programs, and reserved ones that set something.
    pub labels: BTreeMap<String, String>,
    /// After this long without use it is deleted; `None` = never.
    pub expiration: Option<Duration>,
    /// Whether messages of one ordering key go in order. Decided at creation.
    pub message_ordering: bool,
    /// Which messages it is for; `None` = all. Decided at creation.
    pub filter: Option<Filter>,
    /// How long a message waits after a failed attempt; `None` = not at all.
    pub retry_policy: Option<RetryPolicy>,
    /// Where exhausted messages go; `None` = nowhere.
    pub dead_letter_policy: Option<DeadLetterPolicy>,
    /// Whether only the current lease's ack id settles a message, and for good.
    pub exactly_once: bool,
    /// Whether it was cut off from its topic: it has no messages and gets none.
    pub detached: bool,
    /// Whether all its messages are one lane.
    pub fifo: bool,
    /// Whether delivery is held back. The backlog is kept.
    pub paused: bool,
    /// What a lane does with an exhausted message.
    pub poison: Poison,
    /// The attribute whose value names a message's lane, instead of the ordering key.
    pub lane_by: Option<String>,
    /// How often a message is tried, given in our own way; with a dead letter policy it is the
    /// same number.
    pub attempts_max: Option<u32>,
    /// Where in the topic it began. Decided at creation, kept for show.
    pub start: Start,
    /// Free text; empty = none.
    pub description: String,
    /// Free names and values, without the limits of labels.
    pub metadata: BTreeMap<String, String>,
    /// How the rules of alerts differ for it.
    pub alerts: alert::Settings,
    /// Whether the ack deadline was given, and is not just the default: it is then the time an
    /// endpoint has for its answer too.
    pub is_ack_deadline_given: bool,
    /// Where its messages are pushed to; `None` = they are pulled.
    pub push: Option<PushConfig>,
    /// Waits between attempts given in our own way, instead of a retry policy.
    pub backoff: Option<Backoff>,
    /// Headers sent with each push, beside those that are always sent.
    pub headers: BTreeMap<String, String>,
    /// The HTTP method of a push.
    pub method: Method,
    /// How pushes are signed; `None` = not at all.
    pub signing: Option<Signing>,
    /// Send several messages per push; `None` = one.
    pub batch: Option<BatchPush>,
    /// Most pushes a second; `None` = as the endpoint takes them.
    pub rate_max: Option<u32>,
    /// What its messages go through, in this order, before they are delivered.
    pub transforms: Vec<Transform>,
    /// Which bucket its messages are written to, and how; `None` = none.
    pub cloud_storage: Option<CloudStorage>,
    /// Google's resource tags; kept, and nothing more. Decided at creation.
    pub tags: BTreeMap<String, String>,
    /// The BigQuery table that gets its messages at Google; here they wait.
    pub bigquery: Option<Shaped>,
    /// The Bigtable table that gets its messages at Google; here they wait.
    pub bigtable: Option<Shaped>,
}

impl Subscription {
    /// A subscription with the default settings.
    pub fn new(name: SubscriptionName, topic: TopicName) -> Self {
        Self {
            name,
            topic,
            ack_deadline: ACK_DEADLINE_DEFAULT,
            retain_acked_messages: false,
            message_retention: RETENTION_DEFAULT,
            labels: BTreeMap::new(),
            expiration: Some(EXPIRATION_DEFAULT),
            message_ordering: false,
            filter: None,
            retry_policy: None,
            dead_letter_policy: None,
            exactly_once: false,
            detached: false,
            fifo: false,
            paused: false,
            poison: Poison::Skip,
            lane_by: None,
            attempts_max: None,
            start: Start::Latest,
            description: String::new(),
            metadata: BTreeMap::new(),
            alerts: alert::Settings::default(),
            is_ack_deadline_given: false,
            push: None,
            backoff: None,
            headers: BTreeMap::new(),
            method: Method::Post,
            signing: None,
            batch: None,
            rate_max: None,
            transforms: Vec::new(),
            cloud_storage: None,
            tags: BTreeMap::new(),
            bigquery: None,
            bigtable: None,
        }
    }
}

impl Resource for Subscription {
    type Joined = Joined;

    const KIND: &'static str = "subscription";

    const GIVEN_BY_SERVER: &'static [&'static str] = &[
        "analytics_hub_subscription_info",
        "detached",
        "name",
        "state",
        "topic",
        "topic_message_retention_duration",
    ];

    fn table() -> &'static [Entry] {
        SETTINGS
    }

    fn scratch() -> Result<Self, Invalid> {
        let name = SubscriptionName::parse("", "projects/p/subscriptions/try")?;
        Ok(Self::new(name, TopicName::parse("", "projects/p/topics/try")?))
    }

    fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }

    fn labels_mut(&mut self) -> &mut BTreeMap<String, String> {
        &mut self.labels
    }

    fn join(self, joined: Joined) -> Result<Self, Invalid> {
        joined.apply(self)
    }
}

/// Every setting, in the order in which it is shown, checked and documented.
pub static SETTINGS: &[Entry] = &[
    Entry {
        path: "ack_deadline_seconds",
        form: Form::Seconds,
        config: "ack_deadline",
        flag: Some(Flag::new("ack-deadline")),
        default: "10s",
        title: "Ack deadline",
        help: "How long a consumer has to ack: 10s to 10m",
        set: Set::Alone(|one, field, value| {
            let given = deadline::read(field, value)?;
            one.ack_deadline = given.unwrap_or(ACK_DEADLINE_DEFAULT);
            one.is_ack_deadline_given = given.is_some();
            Ok(())
        }),
        show: |one| one.ack_deadline.as_secs().into(),
        check: |one| deadline::ack_deadline_in_range("ack_deadline_seconds", one.ack_deadline),
        ..Entry::NONE
    },
    Entry {
        path: "message_retention_duration",
        form: Form::Time,
        config: "message_retention",
        flag: Some(Flag::new("retention")),
        default: "7d",
        title: "Retention",
        help: "How long unacked messages are kept: 10m to 31d",
        set: Set::Alone(|one, field, value| {
            one.message_retention = google_time(field, value)?.unwrap_or(RETENTION_DEFAULT);
            Ok(())
        }),
        show: |one| show_google_time(one.message_retention),
        check: |one| validate::retention("message_retention_duration", one.message_retention),
        ..Entry::NONE
    },
    Entry {
        path: "retain_acked_messages",
        form: Form::Switch,
        config: "retain_acked_messages",
        flag: Some(Flag::new("retain-acked")),
        default: "false",
        title: "Keeps acked",
        help: "Also keep acked messages, so you can seek back",
        set: Set::Alone(|one, field, value| {
            one.retain_acked_messages = switch(field, value)?.unwrap_or_default();
            Ok(())
        }),
        show: |one| one.retain_acked_messages.into(),
        ..Entry::NONE
    },
    Entry {
        path: "expiration_policy",
        form: Form::TimeOrNever,
        parts: &[Part::new("ttl", Form::Time, "").title("Expires after")],
        has_masked_parts: true,
        config: "expiration",
        flag: Some(Flag::new("expires-after")),
        default: "31d",
        help: "Delete it after this long without use: 1d or longer, or never",
        set: Set::Alone(|one, field, value| {
            one.expiration = shapes::read_expiration(field, value)?;
            Ok(())
        }),
        show: |one| shapes::show_expiration(one.expiration),
        check: |one| checks::expiration(one.expiration, one.message_retention),
        ..Entry::NONE
    },
    Entry {
        path: "filter",
        config: "filter",
        flag: Some(Flag::new("filter").value("FILTER")),
        is_fixed: true,
        default: "all messages",
        title: "Filter",
        help: "Deliver only messages that match this filter, such as 'attributes.kind = \"order\"'",
        set: Set::Alone(|one, field, value| shapes::read_filter(one, field, value, false)),
        show: |one| shapes::show_filter(one, false),
        ..Entry::NONE
    },
    Entry {
        path: "enable_exactly_once_delivery",
        form: Form::Switch,
        config: "enable_exactly_once_delivery",
        flag: Some(Flag::new("exactly-once")),
        default: "false",
        title: "Exactly once",
        help: "Acks are durable when answered, and acked messages never come again",
        set: Set::Alone(|one, field, value| {
            one.exactly_once = switch(field, value)?.unwrap_or_default();
            Ok(())
        }),
        show: |one| one.exactly_once.into(),
        ..Entry::NONE
    },
    Entry {
        path: "enable_message_ordering",
        form: Form::Switch,
        config: "enable_message_ordering",
        flag: Some(Flag::new("ordering")),
        is_fixed: true,
        default: "false",
        title: "Ordering keys",
        help: "Deliver messages with the same ordering key in order",
        set: Set::Alone(|one, field, value| {
            one.message_ordering = switch(field, value)?.unwrap_or_default();
            Ok(())
        }),
        show: |one| one.message_ordering.into(),
        ..Entry::NONE
    },
    Entry::LABELS,
    Entry {
        path: "retry_policy",
        form: Form::Object,
        parts: policies::RETRY_PARTS,
        has_masked_parts: true,
        config: "retry_policy",
        default: "none: at once; pushes 100ms to 60s",
        help: "How long a message waits after a failed attempt",
        set: Set::Joined { whole: policies::set_retry, part: Some(policies::set_retry_part) },
        show: policies::show_retry,
        check: |one| one.retry_policy.map_or(Ok(()), |policy| policy.validate()),
        ..Entry::NONE
    },
    Entry {
        path: "dead_letter_policy",
        form: Form::Object,
        parts: policies::DEAD_LETTER_PARTS,
        has_masked_parts: true,
        config: "dead_letter_policy",
        default: "none",
        help: "Where messages go after too many failures",
        set: Set::Joined {
            whole: policies::set_dead_letter,
            part: Some(policies::set_dead_letter_part),
        },
        show: policies::show_dead_letter,
        ..Entry::NONE
    },
    push_settings::WHOLE,
    push_settings::ENDPOINT,
    push_settings::ATTRIBUTES,
    push_settings::NO_WRAPPER,
    push_settings::OIDC_TOKEN,
    push_settings::TIMEOUT,
    push_settings::RETRY_POLICY,
    Entry {
        path: "postrider.fifo",
        form: Form::Switch,
        label: Some(Label::new("postrider-fifo")),
        spellings: &[Spelling { name: "fifo_mode", is_opposite: false }],
        config: "fifo",
        flag: Some(Flag::new("fifo")),
        default: "false",
        title: "FIFO",
        help: "Deliver all messages in topic order",
        set: Set::Alone(|one, field, value| {
            one.fifo = switch(field, value)?.unwrap_or_default();
            Ok(())
        }),
        show: |one| one.fifo.into(),
        ..Entry::NONE
    },
    Entry {
        path: "postrider.lane_by",
        config: "lane_by",
        flag: Some(Flag::new("lane-by").value("ATTRIBUTE").none("none")),
        default: "the ordering key",
        title: "Lanes by",
        help: "Deliver messages with the same value of this attribute in order",
        set: Set::Alone(|one, field, value| {
            one.lane_by = text(field, value)?.filter(|key| !key.is_empty());
            Ok(())
        }),
        show: |one| json!(one.lane_by),
        check: checks::lane_by,
        ..Entry::NONE
    },
    Entry {
        path: "postrider.poison",
        form: Form::Word(&["skip", "halt"]),
        label: Some(Label::new("postrider-poison")),
        config: "poison",
        flag: Some(Flag::new("poison").value("POISON")),
        default: "skip",
        title: "Poison",
        help: "What a lane does with a message that failed too often: skip it or halt",
        set: Set::Alone(|one, field, value| {
            let given = text(field, value)?.map(|text| Poison::parse(field, &text)).transpose()?;
            one.poison = given.unwrap_or_default();
            Ok(())
        }),
        show: |one| one.poison.to_string().into(),
        check: checks::poison,
        ..Entry::NONE
    },
    Entry {
        path: "postrider.paused",
        form: Form::Switch,
        label: Some(Label::new("postrider-paused")),
        spellings: &[Spelling { name: "is_enabled", is_opposite: true }],
        config: "paused",
        flag: Some(Flag::new("paused")),
        default: "false",
        help: "Deliver nothing",
        set: Set::Alone(|one, field, value| {
            one.paused = switch(field, value)?.unwrap_or_default();
            Ok(())
        }),
        show: |one| one.paused.into(),
        ..Entry::NONE
    },
    Entry {
        path: "postrider.backoff",
        form: Form::Times,
        config: "backoff",
        flag: Some(Flag::new("backoff").value("DURATIONS").none("none")),
        default: "`retryPolicy`",
        title: "Backoff",
        help: "The wait after each attempt, such as 5s,5m,30m",
        set: Set::Alone(|one, field, value| {
            one.backoff = shapes::read_backoff(field, value)?;
            Ok(())
        }),
        show: |one| shapes::show_backoff(one.backoff.as_ref()),
        check: checks::backoff,
        ..Entry::NONE
    },
    Entry {
        path: "postrider.max_attempts",
        form: Form::Number,
        label: Some(Label {
            // Attempts that the waits imply have no label.
            says: Some(|one| one.attempts_max.into()),
            join: |joined, field, value| {
                let given = read_attempts(field, value)?;
                joined.attempts_max.get_or_insert(given);
                Ok(())
            },
            ..Label::new("postrider-max-attempts")
        }),
        config: "max_attempts",
        default: "no end",
        title: "Max attempts",
        help: "How often a message is tried: 1 to 100; then it is dropped if there is no dead \
               letter topic",
        set: Set::Joined {
            whole: |change, field, value| {
                change.joined.attempts_max = Some(read_attempts(field, value)?);
                Ok(())
            },
            part: None,
        },
        show: |one| json!(one.attempts_asked()),
        check: checks::attempts,
        ..Entry::NONE
    },
    Entry {
        path: "postrider.start",
        form: Form::Start,
        label: Some(Label::new("postrider-start")),
        config: "start",
        flag: Some(Flag::new("start").value("START")),
        is_fixed: true,
        default: "latest",
        title: "Start",
        help: "Where it starts: latest, earliest, an offset, or a time",
        set: Set::Alone(|one, field, value| {
            one.start = Start::read(field, value)?.unwrap_or_default();
            Ok(())
        }),
        show: |one| one.start.show(),
        ..Entry::NONE
    },
    Entry {
        path: "postrider.filter",
        config: "cel_filter",
        flag: Some(Flag::new("cel-filter").value("FILTER")),
        is_fixed: true,
        default: "all messages",
        title: "CEL filter",
        help: "Deliver only messages that match this CEL expression, such as 'data.total > 100'",
        set: Set::Alone(|one, field, value| shapes::read_filter(one, field, value, true)),
        show: |one| shapes::show_filter(one, true),
        ..Entry::NONE
    },
    Entry {
        path: "postrider.description",
        config: "description",
        flag: Some(Flag::new("description").value("DESCRIPTION")),
        default: "none",
        title: "Description",
        help: "Free text",
        set: Set::Alone(|one, field, value| {
            one.description = text(field, value)?.unwrap_or_default();
            Ok(())
        }),
        show: |one| shapes::unless_empty(&one.description),
        check: |one| checks::description(&one.description),
        ..Entry::NONE
    },
    Entry {
        path: "postrider.metadata",
        form: Form::Pairs,
        config: "metadata",
        flag: Some(Flag::new("metadata")),
        default: "none",
        title: "Metadata",
        help: "Free text by key",
        set: Set::Alone(|one, field, value| {
            one.metadata = pairs(field, value)?.unwrap_or_default();
            Ok(())
        }),
        show: |one| shapes::show_pairs(&one.metadata),
        check: |one| checks::metadata(&one.metadata),
        ..Entry::NONE
    },
    Entry {
        path: "postrider.alerts",
        form: Form::Own,
        config: "alerts",
        default: "the rules as they are",
        help: "Changes to the alert rules for it, or `\"off\"`",
        set: Set::Alone(|one, field, value| {
            one.alerts = alert::json::read(field, value)?;
            Ok(())
        }),
        show: |one| match one.alerts.is_empty() {
            true => Value::Null,
            false => alert::json::show(&one.alerts),
        },
        check: |one| one.alerts.validate(),
        ..Entry::NONE
    },
    push_settings::HEADERS,
    push_settings::METHOD,
    push_settings::SIGNING,
    push_settings::BATCH,
    push_settings::RATE_LIMIT,
    Entry {
        path: "message_transforms",
        form: Form::Functions,
        config: "message_transforms",
        flag: Some(Flag::new("transform").value("FILE[:FUNCTION]").none("none")),
        default: "none",
        help: "JavaScript functions that change its messages or drop them, after the filter and \
               before they are delivered",
        set: Set::Alone(|one, field, value| {
            one.transforms = transform::read_all(field, value)?;
            Ok(())
        }),
        show: |one| transform::show_all(&one.transforms),
        ..Entry::NONE
    },
    Entry {
        path: "bigquery_config",
        form: Form::Own,
        parts: elsewhere::BIGQUERY_PARTS,
        has_masked_parts: true,
        config: "bigquery_config",
        is_only_kept: true,
        default: "none",
        title: "BigQuery",
        help: "The BigQuery table that gets its messages at Google: kept and shown; here they wait",
        set: Set::Alone(|one, field, value| {
            one.bigquery = elsewhere::read_bigquery(field, value)?;
            Ok(())
        }),
        show: |one| one.bigquery.as_ref().map_or(Value::Null, elsewhere::show),
        check: elsewhere::check_one_way,
        ..Entry::NONE
    },
    Entry {
        path: "bigtable_config",
        form: Form::Own,
        parts: elsewhere::BIGTABLE_PARTS,
        has_masked_parts: true,
        config: "bigtable_config",
        is_only_kept: true,
        default: "none",
        title: "Bigtable",
        help: "The Bigtable table that gets its messages at Google: kept and shown; here they wait",
        set: Set::Alone(|one, field, value| {
            one.bigtable = elsewhere::read_bigtable(field, value)?;
            Ok(())
        }),
        show: |one| one.bigtable.as_ref().map_or(Value::Null, elsewhere::show),
        ..Entry::NONE
    },
    Entry {
        path: "cloud_storage_config",
        form: Form::Object,
        parts: cloud_storage::PARTS,
        has_masked_parts: true,
        config: "cloud_storage_config",
        default: "none",
        help: "Write messages to objects in a bucket",
        set: Set::Joined { whole: cloud_storage::set_whole, part: Some(cloud_storage::set_part) },
        show: cloud_storage::show_of,
        check: cloud_storage::check,
        ..Entry::NONE
    },
    Entry {
        path: "tags",
        form: Form::Pairs,
        config: "tags",
        is_fixed: true,
        is_input_only: true,
        default: "none",
        help: "Google's resource tags: kept, never shown; no policy here looks at them",
        set: Set::Alone(|one, field, value| {
            one.tags = pairs(field, value)?.unwrap_or_default();
            Ok(())
        }),
        show: |one| shapes::show_pairs(&one.tags),
        check: |one| validate::tags(&one.tags),
        ..Entry::NONE
    },
];

fn read_attempts(field: &str, value: &Value) -> Result<Option<u32>, Invalid> {
    number_between(field, value, (ATTEMPTS_MIN, ATTEMPTS_MAX), "")
}
