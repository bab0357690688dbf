//! Who holds slots, who waits for one, and who is next.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

/// While others wait, no endpoint may hold more slots than this, or than a twentieth if that is
/// more.
const CAP_MIN: usize = 4;
/// The charge for a request of an unknown endpoint, in microseconds.
const CHARGE_FIRST: u64 = 1_000_000;
/// No endpoint is charged further ahead of the others than this, so that slots it held while nobody
/// else wanted them do not lock it out later.
const DEBT_MAX: u64 = 30_000_000;
/// Each request moves the expectation for the next by one part in this many.
const CHARGE_PARTS: u64 = 4;

/// The budget's state. After each call that may free something, `grant_next` is called until it has
/// nothing more to grant: nobody waits while there is a free slot they could use.
pub(super) struct State {
    max: usize,
    /// The part that endpoints that are not proven, or are over their cap, may not use.
    reserve: usize,
    cap: usize,
    in_flight: usize,
    /// How many of these are held by endpoints that are not proven.
    unproven: usize,
    /// The virtual time of the last one admitted, if no earlier one had more.
    floor: u64,
    next_ticket: u64,
    endpoints: Vec<Endpoint>,
    /// Reusable indexes in `endpoints`.
    vacant: Vec<usize>,
    /// Waiting endpoints, by what blocks them.
    queues: [BTreeSet<Place>; 4],
}

/// An endpoint's place in a queue: virtual time, ticket of its first caller, key.
type Place = (u64, u64, usize);

struct Endpoint {
    is_proven: bool,
    held: usize,
    virtual_time: u64,
    /// What its next request will be charged.
    expected: u64,
    /// Waiting callers, by ticket: in order of arrival.
    waiting: BTreeMap<u64, Waker>,
    /// Callers that were granted a slot and have not fetched it yet, with what was charged for it.
    granted: BTreeMap<u64, u64>,
    /// Its place in a queue, if it waits.
    place: Option<(Queue, Place)>,
}

/// What blocks those that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Proven,
    Unproven,
    /// Holds as many as it may while others wait.
    Capped,
    CappedUnproven,
}

impl State {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            reserve: max / 10,
            cap: CAP_MIN.max(max / 20),
            in_flight: 0,
            unproven: 0,
            floor: 0,
            next_ticket: 0,
            endpoints: Vec::new(),
            vacant: Vec::new(),
            queues: Default::default(),
        }
    }

    pub(super) fn join(&mut self) -> usize {
        let endpoint = Endpoint::new();
        match self.vacant.pop() {
            Some(key) => {
                self.endpoints[key] = endpoint;
                key
            }
            None => {
                self.endpoints.push(endpoint);
                self.endpoints.len() - 1
            }
        }
    }

    pub(super) fn leave(&mut self, key: usize) {
        let endpoint = &self.endpoints[key];
        assert!(endpoint.held == 0 && endpoint.waiting.is_empty(), "turns and slots keep it");
        self.vacant.push(key);
    }

    #[cfg(test)]
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    #[cfg(test)]
    pub(super) fn held(&self, key: usize) -> usize {
        self.endpoints[key].held
    }

    pub(super) fn set_proven(&mut self, key: usize, is_proven: bool) {
        let endpoint = &mut self.endpoints[key];
        if std::mem::replace(&mut endpoint.is_proven, is_proven) != is_proven {
            let held = endpoint.held;
            self.unproven = if is_proven { self.unproven - held } else { self.unproven + held };
            self.put_in_queue(key);
        }
    }

    /// Takes a slot for a new caller and returns the charge, or gives it a ticket to wait with.
    ///
    /// No waiting caller could go now, so a caller that can go overtakes no one.
    pub(super) fn enter(&mut self, key: usize, waker: &Waker) -> Result<u64, u64> {
        let endpoint = &mut self.endpoints[key];
        if endpoint.waiting.is_empty() {
            endpoint.virtual_time = endpoint.virtual_time.max(self.floor);
            if self.may_go(self.queue_of(key)) {
                return Ok(self.take(key));
            }
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.endpoints[key].waiting.insert(ticket, waker.clone());
        self.put_in_queue(key);
        Err(ticket)
    }

    /// What was charged for the slot that was granted to this caller; `None` = it still waits.
    pub(super) fn fetch(&mut self, key: usize, ticket: u64, waker: &Waker) -> Option<u64> {
        let endpoint = &mut self.endpoints[key];
        if let Some(waiting) = endpoint.waiting.get_mut(&ticket) {
            waiting.clone_from(waker);
        }
        endpoint.granted.remove(&ticket)
    }

    /// The caller no longer waits, and no longer wants what it was granted.
    pub(super) fn give_up(&mut self, key: usize, ticket: u64) {
        let endpoint = &mut self.endpoints[key];
        if endpoint.waiting.remove(&ticket).is_some() {
            self.put_in_queue(key);
        } else if let Some(charge) = endpoint.granted.remove(&ticket) {
            self.release(key, charge, None);
        }
    }

    /// Ends a slot for which `charge` was charged, and corrects that: it was held for `held`
    /// microseconds, or for nothing.
    pub(super) fn release(&mut self, key: usize, charge: u64, held: Option<u64>) {
        let ahead_max = self.floor.saturating_add(DEBT_MAX);
        let endpoint = &mut self.endpoints[key];
        if let Some(held) = held {
            endpoint.learn(held);
        }
        let time = endpoint.virtual_time.saturating_add(held.unwrap_or(0)).saturating_sub(charge);
        endpoint.virtual_time = time.min(ahead_max);
        endpoint.held -= 1;
        self.unproven -= usize::from(!endpoint.is_proven);
        self.in_flight -= 1;
        self.put_in_queue(key);
    }

    /// Grants a free slot to the caller whose turn it is, and returns its waker.
    pub(super) fn grant_next(&mut self) -> Option<Waker> {
        let (_, ticket, key) = self.next()?;
        let waker = self.endpoints[key].waiting.remove(&ticket);
        assert!(waker.is_some(), "the first caller of an endpoint in a queue waits");
        let charge = self.take(key);
        self.endpoints[key].granted.insert(ticket, charge);
        waker
    }

    /// Who goes next. An endpoint at its cap goes only if no other can.
    fn next(&self) -> Option<Place> {
        let first = |queue: Queue| {
            self.queues[queue as usize].first().copied().filter(|_| self.may_go(queue))
        };
        let least = |one: Option<Place>, two: Option<Place>| match (one, two) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
        least(first(Queue::Proven), first(Queue::Unproven))
            .or_else(|| least(first(Queue::Capped), first(Queue::CappedUnproven)))
    }

    fn may_go(&self, queue: Queue) -> bool {
        let room = self.max - self.reserve;
        match queue {
            Queue::Proven => self.in_flight < self.max,
            Queue::Unproven => self.in_flight < self.max && self.unproven < room,
            Queue::Capped => self.in_flight < room,
            Queue::CappedUnproven => self.in_flight < room && self.unproven < room,
        }
    }

    fn queue_of(&self, key: usize) -> Queue {
        let endpoint = &self.endpoints[key];
        match (endpoint.is_proven, endpoint.held < self.cap) {
            (true, true) => Queue::Proven,
            (false, true) => Queue::Unproven,
            (true, false) => Queue::Capped,
            (false, false) => Queue::CappedUnproven,
        }
    }

    /// Gives the endpoint a slot and charges the expected time.
    fn take(&mut self, key: usize) -> u64 {
        let endpoint = &mut self.endpoints[key];
        self.floor = self.floor.max(endpoint.virtual_time);
        // Never zero: of two that wait with the same virtual time, each gets its turn.
        let charge = endpoint.expected.clamp(1, DEBT_MAX);
        endpoint.virtual_time = endpoint.virtual_time.saturating_add(charge);
        endpoint.held += 1;
        self.unproven += usize::from(!endpoint.is_proven);
        self.in_flight += 1;
        assert!(self.in_flight <= self.max, "slots are only taken where there are some");
        self.put_in_queue(key);
        charge
    }

    /// Puts the endpoint into the right queue. One that changes queues brings no old credit.
    fn put_in_queue(&mut self, key: usize) {
        let queue = self.queue_of(key);
        let floor = self.floor;
        let endpoint = &mut self.endpoints[key];
        let first = endpoint.waiting.first_key_value().map(|(ticket, _)| *ticket);
        if endpoint.place.is_none_or(|(present, _)| present != queue) && first.is_some() {
            endpoint.virtual_time = endpoint.virtual_time.max(floor);
        }
        let place = first.map(|ticket| (queue, (endpoint.virtual_time, ticket, key)));
        let before = std::mem::replace(&mut endpoint.place, place);
        if before == place {
            return;
        }
        if let Some((queue, place)) = before {
            self.queues[queue as usize].remove(&place);
        }
        if let Some((queue, place)) = place {
            self.queues[queue as usize].insert(place);
        }
    }
}

impl Endpoint {
    fn new() -> Self {
        Self {
            is_proven: false,
            held: 0,
            virtual_time: 0,
            expected: CHARGE_FIRST,
            waiting: BTreeMap::new(),
            granted: BTreeMap::new(),
            place: None,
        }
    }

    /// A request held its slot for this many microseconds: the expectation for the next moves
    /// toward that.
    fn learn(&mut self, held: u64) {
        let kept = self.expected - self.expected / CHARGE_PARTS;
        self.expected = kept + held.min(DEBT_MAX) / CHARGE_PARTS;
    }
}
