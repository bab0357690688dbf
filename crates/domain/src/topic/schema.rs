//! What a topic says about its schema: the form it has in a document, and how it is changed.
//!
//! Whether there is such a schema, with such revisions, is not known here.

use serde_json::{Map, Value};

use super::Change;
use crate::error::Invalid;
use crate::name::SchemaName;
use crate::schema::{Encoding, RevisionId};
use crate::setting::read::{object, text};
use crate::setting::{Flag, Form, Part, camel};

const SCHEMA: &str = "schema";
const ENCODING: &str = "encoding";
const FIRST: &str = "first_revision_id";
const LAST: &str = "last_revision_id";

/// The parts of `schema_settings`.
pub(super) const PARTS: &[Part] = &[
    Part::new(SCHEMA, Form::Schema, "The schema its messages must match")
        .flag(Flag::new("schema").value("SCHEMA").none("none").needs("encoding"))
        .title("Schema"),
    Part::new(ENCODING, Form::Word(&Encoding::WORDS), "How its messages are encoded")
        .flag(Flag::new("encoding").value("ENCODING").needs("schema"))
        .title("Encoding"),
    Part::new(FIRST, Form::Text, "The oldest revision of the schema that is accepted")
        .flag(Flag::new("first-revision").value("REVISION").none("none").needs("schema"))
        .title("From revision"),
    Part::new(LAST, Form::Text, "The newest revision of the schema that is accepted")
        .flag(Flag::new("last-revision").value("REVISION").none("none").needs("schema"))
        .title("To revision"),
];

/// What a topic says about its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaSettings {
    /// The schema.
    pub schema: SchemaName,
    /// How messages are written.
    pub encoding: Encoding,
    /// The oldest revision that is accepted; `None` = there is no oldest.
    pub first: Option<RevisionId>,
    /// The newest revision that is accepted; `None` = there is no newest.
    pub last: Option<RevisionId>,
}

impl SchemaSettings {
    pub(super) fn show(&self) -> Value {
        let parts = [
            (SCHEMA, Some(self.schema.to_string())),
            (ENCODING, Some(self.encoding.as_str().to_owned())),
            (FIRST, self.first.map(|id| id.to_string())),
            (LAST, self.last.map(|id| id.to_string())),
        ];
        let given = parts.into_iter().filter_map(|(name, text)| Some((camel(name), text?.into())));
        Value::Object(given.collect::<Map<String, Value>>())
    }
}

/// A change of the schema settings: all of them, or parts of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaChange {
    /// The whole; `Some(None)` = messages are no longer checked.
    pub whole: Option<Option<SchemaSettings>>,
    /// The schema. With another one, ends of the range that are not given are dropped: they are
    /// revisions of the former.
    pub schema: Option<SchemaName>,
    /// How messages are written.
    pub encoding: Option<Encoding>,
    /// The oldest revision that is accepted; `Some(None)` = there is no oldest.
    pub first: Option<Option<RevisionId>>,
    /// The newest revision that is accepted; `Some(None)` = there is no newest.
    pub last: Option<Option<RevisionId>>,
}

impl SchemaChange {
    /// Whether it changes anything.
    pub fn is_given(&self) -> bool {
        *self != Self::default()
    }

    /// Whether it says which schema it is, and does not go on with the one there was.
    pub fn names_schema(&self) -> bool {
        self.whole.is_some() || self.schema.is_some()
    }

    pub(super) fn apply(
        self,
        current: Option<SchemaSettings>,
    ) -> Result<Option<SchemaSettings>, Invalid> {
        let gives_parts = Self { whole: None, ..self.clone() }.is_given();
        let before = self.whole.unwrap_or(current);
        if !gives_parts {
            return Ok(before);
        }
        let schema = self.schema.or(before.as_ref().map(|before| before.schema.clone()));
        let schema = schema.ok_or_else(|| missing(SCHEMA, "name a schema"))?;
        let encoding = self.encoding.or(before.as_ref().map(|before| before.encoding));
        let encoding = encoding.ok_or_else(|| missing(ENCODING, "say JSON or BINARY"))?;
        let same = before.filter(|before| before.schema == schema);
        let (first, last) = same.map_or((None, None), |same| (same.first, same.last));
        let (first, last) = (self.first.unwrap_or(first), self.last.unwrap_or(last));
        Ok(Some(SchemaSettings { schema, encoding, first, last }))
    }
}

fn missing(part: &str, problem: &str) -> Invalid {
    Invalid::new(format!("schema_settings.{part}"), problem)
}

/// `{"schema": "projects/p/schemas/order", "encoding": "JSON", "firstRevisionId": "0a1b2c3d"}`.
pub(super) fn set(change: &mut Change, field: &str, value: &Value) -> Result<(), Invalid> {
    let whole = object(field, value)?.map(|_| {
        Ok(SchemaSettings {
            schema: read_schema(field, value)?,
            encoding: read_encoding(field, value)?,
            first: read_revision(field, value, FIRST)?,
            last: read_revision(field, value, LAST)?,
        })
    });
    change.joined.whole = Some(whole.transpose()?);
    Ok(())
}

pub(super) fn set_part(
    change: &mut Change,
    part: &str,
    field: &str,
    value: &Value,
) -> Result<(), Invalid> {
    let joined = &mut change.joined;
    match part {
        SCHEMA => joined.schema = Some(read_schema(field, value)?),
        ENCODING => joined.encoding = Some(read_encoding(field, value)?),
        FIRST => joined.first = Some(read_revision(field, value, FIRST)?),
        _ => joined.last = Some(read_revision(field, value, LAST)?),
    }
    Ok(())
}

fn read_schema(place: &str, value: &Value) -> Result<SchemaName, Invalid> {
    let (field, text) = read_part(place, value, SCHEMA)?;
    SchemaName::parse(&field, &text)
}

fn read_encoding(place: &str, value: &Value) -> Result<Encoding, Invalid> {
    let (field, text) = read_part(place, value, ENCODING)?;
    Encoding::parse(&field, &text)
}

/// An end of a range of revisions; an empty one is none.
fn read_revision(place: &str, value: &Value, part: &str) -> Result<Option<RevisionId>, Invalid> {
    let (field, text) = read_part(place, value, part)?;
    if text.is_empty() { Ok(None) } else { RevisionId::parse(&field, &text).map(Some) }
}

/// How a part is called in errors, and its text; one that is not given is empty.
fn read_part(place: &str, value: &Value, part: &str) -> Result<(String, String), Invalid> {
    let field = format!("{place}.{part}");
    let text = text(&field, value.get(camel(part)).unwrap_or(&Value::Null))?;
    Ok((field, text.unwrap_or_default()))
}
