//! The live subscriptions themselves, by number and by id.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashTable;

use crate::matching::Scope;
use crate::matching::slab::Slab;
use crate::time::{Moment, Timestamp};

/// The number of a live subscription, as the index knows it.
///
/// Part of it changes each time a slot is reused, and slots rest before reuse: a slightly late
/// lookup finds nothing, never another subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u32);

/// The bits of a handle that hold the slot; the others count how often it was used.
const SLOT_BITS: u32 = 20;
const _: () = assert!(crate::limits::LIVE_SUBSCRIPTIONS_MAX + RESTING_MIN < 1 << SLOT_BITS);
/// How many slots rest before one is reused.
const RESTING_MIN: usize = 1_024;

/// One live subscription.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) id: Box<str>,
    pub(super) scope: Arc<Scope>,
    /// The hash of the canonical filter: enough to tell whether its owner registers the same again.
    /// The filter itself is in the index.
    pub(super) content: u64,
    pub(super) created: Timestamp,
    /// When it expires without a heartbeat. Moved later without telling the wheel.
    pub(super) deadline: Moment,
    pub(super) gateway: u32,
    /// Its position in its gateway's list.
    pub(super) place: u32,
    /// Where the index has put it.
    pub(super) group: u32,
    pub(super) ttl_s: u16,
    pub(super) listed: bool,
    pub(super) indexed: bool,
    pub(super) active: bool,
}

impl Entry {
    pub(super) fn ttl(&self) -> Duration {
        Duration::from_secs(u64::from(self.ttl_s))
    }
}

#[derive(Debug, Default)]
pub(super) struct Entries {
    hasher: RandomState,
    slots: Slab<Slot>,
    by_id: HashTable<u32>,
    /// Resting slots, longest resting first.
    resting: VecDeque<u32>,
}

#[derive(Debug)]
struct Slot {
    /// How often the slot was used before.
    generation: u16,
    entry: Option<Entry>,
}

impl Entries {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Adds an entry whose id must not exist yet.
    pub(super) fn insert(&mut self, entry: Entry) -> u32 {
        let hash = self.hasher.hash_one(&*entry.id);
        let rested = if self.resting.len() > RESTING_MIN { self.resting.pop_front() } else { None };
        let slot = match rested.and_then(|slot| self.slots.get_mut(slot).map(|held| (slot, held))) {
            Some((slot, held)) => {
                held.entry = Some(entry);
                slot
            }
            None => self.slots.insert(Slot { generation: 0, entry: Some(entry) }),
        };
        let Self { hasher, slots, by_id, .. } = self;
        by_id.insert_unique(hash, slot, |held| {
            let held = slots.get(*held).and_then(|held| held.entry.as_ref());
            held.map_or(0, |held| hasher.hash_one(&*held.id))
        });
        slot
    }

    pub(super) fn remove(&mut self, slot: u32) -> Option<Entry> {
        let held = self.slots.get_mut(slot)?;
        let entry = held.entry.take()?;
        held.generation = held.generation.wrapping_add(1);
        self.resting.push_back(slot);
        let hash = self.hasher.hash_one(&*entry.id);
        if let Ok(found) = self.by_id.find_entry(hash, |held| *held == slot) {
            found.remove();
        }
        Some(entry)
    }

    pub(super) fn find(&self, id: &str) -> Option<u32> {
        let is = |slot: &u32| self.get(*slot).is_some_and(|entry| *entry.id == *id);
        self.by_id.find(self.hasher.hash_one(id), is).copied()
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Entry> {
        self.slots.get(slot)?.entry.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Entry> {
        self.slots.get_mut(slot)?.entry.as_mut()
    }

    /// All entries from this slot on.
    pub(super) fn from(&self, slot: u32) -> impl Iterator<Item = (u32, &Entry)> {
        let last = u32::try_from(self.slots.bound()).unwrap_or(u32::MAX);
        (slot..last).filter_map(|slot| self.get(slot).map(|entry| (slot, entry)))
    }

    pub(super) fn handle(&self, slot: u32) -> Handle {
        let generation = self.slots.get(slot).map_or(0, |held| u32::from(held.generation));
        Handle(generation << SLOT_BITS | slot)
    }

    /// The slot of a handle, if it still belongs to the same subscription.
    pub(super) fn slot(&self, handle: Handle) -> Option<u32> {
        let slot = handle.0 & ((1 << SLOT_BITS) - 1);
        (self.handle(slot) == handle && self.get(slot).is_some()).then_some(slot)
    }
}
