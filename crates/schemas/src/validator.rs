//! What a topic accepts: messages of a range of a schema's revisions.

use std::fmt;
use std::sync::Arc;

use domain::topic::SchemaSettings;
use domain::{Encoding, Invalid, RevisionId, SchemaName};

use crate::compiled::{Compiled, Kind};
use crate::error::Error;
use crate::problem::Problem;
use crate::schema::{Revision, Schema};

/// A topic's schema settings, with the revisions looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The schema.
    pub schema: SchemaName,
    /// How messages are written.
    pub encoding: Encoding,
    /// The oldest revision that is accepted; none means that there is no oldest.
    pub first: Option<Bound>,
    /// The newest revision that is accepted; none means that there is no newest.
    pub last: Option<Bound>,
}

/// An end of a range of revisions.
///
/// The number is kept beside the id, so that a range still means the same once the revision at
/// its end is deleted: those between the ends go on being accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The revision's id, which the API shows.
    pub id: RevisionId,
    /// The revision's number.
    pub number: u64,
}

impl Bound {
    /// The revision of that id, which must exist, as an end of a range.
    pub fn of(schema: &Schema, id: RevisionId) -> Result<Self, Error> {
        Ok(Self { id, number: schema.revision(Some(id))?.number })
    }
}

impl Settings {
    /// Settings as a client asks for them. The revisions must exist, and be in order.
    pub fn new(
        schema: &Schema,
        encoding: Encoding,
        first: Option<RevisionId>,
        last: Option<RevisionId>,
    ) -> Result<Self, Error> {
        let bound = |id: RevisionId| Bound::of(schema, id);
        let (first, last) = (first.map(bound).transpose()?, last.map(bound).transpose()?);
        Self::between(schema, encoding, first, last)
    }

    /// The same where the ends are known, also if their revisions are gone by now.
    pub fn between(
        schema: &Schema,
        encoding: Encoding,
        first: Option<Bound>,
        last: Option<Bound>,
    ) -> Result<Self, Error> {
        if let (Some(first), Some(last)) = (first, last)
            && first.number > last.number
        {
            let problem = format!("{} is newer than last_revision_id {}", first.id, last.id);
            return Err(Invalid::new("schema_settings.first_revision_id", problem).into());
        }
        Ok(Self { schema: schema.name().clone(), encoding, first, last })
    }

    /// What the topic's owner sees of them.
    pub fn shown(&self) -> SchemaSettings {
        let id = |bound: Option<Bound>| bound.map(|bound| bound.id);
        let (first, last) = (id(self.first), id(self.last));
        SchemaSettings { schema: self.schema.clone(), encoding: self.encoding, first, last }
    }

    fn accepts(&self, revision: &Revision) -> bool {
        self.first.is_none_or(|first| first.number <= revision.number)
            && self.last.is_none_or(|last| revision.number <= last.number)
    }
}

/// Checks messages for a topic. Made anew when the schema or the topic's settings change.
#[derive(Clone, Debug)]
pub struct Validator {
    kind: Kind,
    encoding: Encoding,
    /// What is accepted, the newest first.
    accepted: Vec<(RevisionId, Arc<Compiled>)>,
}

/// Why no revision accepts a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The language of the schema.
    pub kind: Kind,
    /// How the message should have been written.
    pub encoding: Encoding,
    /// The newest revision of the range; none if there is none left in it.
    pub revision: Option<RevisionId>,
    /// What is wrong with the message, by that revision.
    pub problem: Problem,
}

impl Rejection {
    /// Google's name for the reason, as `ErrorInfo.reason` has it.
    pub fn reason(&self) -> &'static str {
        match (self.encoding, self.kind) {
            (Encoding::Json, Kind::Avro) => "INVALID_JSON_AVRO_MESSAGE",
            (Encoding::Binary, Kind::Avro) => "INVALID_BINARY_AVRO_MESSAGE",
            (Encoding::Json, Kind::Protobuf) => "INVALID_JSON_PROTO_MESSAGE",
            (Encoding::Binary, Kind::Protobuf) => "INVALID_BINARY_PROTO_MESSAGE",
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.revision {
            Some(revision) => write!(f, "revision {revision}: {}", self.problem),
            None => self.problem.fmt(f),
        }
    }
}

impl std::error::Error for Rejection {}

impl Validator {
    /// The revisions of `schema` that the settings accept.
    pub fn new(schema: &Schema, settings: &Settings) -> Self {
        let revisions = schema.revisions().iter().rev();
        let accepted = revisions.filter(|revision| settings.accepts(revision));
        let accepted = accepted
            .filter_map(|revision| Some((revision.id, revision.compiled().ok()?)))
            .collect();
        Self { kind: schema.kind(), encoding: settings.encoding, accepted }
    }

    /// The newest revision that accepts a message, or what the newest of all says against it.
    pub fn check(&self, message: &[u8]) -> Result<RevisionId, Rejection> {
        let mut newest = None;
        for (id, compiled) in &self.accepted {
            match compiled.check(self.encoding, message) {
                Ok(()) => return Ok(*id),
                Err(problem) => newest = newest.or(Some((*id, problem))),
            }
        }
        let (revision, problem) = match newest {
            Some((id, problem)) => (Some(id), problem),
            None => (None, Problem::new("the topic's schema has no revision in its range left")),
        };
        Err(Rejection { kind: self.kind, encoding: self.encoding, revision, problem })
    }

    /// How messages are written.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// How many revisions a message may be checked against.
    pub fn revision_count(&self) -> usize {
        self.accepted.len()
    }
}
