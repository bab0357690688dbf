//! Lanes: records of one subscription that must be delivered in order.
//!
//! ```text
//!  front                                   next                    fresh
//!    ▼                                       ▼                       ▼
//!  leased  acked  leased  leased  │ pending pending pending │ … more_from: not indexed
//!  └── handed out, in order ──────┘ └── to go, in order ────┘
//! ```
//!
//! Without exactly-once an ack behind the front is provisional: it settles when everything before
//! it is settled, and is dropped when one of those comes back. A record that comes back takes all
//! the ones behind it along. With exactly-once an ack settles at once, leased records stay leased,
//! and only the record itself comes back; pending and leased ones may then be interleaved.
//!
//! While a lane has leases it belongs to the consumer that holds them. A lane that is ready is in
//! the ring of its owner, or in the shared ring if it has none. A lane is checked when it is taken
//! from its ring, so leaving one costs nothing.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::ConsumerId;
use super::backoffs::BackoffId;
use super::waits::Stuck;
use crate::offset::Offset;
use crate::time::Timestamp;

/// One lane until it is idle; after that the slot may be reused by another lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaneId(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Pending,
    Leased,
    /// Acked by its consumer: settles when everything in front of it has.
    Acked,
    /// Settled for good while others in front of it are not.
    Settled,
}

impl State {
    fn is_done(self) -> bool {
        matches!(self, Self::Acked | Self::Settled)
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    offset: Offset,
    /// How many deliveries of it have failed.
    failed: u32,
    state: State,
}

/// Why a lane's next record may not go although no other consumer owns the lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Hold {
    #[default]
    Free,
    /// Its backoff is not over.
    BackingOff(BackoffId),
    /// This record has used up its attempts; the caller was told.
    Exhausted(Offset),
    /// Its record has used up its attempts; an operator decides.
    Halted,
    /// Its record is unreadable.
    Damaged,
}

/// Since when a record in the lane has been failing, and how it failed last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) offset: Offset,
    pub(super) since: Timestamp,
    pub(super) class: &'static str,
}

#[derive(Debug)]
pub(super) struct Lane {
    key: Arc<str>,
    /// Ascending.
    entries: VecDeque<Entry>,
    /// The index of the first pending entry; past the last if there is none.
    next: usize,
    pending: usize,
    leased: usize,
    /// Who holds the leases, while there are any; `None` = several consumers, from before ordering
    /// was enabled.
    owner: Option<ConsumerId>,
    hold: Hold,
    trouble: Option<Trouble>,
    /// This record may be tried once more although it has used up its attempts.
    pub(super) spared: Option<Offset>,
    /// Records of this lane from here on are not indexed.
    pub(super) more_from: Option<Offset>,
    is_in_ring: bool,
    is_in_ring_of: Option<ConsumerId>,
}

/// Who may take from a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taker {
    Anybody,
    Owner(ConsumerId),
}

/// All lanes that are not idle.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    slots: Vec<Option<Lane>>,
    vacant: Vec<u32>,
    by_key: HashMap<Arc<str>, u32>,
    /// Ready lanes without an owner.
    ring: VecDeque<LaneId>,
    rings: BTreeMap<ConsumerId, VecDeque<LaneId>>,
    pending: usize,
    done: usize,
    stuck: Stuck,
    /// Emptied queues, kept so that short lanes do not each need an allocation.
    spare: Vec<VecDeque<Entry>>,
}

/// A lane gives no more while so many of its records are acked and wait for one in front of them,
/// or one that is never acked would let them grow without end.
const DONE_MAX: usize = 10_000;

/// Most emptied queues kept.
const SPARE_MAX: usize = 1_024;
/// A queue with a larger capacity than this is not kept.
const SPARE_ENTRIES_MAX: usize = 64;

impl Lanes {
    /// How many indexed records are waiting in lanes.
    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    /// How many records are acked or settled and still wait for others in front of them.
    pub(super) fn done(&self) -> usize {
        self.done
    }

    /// Changes a lane, and counts what it holds anew.
    fn change<T>(&mut self, id: LaneId, change: impl FnOnce(&mut Lane) -> T) -> Option<T> {
        let lane = self.get_mut(id)?;
        let (pending, done) = (lane.pending, lane.done());
        let changed = change(lane);
        let (pending_now, done_now) = (lane.pending, lane.done());
        self.pending = self.pending + pending_now - pending;
        self.done = self.done + done_now - done;
        Some(changed)
    }

    pub(super) fn find(&self, key: &str) -> Option<LaneId> {
        self.by_key.get(key).copied().map(LaneId)
    }

    /// The lane of `key`, created if missing. The caller must put something in it.
    pub(super) fn open(&mut self, key: &str) -> LaneId {
        if let Some(id) = self.find(key) {
            return id;
        }
        let key: Arc<str> = key.into();
        let lane = Lane::new(Arc::clone(&key), self.spare.pop().unwrap_or_default());
        let slot = match self.vacant.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = Some(lane);
        }
        self.by_key.insert(key, slot);
        LaneId(slot)
    }

    pub(super) fn get(&self, id: LaneId) -> Option<&Lane> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: LaneId) -> Option<&mut Lane> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }

    /// How many are held, and which are failing.
    pub(super) fn stuck(&self) -> &Stuck {
        &self.stuck
    }

    /// Sets the lane's hold and returns the previous one.
    pub(super) fn set_hold(&mut self, id: LaneId, hold: Hold) -> Hold {
        let Some(lane) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return Hold::Free;
        };
        let before = std::mem::replace(&mut lane.hold, hold);
        self.stuck.note_hold(before, hold);
        before
    }

    /// Notes what is failing in the lane; `None` = nothing is.
    pub(super) fn set_trouble(&mut self, id: LaneId, trouble: Option<Trouble>) {
        if let Some(lane) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) {
            self.stuck.note_trouble(id.0, lane.trouble.as_ref(), trouble.as_ref());
            lane.trouble = trouble;
        }
    }

    /// Removes the record at the front of the lane if it is acked or settled, and returns it.
    pub(super) fn pop_done(&mut self, id: LaneId) -> Option<Offset> {
        let offset = self.change(id, Lane::pop_done)??;
        let trouble = self.get(id).and_then(Lane::trouble);
        if trouble.is_some_and(|trouble| trouble.offset == offset) {
            self.set_trouble(id, None);
        }
        Some(offset)
    }

    /// Every lane, in an order that has no meaning but is always the same.
    pub(super) fn all(&self) -> impl Iterator<Item = (LaneId, &Lane)> {
        let lanes = (0..).zip(&self.slots);
        lanes.filter_map(|(slot, lane)| Some((LaneId(slot), lane.as_ref()?)))
    }

    /// Adds a pending record at the end of the lane.
    pub(super) fn push_pending(&mut self, id: LaneId, offset: Offset, failed: u32) {
        self.change(id, |lane| {
            lane.push(Entry { offset, failed, state: State::Pending });
            lane.pending += 1;
        });
    }

    /// Adds a record at the end of the lane, leased to `consumer`.
    pub(super) fn push_leased(
        &mut self,
        id: LaneId,
        offset: Offset,
        failed: u32,
        consumer: ConsumerId,
    ) {
        if let Some(lane) = self.get_mut(id) {
            lane.push(Entry { offset, failed, state: State::Leased });
            lane.note_lease(consumer);
        }
    }

    /// Adds a record that is already acked at the end of the lane.
    pub(super) fn push_acked(&mut self, id: LaneId, offset: Offset, failed: u32) {
        self.change(id, |lane| lane.push(Entry { offset, failed, state: State::Acked }));
    }

    /// Leases the lane's next record to `consumer`.
    pub(super) fn lease_next(&mut self, id: LaneId, consumer: ConsumerId) {
        self.change(id, |lane| {
            let Some(entry) = lane.entries.get_mut(lane.next) else { return };
            entry.state = State::Leased;
            lane.pending -= 1;
            lane.note_lease(consumer);
            lane.seek_next();
        });
    }

    /// Marks `offset` acked, or settled for good, to wait until those in front of it are too.
    pub(super) fn finish(&mut self, id: LaneId, offset: Offset, is_settled: bool) {
        let state = if is_settled { State::Settled } else { State::Acked };
        self.change(id, |lane| lane.finish(offset, state));
    }

    /// A delivery of `offset` failed, the `failed`-th. With `takes_along` everything behind it
    /// comes back too: those leases are appended to `ended`, and their provisional acks are
    /// dropped.
    pub(super) fn give_back(
        &mut self,
        id: LaneId,
        offset: Offset,
        failed: u32,
        takes_along: bool,
        ended: &mut Vec<Offset>,
    ) {
        self.change(id, |lane| lane.give_back(offset, failed, takes_along, ended));
    }

    /// Drops the pending records at the end of the lane, except the next to go: they are read again
    /// when it is their turn.
    pub(super) fn forget_all_but_next(&mut self, id: LaneId) {
        self.change(id, |lane| {
            // What is settled among them is passed over when they are read again.
            while lane.pending > 1
                && let Some(last) = lane.entries.back()
                && matches!(last.state, State::Pending | State::Settled)
            {
                lane.pending -= usize::from(last.state == State::Pending);
                lane.more_from = Some(last.offset);
                lane.entries.pop_back();
            }
        });
    }

    /// Resets the failure count of the lane's next record.
    pub(super) fn forget_failures(&mut self, id: LaneId) {
        self.set_trouble(id, None);
        let Some(lane) = self.get_mut(id) else { return };
        if let Some(entry) = lane.entries.get_mut(lane.next) {
            entry.failed = 0;
        }
    }

    /// Removes the lane if nothing is left in it.
    pub(super) fn close_if_idle(&mut self, id: LaneId) {
        if !self.get(id).is_some_and(Lane::is_idle) {
            return;
        }
        self.set_hold(id, Hold::Free);
        self.set_trouble(id, None);
        let Some(lane) = self.slots.get_mut(id.0 as usize).and_then(Option::take) else { return };
        self.by_key.remove(&lane.key);
        self.vacant.push(id.0);
        let entries = lane.entries;
        if entries.capacity() <= SPARE_ENTRIES_MAX && self.spare.len() < SPARE_MAX {
            self.spare.push(entries);
        }
    }

    /// Puts the lane into the ring of whoever may take from it. Returns who, unless it was already
    /// there.
    pub(super) fn make_ready(&mut self, id: LaneId) -> Option<Taker> {
        let lane = self.get_mut(id)?;
        if !lane.has_more() || !lane.may_give() {
            return None;
        }
        if lane.leased == 0 {
            if std::mem::replace(&mut lane.is_in_ring, true) {
                return None;
            }
            self.ring.push_back(id);
            return Some(Taker::Anybody);
        }
        let owner = lane.owner?;
        if lane.is_in_ring_of.replace(owner) == Some(owner) {
            return None;
        }
        self.rings.entry(owner).or_default().push_back(id);
        Some(Taker::Owner(owner))
    }

    /// Puts a lane that was taken from its ring back in its old place: its turn is not over.
    pub(super) fn put_back(&mut self, id: LaneId) {
        match self.make_ready(id) {
            None => {}
            Some(Taker::Anybody) => self.ring.rotate_right(1),
            Some(Taker::Owner(owner)) => {
                if let Some(ring) = self.rings.get_mut(&owner) {
                    ring.rotate_right(1);
                }
            }
        }
    }

    /// Removes the next lane that may give something to `consumer` from its ring.
    pub(super) fn next_for(&mut self, consumer: ConsumerId) -> Option<LaneId> {
        while let Some(id) = self.rings.get_mut(&consumer).and_then(VecDeque::pop_front) {
            let Some(lane) = self.get_mut(id) else { continue };
            if lane.is_in_ring_of == Some(consumer) {
                lane.is_in_ring_of = None;
                if lane.may_go_to(consumer) {
                    return Some(id);
                }
            }
        }
        while let Some(id) = self.ring.pop_front() {
            let Some(lane) = self.get_mut(id) else { continue };
            if std::mem::take(&mut lane.is_in_ring) && lane.may_go_to(consumer) {
                return Some(id);
            }
        }
        None
    }

    /// A consumer is gone: its lanes wait until its leases end.
    pub(super) fn forget_consumer(&mut self, consumer: ConsumerId) {
        for id in self.rings.remove(&consumer).unwrap_or_default() {
            if let Some(lane) = self.get_mut(id)
                && lane.is_in_ring_of == Some(consumer)
            {
                lane.is_in_ring_of = None;
            }
        }
    }

    /// The provisional acks of all lanes, ascending.
    pub(super) fn acked(&self) -> Vec<Offset> {
        let entries = self.slots.iter().flatten().flat_map(|lane| &lane.entries);
        let acked = entries.filter(|entry| entry.state == State::Acked);
        let mut acked: Vec<_> = acked.map(|entry| entry.offset).collect();
        acked.sort_unstable();
        acked
    }
}

impl Lane {
    fn new(key: Arc<str>, entries: VecDeque<Entry>) -> Self {
        Self {
            key,
            entries,
            next: 0,
            pending: 0,
            leased: 0,
            owner: None,
            hold: Hold::Free,
            trouble: None,
            spared: None,
            more_from: None,
            is_in_ring: false,
            is_in_ring_of: None,
        }
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Why its next record may not go.
    pub(super) fn hold(&self) -> Hold {
        self.hold
    }

    /// What is failing in it.
    pub(super) fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    /// How many of its records are acked or settled.
    fn done(&self) -> usize {
        self.entries.len() - self.pending - self.leased
    }

    /// Whether nothing stands in it.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The next record to go, and how many deliveries of it have failed.
    pub(super) fn next(&self) -> Option<(Offset, u32)> {
        self.entries.get(self.next).map(|entry| (entry.offset, entry.failed))
    }

    /// Whether a fresh record in it may go to `consumer` at once.
    pub(super) fn admits(&self, consumer: ConsumerId) -> bool {
        !self.has_more() && self.may_give_to(consumer)
    }

    /// The leased records up to `offset`, ascending.
    pub(super) fn leased_up_to(&self, offset: Offset) -> impl Iterator<Item = Offset> {
        let up_to = self.entries.iter().take_while(move |entry| entry.offset <= offset);
        up_to.filter(|entry| entry.state == State::Leased).map(|entry| entry.offset)
    }

    /// Whether it has anything to give, indexed or not.
    fn has_more(&self) -> bool {
        self.pending > 0 || self.more_from.is_some()
    }

    fn may_be_taken_by(&self, consumer: ConsumerId) -> bool {
        self.leased == 0 || self.owner == Some(consumer)
    }

    fn may_go_to(&self, consumer: ConsumerId) -> bool {
        self.has_more() && self.may_give_to(consumer)
    }

    fn may_give_to(&self, consumer: ConsumerId) -> bool {
        self.may_give() && self.may_be_taken_by(consumer)
    }

    fn may_give(&self) -> bool {
        self.hold == Hold::Free && self.done() < DONE_MAX
    }

    fn is_idle(&self) -> bool {
        self.entries.is_empty() && self.more_from.is_none()
    }

    fn note_lease(&mut self, consumer: ConsumerId) {
        let is_shared = self.leased > 0 && self.owner != Some(consumer);
        self.owner = (!is_shared).then_some(consumer);
        self.leased += 1;
    }

    fn push(&mut self, entry: Entry) {
        debug_assert!(self.entries.back().is_none_or(|last| last.offset < entry.offset));
        let is_last = self.next == self.entries.len();
        self.entries.push_back(entry);
        if is_last && entry.state != State::Pending {
            self.next += 1;
        }
    }

    fn place(&self, offset: Offset) -> Option<usize> {
        // Acks mostly arrive in order.
        if self.entries.front().is_some_and(|front| front.offset == offset) {
            return Some(0);
        }
        self.entries.binary_search_by_key(&offset, |entry| entry.offset).ok()
    }

    /// Moves `next` forward to the first pending entry.
    fn seek_next(&mut self) {
        while self.entries.get(self.next).is_some_and(|entry| entry.state != State::Pending) {
            self.next += 1;
        }
    }

    fn finish(&mut self, offset: Offset, state: State) {
        let Some(entry) = self.place(offset).and_then(|place| self.entries.get_mut(place)) else {
            return;
        };
        match std::mem::replace(&mut entry.state, state) {
            State::Pending => self.pending -= 1,
            State::Leased => self.leased -= 1,
            State::Acked | State::Settled => {}
        }
        self.seek_next();
    }

    fn pop_done(&mut self) -> Option<Offset> {
        let offset = self.entries.front().filter(|front| front.state.is_done())?.offset;
        self.entries.pop_front();
        self.next = self.next.saturating_sub(1);
        Some(offset)
    }

    fn give_back(
        &mut self,
        offset: Offset,
        failed: u32,
        takes_along: bool,
        ended: &mut Vec<Offset>,
    ) {
        let Some(place) = self.place(offset) else { return };
        let end = if takes_along { self.entries.len() } else { place + 1 };
        for entry in self.entries.range_mut(place..end) {
            match entry.state {
                State::Pending | State::Settled => continue,
                State::Leased => {
                    self.leased -= 1;
                    if entry.offset == offset {
                        entry.failed = failed;
                    } else {
                        ended.push(entry.offset);
                    }
                }
                State::Acked => {}
            }
            entry.state = State::Pending;
            self.pending += 1;
        }
        self.next = self.next.min(place);
    }
}
