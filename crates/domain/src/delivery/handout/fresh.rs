//! Leasing fresh records, and keeping those that may not go yet.

use super::{Handout, READ_AHEAD_BYTES_MAX, READ_AHEAD_MAX};
use crate::delivery::lane::LaneId;
use crate::delivery::readiness::Readiness;
use crate::delivery::returned::{Back, Standing};
use crate::delivery::{LeaseStatus, Read, Source};
use crate::offset::{Offset, OffsetRange, Record};

impl Handout<'_> {
    pub(super) fn read_fresh(
        &mut self,
        records_max: usize,
        source: &mut dyn Source,
    ) -> Result<(), LeaseStatus> {
        self.check_remembered()?;
        self.check_indexed()?;
        let delivery = &mut *self.delivery;
        let from = delivery.progress.next_unacked(delivery.fresh);
        // The more was passed over, the more is read at a time.
        let ahead = self.passed.min(READ_AHEAD_MAX);
        let bytes_ahead = if ahead > 0 { READ_AHEAD_BYTES_MAX } else { 0 };
        match source.read(from, records_max.max(ahead), self.bytes_room().max(bytes_ahead)) {
            Read::Records { covered, records, damaged } => {
                let within = OffsetRange { from, to: covered.to };
                if within.is_empty() {
                    // A source that has nothing to say must not keep us asking.
                    return Err(LeaseStatus::Drained);
                }
                let (at, taken) = self.take(within, records, &damaged, Self::offer_fresh);
                self.delivery.fresh = self.delivery.fresh.max(at);
                self.delivery.note_read();
                taken
            }
            Read::Elsewhere => Err(LeaseStatus::Wanted(from)),
            Read::AtEnd => Err(LeaseStatus::Drained),
        }
    }

    /// Stops where one more record could not be remembered, until fewer are (LEASE-5).
    fn check_remembered(&mut self) -> Result<(), LeaseStatus> {
        self.stall_if(self.delivery.remembered() >= self.request.remembered_max)
    }

    /// Stops where one more record could not wait, until fewer do (LEASE-5).
    fn check_indexed(&mut self) -> Result<(), LeaseStatus> {
        self.stall_if(self.delivery.indexed() >= self.request.indexed_max)
    }

    fn stall_if(&mut self, is_full: bool) -> Result<(), LeaseStatus> {
        self.delivery.is_stalled |= is_full;
        if is_full { Err(LeaseStatus::Drained) } else { Ok(()) }
    }

    /// Leases a record, keeps it for later, passes it over, or stops in front of it.
    fn offer_fresh(&mut self, record: Record) -> Result<(), LeaseStatus> {
        let offset = record.offset;
        if self.delivery.progress.is_acked(offset) {
            self.passed += 1;
            return Ok(());
        }
        if self.pass_known(&record) || self.pass_unwanted(&record) {
            return Ok(());
        }
        self.check_remembered()?;
        let attempt = self.delivery.progress.attempt(offset);
        let failed = attempt.map_or(0, |attempt| attempt.count);
        match self.delivery.settings.lane_key(&record).map(|key| self.delivery.lanes.open(key)) {
            Some(lane) => self.offer_in_lane(lane, record, failed),
            None if attempt.is_some() => self.offer_tried(record, failed),
            None => {
                self.check_fits(&record)?;
                self.grant(record, 0, None);
                Ok(())
            }
        }
    }

    /// A record without a lane that was tried before a restart.
    fn offer_tried(&mut self, record: Record, failed: u32) -> Result<(), LeaseStatus> {
        let offset = record.offset;
        let readiness = self.delivery.readiness(self.now, offset, failed, false, false);
        if readiness == Readiness::Ready {
            self.check_fits(&record)?;
            self.grant(record, failed, None);
            return Ok(());
        }
        self.passed += 1;
        let back = Back { failed, standing: Standing::Ready, is_spared: false };
        self.delivery.place_returned(self.now, offset, back, None, self.effects);
        Ok(())
    }

    fn offer_in_lane(
        &mut self,
        id: LaneId,
        record: Record,
        failed: u32,
    ) -> Result<(), LeaseStatus> {
        let offset = record.offset;
        let consumer = self.request.consumer;
        let Some(lane) = self.delivery.lanes.get(id) else { return Ok(()) };
        let readiness = self.delivery.readiness(self.now, offset, failed, false, true);
        if lane.admits(consumer) && readiness == Readiness::Ready {
            if let Err(status) = self.check_fits(&record) {
                self.delivery.lanes.close_if_idle(id);
                return Err(status);
            }
            self.delivery.lanes.push_leased(id, offset, failed, consumer);
            self.grant(record, failed, Some(id));
            return Ok(());
        }
        self.passed += 1;
        self.keep_in_lane(id, offset, failed);
        Ok(())
    }

    /// Lets a record wait behind the others of its lane; not indexed if too many wait already.
    pub(super) fn keep_in_lane(&mut self, id: LaneId, offset: Offset, failed: u32) {
        let is_crowded = self.delivery.lanes.pending() >= self.request.indexed_max / 2;
        let Some(lane) = self.delivery.lanes.get_mut(id) else { return };
        if lane.more_from.is_some() {
            return;
        }
        if is_crowded && !lane.is_empty() {
            lane.more_from = Some(offset);
        } else {
            self.delivery.lanes.push_pending(id, offset, failed);
        }
        self.delivery.consider(self.now, id, None, self.effects);
    }

    /// Passes over a record that is leased or given up already, or acked before it was read.
    fn pass_known(&mut self, record: &Record) -> bool {
        let offset = record.offset;
        let delivery = &mut *self.delivery;
        if let Some(held) = delivery.leases.get(offset).copied() {
            let lane = delivery.settings.lane_key(record).map(|key| delivery.lanes.open(key));
            delivery.adopt_if_known(lane, &held);
        } else if delivery.returned.get(offset).is_none() && !self.pass_early(record) {
            return false;
        }
        self.passed += 1;
        true
    }

    fn pass_early(&mut self, record: &Record) -> bool {
        !self.delivery.early.is_empty()
            && self.take_early(record.offset, self.delivery.settings.lane_key(record))
    }
}
