//! Schemas.

use domain::Invalid;
use schemas::{Encoding, Kind, Revision, Schema};
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
