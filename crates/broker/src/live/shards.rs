//! The index of live filters, sharded, each shard under its own lock.

use std::collections::HashMap;
use std::sync::Arc;

use domain::live::{Ended, Refusal, Registered, Spec};
use domain::matching::{Index, Placed, Scope, Summary, shard};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

/// Number of shards: a registration waits only for the matching of messages in its own shard.
const SHARDS: usize = 16;
/// Maximum number of summaries kept.
const SUMMARIES_MAX: usize = 1_024;

pub(super) struct Shards {
    shards: Vec<RwLock<Index>>,
    /// Recently requested summaries; valid until their version changes.
    summaries: Mutex<HashMap<Collection, Arc<Summary>>>,
}

/// A tenant and a collection.
type Collection = (Box<str>, Box<str>);

impl Default for Shards {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| RwLock::default()).collect();
        Self { shards, summaries: Mutex::default() }
    }
}

impl Shards {
    /// The shard of a collection. Never waited for while another one is locked.
    pub(super) fn of(&self, tenant: &str, collection: &str) -> &RwLock<Index> {
        // There are `SHARDS` of them, and the index is below that.
        &self.shards[shard(tenant, collection, SHARDS)]
    }

    fn of_scope(&self, scope: &Scope) -> &RwLock<Index> {
        self.of(&scope.tenant, &scope.collection)
    }

    /// Adds a subscription, and runs `then` before any message is matched against it.
    pub(super) fn insert<T>(
        &self,
        registered: &Registered,
        spec: &Spec,
        then: impl FnOnce() -> T,
    ) -> Result<(Placed, T), Refusal> {
        let mut index = self.of_scope(&registered.scope).write();
        let placed = index.insert(registered.handle.0, &registered.scope, spec.filter())?;
        Ok((placed, then()))
    }

    /// Removes an ended subscription.
    pub(super) fn remove(&self, ended: &Ended) {
        if let Some(group) = ended.group {
            self.of_scope(&ended.scope).write().remove(ended.handle.0, group);
        }
    }

    /// A group's filter; `None` = everything.
    pub(super) fn filter(&self, scope: &Scope, group: u32) -> Option<domain::filter::Expression> {
        self.of_scope(scope).read().filter(group)
    }

    /// What is wanted in a collection.
    pub(super) fn interest(&self, tenant: &str, collection: &str) -> Arc<Summary> {
        let index = self.of(tenant, collection).read();
        let version = index.interest_version(tenant, collection);
        let key = (Box::from(tenant), Box::from(collection));
        if let Some(kept) = self.summaries.lock().get(&key)
            && kept.version == version
        {
            return Arc::clone(kept);
        }
        let summary = Arc::new(index.interest(tenant, collection));
        drop(index);
        let mut summaries = self.summaries.lock();
        if summaries.len() >= SUMMARIES_MAX {
            summaries.clear();
        }
        summaries.insert(key, Arc::clone(&summary));
        summary
    }

    pub(super) fn interest_version(&self, scope: &Scope) -> u64 {
        self.of_scope(scope).read().interest_version(&scope.tenant, &scope.collection)
    }

    /// The collections with the most subscriptions, largest first.
    pub(super) fn largest(&self, count: usize) -> Vec<(Arc<Scope>, u32)> {
        let mut all: Vec<_> = self.all().flat_map(|index| index.largest(count)).collect();
        all.sort_unstable_by(|(one, more), (two, less)| less.cmp(more).then(one.cmp(two)));
        all.truncate(count);
        all
    }

    /// Number of different filters.
    pub(super) fn groups(&self) -> usize {
        self.all().map(|index| index.groups()).sum()
    }

    fn all(&self) -> impl Iterator<Item = RwLockReadGuard<'_, Index>> {
        self.shards.iter().map(|shard| shard.read())
    }
}
