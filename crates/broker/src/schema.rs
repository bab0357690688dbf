//! Schemas at run time: create, get, revise and delete; `check` enforces them for topics.

mod check;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use clock::Clock;
use domain::{ProjectName, SchemaName, Timestamp};
use parking_lot::{Mutex, RwLock};
use schemas::limits::SCHEMAS_PER_PROJECT_MAX;
use schemas::{Compiled, Encoding, Kind, Revision, RevisionId, RevisionName};
use storage::Entry;

use crate::audit::Auditor;
use crate::catalogue::{Catalogue, Page, page, readable};
use crate::compiling::Compiling;
use crate::definition::StoredSchema;
use crate::error::{Error, Rejected, Resource, Result};

pub(crate) use check::Check;

/// The kind of a schema in the catalogue and in errors.
const KIND: (storage::Kind, Resource) = (storage::Kind::Schema, Resource::Schema);

/// Every schema there is.
pub(crate) struct Schemas {
    known: RwLock<BTreeMap<SchemaName, Arc<Schema>>>,
    catalogue: Arc<Catalogue>,
    clock: Arc<dyn Clock>,
    compiling: Compiling,
    auditor: Auditor,
}

/// One life of a schema's name.
pub struct Schema {
    /// The catalogue's id, never reused.
    id: u64,
    stored: Mutex<Stored>,
    /// Held by whoever changes it: compiling a definition takes too long for the lock that all
    /// definitions share.
    changing: tokio::sync::Mutex<()>,
}

/// A schema as it is in the catalogue.
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

    /// The same with its version; `None` once it is deleted.
    fn living(&self) -> Option<(Arc<schemas::Schema>, u64)> {
        let stored = self.stored.lock();
        (!stored.is_deleted).then(|| (Arc::clone(&stored.schema), stored.version))
    }

    fn set(&self, schema: Arc<schemas::Schema>, version: u64) {
        *self.stored.lock() = Stored { schema, version, is_deleted: false };
    }
}

/// A schema after a change, and the revision that was created or deleted.
pub struct Revised {
    /// The schema as it is now.
    pub schema: Arc<schemas::Schema>,
    /// The revision that was created or deleted.
    pub revision: Revision,
}

/// A number for the id of a revision.
fn random() -> Result<u32> {
    let mut bytes = [0; 4];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| Error::NoRandomness)?;
    Ok(u32::from_le_bytes(bytes))
}

impl Schemas {
    pub(crate) fn new(
        catalogue: Arc<Catalogue>,
        clock: Arc<dyn Clock>,
        compiling: Compiling,
        auditor: Auditor,
    ) -> Self {
        Self { known: RwLock::default(), catalogue, clock, compiling, auditor }
    }

    /// Creates a schema with one revision; it exists on stable storage when this returns.
    pub(crate) async fn create(
        self: &Arc<Self>,
        name: SchemaName,
        kind: Kind,
        definition: String,
    ) -> Result<Revised> {
        let already = || Error::AlreadyExists(Resource::Schema, name.to_string());
        if self.known.read().contains_key(&name) {
            return Err(already());
        }
        let (now, id) = (self.clock.wall(), random()?);
        let create = {
            let name = name.clone();
            move || schemas::Schema::create(name, kind, &definition, now, &mut || id)
        };
        let made = self.compiling.run(create).await??;
        let schemas = Arc::clone(self);
        let change = async move {
            let _ledger = schemas.catalogue.lock().await;
            schemas.check_room(&name.project())?;
            let value = readable(StoredSchema::encode(&made), name.as_str())?;
            let entry = schemas.catalogue.create(KIND, name.as_str(), value).await?;
            let schema = schemas.add(&entry, made).current();
            Ok(Revised { revision: schema.newest().clone(), schema })
        };
        self.catalogue.change(change).await
    }

    fn check_room(&self, project: &ProjectName) -> Result<()> {
        let count = self.known.read().keys().filter(|name| name.is_in(project)).count();
        let is_room = count < SCHEMAS_PER_PROJECT_MAX;
        is_room.then_some(()).ok_or(Error::Schema(schemas::Error::TooManySchemas))
    }

    /// Adds a stored schema.
    pub(crate) fn add(&self, entry: &Entry, schema: schemas::Schema) -> Arc<Schema> {
        let name = schema.name().clone();
        let stored = Stored { schema: Arc::new(schema), version: entry.version, is_deleted: false };
        let (id, stored) = (entry.id, Mutex::new(stored));
        let schema = Arc::new(Schema { id, stored, changing: tokio::sync::Mutex::default() });
        self.known.write().insert(name, Arc::clone(&schema));
        schema
    }

    /// Takes a schema as someone may have stored it on another node.
    pub(crate) fn hear(&self, entry: &Entry, schema: schemas::Schema) {
        let known = self.known.read().get(schema.name()).cloned();
        match known.filter(|known| known.id >= entry.id) {
            Some(known) => {
                let mut stored = known.stored.lock();
                if known.id == entry.id && stored.version < entry.version {
                    (stored.schema, stored.version) = (Arc::new(schema), entry.version);
                }
            }
            None => drop(self.add(entry, schema)),
        }
    }

    /// A schema was deleted, maybe on another node.
    pub(crate) fn hear_of_end(&self, name: &str, id: u64) {
        let mut known = self.known.write();
        if let Some(schema) = known.get(name)
            && schema.id == id
        {
            schema.stored.lock().is_deleted = true;
            known.remove(name);
        }
    }

    /// The schema with that name.
    pub(crate) fn get(&self, name: &SchemaName) -> Result<Arc<Schema>> {
        let found = self.known.read().get(name).cloned();
        found.ok_or_else(|| not_found(name))
    }

    /// Schemas of `project` in name order, after the name `after`.
    pub(crate) fn list(
        &self,
        project: &ProjectName,
        after: Option<&str>,
        limit: usize,
    ) -> Page<Schema> {
        page(&self.known.read(), after, limit, |name| name.is_in(project))
    }

    /// Adds a revision to a schema.
    pub(crate) async fn commit(
        self: &Arc<Self>,
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
    pub(crate) async fn roll_back(
        self: &Arc<Self>,
        name: &SchemaName,
        id: RevisionId,
    ) -> Result<Revised> {
        self.revise(name, "roll back schema", move |schema, now, random| {
            schema.rollback(id, now, random).cloned()
        })
        .await
    }

    /// Deletes a revision of a schema, unless it is the only one.
    pub(crate) async fn delete_revision(
        self: &Arc<Self>,
        name: &SchemaName,
        id: RevisionId,
    ) -> Result<Revised> {
        self.revise(name, "delete schema revision", move |schema, _, _| schema.delete_revision(id))
            .await
    }

    /// Changes the revisions of a schema, on stable storage when this returns. Later publishes are
    /// checked against the result.
    async fn revise(
        self: &Arc<Self>,
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
        let (schemas, name) = (Arc::clone(self), name.clone());
        let change = async move {
            let schema = schemas.get(&name)?;
            let _changing = schema.changing.lock().await;
            let (before, version) = schema.living().ok_or_else(|| not_found(&name))?;
            let (now, id) = (schemas.clock.wall(), random()?);
            let revise = move || {
                let mut after = (*before).clone();
                let revision = work(&mut after, now, &mut || id)?;
                Ok::<_, schemas::Error>((after, revision))
            };
            let (after, revision) = schemas.compiling.run(revise).await??;
            let value = readable(StoredSchema::encode(&after), name.as_str())?;
            let entry = schemas.catalogue.update(KIND, name.as_str(), value, version).await?;
            let after = Arc::new(after);
            schema.set(Arc::clone(&after), entry.version);
            let details = format!("revision {}", revision.id);
            schemas.auditor.record(act, name.to_string(), Some(details));
            Ok(Revised { schema: after, revision })
        };
        self.catalogue.change(change).await
    }

    /// Deletes a schema with its revisions. Topics that name it accept no more messages.
    pub(crate) async fn delete(self: &Arc<Self>, name: &SchemaName) -> Result<()> {
        let (schemas, name) = (Arc::clone(self), name.clone());
        let change = async move {
            let schema = schemas.get(&name)?;
            let _changing = schema.changing.lock().await;
            // Nobody may take the name until it is free both in the catalogue and here.
            let _ledger = schemas.catalogue.lock().await;
            let (_, version) = schema.living().ok_or_else(|| not_found(&name))?;
            schemas.catalogue.delete(KIND, name.as_str(), version).await?;
            schema.stored.lock().is_deleted = true;
            schemas.known.write().remove(&name);
            schemas.auditor.record("delete", name.to_string(), None);
            Ok(())
        };
        self.catalogue.change(change).await
    }

    /// Whether a definition is valid.
    pub(crate) async fn validate(&self, kind: Kind, definition: String) -> Result<()> {
        let compiled = self.compiling.run(move || Compiled::new(kind, &definition)).await?;
        compiled.map(drop).map_err(|problem| schemas::Error::Definition(problem).into())
    }

    /// Whether a message is valid for a schema, or for a definition that is given with it.
    pub(crate) async fn validate_message(
        &self,
        against: Against,
        encoding: Encoding,
        message: Bytes,
    ) -> Result<()> {
        let (schema, revision) = match against {
            Against::Stored(name) => {
                let schema = self.get(&name.schema)?.current();
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
        self.compiling.run(check).await?
    }
}

/// What a message is checked against.
pub enum Against {
    /// A stored schema: the revision in the name, or else the newest.
    Stored(RevisionName),
    /// A definition.
    Given(Kind, String),
}

fn not_found(name: &SchemaName) -> Error {
    Error::NotFound(Resource::Schema, name.to_string())
}
