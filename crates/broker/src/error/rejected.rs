//! Messages that do not match their schema.

use domain::SchemaName;
use schemas::{Encoding, Kind, Problem, Rejection, RevisionId};

use super::Error;

/// A message that does not match its schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid data in message: Message failed schema validation. {place}{rejection}")]
pub struct Rejected {
    /// The schema; `None` if it was given with the message.
    pub schema: Option<SchemaName>,
    /// Which message of the request it is, as the start of a sentence; empty if there is only one.
    place: String,
    /// What is wrong with it.
    pub rejection: Rejection,
}

impl Rejected {
    pub(crate) fn at(index: usize, schema: &SchemaName, rejection: Rejection) -> Error {
        let place = format!("messages[{index}]: ");
        Error::Rejected(Box::new(Self { schema: Some(schema.clone()), place, rejection }))
    }

    pub(crate) fn alone(
        schema: Option<(SchemaName, RevisionId)>,
        kind: Kind,
        encoding: Encoding,
        problem: Problem,
    ) -> Error {
        let (schema, revision) = schema.unzip();
        let rejection = Rejection { kind, encoding, revision, problem };
        Error::Rejected(Box::new(Self { schema, place: String::new(), rejection }))
    }
}
