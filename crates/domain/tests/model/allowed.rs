//! What the rules allow and demand: who may be given what, which answers an ack may get.

use domain::delivery::{AckStatus, INDEXED_MAX};
use domain::policy::Poison;
use domain::{Moment, Timestamp};

use crate::naive::{LANES, Naive};
use crate::spot::{Ack, Kind, Spot};

/// A record that may be given to a consumer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Offer {
    pub(crate) offset: usize,
    pub(crate) bytes: u64,
    /// Nobody may say that there is nothing while it is there.
    pub(crate) is_sure: bool,
}

/// Whether all in front of a record in its lane are settled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Before {
    Settled,
    Unsettled,
    Unsure,
}

#[derive(Clone, Copy, Default)]
struct LaneScan {
    /// Nothing behind may go.
    is_stopped: bool,
    /// It may be that nothing behind may go.
    is_unsure: bool,
    /// Somebody else holds leases of it.
    is_taken: bool,
}

/// Who may be given what.
impl Naive {
    /// The records that may be given to `consumer` at `now`, ascending: those without a lane, and
    /// of each lane that is nobody else's the first that is not out already (O1, LEASE-3).
    pub(crate) fn offers(&self, consumer: usize, now: Timestamp) -> Vec<Offer> {
        let mut offers = Vec::new();
        if self.settings.is_paused || !self.seats[consumer].is_open {
            return offers;
        }
        let mut lanes = self.shared.map(|is_unsure| LaneScan { is_unsure, ..LaneScan::default() });
        for (offset, held) in self.held() {
            let Some(lane) = self.spots[offset].lane else { continue };
            if held.consumer == consumer {
                continue;
            }
            if self.is_reordering && self.given[held.lease].regime < self.regime {
                lanes[lane].is_unsure = true;
            } else {
                lanes[lane].is_taken = true;
            }
        }
        let (may_be_full, may_stall) = (self.may_be_full(), self.may_stall());
        let unsettled = |(_, spot): &(usize, &Spot)| spot.is_unsettled();
        for (offset, spot) in self.spots.iter().enumerate().filter(unsettled) {
            let mut free = LaneScan::default();
            let lane = spot.lane.map_or(&mut free, |lane| &mut lanes[lane]);
            if let Some(is_sure) = self.offer(spot, now, lane) {
                // Of a lane that was forgotten, nothing is read again while it is full.
                let is_known = spot.is_known && !(self.forgets() && spot.lane.is_some());
                let is_readable = !may_be_full && (spot.is_known || !may_stall);
                let is_sure = is_sure && (is_known || is_readable);
                offers.push(Offer { offset, bytes: spot.bytes, is_sure });
            }
        }
        offers
    }

    /// Whether `spot` may be given, and if so whether that is sure.
    fn offer(&self, spot: &Spot, now: Timestamp, lane: &mut LaneScan) -> Option<bool> {
        match spot.ack {
            // Where lanes are not indexed to their end, an early ack may be forgotten.
            Ack::Early if self.forgets() => lane.is_unsure = true,
            Ack::Provisional | Ack::Early => return None,
            // It may or may not come back, and those behind it may or may not wait for it.
            Ack::Loose => lane.is_unsure = true,
            Ack::No => {}
        }
        if self.is_unwanted(spot) {
            // It is settled when its turn comes, which may be when its backoff is over.
            lane.is_unsure |= self.is_blocked(spot, now);
            return None;
        }
        if spot.kind == Kind::Damaged {
            lane.is_unsure = true;
            lane.is_stopped |= !self.is_lost(spot) && spot.ack == Ack::No;
            return None;
        }
        let is_blocked = self.is_blocked(spot, now);
        // Whose failures are forgotten may be tried again.
        let noted = spot.noted.map_or(0, |attempt| attempt.count);
        let may_go = !is_blocked || !self.is_blocked(&self.as_known(spot, noted), now);
        let is_offered = !lane.is_stopped && !lane.is_taken && may_go;
        let is_sure = !lane.is_unsure && !is_blocked && !self.is_blocked(spot, self.ticked);
        lane.is_stopped |= spot.ack == Ack::No;
        is_offered.then_some(is_sure)
    }

    /// The record as it is known if its lane was forgotten and read again, with so many failures.
    pub(crate) fn as_known(&self, spot: &Spot, failed: u32) -> Spot {
        let mut known = spot.clone();
        if self.forgets() && spot.lane.is_some() && !spot.is_skipped {
            known.failed = failed;
        }
        known
    }

    /// Whether the record itself may not go yet.
    fn is_blocked(&self, spot: &Spot, now: Timestamp) -> bool {
        self.is_given_up(spot) || spot.noted.is_some_and(|attempt| attempt.due > now)
    }

    /// Whether the record was tried as often as it may be, or an operator gave it up.
    pub(crate) fn is_given_up(&self, spot: &Spot) -> bool {
        let is_exhausted = self.settings.attempts_max.is_some_and(|max| spot.failed >= max);
        spot.is_skipped || (is_exhausted && !spot.is_spared)
    }

    /// Whether the record's lane stops until an operator decides (LEASE-4).
    pub(crate) fn is_halted(&self, spot: &Spot) -> bool {
        let halts = spot.lane.is_some() && self.settings.poison == Poison::Halt;
        halts && self.is_given_up(spot) && !spot.is_skipped
    }

    /// Whether `offset` is the next of its lane to go, as far as it is sure.
    pub(crate) fn is_next_in_lane(&self, offset: usize) -> bool {
        let lane = self.spots[offset].lane;
        let mut before = self.spots.iter().take(offset).filter(|spot| spot.lane == lane);
        lane.is_some() && !before.any(|spot| spot.is_unsettled() && spot.ack != Ack::Provisional)
    }

    /// Whether the index is so small that lanes are forgotten and read again: what a record there
    /// was known for is then known only as far as it is journaled.
    pub(crate) fn forgets(&self) -> bool {
        self.indexed_max < INDEXED_MAX
    }

    /// Reading stops when all that may be remembered is leased or waits (LEASE-5).
    fn may_be_full(&self) -> bool {
        let waiting = || self.spots.iter().filter(|spot| spot.waits());
        // Which of a lane were read is not known, nor which of them are settled and still there.
        let is_kept = |spot: &&Spot| spot.lane.is_some() && spot.settled;
        let is_known = |spot: &&Spot| spot.is_known || spot.lane.is_some() || spot.failed > 0;
        let known = waiting().filter(is_known).count() + self.spots.iter().filter(is_kept).count();
        self.held().count() + known >= self.remembered_max
    }

    /// Reading ahead may stop when failures outside lanes fill what lanes leave (LEASE-5).
    fn may_stall(&self) -> bool {
        if !self.forgets() {
            return false;
        }
        let waiting = || self.spots.iter().filter(|spot| spot.waits());
        // What failed before something that is leased is not forgotten.
        let is_kept = |spot: &&Spot| spot.lane.is_none() || self.was_exactly_once;
        let failures = waiting().filter(is_kept).filter(|spot| spot.failed > 0).count();
        let lanes = (0..LANES).filter(|&lane| waiting().any(|spot| spot.lane == Some(lane)));
        failures + lanes.count() + self.indexed_max / 2 >= self.indexed_max
    }

    /// Whether `consumer` may hold one more record of `bytes`.
    pub(crate) fn fits(&self, consumer: usize, more: u64) -> bool {
        let (mut messages, mut bytes) = (0, 0);
        for (offset, _) in self.held().filter(|(_, held)| held.consumer == consumer) {
            messages += 1;
            bytes += self.spots[offset].bytes;
        }
        let flow = self.seats[consumer].flow;
        (flow.messages_max == 0 || messages < flow.messages_max)
            && (messages == 0 || flow.bytes_max == 0 || bytes + more <= flow.bytes_max)
    }
}

/// Which answers an ack may get.
impl Naive {
    /// The answers that an ack with the id of `lease` may get now (C1, C2).
    pub(crate) fn ack_statuses(&self, now: Moment, lease: usize) -> Vec<AckStatus> {
        use AckStatus::{AlreadySettled, Settled, Stale};
        let given = &self.given[lease];
        let spot = &self.spots[given.offset];
        if given.is_void {
            vec![Stale]
        } else if self.settings.exactly_once {
            if self.is_current(now, lease) {
                vec![Settled]
            } else if given.is_confirmed && given.epoch == self.epoch {
                vec![AlreadySettled]
            } else if spot.settled {
                // Settled before exactly-once was turned on, or before a restart.
                vec![Stale, AlreadySettled]
            } else {
                vec![Stale]
            }
        } else if spot.settled {
            vec![AlreadySettled]
        } else if spot.lane.is_none() {
            self.free_ack_statuses(lease)
        } else {
            self.lane_ack_statuses(lease)
        }
    }

    /// A late id counts like any other. Nobody knows that a record has no lane before it is read.
    fn free_ack_statuses(&self, lease: usize) -> Vec<AckStatus> {
        let given = &self.given[lease];
        let spot = &self.spots[given.offset];
        let mut statuses = vec![AckStatus::Settled];
        if given.epoch < self.epoch && !spot.is_known {
            statuses.push(AckStatus::Provisional);
        }
        if given.regime < self.regime || self.is_lost(spot) {
            statuses.push(AckStatus::Stale);
        }
        statuses
    }

    /// In a lane only the current id counts, or one of before a restart if the lane was not
    /// delivered again since.
    fn lane_ack_statuses(&self, lease: usize) -> Vec<AckStatus> {
        use AckStatus::{AlreadySettled, Provisional, Settled, Stale};
        let given = &self.given[lease];
        let spot = &self.spots[given.offset];
        let counts = match self.before(given.offset) {
            Before::Settled => vec![Settled],
            Before::Unsettled => vec![Provisional],
            Before::Unsure => vec![Settled, Provisional],
        };
        if self.has_lease(lease) {
            // Before its lane is known again, an ack counts at once.
            return if self.is_reordering { vec![Settled] } else { counts };
        }
        if spot.ack != Ack::No {
            return vec![Provisional, AlreadySettled, Stale];
        }
        if given.epoch == self.epoch && given.regime == self.regime {
            return vec![Stale];
        }
        let mut statuses = vec![Settled, Provisional];
        let is_elder = given.regime < self.regime || given.has_come_back;
        if is_elder || self.is_touched(given.offset) {
            statuses.push(Stale);
        }
        statuses
    }

    /// Whether the lane of `offset` was delivered again, or was held up, since the last restart.
    fn is_touched(&self, offset: usize) -> bool {
        let lane = self.spots[offset].lane;
        let of_lane = |offset: usize| self.spots[offset].lane == lane;
        self.given.iter().any(|given| given.epoch == self.epoch && of_lane(given.offset))
            || lane.is_some_and(|lane| self.held_up[lane])
    }

    /// Notes which lanes are held up.
    pub(crate) fn note_held_up(&mut self) {
        for offset in 0..self.spots.len() {
            let spot = &self.spots[offset];
            let is_held_up = spot.kind == Kind::Damaged || self.is_blocked(spot, self.ticked);
            if let Some(lane) = spot.lane
                && is_held_up
                && !spot.settled
            {
                self.held_up[lane] = true;
            }
        }
    }

    /// How the records before `offset` in its lane stand.
    pub(crate) fn before(&self, offset: usize) -> Before {
        let lane = self.spots[offset].lane;
        let before = self.spots.iter().take(offset).filter(|spot| spot.lane == lane);
        let mut outcome = Before::Settled;
        for spot in before.filter(|spot| !spot.settled) {
            let is_unsure = self.is_unwanted(spot) || self.is_lost(spot) || spot.ack == Ack::Loose;
            if spot.held.is_some() || !is_unsure {
                return Before::Unsettled;
            }
            outcome = Before::Unsure;
        }
        outcome
    }
}
