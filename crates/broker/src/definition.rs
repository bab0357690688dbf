//! Definitions as the catalogue keeps them: JSON, so that a later version can add fields.

mod alerts;
mod by_path;
mod push;
mod replay;
mod schema;
mod snapshot;
mod subscription;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use domain::topic::SETTINGS;
use domain::{Invalid, Offset, Timestamp, TopicName};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use by_path::{beyond, put_back};
pub(crate) use replay::StoredReplay;
pub(crate) use schema::{StoredCheck, StoredSchema};
pub(crate) use snapshot::StoredSnapshot;
pub(crate) use subscription::StoredSubscription;

/// A definition that this version cannot read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// Not the JSON it should be.
    #[error("definition is not readable: {0}")]
    Json(#[from] serde_json::Error),
    /// A name that breaks the rules.
    #[error("definition is not valid: {0}")]
    Invalid(#[from] Invalid),
    /// A progress that is none.
    #[error("the progress in it is not readable")]
    Progress,
    /// Revisions that no schema can have.
    #[error("the revisions in it are not in order")]
    Revisions,
    /// A word of a definition that this version does not know.
    #[error("it says {0:?}, which this version does not know")]
    Word(String),
}

#[derive(Serialize, Deserialize)]
struct TopicForm {
    labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message_retention_ms: Option<u64>,
    first_offset: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    kept_since_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schema: Option<schema::CheckForm>,
    /// Settings that have no field of their own here, by their path, as they are shown.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    settings: Map<String, Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// A stored topic: its settings, where its log begins, and since when its retention holds.
pub(crate) struct StoredTopic {
    pub(crate) settings: domain::Topic,
    pub(crate) first: Offset,
    /// What was published before is not kept for the topic's sake, however young it is: its
    /// retention did not cover it when it was asked for.
    pub(crate) kept_since: Timestamp,
    /// The schema that its settings name, as it was found.
    pub(crate) schema: Option<StoredCheck>,
}

impl StoredTopic {
    pub(crate) fn encode(&self) -> Result<Bytes, Unreadable> {
        let mut form = TopicForm {
            labels: self.settings.labels.clone(),
            message_retention_ms: self.settings.message_retention.map(millis),
            first_offset: self.first.0,
            kept_since_us: self.kept_since.0,
            schema: self.schema.as_ref().map(Into::into),
            settings: Map::new(),
        };
        let read: TopicForm = serde_json::from_value(serde_json::to_value(&form)?)?;
        let read = read.read(self.settings.name.clone())?.settings;
        form.settings = beyond(SETTINGS, &self.settings, &read);
        Ok(serde_json::to_vec(&form)?.into())
    }

    pub(crate) fn decode(name: &str, value: &[u8]) -> Result<Self, Unreadable> {
        let form: TopicForm = serde_json::from_slice(value)?;
        form.read(TopicName::parse("name", name)?)
    }
}

impl TopicForm {
    fn read(self, name: TopicName) -> Result<StoredTopic, Unreadable> {
        let schema = self.schema.map(schema::CheckForm::read).transpose()?;
        let mut settings = domain::Topic {
            labels: self.labels,
            message_retention: self.message_retention_ms.map(Duration::from_millis),
            schema: schema.as_ref().map(|check| check.settings.shown()),
            ..domain::Topic::new(name)
        };
        put_back(SETTINGS, &self.settings, &mut settings)?;
        let (first, kept_since) = (Offset(self.first_offset), Timestamp(self.kept_since_us));
        Ok(StoredTopic { settings, first, kept_since, schema })
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_comes_back_as_it_was() {
        let settings = domain::Topic {
            message_retention: Some(Duration::from_secs(600)),
            labels: BTreeMap::from([("team".to_owned(), "a".to_owned())]),
            schema: Some(schema::tests::check().settings.shown()),
            ..domain::Topic::new(TopicName::parse("name", "projects/p/topics/orders").unwrap())
        };
        let kept_since = Timestamp(7);
        let schema = Some(schema::tests::check());
        let stored =
            StoredTopic { settings: settings.clone(), first: Offset(5), kept_since, schema };
        let value = stored.encode().unwrap();
        let back = StoredTopic::decode(settings.name.as_str(), &value).unwrap();
        assert_eq!(back.schema, stored.schema);
        let parts = (back.settings, back.first, back.kept_since);
        assert_eq!(parts, (settings, Offset(5), Timestamp(7)));
    }

    #[test]
    fn a_topic_of_the_first_version_still_reads() {
        let value = br#"{"labels":{},"first_offset":5}"#;
        let read = StoredTopic::decode("projects/p/topics/orders", value).unwrap();
        assert_eq!((read.first, read.schema), (Offset(5), None));
    }

    #[test]
    fn a_topic_stored_before_its_settings_had_a_table_still_reads() {
        let value = br#"{"labels":{"postrider-live":"true"},"message_retention_ms":600000,
            "first_offset":5,"kept_since_us":7,"schema":{"name":"projects/p/schemas/order",
            "id":99,"encoding":"BINARY","first":{"id":"00000007","number":3}}}"#;
        let read = StoredTopic::decode("projects/p/topics/orders", value).unwrap();
        assert_eq!(read.schema, Some(schema::tests::check()));
        assert_eq!(read.settings.schema, read.schema.as_ref().map(|check| check.settings.shown()));
        assert!(read.settings.is_live());
        let form = |value: &[u8]| serde_json::from_slice::<Value>(value).unwrap();
        assert_eq!(form(&read.encode().unwrap()), form(value), "nothing is added");
    }

    #[test]
    fn rubbish_is_unreadable() {
        assert!(StoredTopic::decode("projects/p/topics/orders", b"{").is_err());
    }
}
