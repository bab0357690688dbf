//! Schemas, and what topics say about them.

use broker::{SchemaChange, SchemaSet, TopicSchema};
use domain::topic::SchemaField;
use domain::{Invalid, SchemaName};
use schemas::{Bound, DELETED_SCHEMA, Encoding, Kind, Revision, RevisionId, Schema};
use wire::protobuf;
use wire::pubsub;
use wire::pubsub::schema::Type;

use super::refuse;
use crate::status::Result;

/// How much of a schema is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// All but the definition.
    Basic,
    /// All.
    Full,
}

impl View {
    /// What a request asks for; each call has its own default.
    pub(crate) fn read(wire: i32, default: Self) -> Result<Self, Invalid> {
        match pubsub::SchemaView::try_from(wire) {
            Ok(pubsub::SchemaView::Unspecified) => Ok(default),
            Ok(pubsub::SchemaView::Basic) => Ok(Self::Basic),
            Ok(pubsub::SchemaView::Full) => Ok(Self::Full),
            Err(_) => Err(Invalid::new("view", "must be BASIC or FULL")),
        }
    }
}

/// The language and the text of a schema that a client sends. Name and revision are not looked at:
/// the request has the name, and the server makes the revision.
pub(crate) fn definition_from_wire(wire: Option<pubsub::Schema>) -> Result<(Kind, String)> {
    let wire = wire.ok_or_else(|| Invalid::new("schema", "must be given"))?;
    refuse("schema.compiled_proto_schema", wire.configuration.is_some())?;
    let kind = match Type::try_from(wire.r#type) {
        Ok(Type::Avro) => Kind::Avro,
        Ok(Type::ProtocolBuffer) => Kind::Protobuf,
        Ok(Type::Unspecified) | Err(_) => {
            return Err(Invalid::new("schema.type", "must be AVRO or PROTOCOL_BUFFER").into());
        }
    };
    Ok((kind, wire.definition))
}

/// A revision of a schema as it is shown.
pub(crate) fn schema_to_wire(schema: &Schema, revision: &Revision, view: View) -> pubsub::Schema {
    let micros = i64::try_from(revision.created.0).unwrap_or(i64::MAX);
    let kind = match schema.kind() {
        Kind::Avro => Type::Avro,
        Kind::Protobuf => Type::ProtocolBuffer,
    };
    pubsub::Schema {
        name: schema.name().to_string(),
        r#type: kind.into(),
        definition: match view {
            View::Basic => String::new(),
            View::Full => revision.definition.to_string(),
        },
        revision_id: revision.id.to_string(),
        revision_create_time: Some(protobuf::Timestamp::from_unix_micros(micros)),
        configuration: None,
    }
}

/// How messages are written.
pub(crate) fn encoding_from_wire(field: &str, wire: i32) -> Result<Encoding, Invalid> {
    match pubsub::Encoding::try_from(wire) {
        Ok(pubsub::Encoding::Json) => Ok(Encoding::Json),
        Ok(pubsub::Encoding::Binary) => Ok(Encoding::Binary),
        Ok(pubsub::Encoding::Unspecified) | Err(_) => {
            Err(Invalid::new(field, "must be JSON or BINARY"))
        }
    }
}

/// What a topic says about its schema, as it is shown.
pub(crate) fn schema_settings_to_wire(schema: &TopicSchema) -> pubsub::SchemaSettings {
    let settings = &schema.settings;
    let id = |bound: Option<Bound>| bound.map(|bound| bound.id.to_string()).unwrap_or_default();
    let encoding = match settings.encoding {
        Encoding::Json => pubsub::Encoding::Json,
        Encoding::Binary => pubsub::Encoding::Binary,
    };
    pubsub::SchemaSettings {
        schema: match schema.is_deleted {
            true => DELETED_SCHEMA.to_owned(),
            false => settings.schema.to_string(),
        },
        encoding: encoding.into(),
        first_revision_id: id(settings.first),
        last_revision_id: id(settings.last),
    }
}

/// What the whole of a topic's settings asks for.
pub(crate) fn schema_settings_change(
    wire: Option<&pubsub::SchemaSettings>,
) -> Result<SchemaChange> {
    let Some(wire) = wire else { return Ok(SchemaChange::Clear) };
    let mut set = SchemaSet::default();
    for field in SchemaField::ALL {
        set_field(&mut set, field, wire)?;
    }
    Ok(SchemaChange::Set(set))
}

/// Adds one field of the settings to what an update changes.
pub(crate) fn change_schema_field(
    change: &mut SchemaChange,
    field: SchemaField,
    wire: Option<&pubsub::SchemaSettings>,
) -> Result<()> {
    let empty = pubsub::SchemaSettings::default();
    let wire = wire.unwrap_or(&empty);
    let mut set = match std::mem::replace(change, SchemaChange::Leave) {
        SchemaChange::Set(set) => set,
        SchemaChange::Leave | SchemaChange::Clear => SchemaSet::default(),
    };
    set_field(&mut set, field, wire)?;
    *change = SchemaChange::Set(set);
    Ok(())
}

fn set_field(
    set: &mut SchemaSet,
    field: SchemaField,
    wire: &pubsub::SchemaSettings,
) -> Result<(), Invalid> {
    let name = field.path();
    match field {
        SchemaField::Schema => set.schema = Some(SchemaName::parse(name, &wire.schema)?),
        SchemaField::Encoding => set.encoding = Some(encoding_from_wire(name, wire.encoding)?),
        SchemaField::FirstRevision => set.first = Some(end(name, &wire.first_revision_id)?),
        SchemaField::LastRevision => set.last = Some(end(name, &wire.last_revision_id)?),
    }
    Ok(())
}

/// An end of a range of revisions; an empty one is none.
fn end(field: &str, text: &str) -> Result<Option<RevisionId>, Invalid> {
    if text.is_empty() { Ok(None) } else { RevisionId::parse(field, text).map(Some) }
}
