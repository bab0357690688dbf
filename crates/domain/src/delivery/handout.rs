//! Leasing: the one place where records of the log meet a consumer.

use super::consumer::Load;
use super::leases::Held;
use super::{
    AckId, Delivery, Effects, Lease, LeaseRequest, LeaseStatus, OUTSTANDING_MAX, Read, Source,
};
use crate::offset::{Offset, OffsetRange, Record};
use crate::progress::unite;
use crate::time::Moment;

/// Most records looked at in one call without leasing them, so that no call holds the
/// subscription's lock for long.
const RECORDS_PASSED_MAX: usize = 10_000;

pub(super) fn lease(
    delivery: &mut Delivery,
    now: Moment,
    request: &LeaseRequest,
    source: &mut dyn Source,
    out: &mut Vec<Lease>,
    effects: &mut Effects,
) -> LeaseStatus {
    let consumer = request.consumer;
    let Some(load) = delivery.consumers.load(consumer) else { return LeaseStatus::Drained };
    let deadline = now.plus(request.ack_deadline);
    let mut handout = Handout {
        delivery,
        request,
        deadline,
        load,
        records_left: request.records_max,
        bytes_left: request.bytes_max,
        passed: 0,
        out,
        effects,
    };
    let stop = handout.run(source);
    let (load, has_leased) = (handout.load, handout.records_left < request.records_max);
    delivery.consumers.set_load(consumer, load);
    if has_leased {
        delivery.consumers.next_record_changed(effects);
    }
    match stop {
        Stop::Status(status) => status,
        Stop::NoRoom { bytes } => {
            delivery.consumers.wait_for_room(consumer, bytes);
            LeaseStatus::Full
        }
        Stop::OutstandingMax => {
            delivery.consumers.wait_for_any_lease_to_end(consumer);
            LeaseStatus::Full
        }
    }
}

/// One call of `lease` under way.
struct Handout<'call> {
    delivery: &'call mut Delivery,
    request: &'call LeaseRequest,
    deadline: Moment,
    load: Load,
    records_left: usize,
    bytes_left: usize,
    /// Records looked at and not leased.
    passed: usize,
    out: &'call mut Vec<Lease>,
    effects: &'call mut Effects,
}

enum Stop {
    Status(LeaseStatus),
    /// The consumer has no room for a record of so many bytes.
    NoRoom {
        bytes: u64,
    },
    OutstandingMax,
}

impl Handout<'_> {
    fn run(&mut self, source: &mut dyn Source) -> Stop {
        loop {
            if let Err(stop) = self.check_room().and_then(|()| self.step(source)) {
                return stop;
            }
        }
    }

    /// Stops where even an empty record could not be leased.
    fn check_room(&self) -> Result<(), Stop> {
        if self.records_left == 0 || self.passed >= RECORDS_PASSED_MAX {
            return Err(Stop::Status(LeaseStatus::More));
        }
        if self.delivery.leases.len() >= OUTSTANDING_MAX {
            return Err(Stop::OutstandingMax);
        }
        // Without any room left for bytes only empty records would fit, and looking for one is
        // not worth a read.
        if self.load.fits(1) { Ok(()) } else { Err(Stop::NoRoom { bytes: 1 }) }
    }

    /// Reads once, what comes again before what is fresh, and leases what it may.
    fn step(&mut self, source: &mut dyn Source) -> Result<(), Stop> {
        let records_max = u64::try_from(self.records_left).unwrap_or(u64::MAX);
        let records_max = records_max.min(self.load.messages_room());
        let again = self.delivery.lanes.next_run(records_max);
        let (from, to) = match again {
            Some(run) => (run.from, run.to),
            None => {
                let fresh = self.delivery.progress.next_unacked(self.delivery.fresh);
                (fresh, Offset(u64::MAX))
            }
        };
        let records_max = records_max.min(OffsetRange { from, to }.len());
        let bytes_max = self.load.bytes_room().min(self.bytes_left as u64);
        match source.read(from, narrow(records_max), narrow(bytes_max)) {
            Read::Records { covered, records, damaged } => {
                let within = OffsetRange { from, to: covered.to.min(to) };
                if within.is_empty() {
                    // A source that has nothing to say must not keep us asking.
                    return Err(Stop::Status(LeaseStatus::Drained));
                }
                self.take(within, records, &damaged)
            }
            Read::Elsewhere => Err(Stop::Status(LeaseStatus::Wanted(from))),
            Read::AtEnd => Err(Stop::Status(LeaseStatus::Drained)),
        }
    }

    /// Leases or settles what stands in `within`, in order, and moves `fresh` behind it.
    fn take(
        &mut self,
        within: OffsetRange,
        records: Vec<Record>,
        damaged: &[Offset],
    ) -> Result<(), Stop> {
        let mut at = within.from;
        let mut outcome = Ok(());
        for record in records {
            let offset = record.offset;
            if !within.contains(offset) || offset < at {
                continue;
            }
            if at < offset {
                self.pass_gap(OffsetRange { from: at, to: offset }, damaged);
            }
            at = offset;
            outcome = self.offer(record);
            if outcome.is_err() {
                break;
            }
            at = offset.next();
        }
        if outcome.is_ok() {
            self.pass_gap(OffsetRange { from: at, to: within.to }, damaged);
            at = within.to;
        }
        self.delivery.fresh = self.delivery.fresh.max(at);
        outcome
    }

    /// Leases `record`, passes it over, or stops in front of it.
    fn offer(&mut self, record: Record) -> Result<(), Stop> {
        let offset = record.offset;
        if self.delivery.progress.is_acked(offset) {
            self.passed += 1;
            return Ok(());
        }
        if !self.is_wanted(&record) {
            self.passed += 1;
            self.delivery.settle_one(offset, self.effects);
            return Ok(());
        }
        self.check_room()?;
        let bytes = record.body.len();
        if bytes > self.bytes_left && self.records_left < self.request.records_max {
            return Err(Stop::Status(LeaseStatus::More));
        }
        if !self.load.fits(bytes as u64) {
            return Err(Stop::NoRoom { bytes: bytes as u64 });
        }
        if self.delivery.lanes.admits(&record, self.request.consumer) {
            self.grant(record);
        } else {
            self.passed += 1;
        }
        Ok(())
    }

    /// Whether the subscription is to be given this record at all.
    fn is_wanted(&self, record: &Record) -> bool {
        let subscription = self.delivery.identity.subscription;
        record.publish_time >= self.request.retained_since
            && record.addressee.is_none_or(|addressee| addressee == subscription)
    }

    fn grant(&mut self, record: Record) {
        let (offset, bytes) = (record.offset, record.body.len());
        let delivery = &mut *self.delivery;
        let failed = match delivery.lanes.take(offset) {
            Some(failed) => failed,
            None => delivery.progress.attempt(offset).map_or(0, |attempt| attempt.count),
        };
        let lease = delivery.next_lease;
        delivery.next_lease += 1;
        delivery.leases.insert(Held {
            offset,
            lease,
            deadline: self.deadline,
            consumer: self.request.consumer,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            failed,
        });
        self.load.add(bytes as u64);
        self.records_left -= 1;
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        let identity = delivery.identity;
        let ack_id = AckId::new(identity.subscription, offset, identity.epoch, lease);
        self.out.push(Lease { ack_id, attempt: failed.saturating_add(1), record });
    }

    /// Settles offsets at which no record stands. Damaged ones stay as they are, and are not
    /// looked at again.
    fn pass_gap(&mut self, gap: OffsetRange, damaged: &[Offset]) {
        let mut from = gap.from;
        for &offset in damaged.iter().filter(|&&offset| gap.contains(offset)) {
            self.delivery.lanes.take(offset);
            self.settle_gap(OffsetRange { from, to: offset });
            from = offset.next();
        }
        self.settle_gap(OffsetRange { from, to: gap.to });
    }

    fn settle_gap(&mut self, gap: OffsetRange) {
        if gap.is_empty() {
            return;
        }
        self.delivery.lanes.settled(gap);
        if self.delivery.progress.ack(gap) > 0 {
            unite(&mut self.effects.settled, gap);
        }
    }
}

/// A limit as a `usize`; what does not fit is no limit.
fn narrow(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}
