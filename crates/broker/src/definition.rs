//! Definitions as the catalogue keeps them: JSON, so that a later version can add fields.

mod alerts;
mod push;
mod replay;
mod schema;
mod snapshot;
mod subscription;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use domain::{Invalid, Offset, Timestamp, TopicName};
use serde::{Deserialize, Serialize};

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
    /// What its messages must look like.
    pub(crate) schema: Option<StoredCheck>,
}

impl StoredTopic {
    pub(crate) fn encode(&self) -> Result<Bytes, Unreadable> {
        let form = TopicForm {
            labels: self.settings.labels.clone(),
            message_retention_ms: self.settings.message_retention.map(millis),
            first_offset: self.first.0,
            kept_since_us: self.kept_since.0,
            schema: self.schema.as_ref().map(Into::into),
        };
        Ok(serde_json::to_vec(&form)?.into())
    }

    pub(crate) fn decode(name: &str, value: &[u8]) -> Result<Self, Unreadable> {
        let form: TopicForm = serde_json::from_slice(value)?;
        let settings = domain::Topic {
            labels: form.labels,
            message_retention: form.message_retention_ms.map(Duration::from_millis),
            ..domain::Topic::new(TopicName::parse("name", name)?)
        };
        let kept_since = Timestamp(form.kept_since_us);
        let schema = form.schema.map(schema::CheckForm::read).transpose()?;
        Ok(Self { settings, first: Offset(form.first_offset), kept_since, schema })
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
    fn rubbish_is_unreadable() {
        assert!(StoredTopic::decode("projects/p/topics/orders", b"{").is_err());
    }
}
