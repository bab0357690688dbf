//! Definitions in the store: one change of them at a time, each to its end.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use clock::tasks;
use domain::{Offset, ShardId, TopicName};
use serde::de::DeserializeOwned;
use storage::{Entry, Kind};
use tokio::sync::{Mutex, MutexGuard, oneshot};

use crate::audit;
use crate::definition::Unreadable;
use crate::error::{Error, Resource, Result};
use crate::serving::Serving;

/// Entries read from the store at a time.
const PAGE: usize = 1_000;

/// The definitions in the store.
pub(crate) struct Catalogue {
    store: Arc<dyn storage::Catalogue>,
    serving: Arc<Serving>,
    /// How many shards topics are spread over.
    shards: u32,
    ledger: Mutex<Ledger>,
}

/// What changes only together with definitions.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Of each open shard.
    pub(crate) shards: BTreeMap<ShardId, ShardLedger>,
}

/// What changes only together with the definitions of one shard.
#[derive(Default)]
pub(crate) struct ShardLedger {
    /// No new topic's offsets may fall below it.
    pub(crate) offset_floor: Offset,
    pub(crate) floor_version: Option<u64>,
    /// The store's version of the times when subscriptions were last used.
    pub(crate) used_version: Option<u64>,
}

impl Ledger {
    /// What belongs to that shard.
    pub(crate) fn of(&mut self, shard: ShardId) -> &mut ShardLedger {
        self.shards.entry(shard).or_default()
    }
}

impl Catalogue {
    pub(crate) fn new(
        store: Arc<dyn storage::Catalogue>,
        serving: Arc<Serving>,
        shards: u32,
    ) -> Self {
        Self { store, serving, shards, ledger: Mutex::default() }
    }

    /// The shard that a topic of that name is in.
    pub(crate) fn shard_of(&self, topic: &TopicName) -> ShardId {
        ShardId::of(topic, self.shards)
    }

    /// The store itself, for what needs no other words.
    pub(crate) fn store(&self) -> &dyn storage::Catalogue {
        &*self.store
    }

    /// Serialises changes of definitions.
    pub(crate) async fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().await
    }

    /// Changes definitions, in its own task: a caller who goes away halfway leaves nothing
    /// half done, such as an entry in the store that nobody knows of.
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.serving.check()?;
        let work = audit::asked_by(audit::peer(), work);
        let (answer, answered) = oneshot::channel();
        let serving = Arc::clone(&self.serving);
        // The task is on its own from here; the caller may be gone when it answers.
        drop(tasks::spawn("change of definitions", async move {
            // Another node may have taken over before this was stored, and not know of it.
            let done = work.await.and_then(|done| serving.answer(done));
            drop(answer.send(done));
        }));
        answered.await.unwrap_or_else(|_| Err(Error::broken_off()))
    }

    /// Stores what must not be there yet.
    pub(crate) async fn create(
        &self,
        (kind, resource): (Kind, Resource),
        name: &str,
        value: Bytes,
    ) -> Result<Entry> {
        let put = self.store.put(kind, name, value, None).await;
        put.map_err(|error| match error {
            storage::Error::Conflict => Error::AlreadyExists(resource, name.to_owned()),
            other => other.into(),
        })
    }

    /// Stores what is there in that version.
    pub(crate) async fn update(
        &self,
        (kind, resource): (Kind, Resource),
        name: &str,
        value: Bytes,
        version: u64,
    ) -> Result<Entry> {
        let put = self.store.put(kind, name, value, Some(version)).await;
        put.map_err(|error| gone(error, resource, name))
    }

    /// Deletes what is there in that version.
    pub(crate) async fn delete(
        &self,
        (kind, resource): (Kind, Resource),
        name: &str,
        version: u64,
    ) -> Result<()> {
        let deleted = self.store.delete(kind, name, version).await;
        deleted.map_err(|error| gone(error, resource, name))
    }

    /// All entries of a kind.
    pub(crate) async fn entries(&self, kind: Kind) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let mut after = None;
        loop {
            let page = self.store.list(kind, after.as_deref(), PAGE).await?;
            entries.extend(page.entries);
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(entries),
            }
        }
    }

    /// A single value that the store keeps under a name, and its version.
    pub(crate) async fn value<T: DeserializeOwned>(&self, name: &str) -> Result<Option<(T, u64)>> {
        match self.store.get(Kind::Bookkeeping, name).await {
            Ok(entry) => Ok(Some((readable(read_value(&entry.value), name)?, entry.version))),
            Err(storage::Error::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Reads a single value as it is stored.
pub(crate) fn read_value<T: DeserializeOwned>(value: &[u8]) -> Result<T, Unreadable> {
    Ok(serde_json::from_slice(value)?)
}

/// Names what cannot be read or written.
pub(crate) fn readable<T>(value: Result<T, Unreadable>, name: &str) -> Result<T> {
    value.map_err(|source| Error::Unreadable(name.to_owned(), Arc::new(source)))
}

fn gone(error: storage::Error, resource: Resource, name: &str) -> Error {
    match error {
        storage::Error::Conflict => Error::Contended(resource, name.to_owned()),
        storage::Error::NotFound => Error::NotFound(resource, name.to_owned()),
        other => other.into(),
    }
}

/// A page of a listing: what is on it, and the name to go on after if there is more.
pub type Page<T> = (Vec<Arc<T>>, Option<String>);

/// The part of a listing that comes after the name `after`.
pub(crate) fn page<Name, T>(
    all: &BTreeMap<Name, Arc<T>>,
    after: Option<&str>,
    limit: usize,
    is_listed: impl Fn(&Name) -> bool,
) -> Page<T>
where
    Name: Ord + std::borrow::Borrow<str>,
{
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let listed = all.range::<str, _>((from, Bound::Unbounded)).filter(|(name, _)| is_listed(name));
    let mut listed = listed.peekable();
    let mut items = Vec::new();
    let mut last = None;
    while items.len() < limit
        && let Some((name, item)) = listed.next()
    {
        items.push(Arc::clone(item));
        last = Some(name.borrow().to_owned());
    }
    let next = if listed.peek().is_some() { last } else { None };
    (items, next)
}
