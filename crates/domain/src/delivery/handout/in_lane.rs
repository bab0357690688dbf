//! Leasing records that waited in a lane.

use super::{Handout, READ_AHEAD_BYTES_MAX, READ_AHEAD_MAX};
use crate::delivery::lane::{Hold, LaneId};
use crate::delivery::{LeaseStatus, Read, Source};
use crate::offset::{Offset, OffsetRange, Record};

impl Handout<'_> {
    /// Leases the lane's next record, or indexes more of a lane whose records are not indexed.
    pub(super) fn serve_lane(
        &mut self,
        id: LaneId,
        source: &mut dyn Source,
    ) -> Result<(), LeaseStatus> {
        let Some(lane) = self.delivery.lanes.get(id) else { return Ok(()) };
        match (lane.next(), lane.more_from) {
            (Some((offset, failed)), _) => self.serve_next(id, offset, failed, source),
            (None, Some(from)) => self.read_lane_again(id, from, source),
            (None, None) => Ok(()),
        }
    }

    /// Whether nothing of the lane is known, and no more may be.
    pub(super) fn must_wait_for_room(&self, id: LaneId) -> bool {
        let is_full = self.delivery.remembered() >= self.request.remembered_max;
        is_full && self.delivery.lanes.get(id).is_some_and(|lane| lane.next().is_none())
    }

    fn serve_next(
        &mut self,
        id: LaneId,
        offset: Offset,
        failed: u32,
        source: &mut dyn Source,
    ) -> Result<(), LeaseStatus> {
        let (records, damaged) = match source.read(offset, 1, self.bytes_room()) {
            Read::Records { records, damaged, .. } => (records, damaged),
            Read::Elsewhere => return Err(LeaseStatus::Wanted(offset)),
            Read::AtEnd => return Err(LeaseStatus::Drained),
        };
        match records.into_iter().next().filter(|record| record.offset == offset) {
            Some(record) if self.is_open(&record) => self.offer_next(id, record, failed),
            None if damaged.contains(&offset) => {
                self.passed += 1;
                self.delivery.lanes.set_hold(id, Hold::Damaged);
                Ok(())
            }
            _ => {
                self.passed += 1;
                self.delivery.settle_next_in_lane(self.now, id, offset, self.effects);
                Ok(())
            }
        }
    }

    fn offer_next(&mut self, id: LaneId, record: Record, failed: u32) -> Result<(), LeaseStatus> {
        self.check_fits(&record)?;
        self.delivery.lanes.lease_next(id, self.request.consumer);
        self.grant(record, failed, Some(id));
        // The next record may have to wait.
        self.delivery.consider(self.now, id, None, self.effects);
        Ok(())
    }

    /// Reads again the records of a lane that were skipped because too many were waiting.
    fn read_lane_again(
        &mut self,
        id: LaneId,
        from: Offset,
        source: &mut dyn Source,
    ) -> Result<(), LeaseStatus> {
        let (covered, records, damaged) =
            match source.read(from, READ_AHEAD_MAX, READ_AHEAD_BYTES_MAX) {
                Read::Records { covered, records, damaged } => (covered, records, damaged),
                Read::Elsewhere => return Err(LeaseStatus::Wanted(from)),
                Read::AtEnd => return Err(LeaseStatus::Drained),
            };
        let fresh = self.delivery.fresh;
        let within = OffsetRange { from, to: covered.to.min(fresh) };
        let end = self.take_up_all(id, within, records, damaged);
        if let Some(lane) = self.delivery.lanes.get_mut(id) {
            lane.more_from = (end < fresh).then_some(end);
        }
        self.delivery.consider(self.now, id, None, self.effects);
        self.delivery.lanes.close_if_idle(id);
        Ok(())
    }

    /// Takes up what stands in `within`, as much as there is room for, and settles the gaps in
    /// between: they are nobody's. Says where it stopped.
    fn take_up_all(
        &mut self,
        id: LaneId,
        within: OffsetRange,
        records: Vec<Record>,
        damaged: Vec<Offset>,
    ) -> Offset {
        // At least one, or the lane would never make progress; no more than the index has room for.
        let half = self.request.indexed_max / 2;
        let indexed_max = half.max(self.delivery.lanes.pending() + 1);
        let mut at = within.from;
        let mut damaged = damaged.into_iter().filter(|&offset| within.contains(offset)).peekable();
        for record in records.into_iter().filter(|record| within.contains(record.offset)) {
            while let Some(offset) = damaged.next_if(|&offset| offset < record.offset) {
                self.settle_gap(OffsetRange { from: at, to: offset });
                self.take_up_damaged(id, offset);
                at = offset.next();
            }
            self.settle_gap(OffsetRange { from: at, to: record.offset });
            at = record.offset;
            let is_full = self.delivery.remembered() >= self.request.remembered_max;
            if is_full || self.delivery.lanes.pending() >= indexed_max {
                return at;
            }
            self.passed += 1;
            self.take_up(id, &record);
            at = at.next();
        }
        for offset in damaged {
            self.settle_gap(OffsetRange { from: at, to: offset });
            self.take_up_damaged(id, offset);
            at = offset.next();
        }
        self.settle_gap(OffsetRange { from: at, to: within.to });
        within.to
    }

    /// If all records are in one lane, an unreadable one must belong to it.
    fn take_up_damaged(&mut self, id: LaneId, offset: Offset) {
        if self.is_in_the_one_lane(offset) {
            self.delivery.lanes.push_pending(id, offset, 0);
        }
    }

    /// Indexes a record if it belongs to the lane and still has to be delivered.
    fn take_up(&mut self, id: LaneId, record: &Record) {
        let delivery = &mut *self.delivery;
        let key = delivery.settings.lane_key(record);
        let is_of_lane = key.is_some() && delivery.lanes.get(id).map(|lane| lane.key()) == key;
        if !is_of_lane || delivery.progress.is_acked(record.offset) {
            return;
        }
        match delivery.leases.get(record.offset).copied() {
            Some(held) => delivery.adopt(Some(id), &held),
            None => {
                let attempt = delivery.progress.attempt(record.offset);
                let failed = attempt.map_or(0, |attempt| attempt.count);
                delivery.lanes.push_pending(id, record.offset, failed);
            }
        }
    }
}
