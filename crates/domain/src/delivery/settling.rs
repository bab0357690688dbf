//! Settling records, and the effect on their lanes.

use super::backoffs::Backoffs;
use super::lane::{Hold, LaneId, Lanes, Taker};
use super::leases::Held;
use super::returned::{Returned, Standing};
use super::{Delivery, Effects};
use crate::offset::{Offset, OffsetRange};
use crate::progress::unite;
use crate::time::Now;

/// Settling.
impl Delivery {
    /// Settles an offset for good, whatever state it is in.
    pub(super) fn settle_offset(&mut self, offset: Offset, effects: &mut Effects) {
        let mut lane = None;
        match self.leases.remove(offset) {
            Some(held) => {
                lane = held.way.lane();
                self.consumers.lease_ended(held.consumer, u64::from(held.bytes), effects);
            }
            None => {
                if let Some(back) = self.returned.take(offset) {
                    self.cancel(back.standing);
                }
                self.consumers.next_record_changed(effects);
            }
        }
        self.note_settled(offset, effects);
        if let Some(lane) = lane {
            self.finish_in_lane(lane, offset, effects);
        }
        self.go_on_reading(effects);
    }

    /// Settles offsets that have not been read yet and have no record.
    pub fn settle_gap(&mut self, gap: OffsetRange, effects: &mut Effects) {
        if self.progress.ack(gap) > 0 {
            unite(&mut effects.settled, gap);
        }
    }

    /// Settles the next record of a lane, which then continues with the one behind it.
    pub(super) fn settle_next_in_lane(
        &mut self,
        now: Now,
        lane: LaneId,
        offset: Offset,
        effects: &mut Effects,
    ) {
        self.free_hold(lane);
        self.note_settled(offset, effects);
        self.finish_in_lane(lane, offset, effects);
        self.consider(now, lane, None, effects);
        self.consumers.next_record_changed(effects);
    }

    /// `offset` is acked in its lane: settles it, and those behind it that waited only for it, once
    /// everything before them is settled. The lane then continues with what is left.
    pub(super) fn finish_in_lane(&mut self, lane: LaneId, offset: Offset, effects: &mut Effects) {
        let is_settled = self.progress.is_acked(offset);
        self.lanes.finish(lane, offset, is_settled);
        while let Some(done) = self.lanes.pop_done(lane) {
            self.note_settled(done, effects);
        }
        self.make_ready(lane, effects);
        self.lanes.close_if_idle(lane);
        self.go_on_reading(effects);
    }

    pub(super) fn note_settled(&mut self, offset: Offset, effects: &mut Effects) {
        let range = OffsetRange::one(offset);
        if self.progress.ack(range) > 0 {
            unite(&mut effects.settled, range);
            self.forget_halted_unread(offset);
        }
    }

    /// Fewer records are waiting, so consumers that found nothing may now get something fresh.
    pub(super) fn go_on_reading(&mut self, effects: &mut Effects) {
        if std::mem::take(&mut self.is_stalled) {
            effects.returned += 1;
        }
    }
}

/// Lanes and what holds them.
impl Delivery {
    /// Puts a ready lane where its takers look, and wakes them.
    pub(super) fn make_ready(&mut self, lane: LaneId, effects: &mut Effects) {
        match self.lanes.make_ready(lane) {
            None => {}
            Some(Taker::Anybody) => effects.returned += 1,
            Some(Taker::Owner(owner)) if self.consumers.load(owner).is_some() => {
                effects.freed.push(owner);
            }
            // Its owner is gone: the lane waits until the leases end.
            Some(Taker::Owner(owner)) => self.lanes.forget_consumer(owner),
        }
    }

    /// Gives a record that was leased before the ordering changed its place, once all records in
    /// front of it are indexed.
    pub(super) fn adopt_if_known(&mut self, lane: Option<LaneId>, held: &Held) {
        if lane.and_then(|id| self.lanes.get(id)?.more_from).is_none() {
            self.adopt(lane, held);
        }
    }

    /// Gives a record that was leased before the ordering changed its place in `lane`; `None` =
    /// unordered.
    pub(super) fn adopt(&mut self, lane: Option<LaneId>, held: &Held) {
        if let Some(lane) = lane {
            self.lanes.push_leased(lane, held.offset, held.failed, held.consumer);
        }
        self.leases.enter_lane(held.offset, lane);
    }

    /// Ends the backoff of a record that no longer waits.
    pub(super) fn cancel(&mut self, standing: Standing) {
        if let Standing::BackingOff(backoff) = standing {
            self.backoffs.remove(backoff);
        }
    }

    /// Releases the lane from whatever holds it.
    pub(super) fn free_hold(&mut self, id: LaneId) {
        match self.lanes.set_hold(id, Hold::Free) {
            Hold::BackingOff(backoff) => self.backoffs.remove(backoff),
            Hold::Exhausted(offset) => {
                self.exhausted_lanes.remove(&offset);
            }
            Hold::Free | Hold::Halted | Hold::Damaged => {}
        }
    }

    /// Forgets everything that is not leased and starts reading again from the cursor.
    pub(super) fn start_over(&mut self) {
        self.returned = Returned::default();
        self.lanes = Lanes::default();
        self.exhausted_lanes.clear();
        self.backoffs = Backoffs::default();
        self.leases.leave_lanes();
        self.is_stalled = false;
        self.fresh = self.progress.cursor();
        self.find_halted_unread();
    }
}
