//! Definitions as the catalogue keeps them: JSON, so that a later version can add fields.

mod alerts;
mod push;
mod snapshot;
mod subscription;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use domain::{Invalid, Offset, TopicName};
use serde::{Deserialize, Serialize};

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
    /// A snapshot's progress that is none.
    #[error("the progress of the snapshot is not readable")]
    Progress,
}

#[derive(Serialize, Deserialize)]
struct TopicForm {
    labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message_retention_ms: Option<u64>,
    first_offset: u64,
}

/// A stored topic: its settings and where its log begins.
pub(crate) struct StoredTopic {
    pub(crate) settings: domain::Topic,
    pub(crate) first: Offset,
}

impl StoredTopic {
    pub(crate) fn encode(&self) -> Result<Bytes, Unreadable> {
        let form = TopicForm {
            labels: self.settings.labels.clone(),
            message_retention_ms: self.settings.message_retention.map(millis),
            first_offset: self.first.0,
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
        Ok(Self { settings, first: Offset(form.first_offset) })
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
        let stored = StoredTopic { settings: settings.clone(), first: Offset(5) };
        let value = stored.encode().unwrap();
        let back = StoredTopic::decode(settings.name.as_str(), &value).unwrap();
        assert_eq!((back.settings, back.first), (settings, Offset(5)));
    }

    #[test]
    fn rubbish_is_unreadable() {
        assert!(StoredTopic::decode("projects/p/topics/orders", b"{").is_err());
    }
}
