//! The most obvious delivery: one state per offset, everything found by looking at all of them.
//!
//! It knows what the rules say and nothing of how they are kept. Where they leave a choice it
//! says what is allowed (`allowed.rs`), and follows what was chosen.

use std::time::Duration;

use domain::delivery::{AckId, Flow, Ordering, Settings};
use domain::progress::Attempt;
use domain::{Backoff, Moment, Now, Offset, Progress, SubscriptionId, Timestamp};

use crate::spot::{Ack, Attributes, Given, Held, Kind, Spot};
use crate::steps::{KEYS, KINDS};

pub(crate) const THIS: SubscriptionId = SubscriptionId(1);

/// FIFO's one lane, the keys and the kinds.
pub(crate) const LANES: usize = 1 + KEYS.len() + KINDS.len();

/// What a filter means.
pub(crate) type Wants = fn(&Attributes) -> bool;

/// Filters and what they mean; the first is none.
pub(crate) const FILTERS: [(&str, Wants); 4] = [
    ("", |_| true),
    (r#"attributes.colour = "red""#, |a| a.get("colour").is_some_and(|c| c == "red")),
    (r#"attributes.colour != "red""#, |a| a.get("colour").is_some_and(|c| c != "red")),
    (r#"attributes:kind OR hasPrefix(attributes.colour, "gr")"#, |a| {
        a.contains_key("kind") || a.get("colour").is_some_and(|c| c.starts_with("gr"))
    }),
];

#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    pub(crate) flow: Flow,
    pub(crate) is_open: bool,
}

/// An attempt that must be journaled, with the earliest and the latest time it may be due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) offset: usize,
    pub(crate) count: u32,
    pub(crate) due_from: Timestamp,
    pub(crate) due_to: Timestamp,
}

pub(crate) struct Naive {
    pub(crate) settings: Settings,
    pub(crate) wants: Wants,
    pub(crate) spots: Vec<Spot>,
    pub(crate) given: Vec<Given>,
    pub(crate) seats: Vec<Seat>,
    pub(crate) epoch: u64,
    pub(crate) regime: u32,
    /// The order changed, and not everything was read since: who holds what of before in which
    /// lane is not known yet.
    pub(crate) is_reordering: bool,
    /// Lanes that several consumers hold, from before the order changed: they are nobody's until
    /// all those leases have ended.
    pub(crate) shared: [bool; LANES],
    /// Lanes that were held up since the last restart, by whatever: they were read, perhaps.
    pub(crate) held_up: [bool; LANES],
    /// Exactly-once was on: what failed then may stand between what is leased.
    pub(crate) was_exactly_once: bool,
    pub(crate) retained_since: Timestamp,
    pub(crate) indexed_max: usize,
    pub(crate) remembered_max: usize,
    /// The wall clock when deadlines were last looked at.
    pub(crate) ticked: Timestamp,
    pub(crate) expected: Vec<Expected>,
}

/// What a consumer does.
impl Naive {
    pub(crate) fn append(&mut self, mut spot: Spot) {
        spot.lane = self.lane_of(&spot);
        self.spots.push(spot);
    }

    /// The lane a record is in by the settings now, if it can be read.
    fn lane_of(&self, spot: &Spot) -> Option<usize> {
        if spot.kind == Kind::Gap || self.is_lost(spot) {
            return None;
        }
        match (self.settings.ordering, &self.settings.lane_by) {
            (Ordering::None, _) => None,
            (Ordering::Fifo, _) => Some(0),
            (Ordering::ByKey, None) => (spot.key > 0).then_some(1 + spot.key),
            (Ordering::ByKey, Some(name)) => {
                let value = spot.attributes.get(&**name)?;
                let kind = KINDS.iter().position(|kind| kind == value)?;
                (kind > 0).then_some(1 + KEYS.len() + kind)
            }
        }
    }

    pub(crate) fn lane_name(lane: usize) -> &'static str {
        match lane {
            0 => "",
            key if key <= KEYS.len() => KEYS[key - 1],
            kind => KINDS[kind - 1 - KEYS.len()],
        }
    }

    pub(crate) fn lease(&mut self, offset: usize, id: AckId, consumer: usize, deadline: Moment) {
        let lease = self.given.len();
        let (epoch, regime) = (self.epoch, self.regime);
        self.given.push(Given {
            id,
            offset,
            epoch,
            regime,
            is_void: false,
            has_come_back: false,
            is_confirmed: false,
        });
        let spot = &mut self.spots[offset];
        spot.held = Some(Held { lease, consumer, deadline });
        spot.ack = Ack::No;
        spot.is_known = true;
        if spot.lane.is_none() {
            spot.is_spared = false;
        }
    }

    /// Whether the lease is the record's, its deadline past or not.
    pub(crate) fn has_lease(&self, lease: usize) -> bool {
        let spot = &self.spots[self.given[lease].offset];
        spot.held.is_some_and(|held| held.lease == lease)
    }

    pub(crate) fn is_current(&self, now: Moment, lease: usize) -> bool {
        let held = self.spots[self.given[lease].offset].held;
        held.is_some_and(|held| held.lease == lease && held.deadline > now)
    }

    pub(crate) fn settle(&mut self, offset: usize) {
        let spot = &mut self.spots[offset];
        spot.settled = true;
        spot.noted = None;
        spot.forget();
    }

    pub(crate) fn nack(&mut self, now: Now, lease: usize) {
        self.fail(now, self.given[lease].offset);
    }

    pub(crate) fn extend(&mut self, now: Moment, lease: usize, by: Duration) {
        if let Some(held) = &mut self.spots[self.given[lease].offset].held {
            held.deadline = now.plus(by);
        }
    }

    /// Ends the leases whose deadline has come; says how many deliveries failed by it.
    pub(crate) fn tick(&mut self, now: Now) -> usize {
        self.ticked = now.wall;
        let mut failures = 0;
        for offset in 0..self.spots.len() {
            // In a lane the lowest one takes those behind it along.
            if self.spots[offset].held.is_some_and(|held| held.deadline <= now.moment) {
                self.fail(now, offset);
                failures += 1;
            }
        }
        failures
    }

    /// A delivery of `offset` failed (LEASE-2).
    fn fail(&mut self, now: Now, offset: usize) {
        self.spots[offset].failed += 1;
        self.expect_attempt(now, offset, self.spots[offset].failed);
        self.come_back(offset);
    }

    /// A lease of `offset` ended without an ack.
    pub(crate) fn come_back(&mut self, offset: usize) {
        self.void(offset);
        let spot = &mut self.spots[offset];
        spot.held = None;
        spot.is_spared = false;
        let lane = spot.lane;
        if self.is_reordering {
            // It comes back in its turn, and only then it is known what it stands before.
            return self.spots[offset].is_known = false;
        }
        if lane.is_none() {
            return;
        }
        // What was decided of the lane's next record is decided anew.
        for spot in self.spots.iter_mut().filter(|spot| spot.lane == lane) {
            spot.is_spared = false;
            spot.is_skipped = false;
        }
        // Whose lane an early ack is in may not be known, so that it may be taken for one of this.
        for spot in self.spots.iter_mut().skip(offset).filter(|spot| spot.ack == Ack::Early) {
            spot.ack = Ack::Loose;
        }
        if self.settings.exactly_once {
            return;
        }
        for behind in offset + 1..self.spots.len() {
            if self.spots[behind].lane == lane && !self.spots[behind].settled {
                self.void(behind);
                self.spots[behind].held = None;
                self.spots[behind].ack = Ack::No;
            }
        }
    }

    /// The record comes back.
    fn void(&mut self, offset: usize) {
        let given = self.given.iter_mut().filter(|given| given.offset == offset);
        given.for_each(|given| given.has_come_back = true);
    }

    /// Attempts are journaled where a policy needs them (LOG-5).
    fn expect_attempt(&mut self, now: Now, offset: usize, count: u32) {
        let (due_from, due_to) = match &self.settings.retry {
            Some(Backoff::Exponential(retry)) => {
                let backoff = (1..count).fold(retry.min, |b, _| (b * 2).min(retry.max));
                (now.wall.plus(backoff), now.wall.plus(backoff + backoff / 10))
            }
            Some(other) => unreachable!("the model knows no {other:?}"),
            None if self.settings.attempts_max.is_some() => (Timestamp(0), Timestamp(0)),
            None => return,
        };
        self.expected.push(Expected { offset, count, due_from, due_to });
    }
}

/// What owners and operators do, and what happens to everything.
impl Naive {
    /// Takes changed settings. True if the order changed.
    pub(crate) fn change(&mut self, settings: Settings) -> bool {
        let is_reordered = (settings.ordering, &settings.lane_by)
            != (self.settings.ordering, &self.settings.lane_by);
        self.was_exactly_once |= settings.exactly_once;
        self.settings = settings;
        if is_reordered {
            self.regime += 1;
            for offset in 0..self.spots.len() {
                let spot = &mut self.spots[offset];
                if spot.ack == Ack::Provisional {
                    self.settle(offset);
                } else if spot.held.is_none() {
                    spot.forget_tries();
                }
            }
            self.read_anew();
        } else {
            // An operator's word counts until the policies change.
            self.spots.iter_mut().for_each(|spot| spot.is_skipped = false);
        }
        is_reordered
    }

    /// Which lane a record is in is found out anew, and not if it cannot be read.
    fn read_anew(&mut self) {
        for offset in 0..self.spots.len() {
            self.spots[offset].lane = self.lane_of(&self.spots[offset]);
        }
    }

    pub(crate) fn release(&mut self, offset: usize) {
        let spot = &mut self.spots[offset];
        spot.failed = 0;
        spot.is_skipped = false;
        let (due_from, due_to) = (Timestamp(0), Timestamp(0));
        self.expected.push(Expected { offset, count: 0, due_from, due_to });
    }

    pub(crate) fn seek(&mut self, settled: impl Fn(usize) -> bool) {
        for (offset, spot) in self.spots.iter_mut().enumerate() {
            spot.settled = settled(offset);
            spot.noted = None;
            spot.forget();
        }
        self.read_anew();
        self.given.iter_mut().for_each(|given| given.is_void = true);
    }

    /// What is left is what was journaled, which is `progress`.
    pub(crate) fn restart(&mut self, saved: &Saved, now: Now) {
        for (offset, spot) in self.spots.iter_mut().enumerate() {
            spot.settled = saved.settled.get(offset).copied().unwrap_or_default();
            spot.noted = saved.noted.get(offset).copied().flatten();
            spot.forget();
        }
        self.read_anew();
        self.held_up = [false; LANES];
        self.seats.iter_mut().for_each(|seat| seat.is_open = false);
        self.epoch += 1;
        self.ticked = now.wall;
    }

    /// Everything a crash must not take back, if it is flushed now.
    pub(crate) fn save(&self) -> Saved {
        Saved {
            settled: self.spots.iter().map(|spot| spot.settled).collect(),
            noted: self.spots.iter().map(|spot| spot.noted).collect(),
        }
    }

    pub(crate) fn held(&self) -> impl Iterator<Item = (usize, Held)> {
        self.spots.iter().enumerate().filter_map(|(offset, spot)| Some((offset, spot.held?)))
    }

    /// Notes which lanes several consumers hold.
    pub(crate) fn note_shared(&mut self) {
        let mut holders = [None; LANES];
        let mut shared = [false; LANES];
        for (offset, held) in self.held() {
            if let Some(lane) = self.spots[offset].lane {
                let first = *holders[lane].get_or_insert(held.consumer);
                shared[lane] |= self.shared[lane] || first != held.consumer;
            }
        }
        self.shared = shared;
    }

    /// Takes over what was chosen where the rules leave it open, and settles what must be by now.
    /// `progress` may not know more as settled than the rules allow, and not less.
    pub(crate) fn follow(&mut self, progress: &Progress) {
        self.note_shared();
        self.note_held_up();
        // Of each lane: all before are settled, and whether that is sure.
        let mut fronts = [Front::Clear; LANES];
        for offset in 0..self.spots.len() {
            let is_acked = progress.is_acked(Offset(offset as u64));
            let spot = &self.spots[offset];
            let front = spot.lane.map_or(Front::Clear, |lane| fronts[lane]);
            let must = spot.settled || (spot.ack == Ack::Provisional && front == Front::Clear);
            let has_no_front = front != Front::Blocked || self.is_reordering || self.is_lost(spot);
            let may = must
                || (self.is_unwanted(spot) && spot.held.is_none())
                || (spot.ack != Ack::No && has_no_front);
            assert!(is_acked || !must, "{offset} must be settled: {spot:?}");
            assert!(!is_acked || may, "{offset} must not be settled: {spot:?}");
            if is_acked && !spot.settled {
                self.settle(offset);
            }
            let spot = &self.spots[offset];
            if let Some(lane) = spot.lane
                && !spot.settled
            {
                let is_unsure = self.is_unwanted(spot) || self.is_lost(spot);
                let waits = spot.held.is_none() && spot.ack == Ack::No;
                let before = if is_unsure && waits { Front::Unsure } else { Front::Blocked };
                fronts[lane] = fronts[lane].max(before);
            }
        }
    }

    /// Whether the record is never to be leased, and may be settled unseen.
    pub(crate) fn is_unwanted(&self, spot: &Spot) -> bool {
        spot.kind == Kind::Gap
            || (spot.kind == Kind::Record
                && (spot.addressee.is_some_and(|addressee| addressee != THIS)
                    || spot.published < self.retained_since
                    || !(self.wants)(&spot.attributes)))
    }

    /// Whether it cannot be known whose lane a record is in, unless it was read before.
    pub(crate) fn is_lost(&self, spot: &Spot) -> bool {
        spot.kind == Kind::Damaged && self.settings.ordering == Ordering::ByKey
    }
}

#[derive(Clone, Copy, PartialEq, PartialOrd, Eq, Ord)]
enum Front {
    Clear,
    Unsure,
    Blocked,
}

/// What is durable of a model.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    settled: Vec<bool>,
    noted: Vec<Option<Attempt>>,
}

impl Saved {
    pub(crate) fn is_settled(&self, offset: usize) -> bool {
        self.settled.get(offset).copied().unwrap_or_default()
    }
}
