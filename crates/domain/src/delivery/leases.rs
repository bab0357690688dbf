//! The leases of one subscription, by offset and by deadline.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::ConsumerId;
use super::lane::LaneId;
use super::wheel::Wheel;
use crate::offset::{Offset, OffsetRange};
use crate::time::{Moment, Timestamp};

/// A record handed to a consumer until its deadline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) offset: Offset,
    /// The number in the ack id.
    pub(super) lease: u64,
    pub(super) deadline: Moment,
    pub(super) consumer: ConsumerId,
    /// Size of the record's body.
    pub(super) bytes: u32,
    /// Deliveries before this one.
    pub(super) failed: u32,
    pub(super) publish_time: Timestamp,
    pub(super) way: Way,
}

/// How a leased record is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Freely,
    InLane(LaneId),
    /// It was leased before the ordering changed, and its lane is not known yet.
    Adrift,
}

impl Way {
    pub(super) fn lane(self) -> Option<LaneId> {
        match self {
            Self::InLane(lane) => Some(lane),
            Self::Freely | Self::Adrift => None,
        }
    }
}

impl From<Option<LaneId>> for Way {
    fn from(lane: Option<LaneId>) -> Self {
        lane.map_or(Self::Freely, Self::InLane)
    }
}

/// All leases that have not ended. At most one per offset.
#[derive(Debug, Default)]
pub(super) struct Leases {
    /// Vacant slots still contain their ended leases.
    slots: Vec<Held>,
    vacant: Vec<u32>,
    by_offset: HashMap<Offset, u32, BuildHasherDefault<OffsetHasher>>,
    /// Contains every lease, at its deadline or earlier.
    wheel: Wheel,
}

/// Above this many slots, memory is released when the last lease ends.
const SLOTS_KEPT: usize = 16_384;

impl Leases {
    pub(super) fn len(&self) -> usize {
        self.by_offset.len()
    }

    pub(super) fn get(&self, offset: Offset) -> Option<&Held> {
        self.slots.get(*self.by_offset.get(&offset)? as usize)
    }

    /// Adds a lease for an offset that has none.
    pub(super) fn insert(&mut self, held: Held) {
        let slot = match self.vacant.pop() {
            Some(slot) => {
                if let Some(vacant) = self.slots.get_mut(slot as usize) {
                    *vacant = held;
                }
                slot
            }
            None => {
                self.slots.push(held);
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        let before = self.by_offset.insert(held.offset, slot);
        debug_assert!(before.is_none(), "offset {} was leased already", held.offset);
        self.wheel.insert(slot, held.deadline);
    }

    /// Ends the lease of `offset`, if there is one.
    pub(super) fn remove(&mut self, offset: Offset) -> Option<Held> {
        let slot = self.by_offset.remove(&offset)?;
        self.wheel.remove(slot);
        self.vacate(slot)
    }

    /// The leased offsets in `range`, ascending.
    pub(super) fn within(&self, range: OffsetRange) -> Vec<Offset> {
        let mut found = Vec::new();
        if range.len() > self.len() as u64 {
            found.extend(self.by_offset.keys().copied().filter(|&offset| range.contains(offset)));
            found.sort_unstable();
        } else {
            let mut at = range.from;
            while at < range.to {
                found.extend(self.by_offset.contains_key(&at).then_some(at));
                at = at.next();
            }
        }
        found
    }

    /// Moves the deadline of `offset`'s lease.
    pub(super) fn set_deadline(&mut self, offset: Offset, deadline: Moment) {
        let Some(&slot) = self.by_offset.get(&offset) else { return };
        let Some(held) = self.slots.get_mut(slot as usize) else { return };
        let is_earlier = deadline < held.deadline;
        held.deadline = deadline;
        // Leave a later deadline until the earlier one comes up: most leases end before that.
        if is_earlier {
            self.wheel.remove(slot);
            self.wheel.insert(slot, deadline);
        }
    }

    /// Removes and returns one lease whose deadline has passed, if there is one.
    pub(super) fn pop_expired(&mut self, now: Moment) -> Option<Held> {
        loop {
            let slot = self.wheel.pop(now)?;
            let held = *self.slots.get(slot as usize)?;
            if held.deadline <= now {
                self.by_offset.remove(&held.offset);
                return self.vacate(slot);
            }
            self.wheel.insert(slot, held.deadline);
        }
    }

    /// Moves `offset`'s lease into `lane`; `None` = unordered.
    pub(super) fn enter_lane(&mut self, offset: Offset, lane: Option<LaneId>) {
        let slot = self.by_offset.get(&offset).copied();
        if let Some(held) = slot.and_then(|slot| self.slots.get_mut(slot as usize)) {
            held.way = lane.into();
        }
    }

    /// Takes all leases out of their lanes until their new lanes are known.
    pub(super) fn leave_lanes(&mut self) {
        self.slots.iter_mut().for_each(|held| held.way = Way::Adrift);
    }

    /// When `pop_expired` should be called next.
    pub(super) fn next_wake(&self) -> Option<Moment> {
        self.wheel.next_wake()
    }

    /// The leased offsets for which `wanted` holds, in an order that has no meaning but is always
    /// the same.
    pub(super) fn offsets(&self, wanted: impl Fn(Offset) -> bool) -> Vec<Offset> {
        let is_held =
            |held: &&Held| self.get(held.offset).is_some_and(|current| current.lease == held.lease);
        let slots = self.slots.iter().filter(|held| wanted(held.offset)).filter(is_held);
        slots.map(|held| held.offset).collect()
    }

    fn vacate(&mut self, slot: u32) -> Option<Held> {
        let held = self.slots.get(slot as usize).copied();
        self.vacant.push(slot);
        if self.by_offset.is_empty() && self.slots.len() > SLOTS_KEPT {
            self.slots = Vec::new();
            self.vacant = Vec::new();
            self.by_offset = HashMap::default();
            self.wheel.release_memory();
        }
        held
    }
}

/// Spreads blocks of 16 offsets but keeps each block together: neighbors are leased and settled
/// together, so they share cache lines. The server picks the offsets, so nobody can choose them to
/// collide.
#[derive(Default)]
struct OffsetHasher(u64);

impl Hasher for OffsetHasher {
    fn write_u64(&mut self, value: u64) {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let (block, place) = (self.0 ^ value >> 4, value & 15);
        let spread = block.wrapping_mul(ODD);
        // The map picks a slot by the lowest bits and tells neighbors apart by the highest.
        self.0 = ((spread ^ spread >> 32) << 4 | place) ^ place << 57;
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
