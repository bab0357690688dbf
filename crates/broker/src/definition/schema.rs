//! The stored forms of a schema, and of what a topic says about its schema.

use bytes::Bytes;
use domain::{SchemaName, Timestamp};
use schemas::{Bound, Encoding, Kind, Revision, RevisionId, Schema, Settings};
use serde::{Deserialize, Serialize};

use super::Unreadable;

#[derive(Serialize, Deserialize)]
struct Form {
    kind: String,
    /// The number of the next revision.
    next: u64,
    /// The newest last.
    revisions: Vec<RevisionForm>,
}

#[derive(Serialize, Deserialize)]
struct RevisionForm {
    id: String,
    number: u64,
    created_us: u64,
    definition: String,
}

impl From<&Revision> for RevisionForm {
    fn from(revision: &Revision) -> Self {
        Self {
            id: revision.id.to_string(),
            number: revision.number,
            created_us: revision.created.0,
            definition: revision.definition.to_string(),
        }
    }
}

impl RevisionForm {
    fn read(self, kind: Kind) -> Result<Revision, Unreadable> {
        let id = RevisionId::parse("revisions.id", &self.id)?;
        Ok(Revision::new(kind, id, self.number, Timestamp(self.created_us), self.definition))
    }
}

/// A stored schema. Its definitions are compiled when they are first needed, not when it is read.
pub(crate) struct StoredSchema(pub(crate) Schema);

impl StoredSchema {
    pub(crate) fn encode(schema: &Schema) -> Result<Bytes, Unreadable> {
        let form = Form {
            kind: schema.kind().as_str().to_owned(),
            next: schema.next_number(),
            revisions: schema.revisions().iter().map(Into::into).collect(),
        };
        Ok(serde_json::to_vec(&form)?.into())
    }

    pub(crate) fn decode(name: &str, value: &[u8]) -> Result<Self, Unreadable> {
        let form: Form = serde_json::from_slice(value)?;
        let kind = match form.kind.as_str() {
            "AVRO" => Kind::Avro,
            "PROTOCOL_BUFFER" => Kind::Protobuf,
            _ => return Err(Unreadable::Word(form.kind)),
        };
        let revisions = form.revisions.into_iter().map(|form| form.read(kind));
        let revisions = revisions.collect::<Result<_, Unreadable>>()?;
        let name = SchemaName::parse("name", name)?;
        let schema = Schema::restore(name, kind, revisions, form.next);
        schema.map(Self).ok_or(Unreadable::Revisions)
    }
}

/// What a topic says about its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredCheck {
    pub(crate) settings: Settings,
    /// Which life of the schema's name it is: a schema made later under the name of a deleted one
    /// is another.
    pub(crate) schema: u64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct CheckForm {
    name: String,
    id: u64,
    encoding: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first: Option<BoundForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<BoundForm>,
}

#[derive(Serialize, Deserialize)]
struct BoundForm {
    id: String,
    number: u64,
}

impl From<Bound> for BoundForm {
    fn from(bound: Bound) -> Self {
        Self { id: bound.id.to_string(), number: bound.number }
    }
}

impl BoundForm {
    fn read(self) -> Result<Bound, Unreadable> {
        Ok(Bound { id: RevisionId::parse("schema.id", &self.id)?, number: self.number })
    }
}

impl From<&StoredCheck> for CheckForm {
    fn from(check: &StoredCheck) -> Self {
        Self {
            name: check.settings.schema.to_string(),
            id: check.schema,
            encoding: check.settings.encoding.as_str().to_owned(),
            first: check.settings.first.map(Into::into),
            last: check.settings.last.map(Into::into),
        }
    }
}

impl CheckForm {
    pub(super) fn read(self) -> Result<StoredCheck, Unreadable> {
        let encoding = match self.encoding.as_str() {
            "JSON" => Encoding::Json,
            "BINARY" => Encoding::Binary,
            _ => return Err(Unreadable::Word(self.encoding)),
        };
        let settings = Settings {
            schema: SchemaName::parse("schema.name", &self.name)?,
            encoding,
            first: self.first.map(BoundForm::read).transpose()?,
            last: self.last.map(BoundForm::read).transpose()?,
        };
        Ok(StoredCheck { settings, schema: self.id })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const NAME: &str = "projects/p/schemas/order";

    pub(crate) fn check() -> StoredCheck {
        let settings = Settings {
            schema: SchemaName::parse("name", NAME).unwrap(),
            encoding: Encoding::Binary,
            first: Some(Bound { id: RevisionId(7), number: 3 }),
            last: None,
        };
        StoredCheck { settings, schema: 99 }
    }

    #[test]
    fn a_schema_comes_back_as_it_was() {
        let name = SchemaName::parse("name", NAME).unwrap();
        let mut ids = 1..;
        let mut random = || ids.next().unwrap();
        let (kind, text) = (Kind::Avro, r#"{"type":"string"}"#);
        let mut schema = Schema::create(name, kind, text, Timestamp(5), &mut random).unwrap();
        schema.commit(kind, r#""string""#, Timestamp(6), &mut random).unwrap();
        schema.delete_revision(RevisionId(1)).unwrap();
        let value = StoredSchema::encode(&schema).unwrap();
        let back = StoredSchema::decode(NAME, &value).unwrap().0;
        let parts = |schema: &Schema| {
            let newest = schema.newest();
            let (id, number, created) = (newest.id, newest.number, newest.created);
            let definition = newest.definition.to_string();
            (schema.name().clone(), kind, schema.next_number(), id, number, created, definition)
        };
        assert_eq!(parts(&back), parts(&schema));
        assert_eq!(back.revisions().len(), 1);
    }

    #[test]
    fn rubbish_is_unreadable() {
        for value in [
            "{}",
            r#"{"kind":"AVRO","next":0,"revisions":[]}"#,
            r#"{"kind":"THRIFT","next":1,"revisions":[]}"#,
            r#"{"kind":"AVRO","next":1,"revisions":[{"id":"x","number":0,"created_us":1,
                "definition":""}]}"#,
            r#"{"kind":"AVRO","next":1,"revisions":[{"id":"00000001","number":1,"created_us":1,
                "definition":""}]}"#,
        ] {
            assert!(StoredSchema::decode(NAME, value.as_bytes()).is_err(), "{value}");
        }
        let form = CheckForm { encoding: "XML".to_owned(), ..CheckForm::from(&check()) };
        assert!(matches!(form.read(), Err(Unreadable::Word(_))));
    }
}
