//! Definitions in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::ready;
use parking_lot::Mutex;

use crate::catalogue::Recent;
use crate::{Catalogue, Change, Changes, Entry, Error, Future, Kind, Page, Result};

pub(super) struct Definitions {
    entries: Mutex<Entries>,
    recent: Arc<Recent>,
}

impl Default for Definitions {
    fn default() -> Self {
        Self { entries: Mutex::default(), recent: Arc::new(Recent::new(0)) }
    }
}

#[derive(Default)]
struct Entries {
    by_name: BTreeMap<(Kind, String), Entry>,
    last_id: u64,
    /// One counter of changes for all names, so that a recreated name never sees an old version.
    last_version: u64,
}

impl Entries {
    /// The entry, if it has that version.
    fn expect(&mut self, key: &(Kind, String), version: u64) -> Result<&mut Entry> {
        match self.by_name.get_mut(key) {
            None => Err(Error::NotFound),
            Some(entry) if entry.version != version => Err(Error::Conflict),
            Some(entry) => Ok(entry),
        }
    }

    fn create(&mut self, kind: Kind, name: &str, value: Bytes) -> Result<Entry> {
        let key = (kind, name.to_owned());
        if self.by_name.contains_key(&key) {
            return Err(Error::Conflict);
        }
        self.last_id += 1;
        self.last_version += 1;
        let (id, version, name) = (self.last_id, self.last_version, key.1.clone());
        let entry = Entry { kind, name, id, version, value };
        self.by_name.insert(key, entry.clone());
        Ok(entry)
    }

    fn replace(&mut self, kind: Kind, name: &str, value: Bytes, version: u64) -> Result<Entry> {
        let next = self.last_version + 1;
        let entry = self.expect(&(kind, name.to_owned()), version)?;
        entry.version = next;
        entry.value = value;
        let entry = entry.clone();
        self.last_version = next;
        Ok(entry)
    }
}

impl Catalogue for Definitions {
    fn get(&self, kind: Kind, name: &str) -> Future<Result<Entry>> {
        let key = (kind, name.to_owned());
        ready(self.entries.lock().by_name.get(&key).cloned().ok_or(Error::NotFound)).boxed()
    }

    fn list(&self, kind: Kind, after: Option<&str>, limit: usize) -> Future<Result<Page>> {
        let from = match after {
            Some(name) => Bound::Excluded((kind, name.to_owned())),
            None => Bound::Included((kind, String::new())),
        };
        let entries = self.entries.lock();
        let mut rest = entries.by_name.range((from, Bound::Unbounded));
        let of_kind = rest.by_ref().map(|(_, entry)| entry).take_while(|entry| entry.kind == kind);
        let mut found: Vec<_> = of_kind.take(limit.saturating_add(1)).cloned().collect();
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|entry| entry.name.clone());
        ready(Ok(Page { entries: found, next })).boxed()
    }

    fn put(
        &self,
        kind: Kind,
        name: &str,
        value: Bytes,
        version: Option<u64>,
    ) -> Future<Result<Entry>> {
        let mut entries = self.entries.lock();
        let result = match version {
            None => entries.create(kind, name, value),
            Some(version) => entries.replace(kind, name, value, version),
        };
        if let Ok(entry) = &result {
            self.recent.note(entry.version, Change::Put(entry.clone()));
        }
        ready(result).boxed()
    }

    fn delete(&self, kind: Kind, name: &str, version: u64) -> Future<Result<()>> {
        let mut entries = self.entries.lock();
        let key = (kind, name.to_owned());
        let id = match entries.expect(&key, version) {
            Ok(entry) => entry.id,
            Err(error) => return ready(Err(error)).boxed(),
        };
        entries.by_name.remove(&key);
        entries.last_version += 1;
        let deleted = Change::Deleted { kind, name: key.1, id };
        self.recent.note(entries.last_version, deleted);
        ready(Ok(())).boxed()
    }

    fn serial(&self) -> Future<Result<u64>> {
        ready(Ok(self.recent.serial())).boxed()
    }

    fn changes(&self, after: u64) -> Changes {
        self.recent.changes(after)
    }
}
