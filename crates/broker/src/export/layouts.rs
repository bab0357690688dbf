//! What the records of an Avro file look like, by the settings and the schema of each message.

use std::borrow::Cow;
use std::sync::Arc;

use domain::export::ObjectFormat;
use domain::message::{SCHEMA_ENCODING, SCHEMA_NAME, SCHEMA_REVISION};
use domain::{Encoding, Message, RevisionId, SchemaName};
use export::Layout;
use schemas::{Compiled, Kind};

use crate::schema::Schemas;

/// What an object has in it: all its messages fit the same.
#[derive(Clone)]
pub(super) struct Shape {
    /// `None` = lines of text.
    pub(super) layout: Option<Arc<Layout>>,
    /// The schema that messages were published with, if their records are of it.
    by_schema: Option<BySchema>,
}

#[derive(Clone)]
struct BySchema {
    name: String,
    revision: String,
    encoding: Encoding,
    compiled: Arc<Compiled>,
}

/// Why a message cannot be written: it never can, unless settings or schemas change.
pub(super) type Unfit = String;

impl Shape {
    /// The shape for a message.
    pub(super) fn of(
        format: ObjectFormat,
        message: &Message,
        schemas: &Schemas,
    ) -> Result<Self, Unfit> {
        let ObjectFormat::Avro { write_metadata, use_topic_schema } = format else {
            return Ok(Self { layout: None, by_schema: None });
        };
        let by_schema = match use_topic_schema {
            true => BySchema::of(message, schemas)?,
            false => None,
        };
        let layout = match &by_schema {
            None => Layout::plain(write_metadata),
            Some((_, definition)) => Layout::of_topic(definition, write_metadata)
                .map_err(|mismatch| mismatch.to_string())?,
        };
        let by_schema = by_schema.map(|(by_schema, _)| by_schema);
        Ok(Self { layout: Some(Arc::new(layout)), by_schema })
    }

    /// Whether a message goes into an object of this shape.
    pub(super) fn fits(&self, format: ObjectFormat, message: &Message) -> bool {
        let ObjectFormat::Avro { use_topic_schema: true, .. } = format else { return true };
        match (&self.by_schema, given(message)) {
            (None, given) => given.is_none(),
            (Some(own), Some((name, revision, encoding))) => {
                own.name == name && own.revision == revision && own.encoding.as_str() == encoding
            }
            (Some(_), None) => false,
        }
    }

    /// The data as the layout wants it.
    pub(super) fn data<'message>(
        &self,
        message: &'message Message,
    ) -> Result<Cow<'message, [u8]>, Unfit> {
        match &self.by_schema {
            Some(BySchema { encoding: Encoding::Json, compiled, .. }) => compiled
                .json_to_binary(&message.data)
                .map(Cow::Owned)
                .map_err(|problem| problem.to_string()),
            _ => Ok(Cow::Borrowed(&message.data)),
        }
    }
}

/// Name, revision and encoding of the schema that a message was published with.
fn given(message: &Message) -> Option<(&str, &str, &str)> {
    let attribute = |name: &str| message.attributes.get(name).map(String::as_str);
    Some((attribute(SCHEMA_NAME)?, attribute(SCHEMA_REVISION)?, attribute(SCHEMA_ENCODING)?))
}

impl BySchema {
    /// The schema of a message and its definition; `None` = it was published without.
    fn of(message: &Message, schemas: &Schemas) -> Result<Option<(Self, Arc<str>)>, Unfit> {
        let Some((name, revision, encoding)) = given(message) else { return Ok(None) };
        let gone = || format!("schema {name} has no revision {revision} anymore");
        let parsed = SchemaName::parse("schema", name).map_err(|_| gone())?;
        let schema = schemas.get(&parsed).map_err(|_| gone())?.current();
        if schema.kind() != Kind::Avro {
            return Err(format!("schema {name} is not in Avro, which use_topic_schema needs"));
        }
        let id = RevisionId::parse("revision", revision).map_err(|_| gone())?;
        let found = schema.revisions().iter().find(|one| one.id == id).ok_or_else(gone)?;
        let compiled = found.compiled().map_err(|problem| problem.to_string())?;
        let encoding =
            if encoding == Encoding::Json.as_str() { Encoding::Json } else { Encoding::Binary };
        let (name, revision) = (name.to_owned(), revision.to_owned());
        Ok(Some((Self { name, revision, encoding, compiled }, Arc::clone(&found.definition))))
    }
}
