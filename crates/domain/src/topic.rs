//! The settings of a topic, their rules, and how they may be changed.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::Invalid;
use crate::name::TopicName;
use crate::validate;

/// The label of topics whose messages are matched against live subscriptions: `true` or `false`.
pub const LIVE_LABEL: &str = "postrider-live";

/// A topic as its owner set it up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: TopicName,
    /// Free marks for people and programs.
    pub labels: BTreeMap<String, String>,
    /// Messages are kept at least that long, acked or not; `None` = only as long as a
    /// subscription needs them.
    pub message_retention: Option<Duration>,
}

impl Topic {
    /// A topic with the default settings.
    pub fn new(name: TopicName) -> Self {
        Self { name, labels: BTreeMap::new(), message_retention: None }
    }

    /// Whether its label asks for its messages to be matched against live subscriptions.
    pub fn is_live(&self) -> bool {
        self.labels.get(LIVE_LABEL).is_some_and(|value| value == "true")
    }

    /// Checks every setting.
    pub fn validate(&self) -> Result<(), Invalid> {
        validate::labels(&self.labels)?;
        validate::no_reserved_label(&self.labels, &[LIVE_LABEL])?;
        if let Some(value) = self.labels.get(LIVE_LABEL)
            && !matches!(value.as_str(), "true" | "false")
        {
            let field = format!("labels[{LIVE_LABEL:?}]");
            return Err(Invalid::new(field, format!("{value:?} is not true or false")));
        }
        match self.message_retention {
            Some(retention) => validate::retention("message_retention_duration", retention),
            None => Ok(()),
        }
    }
}

/// A field that an update mask can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `labels`.
    Labels,
    /// `message_retention_duration`.
    MessageRetention,
    /// `schema_settings`, all of it.
    Schema,
    /// One field of `schema_settings`.
    SchemaPart(SchemaField),
    /// A field of Google's that only its default value is accepted for, by its wire name.
    NotBuilt(&'static str),
}

/// A field of `schema_settings`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaField {
    /// Which schema.
    Schema,
    /// How messages are written.
    Encoding,
    /// The oldest revision that is accepted.
    FirstRevision,
    /// The newest revision that is accepted.
    LastRevision,
}

impl SchemaField {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Schema, Self::Encoding, Self::FirstRevision, Self::LastRevision];

    /// Its path in an update mask.
    pub fn path(self) -> &'static str {
        match self {
            Self::Schema => "schema_settings.schema",
            Self::Encoding => "schema_settings.encoding",
            Self::FirstRevision => "schema_settings.first_revision_id",
            Self::LastRevision => "schema_settings.last_revision_id",
        }
    }
}

const FIXED: [&str; 4] = ["name", "satisfies_pzs", "state", "tags"];

/// Whether `path` of an update mask names what is decided at creation, or by the server. It may be
/// given as it is; anything else is refused.
pub fn is_fixed(path: &str) -> bool {
    FIXED.contains(&path)
}

impl Field {
    /// Reads one path of an update mask. Refuses fields that cannot be changed or do not exist.
    pub fn parse(path: &str) -> Result<Self, Invalid> {
        const NOT_BUILT: [&str; 4] = [
            "ingestion_data_source_settings",
            "kms_key_name",
            "message_storage_policy",
            "message_transforms",
        ];
        if let Some(part) = SchemaField::ALL.into_iter().find(|part| part.path() == path) {
            return Ok(Self::SchemaPart(part));
        }
        match path {
            "labels" => Ok(Self::Labels),
            "message_retention_duration" => Ok(Self::MessageRetention),
            "schema_settings" => Ok(Self::Schema),
            _ => match NOT_BUILT.into_iter().find(|known| is_path_of(path, known)) {
                Some(known) => Ok(Self::NotBuilt(known)),
                None => Err(bad_path(path, &FIXED, "topic")),
            },
        }
    }
}

/// Whether `path` names `field` or something inside it.
pub(crate) fn is_path_of(path: &str, field: &str) -> bool {
    path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Why `path` of an update mask is refused: it is one of the `fixed` fields, or no field at all.
pub(crate) fn bad_path(path: &str, fixed: &[&str], kind: &str) -> Invalid {
    let shown: String = path.chars().take(100).collect();
    let problem = if fixed.iter().any(|known| is_path_of(path, known)) {
        format!("{shown} cannot be changed after creation")
    } else {
        format!("{shown:?} is not a field of a {kind}")
    };
    Invalid::new("update_mask", problem)
}

/// What an update changes; `None` leaves a setting as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// All labels, replacing those before.
    pub labels: Option<BTreeMap<String, String>>,
    /// The retention; `Some(None)` ends it.
    pub message_retention: Option<Option<Duration>>,
}

impl Change {
    /// `current` with the change made, if the rules allow the outcome.
    pub fn apply(self, current: &Topic) -> Result<Topic, Invalid> {
        let updated = Topic {
            name: current.name.clone(),
            labels: self.labels.unwrap_or_else(|| current.labels.clone()),
            message_retention: self.message_retention.unwrap_or(current.message_retention),
        };
        updated.validate()?;
        Ok(updated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic() -> Topic {
        Topic::new(TopicName::parse("name", "projects/p/topics/orders").unwrap())
    }

    fn label(key: &str, value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(key.to_owned(), value.to_owned())])
    }

    #[test]
    fn retention_and_labels_are_checked() {
        assert!(topic().validate().is_ok());
        let retained =
            |s| Topic { message_retention: Some(Duration::from_secs(s)), ..topic() }.validate();
        assert!(retained(600).is_ok());
        assert_eq!(retained(599).unwrap_err().field, "message_retention_duration");
        let labelled = |key| Topic { labels: label(key, "v"), ..topic() }.validate();
        assert!(labelled("team").is_ok());
        assert!(labelled("Team").is_err());
        assert_eq!(labelled("postrider-start").unwrap_err().field, r#"labels["postrider-start"]"#);
        assert_eq!(labelled(LIVE_LABEL).unwrap_err().field, r#"labels["postrider-live"]"#);
        let live = |value| Topic { labels: label(LIVE_LABEL, value), ..topic() };
        assert!(live("true").validate().is_ok() && live("true").is_live());
        assert!(live("false").validate().is_ok() && !live("false").is_live());
        assert!(!topic().is_live());
    }

    #[test]
    fn masks_name_known_fields_only() {
        assert_eq!(Field::parse("labels").unwrap(), Field::Labels);
        assert_eq!(Field::parse("message_retention_duration").unwrap(), Field::MessageRetention);
        assert_eq!(Field::parse("schema_settings").unwrap(), Field::Schema);
        assert_eq!(
            Field::parse("schema_settings.encoding").unwrap(),
            Field::SchemaPart(SchemaField::Encoding)
        );
        assert_eq!(
            Field::parse("message_storage_policy.x").unwrap(),
            Field::NotBuilt("message_storage_policy")
        );
        for fixed in ["name", "state", "tags"] {
            let error = Field::parse(fixed).unwrap_err();
            assert_eq!(error.field, "update_mask");
            assert!(error.problem.contains("cannot be changed"), "{error}");
        }
        for unknown in ["", "label", "labels.team", "retention", "schema_settings.x"] {
            let error = Field::parse(unknown).unwrap_err();
            assert!(error.problem.contains("not a field"), "{error}");
        }
    }

    #[test]
    fn a_change_touches_only_what_it_names() {
        let before = Topic {
            labels: label("team", "a"),
            message_retention: Some(Duration::from_secs(3_600)),
            ..topic()
        };
        let relabelled =
            Change { labels: Some(label("team", "b")), ..Change::default() }.apply(&before);
        assert_eq!(relabelled.unwrap(), Topic { labels: label("team", "b"), ..before.clone() });
        let unretained = Change { message_retention: Some(None), ..Change::default() };
        assert_eq!(
            unretained.apply(&before).unwrap(),
            Topic { message_retention: None, ..before.clone() }
        );
        assert_eq!(Change::default().apply(&before).unwrap(), before);
    }

    #[test]
    fn a_change_to_something_invalid_is_refused() {
        let change =
            Change { message_retention: Some(Some(Duration::from_secs(1))), ..Change::default() };
        assert_eq!(change.apply(&topic()).unwrap_err().field, "message_retention_duration");
    }
}
