//! Which live subscriptions a message matches: an exact index.
//!
//! ```text
//! (tenant, collection) ─► root bucket     no filter; bounds; the few that have to be run
//!        and path, value ─► bucket        those that need this value: nothing more, a bound more,
//!                                         or to be run
//! bucket ─► group                         identical filters are one group
//! group ─► subscriptions
//! ```
//!
//! A message is looked up in the root bucket of its collection and in one bucket for each of its
//! fields that some filter names. A group found there either matches already (an equality alone, or
//! with one bound), or its program is run, once per group. Filters that no equality or bound leads
//! to are run for every message of their collection: at most `RESIDUAL_MAX` of them. The first few
//! groups of a collection, and of a bucket, are also just run, because that is as fast as looking
//! further and takes less memory.
//!
//! Collections share nothing except the numbers of fields. `Index` is the unit to lock: spread
//! collections over several by `shard`, so that a registration waits for the matching of one
//! message at most.

mod bucket;
mod filing;
mod ids;
mod interest;
mod paths;
pub(crate) mod plan;
mod program;
mod scratch;
pub(crate) mod slab;
mod thresholds;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;

pub(crate) use interest::fold;
pub use interest::{
    BLOOM_BITS_PER_KEY, BLOOM_HASHES, EXACT_KEYS_MAX, Interest, Summary, key_of, keys_of,
};
pub use scratch::{Scratch, Subject};

use crate::filter::{Expression, ScalarRef, Seen};
use crate::message::Malformed;
use bucket::{Bucket, Group};
use paths::Paths;
use plan::Plan;
use slab::Slab;

/// Maximum number of different filters of one collection that no value or bound leads to.
pub const RESIDUAL_MAX: u32 = 1_000;

/// A tenant's collection: what a live subscription listens to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// Nothing ever crosses from one tenant to another.
    pub tenant: Arc<str>,
    /// Compared as a whole: there are no patterns.
    pub collection: Box<str>,
}

/// Filters by what they require, and the subscriptions that have them. Subscriptions are identified
/// by the caller's numbers.
#[derive(Clone, Debug)]
pub struct Index {
    hasher: RandomState,
    paths: Paths,
    scopes: Slab<Collection>,
    by_scope: HashTable<u32>,
    buckets: Slab<Bucket>,
    by_value: HashTable<u32>,
    groups: Slab<Group>,
    by_program: HashTable<u32>,
    subscriptions: usize,
    /// Increases whenever what is wanted changes, in any collection.
    version: u64,
}

#[derive(Clone, Debug)]
struct Collection {
    scope: Arc<Scope>,
    /// Its bucket for filters that require no certain value.
    root: u32,
    groups: u32,
    /// Groups that test the data.
    data_groups: u32,
    residual: u32,
    /// Buckets other than the root.
    buckets: u32,
    subscriptions: u32,
    version: u64,
}

/// Where a subscription was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Pass this back to remove the subscription.
    pub group: u32,
    /// Whether the filter can be found by a value or a bound. If not, it is run for every message.
    pub indexed: bool,
    /// Version of what is wanted in the collection, including this subscription.
    pub interest_version: u64,
}

/// The collection already has `RESIDUAL_MAX` different filters that no value or bound leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this collection has {RESIDUAL_MAX} different filters without an equality or a bound; add one"
)]
pub struct TooComplex;

/// Other findings of a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matched {
    /// Filters of the collection test the data, and it is not JSON.
    pub unreadable: bool,
}

impl Default for Index {
    fn default() -> Self {
        let hasher = RandomState::new();
        Self {
            paths: Paths::new(hasher.clone()),
            hasher,
            scopes: Slab::default(),
            by_scope: HashTable::new(),
            buckets: Slab::default(),
            by_value: HashTable::new(),
            groups: Slab::default(),
            by_program: HashTable::new(),
            subscriptions: 0,
            version: 0,
        }
    }
}

impl Index {
    /// Adds a subscription, which must not be in the index; `filter` is canonical, `None` =
    /// everything.
    pub fn insert(
        &mut self,
        subscription: u32,
        scope: &Arc<Scope>,
        filter: Option<&Expression>,
    ) -> Result<Placed, TooComplex> {
        let plan = Plan::new(filter);
        let number = self.collection_for(scope);
        let program = program::write(filter, plan.flags, &mut self.paths);
        let group = match self.find_group(number, &program) {
            Some(group) => {
                self.release_paths(&program);
                group
            }
            None if !plan.is_indexed() && self.is_full(number) => {
                self.release_paths(&program);
                self.drop_if_empty(number);
                return Err(TooComplex);
            }
            None => self.add_group(number, program, &plan),
        };
        self.join(subscription, group);
        self.subscriptions += 1;
        let interest_version = self.scopes.get_mut(number).map_or(0, |collection| {
            collection.subscriptions += 1;
            collection.version
        });
        Ok(Placed { group, indexed: plan.is_indexed(), interest_version })
    }

    /// Removes a subscription that was put into `group`. Returns whether it was there.
    pub fn remove(&mut self, subscription: u32, group: u32) -> bool {
        if !self.leave(subscription, group) {
            return false;
        }
        self.subscriptions -= 1;
        let Some(Group { scope, .. }) = self.groups.get(group) else { return false };
        let scope = *scope;
        if let Some(collection) = self.scopes.get_mut(scope) {
            collection.subscriptions -= 1;
        }
        if self.groups.get(group).is_some_and(|group| group.subscriptions.as_slice().is_empty()) {
            self.remove_group(group);
            self.drop_if_empty(scope);
        }
        true
    }

    /// Appends the matching subscriptions to `out`, each once, in no particular order.
    pub fn matches(
        &self,
        tenant: &str,
        collection: &str,
        subject: Subject<'_>,
        scratch: &mut Scratch,
        out: &mut Vec<u32>,
    ) -> Result<Matched, Malformed> {
        let Some(number) = self.find_scope(tenant, collection) else {
            return Ok(Matched::default());
        };
        let Some(collection) = self.scopes.get(number) else { return Ok(Matched::default()) };
        let needs_data = collection.data_groups > 0;
        scratch.look(&self.paths, subject, needs_data)?;
        self.visit(collection.root, subject, scratch, out);
        if collection.buckets > 0 {
            for at in 0..scratch.found.len() {
                if let Some(bucket) = self.bucket_of_field(number, at, subject, scratch) {
                    self.visit(bucket, subject, scratch, out);
                }
            }
        }
        Ok(Matched { unreadable: needs_data && !scratch.is_readable() })
    }

    /// The filter of a group, in its canonical form; `None` = everything, or no such group.
    pub fn filter(&self, group: u32) -> Option<Expression> {
        program::read(&self.groups.get(group)?.program, &self.paths)
    }

    /// Number of subscriptions.
    pub fn len(&self) -> usize {
        self.subscriptions
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.subscriptions == 0
    }

    /// Different filters, counted per collection.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// The collections with the most subscriptions, largest first, at most `count` of them.
    pub fn largest(&self, count: usize) -> Vec<(Arc<Scope>, u32)> {
        let mut all: Vec<_> =
            self.scopes.iter().map(|(_, held)| (held.subscriptions, &held.scope)).collect();
        all.sort_unstable_by(|one, two| two.cmp(one));
        all.into_iter().take(count).map(|(held, scope)| (Arc::clone(scope), held)).collect()
    }

    /// The bucket for the value of the message's field at this position among those found.
    fn bucket_of_field(
        &self,
        scope: u32,
        at: usize,
        subject: Subject<'_>,
        scratch: &mut Scratch,
    ) -> Option<u32> {
        let path = scratch.found.get(at).copied()?;
        let mut key = std::mem::take(&mut scratch.key);
        key.clear();
        let value = match scratch.view(subject).get(path) {
            Some(Seen::Null) => Some(ScalarRef::Null),
            Some(Seen::Bool(bool)) => Some(ScalarRef::Bool(bool)),
            Some(Seen::Number(number)) => Some(ScalarRef::Number(number)),
            Some(Seen::Text(text)) => Some(ScalarRef::Text(text)),
            Some(Seen::List(_) | Seen::Object) | None => None,
        };
        if let Some(value) = value {
            program::put_scalar(value, &mut key);
        }
        let bucket = value.and_then(|_| self.find_bucket(scope, path, &key));
        scratch.key = key;
        bucket
    }

    fn visit(&self, bucket: u32, subject: Subject<'_>, scratch: &mut Scratch, out: &mut Vec<u32>) {
        let Some(bucket) = self.buckets.get(bucket) else { return };
        if let Some(group) = self.groups.get(bucket.exact) {
            out.extend_from_slice(group.subscriptions.as_slice());
        }
        for &group in bucket.checked.as_slice() {
            self.check(group, subject, scratch, out);
        }
        for list in bucket.thresholds() {
            let Some(seen) = scratch.view(subject).get(list.kind.path) else { continue };
            if list.kind.exact {
                list.met(seen).for_each(|run| out.extend_from_slice(run));
                continue;
            }
            // Groups filed by a bound are filed only once, so none can be met twice.
            let look = scratch.view(subject);
            for &group in list.met(seen).flatten() {
                if let Some(group) = self.groups.get(group)
                    && program::run(&group.program, &look)
                {
                    out.extend_from_slice(group.subscriptions.as_slice());
                }
            }
        }
    }

    fn check(&self, group: u32, subject: Subject<'_>, scratch: &mut Scratch, out: &mut Vec<u32>) {
        let Some(held) = self.groups.get(group) else { return };
        let several = held.program.first().is_some_and(|flags| flags & program::SEVERAL != 0);
        if several && !scratch.meet(group) {
            return;
        }
        if program::run(&held.program, &scratch.view(subject)) {
            out.extend_from_slice(held.subscriptions.as_slice());
        }
    }

    fn find_scope(&self, tenant: &str, collection: &str) -> Option<u32> {
        let is = |held: &u32| {
            self.scopes.get(*held).is_some_and(|held| {
                *held.scope.tenant == *tenant && *held.scope.collection == *collection
            })
        };
        self.by_scope.find(self.hasher.hash_one((tenant, collection)), is).copied()
    }

    fn find_bucket(&self, scope: u32, path: u32, value: &[u8]) -> Option<u32> {
        let is = |held: &u32| {
            self.buckets.get(*held).is_some_and(|held| {
                held.scope == scope && held.path == path && *held.value == *value
            })
        };
        self.by_value.find(self.hasher.hash_one((scope, path, value)), is).copied()
    }

    fn find_group(&self, scope: u32, program: &[u8]) -> Option<u32> {
        let is = |held: &u32| {
            let held = self.groups.get(*held);
            held.is_some_and(|held| held.scope == scope && *held.program == *program)
        };
        self.by_program.find(self.hasher.hash_one((scope, program)), is).copied()
    }

    fn is_full(&self, scope: u32) -> bool {
        self.scopes.get(scope).is_some_and(|collection| collection.residual >= RESIDUAL_MAX)
    }
}

/// Which of this many indexes a collection belongs to.
pub fn shard(tenant: &str, collection: &str, shards: usize) -> usize {
    let hash = fold(tenant.bytes().chain([0]).chain(collection.bytes()));
    usize::try_from(hash % shards.max(1) as u64).unwrap_or(0)
}
