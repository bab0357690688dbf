//! Effects that happen once: what was handled is kept next to what it did, in one transaction.

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod document;
mod json;
mod memory;
mod postgres;
mod sqlite;

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use domain::Timestamp;

use crate::{Failure, Message, Outcome, clock};

pub use memory::Memory;
pub use postgres::Postgres;
pub use sqlite::Sqlite;

/// A store in which an effect and the note that it happened are one transaction.
pub trait Effects: Send + Sync + 'static {
    /// In one transaction: looks whether the message is noted already (`Applied::Duplicate`),
    /// compares the event time with the document's (`Applied::Stale`), writes, and notes the
    /// message until `Write::dedupe_until`. A stale message is noted too.
    fn apply(&self, write: &Write) -> impl Future<Output = Result<Applied, StoreError>> + Send;
}

/// What one message does.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// What is written.
    pub document: Path,
    /// Where it is noted that the message was handled.
    pub dedupe: Path,
    /// How long that must be kept at least.
    pub dedupe_until: Timestamp,
    /// How it is written.
    pub kind: WriteKind,
    /// What is written.
    pub fields: BTreeMap<String, Value>,
    /// When what the message tells of happened. The document keeps the latest.
    pub event_time: Option<EventTime>,
}

/// When something happened, and the field of the document that keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventTime {
    /// The field.
    pub field: String,
    /// When.
    pub at: Timestamp,
}

/// A document: `collection/id`. Both may have `/` inside where the store allows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// The collection.
    pub collection: String,
    /// The id in it.
    pub id: String,
}

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// The fields are all of the document.
    Set,
    /// The fields are put over what is there.
    Merge,
    /// The fields, which are numbers, are added to what is there. Never stale: every event counts.
    Increment,
}

/// A field's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Double(f64),
    /// Text.
    Text(String),
    /// A point in time.
    Time(Timestamp),
    /// Values in order.
    List(Vec<Value>),
    /// Values by name.
    Map(BTreeMap<String, Value>),
}

/// What `Effects::apply` found and did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It was written.
    Applied,
    /// The message had been handled before.
    Duplicate,
    /// The document tells of something later.
    Stale,
}

/// Why a store did not take a write. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// May go well later.
    Transient(Failure),
    /// Succeeds once the setup is fixed.
    Config(Failure),
    /// Can never go well: what was to be written is wrong.
    Refused(Failure),
}

/// What an own transaction of a program came to, where it is noted that a message was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Once<T> {
    /// It was done now, and this is what it returned.
    Done(T),
    /// The message had been handled before: nothing was done.
    Duplicate,
}

/// Where and until when it is noted that a message was handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Where.
    pub dedupe: Path,
    /// How long it must be kept at least.
    pub until: Timestamp,
}

/// How long a note is kept unless it is set: Google's longest retention, 31 days, and as long as
/// dead letters are kept, 14 days. A message cannot come again after that.
pub const KEPT_FOR: Duration = Duration::from_secs((31 + 14) * 24 * 60 * 60);

impl Note {
    /// In this collection, under the message's own id, for as long as it may come again.
    pub fn of(message: &Message, collection: impl Into<String>) -> Self {
        let dedupe = Path { collection: collection.into(), id: message.dedupe_id().to_owned() };
        Self { dedupe, until: clock::wall().plus(KEPT_FOR) }
    }
}

impl<T> From<Result<Once<T>, StoreError>> for Outcome {
    fn from(result: Result<Once<T>, StoreError>) -> Self {
        match result {
            Ok(Once::Done(_)) => Self::Applied,
            Ok(Once::Duplicate) => Self::Duplicate,
            Err(error) => error.into(),
        }
    }
}

impl StoreError {
    /// Why.
    pub fn failure(&self) -> &Failure {
        match self {
            Self::Transient(failure) | Self::Config(failure) | Self::Refused(failure) => failure,
        }
    }
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let failure = self.failure();
        match &failure.code {
            Some(code) => write!(f, "{} ({code})", failure.message),
            None => f.write_str(&failure.message),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<Applied> for Outcome {
    fn from(applied: Applied) -> Self {
        match applied {
            Applied::Applied => Self::Applied,
            Applied::Duplicate => Self::Duplicate,
            Applied::Stale => Self::StaleIgnored,
        }
    }
}

impl From<StoreError> for Outcome {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Transient(failure) => Self::Transient(failure),
            StoreError::Config(failure) => Self::Config(failure),
            StoreError::Refused(failure) => Self::Poison(failure),
        }
    }
}

impl From<Result<Applied, StoreError>> for Outcome {
    fn from(result: Result<Applied, StoreError>) -> Self {
        result.map_or_else(Self::from, Self::from)
    }
}
