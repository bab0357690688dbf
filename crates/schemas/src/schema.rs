//! A schema: its revisions, and what may be done to them.

use std::sync::{Arc, OnceLock};

use domain::{Invalid, RevisionId, SchemaName, Timestamp};

use crate::compiled::{Compiled, Kind};
use crate::error::Error;
use crate::limits::REVISIONS_MAX;
use crate::name::RevisionName;
use crate::problem::Problem;

/// A schema with its revisions.
///
/// Has at least one revision and at most `REVISIONS_MAX`; ids are unique within it; the numbers of
/// revisions grow and are never given twice.
#[derive(Clone, Debug)]
pub struct Schema {
    name: SchemaName,
    kind: Kind,
    /// The newest last.
    revisions: Vec<Revision>,
    /// The number of the next revision.
    next: u64,
}

/// One revision of a schema.
#[derive(Clone, Debug)]
pub struct Revision {
    /// Its id.
    pub id: RevisionId,
    /// Which revision of the schema it is, counted from 0. Unlike its place in the list, this
    /// stays when older ones are deleted.
    pub number: u64,
    /// When it was made.
    pub created: Timestamp,
    /// The definition, as the client wrote it.
    pub definition: Arc<str>,
    kind: Kind,
    /// Compiled when first needed, and then kept; clones share it.
    compiled: Arc<OnceLock<Result<Arc<Compiled>, Problem>>>,
}

impl Revision {
    /// A revision as it was kept.
    pub fn new(
        kind: Kind,
        id: RevisionId,
        number: u64,
        created: Timestamp,
        definition: impl Into<Arc<str>>,
    ) -> Self {
        let compiled = Arc::new(OnceLock::new());
        Self { id, number, created, definition: definition.into(), kind, compiled }
    }

    /// The definition, compiled. It was good when the revision was made; an error means that the
    /// rules have become stricter since.
    pub fn compiled(&self) -> Result<Arc<Compiled>, Problem> {
        let compile = || Compiled::new(self.kind, &self.definition).map(Arc::new);
        self.compiled.get_or_init(compile).clone()
    }
}

impl Schema {
    /// A new schema with one revision, whose id is drawn by `random`.
    pub fn create(
        name: SchemaName,
        kind: Kind,
        definition: &str,
        now: Timestamp,
        random: &mut dyn FnMut() -> u32,
    ) -> Result<Self, Error> {
        name.check_not_own("parent")?;
        let mut schema = Self { name, kind, revisions: Vec::new(), next: 0 };
        let compiled = Compiled::new(kind, definition).map_err(Error::Definition)?;
        schema.push(definition.into(), Arc::new(compiled), now, random);
        Ok(schema)
    }

    /// A schema as it was kept: revisions in the order of their numbers. None if there is no
    /// revision, or if they are not in order.
    pub fn restore(
        name: SchemaName,
        kind: Kind,
        revisions: Vec<Revision>,
        next: u64,
    ) -> Option<Self> {
        let is_ordered = revisions.is_sorted_by(|a, b| a.number < b.number);
        let is_before = revisions.last().is_some_and(|newest| newest.number < next);
        (is_ordered && is_before).then_some(Self { name, kind, revisions, next })
    }

    /// Its name.
    pub fn name(&self) -> &SchemaName {
        &self.name
    }

    /// The language of all its definitions.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The number that the next revision will have.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Its revisions, the newest last.
    pub fn revisions(&self) -> &[Revision] {
        &self.revisions
    }

    /// The newest revision.
    pub fn newest(&self) -> &Revision {
        match self.revisions.last() {
            Some(revision) => revision,
            None => unreachable!("a schema has a revision"),
        }
    }

    /// The revision of that id, or the newest if none is asked for.
    pub fn revision(&self, id: Option<RevisionId>) -> Result<&Revision, Error> {
        match id {
            None => Ok(self.newest()),
            Some(id) => {
                let found = self.revisions.iter().find(|revision| revision.id == id);
                found.ok_or_else(|| self.not_found(id))
            }
        }
    }

    /// Adds a revision. Its definition must be compatible with those of all revisions that are
    /// there (`Compiled::check_beside` has Google's rule), since a topic may accept any of them.
    pub fn commit(
        &mut self,
        kind: Kind,
        definition: &str,
        now: Timestamp,
        random: &mut dyn FnMut() -> u32,
    ) -> Result<&Revision, Error> {
        if kind != self.kind {
            let problem =
                format!("is {}, that of the schema is {}", kind.as_str(), self.kind.as_str());
            return Err(Invalid::new("schema.type", problem).into());
        }
        self.check_room()?;
        let compiled = Compiled::new(kind, definition).map_err(Error::Definition)?;
        for former in self.revisions.iter().rev() {
            // What can no longer be read can no longer accept a message either.
            let Ok(old) = former.compiled() else { continue };
            compiled
                .check_beside(&old)
                .map_err(|problem| Error::Incompatible { revision: former.id, problem })?;
        }
        Ok(self.push(definition.into(), Arc::new(compiled), now, random))
    }

    /// Adds a revision with the definition of an older one.
    pub fn rollback(
        &mut self,
        id: RevisionId,
        now: Timestamp,
        random: &mut dyn FnMut() -> u32,
    ) -> Result<&Revision, Error> {
        let revision = self.revision(Some(id))?;
        let definition = Arc::clone(&revision.definition);
        let compiled = revision.compiled().map_err(Error::Definition)?;
        self.check_room()?;
        Ok(self.push(definition, compiled, now, random))
    }

    /// Deletes a revision, unless it is the only one.
    pub fn delete_revision(&mut self, id: RevisionId) -> Result<Revision, Error> {
        let index = self.revisions.iter().position(|revision| revision.id == id);
        let index = index.ok_or_else(|| self.not_found(id))?;
        if self.revisions.len() == 1 {
            return Err(Error::OnlyRevision(id));
        }
        Ok(self.revisions.remove(index))
    }

    fn check_room(&self) -> Result<(), Error> {
        if self.revisions.len() < REVISIONS_MAX { Ok(()) } else { Err(Error::TooManyRevisions) }
    }

    fn push(
        &mut self,
        definition: Arc<str>,
        compiled: Arc<Compiled>,
        now: Timestamp,
        random: &mut dyn FnMut() -> u32,
    ) -> &Revision {
        let mut id = RevisionId(random());
        // At most `REVISIONS_MAX` ids are taken, so counting on from there soon ends, whatever
        // the source of randomness does.
        while self.revisions.iter().any(|revision| revision.id == id) {
            id = RevisionId(id.0.wrapping_add(1));
        }
        let mut revision = Revision::new(self.kind, id, self.next, now, definition);
        revision.compiled = Arc::new(OnceLock::from(Ok(compiled)));
        self.next += 1;
        self.revisions.push(revision);
        self.newest()
    }

    fn not_found(&self, id: RevisionId) -> Error {
        let name = RevisionName { schema: self.name.clone(), revision: Some(id) };
        Error::NotFound(format!("schema revision {name}"))
    }
}

#[cfg(test)]
#[path = "schema/tests.rs"]
mod tests;
