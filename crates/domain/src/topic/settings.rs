//! The settings of a topic: what there is, and the table that every surface reads.
//!
//! A new setting is a field here, its default, and an entry of the table.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::elsewhere;
use super::ingestion;
use super::schema::{self, SchemaChange, SchemaSettings};
use crate::error::Invalid;
use crate::name::TopicName;
use crate::setting::read::{google_time, pairs, show_google_time, switch, text};
use crate::setting::shape::{self, Shaped};
use crate::setting::{self, Flag, Form, Label, Resource, Set, Setting};
use crate::transform::{self, Transform};
use crate::validate;

/// An entry of the table.
pub type Entry = Setting<Topic>;

/// What an update changes, or what a new topic is given over the defaults.
pub type Change = setting::Change<Topic>;

/// The label of topics whose messages are matched against live subscriptions: `true` or `false`.
/// It is the only place where that is kept, so a topic that loses the label is live no more.
pub const LIVE_LABEL: &str = "postrider-live";

/// A topic as its owner set it up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: TopicName,
    /// Free marks for people and programs, and reserved ones that set something.
    pub labels: BTreeMap<String, String>,
    /// Messages are kept at least that long, acked or not; `None` = only as long as a
    /// subscription needs them.
    pub message_retention: Option<Duration>,
    /// What its messages must look like; `None` = they are not looked at.
    pub schema: Option<SchemaSettings>,
    /// What its messages go through, in this order, before they are stored.
    pub transforms: Vec<Transform>,
    /// Where Google may keep its messages; kept and shown, and nothing more.
    pub storage_policy: Option<Shaped>,
    /// The key that encrypts its messages at Google; kept and shown, and nothing more.
    pub kms_key: Option<String>,
    /// Google's resource tags; kept, and nothing more. Decided at creation.
    pub tags: BTreeMap<String, String>,
    /// The foreign service whose messages would flow in at Google; nothing flows in here.
    pub ingestion: Option<Shaped>,
}

impl Topic {
    /// A topic with the default settings.
    pub fn new(name: TopicName) -> Self {
        Self {
            name,
            labels: BTreeMap::new(),
            message_retention: None,
            schema: None,
            transforms: Vec::new(),
            storage_policy: None,
            kms_key: None,
            tags: BTreeMap::new(),
            ingestion: None,
        }
    }
}

impl Resource for Topic {
    type Joined = SchemaChange;

    const KIND: &'static str = "topic";

    const GIVEN_BY_SERVER: &'static [&'static str] = &["name", "satisfies_pzs", "state"];

    fn table() -> &'static [Entry] {
        SETTINGS
    }

    fn scratch() -> Result<Self, Invalid> {
        Ok(Self::new(TopicName::parse("", "projects/p/topics/try")?))
    }

    fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }

    fn labels_mut(&mut self) -> &mut BTreeMap<String, String> {
        &mut self.labels
    }

    fn join(self, joined: SchemaChange) -> Result<Self, Invalid> {
        Ok(Self { schema: joined.apply(self.schema)?, ..self })
    }
}

/// Every setting, in the order in which it is shown, checked and documented.
pub static SETTINGS: &[Entry] = &[
    Entry {
        path: "message_retention_duration",
        form: Form::Time,
        config: "message_retention",
        flag: Some(Flag::new("retention").none("none")),
        default: "none",
        title: "Retention",
        help: "How long its messages are kept, acked or not: 10m to 31d",
        set: Set::Alone(|one, field, value| {
            one.message_retention = google_time(field, value)?;
            Ok(())
        }),
        show: |one| one.message_retention.map_or(Value::Null, show_google_time),
        check: |one| {
            let retention = one.message_retention;
            retention.map_or(Ok(()), |time| validate::retention("message_retention_duration", time))
        },
        ..Entry::NONE
    },
    Entry::LABELS,
    Entry {
        path: "schema_settings",
        form: Form::Object,
        parts: schema::PARTS,
        has_masked_parts: true,
        config: "schema_settings",
        default: "none: any data is accepted",
        help: "What its messages must look like",
        set: Set::Joined { whole: schema::set, part: Some(schema::set_part) },
        show: |one| one.schema.as_ref().map_or(Value::Null, SchemaSettings::show),
        ..Entry::NONE
    },
    Entry {
        path: "message_transforms",
        form: Form::Functions,
        config: "message_transforms",
        flag: Some(Flag::new("transform").value("FILE[:FUNCTION]").none("none")),
        default: "none",
        help: "JavaScript functions that change its messages or drop them, before they are stored",
        set: Set::Alone(|one, field, value| {
            one.transforms = transform::read_all(field, value)?;
            Ok(())
        }),
        show: |one| transform::show_all(&one.transforms),
        ..Entry::NONE
    },
    Entry {
        path: "postrider.live",
        form: Form::Switch,
        label: Some(Label::new(LIVE_LABEL)),
        config: "live",
        flag: Some(Flag::new("live")),
        default: "false",
        help: "Match its messages against live subscriptions",
        set: Set::Alone(|one, field, value| {
            match switch(field, value)? {
                Some(live) => one.labels.insert(LIVE_LABEL.to_owned(), live.to_string()),
                None => one.labels.remove(LIVE_LABEL),
            };
            Ok(())
        }),
        show: |one| match one.labels.contains_key(LIVE_LABEL) {
            true => one.is_live().into(),
            false => Value::Null,
        },
        ..Entry::NONE
    },
    Entry {
        path: "ingestion_data_source_settings",
        form: Form::Own,
        parts: ingestion::PARTS,
        has_masked_parts: true,
        config: "ingestion_data_source_settings",
        is_only_kept: true,
        default: "none",
        title: "Ingestion",
        help: "A foreign service whose messages flow in at Google: kept and shown; nothing flows \
               in here",
        set: Set::Alone(|one, field, value| {
            one.ingestion = ingestion::read(field, value)?;
            Ok(())
        }),
        show: |one| one.ingestion.as_ref().map_or(Value::Null, ingestion::show),
        ..Entry::NONE
    },
    Entry {
        path: "kms_key_name",
        config: "kms_key_name",
        flag: Some(Flag::new("kms-key").value("KEY").none("none")),
        default: "none",
        title: "KMS key",
        help: "Google's key for its messages: kept and shown; encrypts nothing here",
        set: Set::Alone(|one, field, value| {
            one.kms_key = text(field, value)?.filter(|key| !key.is_empty());
            Ok(())
        }),
        show: |one| json!(one.kms_key),
        check: |one| one.kms_key.as_deref().map_or(Ok(()), elsewhere::check_kms_key),
        ..Entry::NONE
    },
    Entry {
        path: "message_storage_policy",
        form: Form::Own,
        parts: elsewhere::STORAGE_PARTS,
        has_masked_parts: true,
        config: "message_storage_policy",
        default: "none",
        title: "Regions",
        help: "Google's regions for its messages: kept and shown; they stay on this machine",
        set: Set::Alone(|one, field, value| {
            one.storage_policy = shape::read(elsewhere::STORAGE_POLICY, field, value)?;
            Ok(())
        }),
        show: |one| json!(one.storage_policy),
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
        show: |one| if one.tags.is_empty() { Value::Null } else { json!(one.tags) },
        check: |one| validate::tags(&one.tags),
        ..Entry::NONE
    },
];
