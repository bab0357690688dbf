//! Avro files: a header with the schema, then blocks of records with a marker behind each.
//!
//! ```text
//! "Obj" 01 | {"avro.codec": "null", "avro.schema": …} | marker | count, bytes, records, marker | …
//! ```

use domain::Timestamp;
use serde_json::{Value, json};

use crate::encoder::Outgoing;

/// Count and length of a block, and the marker behind it, at most.
pub(crate) const BLOCK_OVERHEAD_MAX: u64 = 10 + 10 + 16;

/// Where the ordering key of a message goes, which Google's schema has no field for.
const ORDERING_KEY: &str = "ordering_key";

/// What records of a file have: their schema, and how a message becomes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    schema: String,
    has_metadata: bool,
    /// Whether the data is a record of the topic's schema already, in Avro's binary form.
    is_record: bool,
}

/// Why a topic's schema cannot be that of a file with metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// It is no record, so nothing can be added to it.
    #[error("the topic's schema has no record at its top, which write_metadata needs")]
    NoRecord,
    /// It has a field of its own by such a name.
    #[error("the topic's schema has a field {0}, which write_metadata adds")]
    Taken(&'static str),
}

impl Layout {
    /// Google's own schemas: the data as bytes, with or without what the message has beside it.
    pub fn plain(has_metadata: bool) -> Self {
        let data = json!({"name": "data", "type": "bytes"});
        let (name, fields) = match has_metadata {
            false => ("PubsubMessage", vec![data]),
            true => {
                let fields = metadata().into_iter().map(|(_, field)| field);
                ("PubsubMessageWithMetadata", fields.chain([data]).collect())
            }
        };
        let namespace = "com.google.pubsub";
        let schema =
            json!({"type": "record", "namespace": namespace, "name": name, "fields": fields});
        Self { schema: schema.to_string(), has_metadata, is_record: false }
    }

    /// The topic's schema. With metadata its fields come first in the record.
    pub fn of_topic(definition: &str, has_metadata: bool) -> Result<Self, Mismatch> {
        let (definition, is_record) = (definition.to_owned(), true);
        if !has_metadata {
            return Ok(Self { schema: definition, has_metadata, is_record });
        }
        let mut schema: Value = serde_json::from_str(&definition).unwrap_or_default();
        let is_of_record = schema.get("type").is_some_and(|kind| kind == "record");
        let fields = schema.get_mut("fields").and_then(Value::as_array_mut);
        let Some(fields) = fields.filter(|_| is_of_record) else { return Err(Mismatch::NoRecord) };
        for (name, _) in metadata() {
            if fields.iter().any(|field| field.get("name").is_some_and(|other| other == name)) {
                return Err(Mismatch::Taken(name));
            }
        }
        fields.splice(0..0, metadata().into_iter().map(|(_, field)| field));
        Ok(Self { schema: schema.to_string(), has_metadata, is_record })
    }

    /// The schema in JSON.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>, message: &Outgoing<'_>) {
        if self.has_metadata {
            put_bytes(out, message.subscription.as_bytes());
            put_bytes(out, message.id.as_bytes());
            let Timestamp(micros) = message.publish_time;
            put_long(out, i64::try_from(micros).unwrap_or(i64::MAX));
            put_attributes(out, message);
        }
        match self.is_record {
            true => out.extend_from_slice(message.data),
            false => put_bytes(out, message.data),
        }
    }
}

/// The fields that metadata adds, by name.
fn metadata() -> [(&'static str, Value); 4] {
    let field = |name: &'static str, kind: Value| (name, json!({"name": name, "type": kind}));
    [
        field("subscription_name", json!("string")),
        field("message_id", json!("string")),
        field("publish_time", json!({"type": "long", "logicalType": "timestamp-micros"})),
        field("attributes", json!({"type": "map", "values": "string"})),
    ]
}

fn put_attributes(out: &mut Vec<u8>, message: &Outgoing<'_>) {
    let key = (ORDERING_KEY, message.ordering_key);
    // An attribute of the same name goes before the key: it is what the publisher wrote there.
    let has_key = !message.ordering_key.is_empty() && !message.attributes.contains_key(key.0);
    let pairs = message.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let count = message.attributes.len() + usize::from(has_key);
    if count > 0 {
        put_long(out, i64::try_from(count).unwrap_or(i64::MAX));
        for (name, value) in pairs.chain(has_key.then_some(key)) {
            put_bytes(out, name.as_bytes());
            put_bytes(out, value.as_bytes());
        }
    }
    put_long(out, 0);
}

/// The beginning of a file.
pub(crate) fn put_header(out: &mut Vec<u8>, schema: &str, sync: &[u8; 16]) {
    out.extend_from_slice(b"Obj\x01");
    put_long(out, 2);
    put_bytes(out, b"avro.codec");
    put_bytes(out, b"null");
    put_bytes(out, b"avro.schema");
    put_bytes(out, schema.as_bytes());
    put_long(out, 0);
    out.extend_from_slice(sync);
}

/// A block of records.
pub(crate) fn put_block(out: &mut Vec<u8>, count: u64, records: &[u8], sync: &[u8; 16]) {
    put_long(out, i64::try_from(count).unwrap_or(i64::MAX));
    put_bytes(out, records);
    out.extend_from_slice(sync);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_long(out, i64::try_from(bytes.len()).unwrap_or(i64::MAX));
    out.extend_from_slice(bytes);
}

/// A number in zigzag form: small ones, of either sign, take few bytes.
fn put_long(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    // Below 0x80 by the loop.
    out.push((rest & 0x7f) as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_specification() {
        for (value, expected) in [
            (0, &[0][..]),
            (-1, &[1]),
            (1, &[2]),
            (-64, &[0x7f]),
            (64, &[0x80, 1]),
            (i64::MAX, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
        ] {
            let mut out = Vec::new();
            put_long(&mut out, value);
            assert_eq!(out, expected, "{value}");
        }
    }

    #[test]
    fn every_schema_is_one_that_others_read() {
        let topic = r#"{"type":"record","name":"Order","fields":[{"name":"n","type":"int"}]}"#;
        for layout in [
            Layout::plain(false),
            Layout::plain(true),
            Layout::of_topic(topic, false).unwrap(),
            Layout::of_topic(topic, true).unwrap(),
            Layout::of_topic("\"string\"", false).unwrap(),
        ] {
            apache_avro::Schema::parse_str(layout.schema()).unwrap();
        }
    }

    #[test]
    fn metadata_needs_a_record_without_fields_of_those_names() {
        assert_eq!(Layout::of_topic("\"string\"", true), Err(Mismatch::NoRecord));
        let taken = r#"{"type":"record","name":"R","fields":[{"name":"attributes","type":"int"}]}"#;
        assert_eq!(Layout::of_topic(taken, true), Err(Mismatch::Taken("attributes")));
    }
}
