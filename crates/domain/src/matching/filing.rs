//! Files groups where messages find them, and removes them again.

use std::hash::BuildHasher;
use std::sync::Arc;

use super::bucket::{Bucket, Filing, Filings, Group, NONE, ROOT, Spot};
use super::ids::Set;
use super::plan::{Alternative, Plan};
use super::program::{self, NEEDS_DATA, RESIDUAL};
use super::thresholds::{self, Bound, Kind};
use super::{Collection, Index, Scope};
use crate::filter::{Field, Scalar};

/// How many groups a bucket runs before it files more of them by a value or a bound.
const RUN_FIRST: usize = 4;

impl Index {
    /// The number of a collection, created if missing.
    pub(super) fn collection_for(&mut self, scope: &Arc<Scope>) -> u32 {
        if let Some(number) = self.find_scope(&scope.tenant, &scope.collection) {
            return number;
        }
        let number = self.scopes.insert(Collection {
            scope: Arc::clone(scope),
            root: NONE,
            groups: 0,
            data_groups: 0,
            residual: 0,
            buckets: 0,
            subscriptions: 0,
            version: self.version,
        });
        let root = self.buckets.insert(Bucket::new(number, ROOT, &[]));
        if let Some(collection) = self.scopes.get_mut(number) {
            collection.root = root;
        }
        let Self { hasher, scopes, by_scope, .. } = self;
        let hash = |scope: &Scope| hasher.hash_one((&*scope.tenant, &*scope.collection));
        by_scope.insert_unique(hash(scope), number, |held| {
            scopes.get(*held).map_or(0, |held| hash(&held.scope))
        });
        number
    }

    /// Forgets a collection without groups.
    pub(super) fn drop_if_empty(&mut self, scope: u32) {
        if self.scopes.get(scope).is_none_or(|collection| collection.groups > 0) {
            return;
        }
        if let Some(collection) = self.scopes.remove(scope) {
            self.buckets.remove(collection.root);
            let Scope { tenant, collection } = &*collection.scope;
            let hash = self.hasher.hash_one((&**tenant, &**collection));
            if let Ok(entry) = self.by_scope.find_entry(hash, |held| *held == scope) {
                entry.remove();
            }
        }
    }

    /// Files a group that is not in the index, still without subscriptions.
    pub(super) fn add_group(&mut self, scope: u32, program: Vec<u8>, plan: &Plan<'_>) -> u32 {
        let flags = program.first().copied().unwrap_or_default();
        let hash = self.hasher.hash_one((scope, program.as_slice()));
        let nowhere = Filings::Several(Box::default());
        let group = Group {
            scope,
            program: program.into_boxed_slice(),
            subscriptions: Set::default(),
            filings: nowhere,
        };
        let number = self.groups.insert(group);
        let Self { hasher, groups, by_program, .. } = self;
        by_program.insert_unique(hash, number, |held| {
            groups.get(*held).map_or(0, |held| hasher.hash_one((held.scope, &*held.program)))
        });
        self.count_group(scope, flags, 1);
        let filings = self.file(scope, number, plan);
        if let Some(group) = self.groups.get_mut(number) {
            group.filings = Filings::new(filings);
        }
        number
    }

    /// Adds (1) or subtracts (−1) one group.
    fn count_group(&mut self, scope: u32, flags: u8, by: i32) {
        self.version += 1;
        let Some(collection) = self.scopes.get_mut(scope) else { return };
        collection.version = self.version;
        collection.groups = collection.groups.saturating_add_signed(by);
        if flags & NEEDS_DATA != 0 {
            collection.data_groups = collection.data_groups.saturating_add_signed(by);
        }
        if flags & RESIDUAL != 0 {
            collection.residual = collection.residual.saturating_add_signed(by);
        }
    }

    fn file(&mut self, scope: u32, group: u32, plan: &Plan<'_>) -> Vec<Filing> {
        let Some(collection) = self.scopes.get(scope) else { return Vec::new() };
        let root = collection.root;
        let residual = collection.residual as usize;
        let run = self.buckets.get(root).map_or(0, |root| root.checked.as_slice().len());
        let few = plan.is_indexed() && run < residual + RUN_FIRST;
        match plan.alternatives.as_slice() {
            [only] if only.terms == 0 => vec![self.file_exact(root, group)],
            _ if few || !plan.is_indexed() => vec![self.file_checked(root, group)],
            [only] => self.file_alternative(scope, root, group, only),
            several => {
                let mut filings: Vec<Filing> = Vec::new();
                for alternative in several {
                    for bucket in self.buckets_for(scope, alternative) {
                        if !filings.iter().any(|filing| filing.bucket == bucket) {
                            filings.push(self.file_checked(bucket, group));
                        }
                    }
                }
                filings
            }
        }
    }

    fn file_alternative(
        &mut self,
        scope: u32,
        root: u32,
        group: u32,
        alternative: &Alternative<'_>,
    ) -> Vec<Filing> {
        let buckets = self.buckets_for(scope, alternative);
        match buckets.as_slice() {
            // No equality: file it by its bound.
            [] => vec![self.file_bound(root, group, alternative.terms == 1)],
            [only] => {
                let run = self.buckets.get(*only).map_or(0, |held| held.checked.as_slice().len());
                let single = alternative.equalities.iter().all(|(_, values)| values.len() == 1);
                let filing = match alternative.ordered {
                    None if alternative.terms == 1 => self.file_exact(*only, group),
                    Some(_) if run >= RUN_FIRST => {
                        let exact = single && alternative.terms == 2;
                        self.file_bound(*only, group, exact)
                    }
                    _ => self.file_checked(*only, group),
                };
                vec![filing]
            }
            several => several.iter().map(|bucket| self.file_checked(*bucket, group)).collect(),
        }
    }

    /// The buckets of the equality that leads to the fewest groups so far.
    fn buckets_for(&mut self, scope: u32, alternative: &Alternative<'_>) -> Vec<u32> {
        // The group's program contains the fields, so they are known.
        let filed = |(field, values): &(&Field, &[Scalar])| -> u64 {
            let path = self.paths.lookup(field).unwrap_or(ROOT);
            let filed = values.iter().map(|value| {
                let bucket = self.find_bucket(scope, path, &encoded(value));
                bucket.and_then(|bucket| self.buckets.get(bucket)).map_or(0, |held| held.filed)
            });
            filed.map(|filed| u64::from(filed) + 1).sum()
        };
        let fewest = alternative.equalities.iter().copied().min_by_key(filed);
        let Some((field, values)) = fewest else { return Vec::new() };
        let Some(path) = self.paths.lookup(field) else { return Vec::new() };
        values.iter().map(|value| self.bucket_for(scope, path, &encoded(value))).collect()
    }

    fn bucket_for(&mut self, scope: u32, path: u32, value: &[u8]) -> u32 {
        if let Some(bucket) = self.find_bucket(scope, path, value) {
            return bucket;
        }
        let number = self.buckets.insert(Bucket::new(scope, path, value));
        let hash = self.hasher.hash_one((scope, path, value));
        let Self { hasher, buckets, by_value, .. } = self;
        by_value.insert_unique(hash, number, |held| {
            buckets
                .get(*held)
                .map_or(0, |held| hasher.hash_one((held.scope, held.path, &*held.value)))
        });
        if let Some(collection) = self.scopes.get_mut(scope) {
            collection.buckets += 1;
        }
        number
    }

    fn file_exact(&mut self, bucket: u32, group: u32) -> Filing {
        if let Some(held) = self.buckets.get_mut(bucket) {
            assert_eq!(held.exact, NONE, "two different filters cannot say the same");
            held.exact = group;
            held.filed += 1;
        }
        Filing { bucket, spot: Spot::Exact }
    }

    fn file_checked(&mut self, bucket: u32, group: u32) -> Filing {
        let place = self.buckets.get_mut(bucket).map_or(0, |held| {
            held.filed += 1;
            held.checked.push(group)
        });
        Filing { bucket, spot: Spot::Checked(place) }
    }

    /// Each subscription of an exact bound is added there when it joins the group.
    fn file_bound(&mut self, bucket: u32, group: u32, exact: bool) -> Filing {
        if let Some(held) = self.buckets.get_mut(bucket) {
            held.filed += 1;
            if !exact && let Some((kind, bound)) = bound_of(&self.groups, group, exact) {
                held.insert_bound(kind, bound, group);
            }
        }
        Filing { bucket, spot: Spot::Bound(exact) }
    }

    /// Adds a subscription to a group.
    pub(super) fn join(&mut self, subscription: u32, group: u32) {
        if let Some((bucket, kind, bound)) = self.own_bound(group)
            && let Some(bucket) = self.buckets.get_mut(bucket)
        {
            bucket.insert_bound(kind, bound, subscription);
        }
        if let Some(group) = self.groups.get_mut(group) {
            group.subscriptions.insert(subscription);
        }
    }

    /// Removes a subscription from a group, if it is in it.
    pub(super) fn leave(&mut self, subscription: u32, group: u32) -> bool {
        let Some(held) = self.groups.get_mut(group) else { return false };
        if !held.subscriptions.remove(subscription) {
            return false;
        }
        if let Some((bucket, kind, bound)) = self.own_bound(group)
            && let Some(bucket) = self.buckets.get_mut(bucket)
        {
            bucket.remove_bound(kind, &bound, subscription);
        }
        true
    }

    /// Where a group's subscriptions are filed separately, if they are.
    fn own_bound(&self, group: u32) -> Option<(u32, Kind, Bound)> {
        let filing = self.groups.get(group)?.filings.as_slice().first()?;
        if filing.spot != Spot::Bound(true) {
            return None;
        }
        bound_of(&self.groups, group, true).map(|(kind, bound)| (filing.bucket, kind, bound))
    }

    /// Removes a group that has no subscriptions.
    pub(super) fn remove_group(&mut self, number: u32) {
        let Some(group) = self.groups.get(number) else { return };
        let hash = self.hasher.hash_one((group.scope, &*group.program));
        for at in 0..group.filings.as_slice().len() {
            self.take_out(number, at);
        }
        if let Ok(entry) = self.by_program.find_entry(hash, |held| *held == number) {
            entry.remove();
        }
        if let Some(group) = self.groups.remove(number) {
            self.count_group(group.scope, group.program.first().copied().unwrap_or_default(), -1);
            self.release_paths(&group.program);
        }
    }

    fn take_out(&mut self, group: u32, at: usize) {
        let filing = self.groups.get(group).and_then(|held| held.filings.as_slice().get(at));
        let Some(&Filing { bucket, spot }) = filing else { return };
        let bound = bound_of(&self.groups, group, false);
        let Some(held) = self.buckets.get_mut(bucket) else { return };
        held.filed -= 1;
        match spot {
            Spot::Exact => held.exact = NONE,
            Spot::Bound(true) => {}
            Spot::Bound(false) => {
                if let Some((kind, bound)) = bound {
                    held.remove_bound(kind, &bound, group);
                }
            }
            Spot::Checked(place) => {
                let moved = held.checked.swap_remove(place);
                let from = u32::try_from(held.checked.as_slice().len()).unwrap_or(u32::MAX);
                if let Some(moved) = moved.and_then(|moved| self.groups.get_mut(moved)) {
                    moved.filings.moved(bucket, from, place);
                }
            }
        }
        self.drop_bucket_if_empty(bucket);
    }

    fn drop_bucket_if_empty(&mut self, bucket: u32) {
        let Some(held) = self.buckets.get(bucket) else { return };
        if held.filed > 0 || held.path == ROOT {
            return;
        }
        let hash = self.hasher.hash_one((held.scope, held.path, &*held.value));
        if let Some(collection) = self.scopes.get_mut(held.scope) {
            collection.buckets -= 1;
        }
        if let Ok(entry) = self.by_value.find_entry(hash, |held| *held == bucket) {
            entry.remove();
        }
        self.buckets.remove(bucket);
    }

    pub(super) fn release_paths(&mut self, program: &[u8]) {
        for path in program::paths(program) {
            self.paths.release(path);
        }
    }
}

/// The bound that a group is filed by.
fn bound_of(groups: &super::slab::Slab<Group>, group: u32, exact: bool) -> Option<(Kind, Bound)> {
    let (path, order, value) = program::first_ordered(&groups.get(group)?.program)?;
    Some(thresholds::bound(path, order, value, exact))
}

fn encoded(value: &Scalar) -> Vec<u8> {
    let mut bytes = Vec::new();
    program::put_scalar(value.borrow(), &mut bytes);
    bytes
}
