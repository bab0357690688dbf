//! Topics.

use domain::topic::{Change, Field};
use domain::{Topic, TopicName};
use wire::pubsub;

use super::{needed, refuse, retention};
use crate::status::Result;

/// A topic to be created.
pub(crate) fn topic_from_wire(wire: pubsub::Topic) -> Result<Topic> {
    let name = TopicName::parse("name", &wire.name)?;
    for field in NOT_BUILT {
        refuse_field(&wire, field)?;
    }
    refuse("tags", !wire.tags.is_empty())?;
    Ok(Topic {
        name,
        labels: wire.labels,
        message_retention: wire.message_retention_duration.map(retention).transpose()?,
    })
}

/// A topic as it is shown.
pub(crate) fn topic_to_wire(topic: &Topic) -> pubsub::Topic {
    pubsub::Topic {
        name: topic.name.to_string(),
        labels: topic.labels.clone(),
        message_retention_duration: topic.message_retention.map(Into::into),
        state: pubsub::topic::State::Active.into(),
        ..pubsub::Topic::default()
    }
}

/// Whether `path` names what cannot be changed, and the update gives it as it is.
pub(crate) fn is_topic_unchanged(path: &str, wanted: &pubsub::Topic, current: &Topic) -> bool {
    let shown = topic_to_wire(current);
    match path {
        "name" => wanted.name == shown.name,
        "state" => wanted.state == shown.state,
        "tags" => wanted.tags == shown.tags,
        "satisfies_pzs" => wanted.satisfies_pzs == shown.satisfies_pzs,
        _ => false,
    }
}

/// What an update of a topic changes: the fields that `paths` name.
pub(crate) fn topic_change(wire: &pubsub::Topic, paths: &[String]) -> Result<Change> {
    let mut change = Change::default();
    for path in needed(paths)? {
        match Field::parse(path)? {
            Field::Labels => change.labels = Some(wire.labels.clone()),
            Field::MessageRetention => {
                let given = wire.message_retention_duration;
                change.message_retention = Some(given.map(retention).transpose()?);
            }
            Field::NotBuilt(field) => refuse_field(wire, field)?,
        }
    }
    Ok(change)
}

const NOT_BUILT: [&str; 5] = [
    "message_storage_policy",
    "kms_key_name",
    "schema_settings",
    "ingestion_data_source_settings",
    "message_transforms",
];

fn refuse_field(wire: &pubsub::Topic, field: &'static str) -> Result<()> {
    let is_given = match field {
        "message_storage_policy" => wire.message_storage_policy.is_some(),
        "kms_key_name" => !wire.kms_key_name.is_empty(),
        "schema_settings" => wire.schema_settings.is_some(),
        "ingestion_data_source_settings" => wire.ingestion_data_source_settings.is_some(),
        _ => !wire.message_transforms.is_empty(),
    };
    refuse(field, is_given)
}
