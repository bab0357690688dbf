//! Reading live subscriptions, without renewing any.

use std::sync::Arc;
use std::time::Duration;

use super::entries::Entry;
use super::{Handle, Refusal, Registry};
use crate::limits::PAGE_SIZE_MAX;
use crate::matching::Scope;
use crate::time::{Now, Timestamp};

/// One live subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Its id.
    pub id: String,
    /// The gateway that owns it.
    pub gateway: Arc<str>,
    /// What it listens to.
    pub scope: Arc<Scope>,
    /// Where it is in the index: `Index::filter` has its filter.
    pub group: u32,
    /// Whether the filter was given as a list, and is shown as one.
    pub listed: bool,
    /// Whether the filter can be found by a value or a bound.
    pub indexed: bool,
    /// Its own TTL.
    pub ttl: Duration,
    /// Whether a heartbeat or an open stream has been seen.
    pub active: bool,
    /// When it was registered.
    pub created: Timestamp,
    /// When it expires without a heartbeat.
    pub expires: Timestamp,
}

/// A subscription and its gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned<'registry> {
    /// The subscription's id.
    pub id: &'registry str,
    /// The gateway's number, which is reused after the gateway is gone.
    pub gateway: u32,
    /// The gateway.
    pub name: &'registry Arc<str>,
}

/// Which subscriptions to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Only those of this gateway.
    pub gateway: Option<String>,
    /// Only those of this tenant.
    pub tenant: Option<String>,
    /// Only those of this collection.
    pub collection: Option<String>,
    /// Maximum number to list; 0 or more than `PAGE_SIZE_MAX` = that many.
    pub page_size: usize,
    /// Where the previous page ended; `None` = the first page.
    pub after: Option<u32>,
}

/// One page of results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// In slot order. One that exists the whole time is on exactly one page.
    pub subscriptions: Vec<View>,
    /// Where the next page begins; `None` = this was the last.
    pub next: Option<u32>,
}

/// How many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Registered or active.
    pub total: usize,
    /// Of these, the ones with a heartbeat or an open stream.
    pub active: usize,
    /// Expired ones that are remembered.
    pub expired: usize,
}

impl Registry {
    /// One subscription.
    pub fn get(&self, now: Now, id: &str) -> Result<View, Refusal> {
        let slot = self.find(now, id)?;
        let view = self.entries.get(slot).map(|entry| self.view(slot, entry, now));
        view.ok_or_else(|| Refusal::NotFound(id.to_owned()))
    }

    /// Subscriptions in pages. With a gateway given, only its own are scanned.
    pub fn list(&self, now: Now, query: &Query) -> Page {
        let size = match query.page_size {
            0 => PAGE_SIZE_MAX,
            size => size.min(PAGE_SIZE_MAX),
        };
        let first = query.after.map_or(0, |after| after.saturating_add(1));
        // One more than wanted shows whether there are more.
        let is_wanted = |slot: &u32| self.is_wanted(*slot, now, query);
        let mut found: Vec<u32> = match &query.gateway {
            Some(gateway) => self
                .of_gateway(gateway, first)
                .into_iter()
                .filter(is_wanted)
                .take(size + 1)
                .collect(),
            None => {
                let slots = self.entries.from(first).map(|(slot, _)| slot);
                slots.filter(is_wanted).take(size + 1).collect()
            }
        };
        let more = found.len() > size;
        found.truncate(size);
        let next = if more { found.last().copied() } else { None };
        let view = |slot: &u32| Some(self.view(*slot, self.entries.get(*slot)?, now));
        Page { subscriptions: found.iter().filter_map(view).collect(), next }
    }

    fn of_gateway(&self, gateway: &str, first: u32) -> Vec<u32> {
        let number = self.owners.find(gateway);
        let slots = number.and_then(|number| self.owners.get(number)).map(|held| &held.slots);
        let mut slots: Vec<u32> = slots.cloned().unwrap_or_default();
        slots.retain(|slot| *slot >= first);
        slots.sort_unstable();
        slots
    }

    fn is_wanted(&self, slot: u32, now: Now, query: &Query) -> bool {
        let is = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|name| name == is);
        !self.is_over(slot, now.moment)
            && self.entries.get(slot).is_some_and(|entry| {
                is(&query.tenant, &entry.scope.tenant)
                    && is(&query.collection, &entry.scope.collection)
            })
    }

    /// The owner of a subscription that the index found; `None` = it has ended since.
    pub fn resolve(&self, handle: Handle) -> Option<Owned<'_>> {
        let entry = self.entries.get(self.entries.slot(handle)?)?;
        let name = &self.owners.get(entry.gateway)?.name;
        Some(Owned { id: &entry.id, gateway: entry.gateway, name })
    }

    /// The shared copy of a gateway's name; `None` = it has neither subscriptions nor a stream.
    pub fn gateway(&self, name: &str) -> Option<&Arc<str>> {
        self.owners.get(self.owners.find(name)?).map(|held| &held.name)
    }

    /// How many subscriptions a gateway has.
    pub fn of_one_gateway(&self, name: &str) -> usize {
        let number = self.owners.find(name);
        number.and_then(|number| self.owners.get(number)).map_or(0, |held| held.slots.len())
    }

    /// How many subscriptions there are.
    pub fn counts(&self) -> Counts {
        Counts { total: self.entries.len(), active: self.active, expired: self.expired.len() }
    }

    /// Number of subscriptions per gateway, by name. One with an open stream may have none.
    pub fn by_gateway(&self) -> impl Iterator<Item = (&str, usize)> {
        self.owners.by_gateway()
    }

    /// Number of subscriptions per tenant, by name.
    pub fn by_tenant(&self) -> impl Iterator<Item = (&str, usize)> {
        self.owners.by_tenant()
    }

    fn view(&self, slot: u32, entry: &Entry, now: Now) -> View {
        let gateway = self.owners.get(entry.gateway).map(|held| Arc::clone(&held.name));
        View {
            id: entry.id.to_string(),
            gateway: gateway.unwrap_or_else(|| "".into()),
            scope: Arc::clone(&entry.scope),
            group: entry.group,
            listed: entry.listed,
            indexed: entry.indexed,
            ttl: entry.ttl(),
            active: entry.active,
            created: entry.created,
            expires: self.expires(slot, now),
        }
    }
}
