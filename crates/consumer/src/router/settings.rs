//! What a file of routes may say. Unknown keys are refused.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::Invalid;
use serde::Deserialize;

use crate::effects::WriteKind;

/// How long servers keep messages, unless it is set.
const RETENTION: &str = "7d";
const DEAD_LETTER_RETENTION: &str = "14d";
const DAY: Duration = Duration::from_secs(86_400);

/// A file with routes and nothing else.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Routes {
    /// How long messages may come again.
    #[serde(default)]
    pub dedupe: Dedupe,
    /// The routes, in order.
    #[serde(default)]
    pub route: Vec<RouteSettings>,
}

/// How long messages may come again: notes must be kept as long.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Dedupe {
    /// How long the subscription's messages are kept, such as `7d`.
    #[serde(default = "retention")]
    pub retention: String,
    /// How long its dead letters are kept, from which messages are replayed.
    #[serde(default = "dead_letter_retention")]
    pub dead_letter_retention: String,
}

fn retention() -> String {
    RETENTION.to_owned()
}

fn dead_letter_retention() -> String {
    DEAD_LETTER_RETENTION.to_owned()
}

impl Default for Dedupe {
    fn default() -> Self {
        Self { retention: retention(), dead_letter_retention: dead_letter_retention() }
    }
}

impl Dedupe {
    /// How long a note must be kept at least.
    pub(super) fn expiry_min(&self) -> Result<Duration, Invalid> {
        let retention = duration("dedupe.retention", &self.retention)?;
        let letters = duration("dedupe.dead_letter_retention", &self.dead_letter_retention)?;
        Ok(retention.saturating_add(letters))
    }
}

/// One route.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteSettings {
    /// Its name, for the log.
    pub name: String,
    /// Only messages of this subscription, by its id or full name; none = of any.
    pub subscription: Option<String>,
    /// Only messages that match this filter, in the CEL spelling; none = all.
    #[serde(rename = "match")]
    pub filter: Option<String>,
    /// The version that a message names, and those that are known.
    pub schema_version: Option<SchemaVersion>,
    /// What kind of event it is, as a template, for the log.
    pub event_type: Option<String>,
    /// The collection that is written to.
    pub collection: String,
    /// The id of the document in it, as a template.
    pub document: String,
    /// How it is written.
    pub kind: Kind,
    /// When the event happened; none = what comes last stays.
    pub event_time: Option<EventTimeSettings>,
    /// Where it is noted that a message was handled.
    pub dedupe: DedupeSettings,
    /// What is written, by name.
    #[serde(default)]
    pub fields: BTreeMap<String, FieldSettings>,
}

/// How a document is written.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The fields are all of it.
    Set,
    /// The fields are put over what is there.
    Merge,
    /// The fields, which are numbers, are added to what is there.
    Increment,
}

impl Kind {
    /// The word for it in the file and in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Merge => "merge",
            Self::Increment => "increment",
        }
    }
}

impl From<Kind> for WriteKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Set => Self::Set,
            Kind::Merge => Self::Merge,
            Kind::Increment => Self::Increment,
        }
    }
}

/// The version that a message names. Any that is not known is poison.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemaVersion {
    /// Where it is.
    pub from: String,
    /// Those that are known, as numbers or text.
    pub known: Vec<toml::Value>,
}

/// When an event happened.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventTimeSettings {
    /// Where it is.
    pub from: String,
    /// The field of the document that keeps the latest.
    pub field: String,
    /// What it is: `time`, `time_seconds` or `time_millis`.
    #[serde(rename = "type", default = "time")]
    pub kind: Type,
}

fn time() -> Type {
    Type::Time
}

/// Where it is noted that a message was handled.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DedupeSettings {
    /// The collection of notes.
    pub collection: String,
    /// The id of a note, as a template; none = `{message.id}`.
    pub id: Option<String>,
    /// How long a note is kept, such as `21d`; none = as long as messages may come again.
    pub expiry: Option<String>,
}

/// Where a field's value comes from: one of `from`, `template` and `constant`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldSettings {
    /// A place in the message.
    pub from: Option<String>,
    /// Text with values of the message in it.
    pub template: Option<String>,
    /// Always this.
    pub constant: Option<toml::Value>,
    /// What the value must be; none = whatever it is.
    #[serde(rename = "type")]
    pub kind: Option<Type>,
    /// A message without it is fine: the field is then left out.
    #[serde(default)]
    pub optional: bool,
}

/// What a value must be, and what is made of it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Type {
    /// Text.
    Text,
    /// A whole number, or text that reads as one.
    Integer,
    /// A number, or text that reads as one.
    Double,
    /// True or false, also as text.
    Bool,
    /// Text as RFC 3339 writes times.
    Time,
    /// Seconds since 1970.
    TimeSeconds,
    /// Milliseconds since 1970.
    TimeMillis,
    /// Values in order.
    List,
    /// Values by name.
    Map,
}

impl Type {
    /// The word for it in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Integer => "integer",
            Self::Double => "double",
            Self::Bool => "bool",
            Self::Time => "time",
            Self::TimeSeconds => "time_seconds",
            Self::TimeMillis => "time_millis",
            Self::List => "list",
            Self::Map => "map",
        }
    }
}

/// Reads a duration such as `21d`, or what `domain::backoff::parse_wait` reads.
pub fn duration(field: &str, text: &str) -> Result<Duration, Invalid> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    match days {
        Some(days) => Ok(DAY.saturating_mul(days)),
        None => domain::backoff::parse_wait(field, text).map_err(|mut invalid| {
            invalid.problem.push_str(", or 21d");
            invalid
        }),
    }
}
