//! Topics.

use broker::SchemaChange;
use domain::topic::{Change, Field};
use domain::{Topic, TopicName};
use wire::pubsub;

use super::schema::{change_schema_field, schema_settings_change, schema_settings_to_wire};
use super::{needed, refuse, retention};
use crate::status::Result;

/// A topic to be created, and what its messages must look like.
pub(crate) fn topic_from_wire(wire: pubsub::Topic) -> Result<(Topic, SchemaChange)> {
    let name = TopicName::parse("name", &wire.name)?;
    for field in NOT_BUILT {
        refuse_field(&wire, field)?;
    }
    refuse("tags", !wire.tags.is_empty())?;
    let schema = schema_settings_change(wire.schema_settings.as_ref())?;
    let topic = Topic {
        name,
        labels: wire.labels,
        message_retention: wire.message_retention_duration.map(retention).transpose()?,
    };
    Ok((topic, schema))
}

/// A topic as it is shown.
pub(crate) fn topic_to_wire(topic: &broker::Topic) -> pubsub::Topic {
    let schema_settings = topic.schema().map(|schema| schema_settings_to_wire(&schema));
    pubsub::Topic { schema_settings, ..settings_to_wire(&topic.settings()) }
}

fn settings_to_wire(topic: &Topic) -> pubsub::Topic {
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
    let shown = settings_to_wire(current);
    match path {
        "name" => wanted.name == shown.name,
        "state" => wanted.state == shown.state,
        "tags" => wanted.tags == shown.tags,
        "satisfies_pzs" => wanted.satisfies_pzs == shown.satisfies_pzs,
        _ => false,
    }
}

/// What an update of a topic changes: the fields that `paths` name.
pub(crate) fn topic_change(
    wire: &pubsub::Topic,
    paths: &[String],
) -> Result<(Change, SchemaChange)> {
    let (mut change, mut schema) = (Change::default(), SchemaChange::Leave);
    let wanted = wire.schema_settings.as_ref();
    for path in needed(paths)? {
        match Field::parse(path)? {
            Field::Labels => change.labels = Some(wire.labels.clone()),
            Field::MessageRetention => {
                let given = wire.message_retention_duration;
                change.message_retention = Some(given.map(retention).transpose()?);
            }
            Field::Schema => schema = schema_settings_change(wanted)?,
            Field::SchemaPart(field) => change_schema_field(&mut schema, field, wanted)?,
            Field::NotBuilt(field) => refuse_field(wire, field)?,
        }
    }
    Ok((change, schema))
}

const NOT_BUILT: [&str; 4] = [
    "message_storage_policy",
    "kms_key_name",
    "ingestion_data_source_settings",
    "message_transforms",
];

fn refuse_field(wire: &pubsub::Topic, field: &'static str) -> Result<()> {
    let is_given = match field {
        "message_storage_policy" => wire.message_storage_policy.is_some(),
        "kms_key_name" => !wire.kms_key_name.is_empty(),
        "ingestion_data_source_settings" => wire.ingestion_data_source_settings.is_some(),
        _ => !wire.message_transforms.is_empty(),
    };
    refuse(field, is_given)
}
