//! `Catalogue`: the definitions of topics, subscriptions, snapshots, schemas and replays.

mod recent;

use bytes::Bytes;
use futures::stream::BoxStream;

pub(crate) use recent::Recent;

use crate::{Future, Result};

/// What an entry defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A topic, existing or deleted with subscriptions left.
    Topic,
    /// A subscription.
    Subscription,
    /// A snapshot of a subscription's progress.
    Snapshot,
    /// A schema.
    Schema,
    /// What the broker must remember besides, such as the highest offset of deleted topics.
    Bookkeeping,
    /// Which letters of a dead letter topic an operator has handled; its id is that of a progress.
    HandledLetters,
    /// A replay of dead letters; its id is that of a progress.
    Replay,
    /// What a topic has received from a source in another shard; its id is that of a progress.
    Mark,
}

/// One definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it defines.
    pub kind: Kind,
    /// Its name, unique within its kind.
    pub name: String,
    /// Assigned at creation, unique in the store, never reused.
    pub id: u64,
    /// Increases with every put; never repeats for a name.
    pub version: u64,
    /// The definition in its owner's own encoding.
    pub value: Bytes,
}

/// Entries in name order, and where to continue.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The entries.
    pub entries: Vec<Entry>,
    /// The name after which the next page starts; `None` = this was the last.
    pub next: Option<String>,
}

/// A change of definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// An entry was created or replaced.
    Put(Entry),
    /// An entry was deleted.
    Deleted {
        /// What it defined.
        kind: Kind,
        /// Its name.
        name: String,
        /// Its id.
        id: u64,
    },
    /// Some changes are no longer known one by one: list everything, then go on from here.
    Resync,
}

/// Changes in their order, each with the serial number it got. It waits for more at its end, and
/// ends only after an error.
pub type Changes = BoxStream<'static, Result<(u64, Change)>>;

/// The definitions. When a method returns `Ok`, its effect is on stable storage.
pub trait Catalogue: Send + Sync {
    /// The entry with that name; `NotFound` otherwise.
    fn get(&self, kind: Kind, name: &str) -> Future<Result<Entry>>;

    /// Up to `limit` entries of `kind` in name order, after the name `after`.
    fn list(&self, kind: Kind, after: Option<&str>, limit: usize) -> Future<Result<Page>>;

    /// Creates (`version` = `None`; `Conflict` if it exists) or replaces (`Conflict` if the version
    /// differs, `NotFound` if it is gone). Returns the entry as stored.
    fn put(
        &self,
        kind: Kind,
        name: &str,
        value: Bytes,
        version: Option<u64>,
    ) -> Future<Result<Entry>>;

    /// Deletes; `Conflict` if the version differs, `NotFound` if it is already gone.
    fn delete(&self, kind: Kind, name: &str, version: u64) -> Future<Result<()>>;

    /// The serial number of the last change. Every change by anyone that was answered before this
    /// is called has one that is not greater.
    fn serial(&self) -> Future<Result<u64>>;

    /// Every change with a serial number above `after`, by anyone, none missing and none twice. An
    /// engine that has forgotten some of them begins with `Resync`.
    fn changes(&self, after: u64) -> Changes;
}
