//! Why something asked of a schema was refused.

use domain::Invalid;

use crate::problem::Problem;

/// Why something asked of a schema was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A field of the request breaks a rule of the API.
    #[error(transparent)]
    Request(#[from] Invalid),
    /// The definition is no good.
    #[error("invalid schema definition: {0}")]
    Definition(#[source] Problem),
    /// The definition is good, and does not go with a revision that is there.
    #[error("the definition is not compatible with revision {revision}: {problem}")]
    Incompatible {
        /// The revision it does not go with.
        revision: crate::RevisionId,
        /// Why.
        #[source]
        problem: Problem,
    },
    /// There is no such schema or revision.
    #[error("{0} not found")]
    NotFound(String),
    /// There is such a schema already.
    #[error("{0} already exists")]
    AlreadyExists(String),
    /// A schema has at least one revision.
    #[error("revision {0} is the only one of its schema; delete the schema instead")]
    OnlyRevision(crate::RevisionId),
    /// The schema has as many revisions as it may have.
    #[error(
        "the schema has {} revisions, the most there may be; delete one first",
        crate::limits::REVISIONS_MAX
    )]
    TooManyRevisions,
    /// The project has as many schemas as it may have.
    #[error(
        "the project has {} schemas, the most there may be; delete one first",
        crate::limits::SCHEMAS_PER_PROJECT_MAX
    )]
    TooManySchemas,
}

/// The part of Google's status codes that calls about schemas answer with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// `INVALID_ARGUMENT`.
    InvalidArgument,
    /// `NOT_FOUND`.
    NotFound,
    /// `ALREADY_EXISTS`.
    AlreadyExists,
    /// `FAILED_PRECONDITION`.
    FailedPrecondition,
    /// `RESOURCE_EXHAUSTED`.
    ResourceExhausted,
}

impl Error {
    /// The status it is answered with.
    pub fn status(&self) -> Status {
        match self {
            Self::Request(_) | Self::Definition(_) | Self::Incompatible { .. } => {
                Status::InvalidArgument
            }
            Self::NotFound(_) => Status::NotFound,
            Self::AlreadyExists(_) => Status::AlreadyExists,
            Self::OnlyRevision(_) => Status::FailedPrecondition,
            Self::TooManyRevisions | Self::TooManySchemas => Status::ResourceExhausted,
        }
    }
}
