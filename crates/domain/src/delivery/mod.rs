//! Who gets which record when: leases, acks, nacks, deadlines.
//!
//! One `Delivery` per subscription, used by every way of delivering. It is a pure state machine:
//! time and events come in, leases and effects go out. What it does not know it derives from the
//! log and the progress, so a crash loses the leases and nothing else.
//!
//! ```text
//!                    ┌──────────── nack, deadline passed ◄──────────┐
//!                    ▼                                              │
//!              ┌──────────┐             lease                  ┌────┴───┐   extend
//!              │ waiting  ├───────────────────────────────────►│ leased │◄────────┐
//!              └────┬─────┘      lowest first, before fresh    └─┬──┬─┬─┘         │
//!                   │                                            │  │ └───────────┘
//!   late ack        │                ┌───────────────────────────┘  │ ack
//!   (not with       ▼                │ lease                        ▼
//!   exactly-once) ┌─────────┐   ┌────┴────┐  gap, not meant   ┌─────────┐
//!        ────────►│ settled │   │  fresh  ├──for this one────►│ settled │
//!                 └─────────┘   └────┬────┘                   └─────────┘
//!                                    │ damaged
//!                                    ▼
//!                               passed over: neither delivered nor settled
//!
//!   offsets  ─ settled, waiting, leased, damaged ─┊─ fresh, or settled by late acks ─┊
//!            cursor                            `fresh`                              end
//! ```

mod ack_id;
mod consumer;
mod handout;
mod lane;
mod leases;
mod source;
#[cfg(test)]
mod tests;
mod wheel;

use std::time::Duration;

pub use ack_id::{AckId, MalformedAckId};
pub use consumer::{ConsumerId, Flow};
pub use source::{Lease, LeaseRequest, LeaseStatus, Read, Source};

use consumer::Consumers;
use lane::Lanes;
use leases::{Held, Leases};

use crate::offset::{Epoch, Offset, OffsetRange, SubscriptionId};
use crate::progress::{Attempt, Progress, unite};
use crate::time::Moment;

/// Most leases of one subscription at a time.
pub const OUTSTANDING_MAX: usize = 1_000_000;

/// The part of a subscription's settings that decides who gets what when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// In which order records go out.
    pub ordering: Ordering,
    /// How long a lease lasts where the consumer does not say.
    pub ack_deadline: Duration,
    /// Only the id of the current lease settles a record.
    pub exactly_once: bool,
}

/// In which order the records of a subscription go out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ordering {
    /// Any order, though mostly that of the log.
    #[default]
    None,
    /// Messages of one ordering key in the order of the log.
    ByKey,
    /// All messages in the order of the log.
    Fifo,
}

/// Whose ack ids a `Delivery` gives out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The subscription.
    pub subscription: SubscriptionId,
    /// The claim under which it runs; greater than that of every earlier `Delivery` of it.
    pub epoch: Epoch,
}

/// What a call led to besides its answer. Calls add to what is there already.
///
/// `settled` and `attempts` must be journaled; an offset is never in `attempts` after it was
/// settled, so their order to each other does not matter.
#[derive(Debug, Default, PartialEq)]
pub struct Effects {
    /// Offsets settled for good, ascending and not touching.
    pub settled: Vec<OffsetRange>,
    /// Attempts that must survive a crash. No setting needs any yet.
    pub attempts: Vec<(Offset, Attempt)>,
    /// Consumers that were told `Full` and may ask again, each once.
    pub freed: Vec<ConsumerId>,
    /// How many records came back to be delivered again.
    pub returned: usize,
}

/// What became of an ack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckOutcome {
    /// The record is settled by it.
    Settled,
    /// The record was settled before.
    AlreadySettled,
    /// The lease is over, and exactly-once accepts no late id. Nothing happened.
    Stale,
    /// The subscription never gave out this id. Nothing happened.
    Foreign,
    /// No record is visible at its offset. Nothing happened.
    Beyond,
}

/// What became of an extension or a nack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtendOutcome {
    /// The lease has its new deadline.
    Extended,
    /// The lease is ended; its record waits to be delivered again.
    Returned,
    /// The lease was over before. Nothing happened.
    Stale,
    /// The subscription never gave out this id. Nothing happened.
    Foreign,
}

/// The state machine of one subscription.
#[derive(Debug)]
pub struct Delivery {
    identity: Identity,
    settings: Settings,
    progress: Progress,
    /// Where reading the log goes on. What lies below is settled, leased, in `lanes` or damaged.
    fresh: Offset,
    lanes: Lanes,
    leases: Leases,
    consumers: Consumers,
    /// The number of the next lease.
    next_lease: u64,
}

impl Delivery {
    /// Takes a subscription up where `progress` left it, without any leases.
    pub fn new(identity: Identity, settings: Settings, progress: Progress) -> Self {
        Self {
            identity,
            lanes: Lanes::of(settings.ordering),
            settings,
            fresh: progress.cursor(),
            progress,
            leases: Leases::default(),
            consumers: Consumers::default(),
            next_lease: 0,
        }
    }

    /// Adds a consumer that holds nothing.
    pub fn open_consumer(&mut self, flow: Flow) -> ConsumerId {
        self.consumers.open(flow)
    }

    /// Changes what a consumer may hold. What it holds beyond it stays until settled.
    pub fn set_flow(&mut self, consumer: ConsumerId, flow: Flow, effects: &mut Effects) {
        self.consumers.set_flow(consumer, flow, effects);
    }

    /// Removes a consumer. Its leases stay until they are settled or their deadlines pass.
    pub fn close_consumer(&mut self, consumer: ConsumerId) {
        self.consumers.close(consumer);
    }

    /// Leases records to a consumer and appends them to `out`: first what is to be delivered
    /// again, then fresh ones, each lowest offset first, as much as the request, the consumer's
    /// flow and `OUTSTANDING_MAX` allow, and at least one if there is any and the flow allows it.
    ///
    /// Leases whose deadline has passed end first, as `tick` would end them.
    pub fn lease(
        &mut self,
        now: Moment,
        request: &LeaseRequest,
        source: &mut dyn Source,
        out: &mut Vec<Lease>,
        effects: &mut Effects,
    ) -> LeaseStatus {
        self.consumers.stop_waiting(request.consumer);
        self.tick(now, effects);
        handout::lease(self, now, request, source, out, effects)
    }

    /// Settles the record that `id` names; `end` is the end of what is visible of the log.
    ///
    /// A late id counts too, also one of an earlier epoch, and ends the record's newer lease.
    /// With exactly-once only the current lease's id counts, and only before its deadline.
    pub fn ack(
        &mut self,
        now: Moment,
        id: &AckId,
        end: Offset,
        effects: &mut Effects,
    ) -> AckOutcome {
        let offset = id.offset();
        if self.is_foreign(id) {
            AckOutcome::Foreign
        } else if offset >= end {
            AckOutcome::Beyond
        } else if self.settings.exactly_once && !self.is_current(now, id) {
            AckOutcome::Stale
        } else if self.progress.is_acked(offset) {
            AckOutcome::AlreadySettled
        } else {
            self.settle_one(offset, effects);
            AckOutcome::Settled
        }
    }

    /// Ends the lease that `id` names, so that its record is delivered again. A late id is
    /// ignored.
    pub fn nack(&mut self, now: Moment, id: &AckId, effects: &mut Effects) -> ExtendOutcome {
        if self.is_foreign(id) {
            return ExtendOutcome::Foreign;
        }
        if !self.is_current(now, id) {
            return ExtendOutcome::Stale;
        }
        if let Some(held) = self.leases.remove(id.offset()) {
            self.give_back(&held, effects);
        }
        ExtendOutcome::Returned
    }

    /// Moves the deadline of the lease that `id` names to `deadline` from now, be it later or
    /// earlier. Zero is a nack. A late id is ignored.
    pub fn extend(
        &mut self,
        now: Moment,
        id: &AckId,
        deadline: Duration,
        effects: &mut Effects,
    ) -> ExtendOutcome {
        if deadline.is_zero() {
            return self.nack(now, id, effects);
        }
        if self.is_foreign(id) {
            return ExtendOutcome::Foreign;
        }
        if !self.is_current(now, id) {
            return ExtendOutcome::Stale;
        }
        self.leases.set_deadline(id.offset(), now.plus(deadline));
        ExtendOutcome::Extended
    }

    /// Ends the leases whose deadline has passed; returns how many. None ends early, and none is
    /// left 17 ms after its deadline.
    pub fn tick(&mut self, now: Moment, effects: &mut Effects) -> usize {
        let mut expired = 0;
        while let Some(held) = self.leases.pop_expired(now) {
            self.give_back(&held, effects);
            expired += 1;
        }
        expired
    }

    /// When to call `tick` next; `None` = not before something is leased.
    ///
    /// Usually a lease ends then. It may be that a deadline was extended, or lies far ahead and
    /// is only known roughly: then `tick` does nothing and the next wake is later.
    pub fn next_wake(&self) -> Option<Moment> {
        self.leases.next_wake()
    }

    /// Settles offsets that will not be delivered (any more): past their retention, or skipped.
    /// Ends the leases of those that are leased.
    pub fn settle(&mut self, range: OffsetRange, effects: &mut Effects) {
        if range.is_empty() {
            return;
        }
        for offset in self.leases.offsets(|offset| range.contains(offset)) {
            if let Some(held) = self.leases.remove(offset) {
                self.consumers.lease_ended(held.consumer, u64::from(held.bytes), effects);
            }
        }
        self.lanes.settled(range);
        self.consumers.next_record_changed(effects);
        if self.progress.ack(range) > 0 {
            unite(&mut effects.settled, range);
        }
    }

    /// Takes changed settings. The ordering of a subscription never changes.
    pub fn update_settings(&mut self, settings: Settings) {
        debug_assert_eq!(settings.ordering, self.settings.ordering, "the ordering changed");
        self.settings = settings;
    }

    /// What is settled. Contains every effect given out so far.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// How many leases have not ended.
    pub fn outstanding(&self) -> usize {
        self.leases.len()
    }

    /// How many records could be leased now, if the log ends at `end`. Counts fresh offsets that
    /// will turn out to be gaps or settled, so it may be less.
    pub fn available(&self, end: Offset) -> u64 {
        let fresh = self.progress.next_unacked(self.fresh);
        self.lanes.waiting() as u64 + OffsetRange { from: fresh, to: end }.len()
    }

    /// How many offsets below `end` are not settled, gaps not yet read included.
    pub fn backlog(&self, end: Offset) -> u64 {
        let unread = OffsetRange { from: self.progress.cursor(), to: end }.len();
        unread.saturating_sub(self.progress.acked_above_count())
    }

    /// Whether this subscription never gave out `id`: it is another's, or was not leased yet.
    fn is_foreign(&self, id: &AckId) -> bool {
        id.subscription() != self.identity.subscription
            || id.epoch() > self.identity.epoch
            || (id.epoch() == self.identity.epoch && id.lease() >= self.next_lease)
    }

    /// Whether `id` is that of a lease that has not ended.
    fn is_current(&self, now: Moment, id: &AckId) -> bool {
        id.epoch() == self.identity.epoch
            && self
                .leases
                .get(id.offset())
                .is_some_and(|held| held.lease == id.lease() && held.deadline > now)
    }

    /// Settles one offset, which is not settled yet, whatever state it is in.
    fn settle_one(&mut self, offset: Offset, effects: &mut Effects) {
        match self.leases.remove(offset) {
            Some(held) => {
                self.consumers.lease_ended(held.consumer, u64::from(held.bytes), effects);
            }
            None => {
                self.lanes.take(offset);
                self.consumers.next_record_changed(effects);
            }
        }
        let range = OffsetRange::one(offset);
        let fresh = self.progress.ack(range);
        debug_assert_eq!(fresh, 1, "offset {offset} was settled already");
        unite(&mut effects.settled, range);
    }

    /// A lease, already removed, ended without an ack. The one place where a failed delivery is
    /// judged.
    fn give_back(&mut self, held: &Held, effects: &mut Effects) {
        debug_assert!(!self.progress.is_acked(held.offset), "a settled record was leased");
        self.consumers.lease_ended(held.consumer, u64::from(held.bytes), effects);
        self.lanes.give_back(held.offset, held.failed.saturating_add(1));
        self.consumers.next_record_changed(effects);
        effects.returned += 1;
    }
}
