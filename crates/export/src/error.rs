//! Why an object could not be written.

use std::fmt;
use std::io;

use domain::export::ExportState;

/// What went wrong, in kinds that an owner can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// There is no such bucket.
    Missing,
    /// The server may not write there.
    Denied,
    /// The store does not answer, or not as it should: it may later.
    Unavailable,
}

impl Kind {
    /// How exporting goes then.
    pub fn state(self) -> ExportState {
        match self {
            Self::Missing => ExportState::NotFound,
            Self::Denied => ExportState::PermissionDenied,
            Self::Unavailable => ExportState::Unavailable,
        }
    }
}

/// An object could not be written. Nothing of it is visible, unless its completion was under way:
/// then it may be, and is whole.
#[derive(Debug)]
pub struct Error {
    /// What went wrong.
    pub kind: Kind,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl Error {
    /// An error of that kind, and why.
    pub fn new(kind: Kind, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { kind, source: source.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)?;
        let mut cause = self.source.source();
        while let Some(error) = cause {
            // Many errors repeat their cause in their own text.
            let (text, all) = (error.to_string(), self.source.to_string());
            if !all.contains(&text) {
                write!(f, ": {text}")?;
            }
            cause = error.source();
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Kind::Missing,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Kind::Denied,
            _ => Kind::Unavailable,
        };
        Self::new(kind, error)
    }
}

impl From<object_store::Error> for Error {
    fn from(error: object_store::Error) -> Self {
        use object_store::Error as Store;
        let kind = match &error {
            Store::NotFound { .. } => Kind::Missing,
            Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => Kind::Denied,
            _ => Kind::Unavailable,
        };
        Self::new(kind, error)
    }
}
