//! Leasing: the only place where records from the log are given to a consumer.

mod fresh;
mod in_lane;

use super::consumer::Load;
use super::lane::LaneId;
use super::leases::Held;
use super::{
    AckId, Delivery, Effects, Lease, LeaseRequest, LeaseStatus, OUTSTANDING_MAX, Ordering, Read,
    Source,
};
use crate::offset::{Offset, OffsetRange, Record};
use crate::progress::unite;
use crate::time::{Moment, Now};

/// Maximum number of records examined in one call without being leased, so that no call holds the
/// subscription's lock for long.
const RECORDS_PASSED_MAX: usize = 10_000;

/// Maximum number of records per read when reading more than could be leased because many are
/// skipped. Also the maximum number indexed when a lane is read again.
const READ_AHEAD_MAX: usize = 1_000;

/// Maximum number of bytes per read when reading more than could be leased.
const READ_AHEAD_BYTES_MAX: usize = 1 << 20;

pub(super) fn lease(
    delivery: &mut Delivery,
    now: Now,
    request: &LeaseRequest,
    source: &mut dyn Source,
    out: &mut Vec<Lease>,
    effects: &mut Effects,
) -> LeaseStatus {
    let consumer = request.consumer;
    let Some(load) = delivery.consumers.load(consumer) else { return LeaseStatus::Drained };
    delivery.indexed_max = request.indexed_max;
    let deadline = now.moment.plus(request.ack_deadline);
    let mut handout = Handout {
        delivery,
        now,
        request,
        deadline,
        load,
        records_left: request.records_max,
        bytes_left: request.bytes_max,
        passed: 0,
        put_off: Vec::new(),
        prefers_fresh: request.prefers_fresh,
        no_room_for: None,
        out,
        effects,
    };
    let status = handout.run(source);
    let (load, has_leased) = (handout.load, handout.records_left < request.records_max);
    let (no_room_for, put_off) = (handout.no_room_for, handout.put_off);
    delivery.is_stalled |= !put_off.is_empty();
    for lane in put_off {
        delivery.lanes.make_ready(lane);
    }
    delivery.consumers.set_load(consumer, load);
    if has_leased {
        delivery.consumers.next_record_changed(effects);
    }
    // The caller is already asking; no need to wake it.
    effects.freed.retain(|freed| *freed != consumer);
    match no_room_for {
        Some(bytes) => delivery.consumers.wait_for_room(consumer, bytes),
        None if status == LeaseStatus::Full => {
            delivery.consumers.wait_for_any_lease_to_end(consumer);
        }
        None => {}
    }
    status
}

/// One call of `lease` in progress.
struct Handout<'call> {
    delivery: &'call mut Delivery,
    now: Now,
    request: &'call LeaseRequest,
    deadline: Moment,
    load: Load,
    records_left: usize,
    bytes_left: usize,
    /// Records examined and not leased.
    passed: usize,
    /// Lanes that had their turn and must wait for room; they are ready again after the call.
    put_off: Vec<LaneId>,
    /// Fresh records are yet to be looked at first.
    prefers_fresh: bool,
    /// The consumer has no room for a record of this many bytes, so the call ends.
    no_room_for: Option<u64>,
    out: &'call mut Vec<Lease>,
    effects: &'call mut Effects,
}

/// What to do next. An error ends the call and says why nothing more is leased.
impl Handout<'_> {
    fn run(&mut self, source: &mut dyn Source) -> LeaseStatus {
        loop {
            if let Err(status) = self.check_room().and_then(|()| self.step(source)) {
                return status;
            }
        }
    }

    /// Stops if not even an empty record could be leased.
    fn check_room(&mut self) -> Result<(), LeaseStatus> {
        if self.records_left == 0 || self.passed >= RECORDS_PASSED_MAX {
            return Err(LeaseStatus::More);
        }
        if self.delivery.leases.len() >= OUTSTANDING_MAX {
            return Err(LeaseStatus::Full);
        }
        // With no room for bytes only empty records would fit, and looking for one is not worth a
        // read.
        self.check_flow(1)
    }

    /// Reads once, redeliveries before fresh records, and leases what it may.
    fn step(&mut self, source: &mut dyn Source) -> Result<(), LeaseStatus> {
        let records_max = u64::try_from(self.records_left).unwrap_or(u64::MAX);
        let records_max = records_max.min(self.load.messages_room());
        if std::mem::take(&mut self.prefers_fresh) {
            match self.read_fresh(narrow(records_max), source) {
                Err(LeaseStatus::Drained) => {}
                other => return other,
            }
        }
        if let Some(run) = self.delivery.returned.next_run(records_max) {
            return self.read_returned(run, source);
        }
        if let Some(lane) = self.delivery.lanes.next_for(self.request.consumer) {
            if self.must_wait_for_room(lane) {
                // Others may have something that is known already.
                self.put_off.push(lane);
                return Ok(());
            }
            let served = self.serve_lane(lane, source);
            // Whatever happened, remember what is left in the lane. Wake nobody: nothing became
            // available that was not available before. A lane that was stopped stays first;
            // otherwise lanes that are far apart in the log would keep evicting what the other just
            // read.
            match &served {
                Ok(()) => drop(self.delivery.lanes.make_ready(lane)),
                Err(_) => self.delivery.lanes.put_back(lane),
            }
            return served;
        }
        self.read_fresh(narrow(records_max), source)
    }

    fn bytes_room(&self) -> usize {
        narrow(self.load.bytes_room()).min(self.bytes_left)
    }
}

/// Records without a lane that came back.
impl Handout<'_> {
    fn read_returned(
        &mut self,
        run: OffsetRange,
        source: &mut dyn Source,
    ) -> Result<(), LeaseStatus> {
        match source.read(run.from, narrow(run.len()), self.bytes_room()) {
            Read::Records { covered, records, damaged } => {
                let within = OffsetRange { from: run.from, to: covered.to.min(run.to) };
                if within.is_empty() {
                    return Err(LeaseStatus::Drained);
                }
                self.take(within, records, &damaged, Self::offer_returned).1
            }
            Read::Elsewhere => Err(LeaseStatus::Wanted(run.from)),
            Read::AtEnd => Err(LeaseStatus::Drained),
        }
    }

    fn offer_returned(&mut self, record: Record) -> Result<(), LeaseStatus> {
        if self.pass_unwanted(&record) {
            return Ok(());
        }
        self.check_fits(&record)?;
        let failed = self.delivery.returned.take(record.offset).map_or(0, |back| back.failed);
        self.grant(record, failed, None);
        Ok(())
    }
}

/// The steps every record goes through.
impl Handout<'_> {
    /// Offers the records in `within`, in order. Returns where it stopped, and why.
    fn take(
        &mut self,
        within: OffsetRange,
        records: Vec<Record>,
        damaged: &[Offset],
        offer: impl Fn(&mut Self, Record) -> Result<(), LeaseStatus>,
    ) -> (Offset, Result<(), LeaseStatus>) {
        let mut at = within.from;
        for record in records {
            let offset = record.offset;
            if !within.contains(offset) || offset < at {
                continue;
            }
            if at < offset {
                self.pass_gap(OffsetRange { from: at, to: offset }, damaged);
            }
            at = offset;
            if let Err(status) = offer(self, record) {
                return (at, Err(status));
            }
            at = offset.next();
        }
        self.pass_gap(OffsetRange { from: at, to: within.to }, damaged);
        (within.to, Ok(()))
    }

    /// Settles a record that the subscription should never receive.
    fn pass_unwanted(&mut self, record: &Record) -> bool {
        if self.is_wanted(record) {
            return false;
        }
        self.passed += 1;
        self.delivery.settle_offset(record.offset, self.effects);
        true
    }

    /// Whether a record that waited in its lane should still be delivered.
    fn is_open(&self, record: &Record) -> bool {
        self.is_wanted(record) && !self.delivery.progress.is_acked(record.offset)
    }

    fn is_wanted(&self, record: &Record) -> bool {
        let subscription = self.delivery.identity.subscription;
        let filter = &self.delivery.settings.filter;
        record.publish_time >= self.request.retained_since
            && record.addressee.is_none_or(|addressee| addressee == subscription)
            // Never drop a body we cannot read because of a filter.
            && filter.as_ref().is_none_or(|filter| filter.matches(&record.body).unwrap_or(true))
    }

    /// Stops before a record that does not fit in the request or the consumer's room.
    fn check_fits(&mut self, record: &Record) -> Result<(), LeaseStatus> {
        self.check_room()?;
        let bytes = record.body.len();
        if bytes > self.bytes_left && self.records_left < self.request.records_max {
            return Err(LeaseStatus::More);
        }
        self.check_flow(bytes as u64)
    }

    /// Stops before a record of `bytes` that does not fit in the consumer's room.
    fn check_flow(&mut self, bytes: u64) -> Result<(), LeaseStatus> {
        if self.load.fits(bytes) {
            return Ok(());
        }
        self.no_room_for = Some(bytes);
        Err(LeaseStatus::Full)
    }

    fn grant(&mut self, record: Record, failed: u32, lane: Option<LaneId>) {
        let (offset, bytes) = (record.offset, record.body.len());
        let delivery = &mut *self.delivery;
        let lease = delivery.next_lease;
        delivery.next_lease += 1;
        delivery.leases.insert(Held {
            offset,
            lease,
            deadline: self.deadline,
            consumer: self.request.consumer,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            failed,
            publish_time: record.publish_time,
            way: lane.into(),
        });
        self.load.add(bytes as u64);
        self.records_left -= 1;
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        let identity = delivery.identity;
        let ack_id = AckId::new(identity.subscription, offset, identity.epoch, lease);
        let attempt = failed.saturating_add(1);
        self.out.push(Lease { ack_id, attempt, record, stored: None });
    }

    /// Settles offsets that have no record. Damaged ones stay as they are and are not examined
    /// again.
    fn pass_gap(&mut self, gap: OffsetRange, damaged: &[Offset]) {
        let mut from = gap.from;
        for &offset in damaged.iter().filter(|&&offset| gap.contains(offset)) {
            self.delivery.returned.take(offset);
            self.pass_damaged(offset);
            self.settle_gap(OffsetRange { from, to: offset });
            from = offset.next();
        }
        self.settle_gap(OffsetRange { from, to: gap.to });
    }

    /// A damaged record's lane cannot be read, unless all records are in one lane.
    fn pass_damaged(&mut self, offset: Offset) {
        let is_in_the_one_lane = self.is_in_the_one_lane(offset);
        if self.take_early(offset, is_in_the_one_lane.then_some("")) || !is_in_the_one_lane {
            return;
        }
        let id = self.delivery.lanes.open("");
        match self.delivery.leases.get(offset).copied() {
            Some(held) => self.delivery.adopt_if_known(Some(id), &held),
            None => self.keep_in_lane(id, offset, 0),
        }
    }

    /// Applies an ack that arrived before its record was read, in the lane `key`.
    fn take_early(&mut self, offset: Offset, key: Option<&str>) -> bool {
        let delivery = &mut *self.delivery;
        if !delivery.early.remove(&offset) {
            return false;
        }
        match key.and_then(|key| delivery.lanes.find(key)) {
            None => delivery.settle_offset(offset, self.effects),
            Some(id) if delivery.lanes.get(id).is_some_and(|lane| lane.more_from.is_none()) => {
                let attempt = delivery.progress.attempt(offset);
                let failed = attempt.map_or(0, |attempt| attempt.count);
                delivery.lanes.push_acked(id, offset, failed);
            }
            // Some records in front of it are not indexed: it is redelivered with them.
            Some(_) => return false,
        }
        true
    }

    fn is_in_the_one_lane(&self, offset: Offset) -> bool {
        let delivery = &*self.delivery;
        delivery.settings.ordering == Ordering::Fifo && !delivery.progress.is_acked(offset)
    }

    /// Settles offsets at which nothing stands. A record that is gone while someone has it, which
    /// shows when it is read again after the order changed, stays theirs until its lease ends.
    fn settle_gap(&mut self, gap: OffsetRange) {
        let mut from = gap.from;
        for offset in self.delivery.leases.within(gap) {
            self.settle_free_gap(OffsetRange { from, to: offset });
            from = offset.next();
        }
        self.settle_free_gap(OffsetRange { from, to: gap.to });
    }

    fn settle_free_gap(&mut self, gap: OffsetRange) {
        if gap.is_empty() {
            return;
        }
        while let Some(offset) = self.delivery.returned.first_in(gap) {
            self.delivery.returned.take(offset);
        }
        if self.delivery.progress.ack(gap) > 0 {
            unite(&mut self.effects.settled, gap);
        }
    }
}

/// A limit as a `usize`; one that does not fit means no limit.
fn narrow(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}
