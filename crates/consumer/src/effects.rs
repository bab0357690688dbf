//! Effects that happen once: what was handled is kept beside what it did, in one transaction.

use std::collections::BTreeMap;
use std::future::Future;

use domain::Timestamp;

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
    Transient(crate::Failure),
    /// Goes well once the set-up is put right.
    Config(crate::Failure),
    /// Can never go well: what was to be written is wrong.
    Refused(crate::Failure),
}
