//! Which ack ids count, and what an ack does.

use super::lane::LaneId;
use super::leases::Held;
use super::{AckId, AckStatus, CONFIRMED_MAX, Delivery, EARLY_ACKS_MAX, Effects, Ordering};
use crate::offset::Offset;
use crate::time::Moment;

impl Delivery {
    /// Whether this subscription never issued `id`: it belongs to another one, or to a lease that
    /// does not exist yet.
    pub(super) fn is_foreign(&self, id: &AckId) -> bool {
        id.subscription() != self.identity.subscription
            || id.epoch() > self.identity.epoch
            || (id.epoch() == self.identity.epoch && id.lease() >= self.next_lease)
    }

    /// Whether a seek came after `id` was issued.
    pub(super) fn is_void(&self, id: &AckId) -> bool {
        self.progress.voids(id.epoch(), id.lease())
    }

    /// Whether `id` belongs to a lease that has not ended.
    pub(super) fn is_current(&self, now: Moment, id: &AckId) -> bool {
        let held = self.leases.get(id.offset());
        held.is_some_and(|held| self.is_id_of(id, held) && held.deadline > now)
    }

    /// Whether `id` belongs to this lease, even if its deadline has passed.
    fn is_id_of(&self, id: &AckId, held: &Held) -> bool {
        id.epoch() == self.identity.epoch && id.lease() == held.lease
    }

    pub(super) fn ack_exactly_once(
        &mut self,
        now: Moment,
        id: &AckId,
        effects: &mut Effects,
    ) -> AckStatus {
        if self.is_current(now, id) {
            self.settle_offset(id.offset(), effects);
            self.confirmed.insert(id.lease(), id.offset());
            if self.confirmed.len() > CONFIRMED_MAX {
                self.confirmed.pop_first();
            }
            return AckStatus::Settled;
        }
        let is_same = id.epoch() == self.identity.epoch
            && self.confirmed.get(&id.lease()) == Some(&id.offset());
        if is_same { AckStatus::AlreadySettled } else { AckStatus::Stale }
    }

    /// Acks a record that is not settled, without exactly-once.
    pub(super) fn ack_unsettled(&mut self, id: &AckId, effects: &mut Effects) -> AckStatus {
        if self.settings.ordering != Ordering::None {
            return self.ack_where_lanes_are(id, effects);
        }
        self.settle_offset(id.offset(), effects);
        AckStatus::Settled
    }

    fn ack_where_lanes_are(&mut self, id: &AckId, effects: &mut Effects) -> AckStatus {
        let Some(held) = self.leases.get(id.offset()) else {
            return self.ack_not_leased(id, effects);
        };
        let came_back = id.epoch() == self.identity.epoch && !self.is_id_of(id, held);
        match held.way.lane() {
            Some(_) if came_back => AckStatus::Stale,
            Some(lane) => self.ack_in_lane(lane, id.offset(), effects),
            None => {
                self.settle_offset(id.offset(), effects);
                AckStatus::Settled
            }
        }
    }

    /// A late ack when records may be in lanes. A record that was read and is in a lane came back
    /// after the id was issued, or will be redelivered; one that was not read may be in any lane.
    fn ack_not_leased(&mut self, id: &AckId, effects: &mut Effects) -> AckStatus {
        let offset = id.offset();
        if self.returned.get(offset).is_some() {
            self.settle_offset(offset, effects);
            return AckStatus::Settled;
        }
        let is_unread = offset >= self.fresh && id.epoch() < self.identity.epoch;
        if is_unread && self.early.len() < EARLY_ACKS_MAX {
            self.early.insert(offset);
            return AckStatus::Provisional;
        }
        AckStatus::Stale
    }

    fn ack_in_lane(&mut self, lane: LaneId, offset: Offset, effects: &mut Effects) -> AckStatus {
        if let Some(held) = self.leases.remove(offset) {
            self.consumers.lease_ended(held.consumer, u64::from(held.bytes), effects);
        }
        self.finish_in_lane(lane, offset, effects);
        if self.progress.is_acked(offset) { AckStatus::Settled } else { AckStatus::Provisional }
    }
}
