//! Who owns live subscriptions, and how many each gateway and tenant has.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::entries::Entries;
use crate::matching::Scope;
use crate::matching::slab::Slab;

/// A gateway that has subscriptions or an open stream.
#[derive(Debug)]
pub(super) struct Gateway {
    pub(super) name: Arc<str>,
    /// The slots of its subscriptions.
    pub(super) slots: Vec<u32>,
    /// Its open streams: while there is at least one, its subscriptions do not expire.
    pub(super) streams: u32,
}

/// Gateways, tenants and collections that own something.
#[derive(Debug, Default)]
pub(super) struct Owners {
    gateways: Slab<Gateway>,
    by_name: BTreeMap<Arc<str>, u32>,
    /// Number of subscriptions per tenant.
    tenants: BTreeMap<Arc<str>, usize>,
    /// Number of subscriptions per collection; each collection is stored once.
    scopes: HashMap<Arc<Scope>, u32>,
}

impl Owners {
    pub(super) fn find(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    pub(super) fn get(&self, number: u32) -> Option<&Gateway> {
        self.gateways.get(number)
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Gateway> {
        self.gateways.get_mut(number)
    }

    pub(super) fn gateway(&mut self, name: &str) -> u32 {
        if let Some(number) = self.find(name) {
            return number;
        }
        let name: Arc<str> = name.into();
        let gateway = Gateway { name: Arc::clone(&name), slots: Vec::new(), streams: 0 };
        let number = self.gateways.insert(gateway);
        self.by_name.insert(name, number);
        number
    }

    /// Forgets a gateway that owns nothing.
    pub(super) fn drop_if_idle(&mut self, number: u32) {
        let idle = |gateway: &Gateway| gateway.slots.is_empty() && gateway.streams == 0;
        if self.get(number).is_some_and(idle)
            && let Some(gateway) = self.gateways.remove(number)
        {
            self.by_name.remove(&gateway.name);
        }
    }

    /// Adds a slot to its gateway and returns its position in the list.
    pub(super) fn own(&mut self, number: u32, slot: u32) -> u32 {
        let Some(gateway) = self.gateways.get_mut(number) else { return 0 };
        gateway.slots.push(slot);
        u32::try_from(gateway.slots.len() - 1).unwrap_or(u32::MAX)
    }

    /// Removes a slot from its gateway. The last one in the list takes its place.
    pub(super) fn disown(&mut self, number: u32, place: u32, entries: &mut Entries) {
        let Some(gateway) = self.gateways.get_mut(number) else { return };
        if (place as usize) < gateway.slots.len() {
            gateway.slots.swap_remove(place as usize);
        }
        let moved = gateway.slots.get(place as usize).copied();
        if gateway.slots.len() * 4 < gateway.slots.capacity() {
            gateway.slots.shrink_to(gateway.slots.len() * 2);
        }
        if let Some(entry) = moved.and_then(|moved| entries.get_mut(moved)) {
            entry.place = place;
        }
        self.drop_if_idle(number);
    }

    pub(super) fn tenant_count(&self, tenant: &str) -> usize {
        self.tenants.get(tenant).copied().unwrap_or(0)
    }

    /// Adds a subscription to a collection, which is stored once.
    pub(super) fn join(&mut self, tenant: &str, collection: &str) -> Arc<Scope> {
        let name = match self.tenants.get_key_value(tenant) {
            Some((name, _)) => Arc::clone(name),
            None => tenant.into(),
        };
        *self.tenants.entry(Arc::clone(&name)).or_default() += 1;
        let scope = Scope { tenant: name, collection: collection.into() };
        let scope = match self.scopes.get_key_value(&scope) {
            Some((held, _)) => Arc::clone(held),
            None => Arc::new(scope),
        };
        *self.scopes.entry(Arc::clone(&scope)).or_default() += 1;
        scope
    }

    /// Removes a subscription from a collection.
    pub(super) fn leave(&mut self, scope: &Arc<Scope>) {
        if let Some(count) = self.tenants.get_mut(&scope.tenant) {
            *count -= 1;
            if *count == 0 {
                self.tenants.remove(&scope.tenant);
            }
        }
        if let Some(count) = self.scopes.get_mut(scope) {
            *count -= 1;
            if *count == 0 {
                self.scopes.remove(scope);
            }
        }
    }

    pub(super) fn by_gateway(&self) -> impl Iterator<Item = (&str, usize)> {
        let owned = |number: u32| self.get(number).map_or(0, |gateway| gateway.slots.len());
        self.by_name.iter().map(move |(name, number)| (&**name, owned(*number)))
    }

    pub(super) fn by_tenant(&self) -> impl Iterator<Item = (&str, usize)> {
        self.tenants.iter().map(|(name, count)| (&**name, *count))
    }
}
