//! Schemas at run time: made, found, revised and ended; `check` holds topics to them.

mod check;

use std::sync::Arc;

use bytes::Bytes;
use domain::{ProjectName, SchemaName, Timestamp};
use parking_lot::Mutex;
use schemas::limits::SCHEMAS_PER_PROJECT_MAX;
use schemas::{Compiled, Encoding, Kind, Revision, RevisionId, RevisionName};
use storage::Entry;

use crate::broker::{Broker, Page, exists, gone, page, readable};
use crate::definition::StoredSchema;
use crate::error::{Error, Rejected, Resource, Result};

pub use check::{SchemaChange, SchemaSet, TopicSchema};

pub(crate) use check::Check;

/// One life of a schema's name.
pub struct Schema {
    /// The catalogue's id, never given again.
    id: u64,
    stored: Mutex<Stored>,
    /// Held by whoever changes it: reading a definition takes too long for the lock that all
    /// definitions share.
    changing: tokio::sync::Mutex<()>,
}

/// A schema as the catalogue has it.
#[derive(Clone)]
struct Stored {
    schema: Arc<schemas::Schema>,
    version: u64,
    is_deleted: bool,
}

impl Schema {
    /// The schema with its revisions, as last stored.
    pub fn current(&self) -> Arc<schemas::Schema> {
        Arc::clone(&self.stored.lock().schema)
    }

    /// The same with its version; none once it is deleted.
    fn living(&self) -> Option<(Arc<schemas::Schema>, u64)> {
        let stored = self.stored.lock();
        (!stored.is_deleted).then(|| (Arc::clone(&stored.schema), stored.version))
    }

    fn set(&self, schema: Arc<schemas::Schema>, version: u64) {
        *self.stored.lock() = Stored { schema, version, is_deleted: false };
    }
}

/// A schema after a change, and the revision that was made or deleted.
pub struct Revised {
    /// The schema as it is now.
    pub schema: Arc<schemas::Schema>,
    /// The revision that was made or deleted.
    pub revision: Revision,
}

/// A number for the id of a revision.
fn random() -> Result<u32> {
    let mut bytes = [0; 4];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| Error::NoRandomness)?;
    Ok(u32::from_le_bytes(bytes))
}

/// Schemas.
impl Broker {
    /// Creates a schema with one revision; it exists on stable storage when this returns.
    pub async fn create_schema(
        &self,
        name: SchemaName,
        kind: Kind,
        definition: String,
    ) -> Result<Revised> {
        let already = || Error::AlreadyExists(Resource::Schema, name.to_string());
        if self.schemas.read().contains_key(&name) {
            return Err(already());
        }
        let (now, id) = (self.runtime.clock.wall(), random()?);
        let create = {
            let name = name.clone();
            move || schemas::Schema::create(name, kind, &definition, now, &mut || id)
        };
        let made = self.runtime.compiling.run(create).await??;
        self.change(|broker| async move {
            let _admin = broker.admin.lock().await;
            broker.check_schema_room(&name.project())?;
            let value = readable(StoredSchema::encode(&made), name.as_str())?;
            let catalogue = &broker.engine.catalogue;
            let put = catalogue.put(storage::Kind::Schema, name.as_str(), value, None).await;
            let entry = put.map_err(|error| exists(error, Resource::Schema, name.as_str()))?;
            let schema = broker.add_schema(&entry, made).current();
            Ok(Revised { revision: schema.newest().clone(), schema })
        })
        .await
    }

    fn check_schema_room(&self, project: &ProjectName) -> Result<()> {
        let count = self.schemas.read().keys().filter(|name| name.is_in(project)).count();
        let is_room = count < SCHEMAS_PER_PROJECT_MAX;
        is_room.then_some(()).ok_or(Error::Schema(schemas::Error::TooManySchemas))
    }

    /// Makes a stored schema known.
    pub(crate) fn add_schema(&self, entry: &Entry, schema: schemas::Schema) -> Arc<Schema> {
        let name = schema.name().clone();
        let stored = Stored { schema: Arc::new(schema), version: entry.version, is_deleted: false };
        let (id, stored) = (entry.id, Mutex::new(stored));
        let schema = Arc::new(Schema { id, stored, changing: tokio::sync::Mutex::default() });
        self.schemas.write().insert(name, Arc::clone(&schema));
        schema
    }

    /// The schema of that name.
    pub fn schema(&self, name: &SchemaName) -> Result<Arc<Schema>> {
        let found = self.schemas.read().get(name).cloned();
        found.ok_or_else(|| not_found(name))
    }

    /// Schemas of `project` in name order, after the name `after`.
    pub fn list_schemas(
        &self,
        project: &ProjectName,
        after: Option<&str>,
        limit: usize,
    ) -> Page<Schema> {
        page(&self.schemas.read(), after, limit, |name| name.is_in(project))
    }

    /// Adds a revision to a schema.
    pub async fn commit_schema(
        &self,
        name: &SchemaName,
        kind: Kind,
        definition: String,
    ) -> Result<Revised> {
        self.revise(name, "commit schema", move |schema, now, random| {
            schema.commit(kind, &definition, now, random).cloned()
        })
        .await
    }

    /// Adds a revision that is a copy of an older one.
    pub async fn roll_back_schema(&self, name: &SchemaName, id: RevisionId) -> Result<Revised> {
        self.revise(name, "roll back schema", move |schema, now, random| {
            schema.rollback(id, now, random).cloned()
        })
        .await
    }

    /// Deletes a revision of a schema, unless it is the only one.
    pub async fn delete_schema_revision(
        &self,
        name: &SchemaName,
        id: RevisionId,
    ) -> Result<Revised> {
        self.revise(name, "delete schema revision", move |schema, _, _| schema.delete_revision(id))
            .await
    }

    /// Changes the revisions of a schema, on stable storage when this returns. Whoever publishes
    /// from then on is held to the outcome.
    async fn revise(
        &self,
        name: &SchemaName,
        act: &'static str,
        work: impl FnOnce(
            &mut schemas::Schema,
            Timestamp,
            &mut dyn FnMut() -> u32,
        ) -> Result<Revision, schemas::Error>
        + Send
        + 'static,
    ) -> Result<Revised> {
        let name = name.clone();
        self.change(|broker| async move {
            let schema = broker.schema(&name)?;
            let _changing = schema.changing.lock().await;
            let (before, version) = schema.living().ok_or_else(|| not_found(&name))?;
            let (now, id) = (broker.runtime.clock.wall(), random()?);
            let revise = move || {
                let mut after = (*before).clone();
                let revision = work(&mut after, now, &mut || id)?;
                Ok::<_, schemas::Error>((after, revision))
            };
            let (after, revision) = broker.runtime.compiling.run(revise).await??;
            let value = readable(StoredSchema::encode(&after), name.as_str())?;
            let catalogue = &broker.engine.catalogue;
            let kind = storage::Kind::Schema;
            let put = catalogue.put(kind, name.as_str(), value, Some(version)).await;
            let entry = put.map_err(|error| gone(error, Resource::Schema, name.as_str()))?;
            let after = Arc::new(after);
            schema.set(Arc::clone(&after), entry.version);
            broker.audit(act, name.to_string(), Some(format!("revision {}", revision.id)));
            Ok(Revised { schema: after, revision })
        })
        .await
    }

    /// Deletes a schema with its revisions. Topics that name it take no more messages.
    pub async fn delete_schema(&self, name: &SchemaName) -> Result<()> {
        let name = name.clone();
        self.change(|broker| async move {
            let schema = broker.schema(&name)?;
            let _changing = schema.changing.lock().await;
            // Until the name is free in the catalogue and here, nobody may take it.
            let _admin = broker.admin.lock().await;
            let (_, version) = schema.living().ok_or_else(|| not_found(&name))?;
            let catalogue = &broker.engine.catalogue;
            let deleted = catalogue.delete(storage::Kind::Schema, name.as_str(), version).await;
            deleted.map_err(|error| gone(error, Resource::Schema, name.as_str()))?;
            schema.stored.lock().is_deleted = true;
            broker.schemas.write().remove(&name);
            broker.audit("delete", name.to_string(), None);
            Ok(())
        })
        .await
    }

    /// Whether a definition is good.
    pub async fn validate_schema(&self, kind: Kind, definition: String) -> Result<()> {
        let compiled = self.runtime.compiling.run(move || Compiled::new(kind, &definition)).await?;
        compiled.map(drop).map_err(|problem| schemas::Error::Definition(problem).into())
    }

    /// Whether a message is of a schema, or of a definition that is given with it.
    pub async fn validate_message(
        &self,
        against: Against,
        encoding: Encoding,
        message: Bytes,
    ) -> Result<()> {
        let (schema, revision) = match against {
            Against::Stored(name) => {
                let schema = self.schema(&name.schema)?.current();
                let revision = schema.revision(name.revision)?.clone();
                (Some((name.schema, revision.id)), revision)
            }
            Against::Given(kind, definition) => {
                (None, Revision::new(kind, RevisionId(0), 0, Timestamp(0), definition))
            }
        };
        let check = move || {
            let compiled = revision.compiled().map_err(schemas::Error::Definition)?;
            let checked = compiled.check(encoding, &message);
            checked.map_err(|problem| Rejected::alone(schema, compiled.kind(), encoding, problem))
        };
        self.runtime.compiling.run(check).await?
    }
}

/// What a message is checked against.
pub enum Against {
    /// A schema that is kept: the revision that the name has, or else the newest.
    Stored(RevisionName),
    /// A definition.
    Given(Kind, String),
}

fn not_found(name: &SchemaName) -> Error {
    Error::NotFound(Resource::Schema, name.to_string())
}
