//! The stored form of a snapshot.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use domain::{Progress, SnapshotName, Timestamp, TopicId, TopicName};
use serde::{Deserialize, Serialize};

use super::Unreadable;

#[derive(Serialize, Deserialize)]
struct Form {
    topic: String,
    topic_id: u64,
    created_us: u64,
    expire_time_us: u64,
    labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    tags: BTreeMap<String, String>,
    /// In base64.
    progress: String,
}

/// A progress as text.
pub(super) fn encode_progress(progress: &Progress) -> String {
    let mut bytes = Vec::new();
    progress.encode(&mut bytes);
    STANDARD.encode(bytes)
}

pub(super) fn decode_progress(text: &str) -> Result<Progress, Unreadable> {
    let bytes = STANDARD.decode(text).map_err(|_| Unreadable::Progress)?;
    Progress::decode(&bytes).map_err(|_| Unreadable::Progress)
}

/// A stored snapshot: what its owner sees, the life of its topic, and the progress it keeps.
pub(crate) struct StoredSnapshot {
    pub(crate) settings: domain::Snapshot,
    pub(crate) topic: TopicId,
    pub(crate) created: Timestamp,
    pub(crate) progress: Progress,
}

impl StoredSnapshot {
    pub(crate) fn encode(&self) -> Result<Bytes, Unreadable> {
        let form = Form {
            topic: self.settings.topic.to_string(),
            topic_id: self.topic.0,
            created_us: self.created.0,
            expire_time_us: self.settings.expire_time.0,
            labels: self.settings.labels.clone(),
            tags: self.settings.tags.clone(),
            progress: encode_progress(&self.progress),
        };
        Ok(serde_json::to_vec(&form)?.into())
    }

    pub(crate) fn decode(name: &str, value: &[u8]) -> Result<Self, Unreadable> {
        let form: Form = serde_json::from_slice(value)?;
        let settings = domain::Snapshot {
            name: SnapshotName::parse("name", name)?,
            topic: TopicName::parse("topic", &form.topic)?,
            expire_time: Timestamp(form.expire_time_us),
            labels: form.labels,
            tags: form.tags,
        };
        Ok(Self {
            settings,
            topic: TopicId(form.topic_id),
            created: Timestamp(form.created_us),
            progress: decode_progress(&form.progress)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use domain::{Offset, OffsetRange};

    use super::*;

    const NAME: &str = "projects/p/snapshots/before";

    fn stored() -> StoredSnapshot {
        let mut progress = Progress::starting_at(Offset(1_000));
        progress.ack(OffsetRange { from: Offset(1_003), to: Offset(1_007) });
        StoredSnapshot {
            settings: domain::Snapshot {
                name: SnapshotName::parse("name", NAME).unwrap(),
                topic: TopicName::parse("topic", "projects/p/topics/orders").unwrap(),
                expire_time: Timestamp(99),
                labels: BTreeMap::from([("team".to_owned(), "a".to_owned())]),
                tags: BTreeMap::from([("1/team".to_owned(), "b".to_owned())]),
            },
            topic: TopicId(7),
            created: Timestamp(55),
            progress,
        }
    }

    #[test]
    fn a_snapshot_comes_back_as_it_was() {
        let stored = stored();
        let back = StoredSnapshot::decode(NAME, &stored.encode().unwrap()).unwrap();
        assert_eq!(back.settings, stored.settings);
        assert_eq!((back.topic, back.created), (TopicId(7), Timestamp(55)));
        assert_eq!(back.progress, stored.progress);
    }

    #[test]
    fn a_progress_that_is_none_is_unreadable() {
        let value = stored().encode().unwrap();
        let mut form: Form = serde_json::from_slice(&value).unwrap();
        for progress in ["not base64!", "AAAA", ""] {
            form.progress = progress.to_owned();
            let value = serde_json::to_vec(&form).unwrap();
            let read = StoredSnapshot::decode(NAME, &value);
            assert!(matches!(read, Err(Unreadable::Progress)), "{progress}");
        }
    }
}
