//! Who gets which record when: leases, acks, nacks, deadlines, ordering, backoffs.
//!
//! One `Delivery` per subscription, used by every delivery mode. It is a pure state machine: time
//! and events come in, leases and effects go out. Everything else is derived from the log and the
//! progress, so a crash loses the leases, the provisional acks and nothing else.
//!
//! ```text
//!                                      nack, deadline passed
//!              ┌──────────────┬───────────────┬──────────────────────┐
//!              ▼              ▼               ▼                      │
//!        ┌──────────┐  ┌─────────────┐  ┌───────────┐           ┌────┴───┐  extend
//!        │ waiting  │◄─┤ backing off │  │ exhausted │           │ leased │◄───────┐
//!        └────┬─────┘  └─────────────┘  └─────┬─────┘           └─┬──┬─┬─┘        │
//!             │ lease, before what is fresh   │ dead-lettered,    ▲  │ └──────────┘
//!             └───────────────────────────────┼───────────────────┤  │ ack
//!                                             │ dropped           │  │   (in a lane: when all
//!                          ┌─────────┐  lease │                   │  │    before it are settled)
//!                          │  fresh  ├────────┼───────────────────┘  ▼
//!                          └────┬────┘        │                 ┌─────────┐
//!                               └─────────────┴────────────────►│ settled │
//!                       gap, not meant for this one, filtered   └─────────┘
//!
//!   offsets  ─ settled, waiting, leased, damaged ─┊─ fresh, or settled by late acks ─┊
//!            cursor                            `fresh`                              end
//! ```
//!
//! A record without a lane waits on its own (`returned.rs`); one in a lane waits together with all
//! those behind it (`lane.rs`). One rule decides whether a failed record may go again
//! (`readiness.rs`), and one type, `LeaseStatus`, says why no more is leased. An unreadable record
//! is neither delivered nor settled.

mod ack_id;
mod acks;
mod backoffs;
mod consumer;
mod failure;
mod handout;
mod lane;
mod lanes_view;
mod leases;
mod readiness;
mod record_view;
mod returned;
mod settling;
mod source;
#[cfg(test)]
mod tests;
mod waits;
pub(crate) mod wheel;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub use ack_id::{AckId, MalformedAckId};
pub use consumer::{ConsumerId, Flow};
pub use failure::{Exhausted, Failed, Failure};
pub use lanes_view::{LaneState, LaneView};
pub use readiness::Readiness;
pub use record_view::{RecordState, RecordView};
pub use source::{Lease, LeaseRequest, LeaseStatus, Read, Source};
pub use waits::Waits;

use backoffs::Backoffs;
use consumer::Consumers;
use lane::{LaneId, Lanes};
use leases::Leases;
use returned::{Back, Returned, Standing};

use crate::backoff::Backoff;
use crate::filter::Filter;
use crate::message;
use crate::offset::{Epoch, Offset, OffsetRange, Record, SubscriptionId};
use crate::policy::Poison;
use crate::progress::{Attempt, Progress};
use crate::time::{Moment, Now, Timestamp};

/// Maximum number of leases of one subscription at a time.
pub const OUTSTANDING_MAX: usize = 1_000_000;

/// Maximum number of records of one subscription that are known and waiting: behind a blocked lane,
/// or after a failed delivery.
pub const INDEXED_MAX: usize = 100_000;

/// Late acks from before a restart that are kept until their records are read.
const EARLY_ACKS_MAX: usize = 10_000;

/// Acks remembered as having settled their records, so that repeating one is not an error.
const CONFIRMED_MAX: usize = 10_000;

/// The part of a subscription's settings that decides who gets which record when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// In which order records are delivered.
    pub ordering: Ordering,
    /// How long a lease lasts if the consumer does not say.
    pub ack_deadline: Duration,
    /// Only the id of the current lease settles a record.
    pub exactly_once: bool,
    /// The attribute that names a record's lane, in place of its ordering key.
    pub lane_by: Option<Arc<str>>,
    /// Records that do not match are settled without being delivered.
    pub filter: Option<Arc<Filter>>,
    /// How long a record waits after a failed delivery; `None` = no wait.
    pub retry: Option<Backoff>,
    /// A record is exhausted after this many failed deliveries; `None` = never.
    pub attempts_max: Option<u32>,
    /// What happens to a lane whose next record is exhausted.
    pub poison: Poison,
    /// Nothing is leased.
    pub is_paused: bool,
    /// The server itself delivers, by push or into objects: failed deliveries are counted across
    /// restarts whatever the policies.
    pub is_push: bool,
}

impl Settings {
    /// Minimal settings: no ordering, no policies.
    pub fn plain(ack_deadline: Duration) -> Self {
        Self {
            ordering: Ordering::None,
            ack_deadline,
            exactly_once: false,
            lane_by: None,
            filter: None,
            retry: None,
            attempts_max: None,
            poison: Poison::Skip,
            is_paused: false,
            is_push: false,
        }
    }

    /// Whether failed deliveries are counted across restarts.
    fn journals_attempts(&self) -> bool {
        self.is_push || self.retry.is_some() || self.attempts_max.is_some()
    }

    /// The lane of a record; `None` = unordered.
    pub fn lane_key<'record>(&self, record: &'record Record) -> Option<&'record str> {
        let key = match (self.ordering, &self.lane_by) {
            (Ordering::None, _) => return None,
            (Ordering::Fifo, _) => return Some(""),
            (Ordering::ByKey, None) => message::ordering_key(&record.body).ok()?,
            (Ordering::ByKey, Some(name)) => message::attribute(&record.body, name).ok()??,
        };
        (!key.is_empty()).then_some(key)
    }
}

/// In which order the records of a subscription are delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ordering {
    /// Any order, though mostly log order.
    #[default]
    None,
    /// Messages with the same lane key in log order; those without a key in any order.
    ByKey,
    /// All messages in log order.
    Fifo,
}

/// Identifies the `Delivery` that issues ack ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The subscription.
    pub subscription: SubscriptionId,
    /// The claim under which it runs; greater than that of every earlier `Delivery` of it.
    pub epoch: Epoch,
}

/// What a call caused besides its return value. Calls append to what is already there.
///
/// `settled` and `attempts` must be journaled; an offset is never in `attempts` after it was
/// settled, so the order between the two does not matter.
#[derive(Debug, Default, PartialEq)]
pub struct Effects {
    /// Offsets settled for good, ascending and not adjacent.
    pub settled: Vec<OffsetRange>,
    /// Attempts that must survive a crash.
    pub attempts: Vec<(Offset, Attempt)>,
    /// Records that have used up their attempts. The owner forwards or drops them and confirms with
    /// `settle_exhausted`, or puts them back with `spare`.
    pub exhausted: Vec<Exhausted>,
    /// Failed deliveries, in the order they failed: for counting and reporting.
    pub failed: Vec<Failed>,
    /// Consumers that may ask again: there is room for them, or something only they can take.
    pub freed: Vec<ConsumerId>,
    /// How many records became available to any consumer.
    pub returned: usize,
}

/// What an ack did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckStatus {
    /// It settled the record.
    Settled,
    /// It settles when everything before it in its lane is settled. Until then a crash, or one of
    /// those coming back, undoes it.
    Provisional,
    /// The record was already settled; with exactly-once, by this very id.
    AlreadySettled,
    /// The id no longer counts: exactly-once accepts no late id, nor does a lane that came back
    /// since, or a subscription that did a seek since. Nothing happened.
    Stale,
    /// The subscription never issued this id. Nothing happened.
    Foreign,
    /// No record is visible at its offset. Nothing happened.
    Beyond,
}

/// What an extension, a nack or a give-back did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtendStatus {
    /// The lease has its new deadline.
    Extended,
    /// The lease has ended; its record waits for redelivery.
    Returned,
    /// The lease had already ended. Nothing happened.
    Stale,
    /// The subscription never issued this id. Nothing happened.
    Foreign,
}

/// The state machine of one subscription.
#[derive(Debug)]
pub struct Delivery {
    identity: Identity,
    settings: Settings,
    progress: Progress,
    /// Where reading the log continues. Everything below is settled, leased, returned, in a lane or
    /// damaged.
    fresh: Offset,
    returned: Returned,
    lanes: Lanes,
    /// Lanes held by an exhausted record, by that record.
    exhausted_lanes: BTreeMap<Offset, LaneId>,
    backoffs: Backoffs,
    leases: Leases,
    consumers: Consumers,
    /// Acked with ids from an earlier epoch and not read yet: their lanes are unknown until they
    /// are.
    early: BTreeSet<Offset>,
    /// Records not read yet that will halt their lanes.
    halted_unread: BTreeSet<Offset>,
    /// With exactly-once: the latest leases whose ids settled their records.
    confirmed: BTreeMap<u64, Offset>,
    /// Reading stopped because too many records wait or are leased.
    is_stalled: bool,
    /// How many may wait, from the last request.
    indexed_max: usize,
    /// The number of the next lease.
    next_lease: u64,
}

/// Calls for consumers.
impl Delivery {
    /// Resumes a subscription where `progress` left it, without any leases.
    pub fn new(identity: Identity, settings: Settings, progress: Progress) -> Self {
        let mut delivery = Self {
            identity,
            settings,
            fresh: progress.cursor(),
            progress,
            returned: Returned::default(),
            lanes: Lanes::default(),
            exhausted_lanes: BTreeMap::new(),
            backoffs: Backoffs::default(),
            leases: Leases::default(),
            consumers: Consumers::default(),
            early: BTreeSet::new(),
            halted_unread: BTreeSet::new(),
            confirmed: BTreeMap::new(),
            is_stalled: false,
            indexed_max: INDEXED_MAX,
            next_lease: 0,
        };
        delivery.find_halted_unread();
        delivery
    }

    /// Adds a consumer that holds nothing.
    pub fn open_consumer(&mut self, flow: Flow) -> ConsumerId {
        self.consumers.open(flow)
    }

    /// Changes how much a consumer may hold. Any excess stays until settled.
    pub fn set_flow(&mut self, consumer: ConsumerId, flow: Flow, effects: &mut Effects) {
        self.consumers.set_flow(consumer, flow, effects);
    }

    /// Removes a consumer. Its leases stay until they are settled or their deadlines pass, and its
    /// lanes wait for that.
    pub fn close_consumer(&mut self, consumer: ConsumerId) {
        self.consumers.close(consumer);
        self.lanes.forget_consumer(consumer);
    }

    /// Leases records to a consumer and appends them to `out`: redeliveries first, then records
    /// waiting in lanes, then fresh ones, as many as the request, the consumer's flow and
    /// `OUTSTANDING_MAX` allow, and at least one if there is any and the flow allows it.
    ///
    /// Leases whose deadline has passed end first, as `tick` would end them.
    pub fn lease(
        &mut self,
        now: Now,
        request: &LeaseRequest,
        source: &mut dyn Source,
        out: &mut Vec<Lease>,
        effects: &mut Effects,
    ) -> LeaseStatus {
        self.consumers.stop_waiting(request.consumer);
        self.tick(now, effects);
        if self.settings.is_paused {
            return LeaseStatus::Drained;
        }
        handout::lease(self, now, request, source, out, effects)
    }

    /// Settles the record that `id` names; `end` is the end of the visible log.
    ///
    /// A late id counts too, even one from an earlier epoch, and ends the record's newer lease or
    /// backoff, except in a lane that came back since. With exactly-once only the current lease's
    /// id counts, and only before its deadline.
    pub fn ack(
        &mut self,
        now: Moment,
        id: &AckId,
        end: Offset,
        effects: &mut Effects,
    ) -> AckStatus {
        let offset = id.offset();
        if self.is_foreign(id) {
            AckStatus::Foreign
        } else if offset >= end {
            AckStatus::Beyond
        } else if self.is_void(id) {
            AckStatus::Stale
        } else if self.settings.exactly_once {
            self.ack_exactly_once(now, id, effects)
        } else if self.progress.is_acked(offset) {
            AckStatus::AlreadySettled
        } else {
            self.ack_unsettled(id, effects)
        }
    }

    /// Ends the lease that `id` names so that its record is redelivered. A late id is ignored.
    /// `failure` is how the delivery failed.
    pub fn nack(
        &mut self,
        now: Now,
        id: &AckId,
        failure: &Failure,
        effects: &mut Effects,
    ) -> ExtendStatus {
        if self.is_foreign(id) {
            return ExtendStatus::Foreign;
        }
        if !self.is_current(now.moment, id) {
            return ExtendStatus::Stale;
        }
        if let Some(held) = self.leases.remove(id.offset()) {
            self.fail(now, &held, failure, effects);
        }
        ExtendStatus::Returned
    }

    /// Ends the lease that `id` names as if its record had never been handed out: it costs no
    /// attempt. In a lane everything behind it comes back too. A late id is ignored.
    pub fn give_back(&mut self, now: Now, id: &AckId, effects: &mut Effects) -> ExtendStatus {
        if self.is_foreign(id) {
            return ExtendStatus::Foreign;
        }
        if !self.is_current(now.moment, id) {
            return ExtendStatus::Stale;
        }
        if let Some(held) = self.leases.remove(id.offset()) {
            self.take_back(now, &held, effects);
        }
        ExtendStatus::Returned
    }

    /// Moves the deadline of the lease that `id` names to `deadline` from now, whether later or
    /// earlier. Zero is a nack. A late id is ignored.
    pub fn extend(
        &mut self,
        now: Now,
        id: &AckId,
        deadline: Duration,
        effects: &mut Effects,
    ) -> ExtendStatus {
        if deadline.is_zero() {
            return self.nack(now, id, &Failure::NACK, effects);
        }
        if self.is_foreign(id) {
            return ExtendStatus::Foreign;
        }
        if !self.is_current(now.moment, id) {
            return ExtendStatus::Stale;
        }
        self.leases.set_deadline(id.offset(), now.moment.plus(deadline));
        ExtendStatus::Extended
    }

    /// Ends the leases and backoffs that are due; returns how many leases ended. None ends early,
    /// and none is left 17 ms after its time.
    pub fn tick(&mut self, now: Now, effects: &mut Effects) -> usize {
        let mut expired = 0;
        while let Some(held) = self.leases.pop_expired(now.moment) {
            self.expire(now, held, effects);
            expired += 1;
        }
        while let Some(waiting) = self.backoffs.pop_due(now.moment) {
            self.end_backoff(waiting, effects);
        }
        expired
    }

    /// When to call `tick` next; `None` = not before something is leased.
    ///
    /// Usually a lease or a backoff ends then. If a deadline was extended, or is far ahead and
    /// known only roughly, `tick` does nothing and the next wake is later.
    pub fn next_wake(&self) -> Option<Moment> {
        [self.leases.next_wake(), self.backoffs.next_wake()].into_iter().flatten().min()
    }
}

/// Calls for owners and operators.
impl Delivery {
    /// Applies changed settings. A changed ordering takes effect now: provisional acks become
    /// final, and leased records stay leased.
    pub fn update_settings(&mut self, now: Now, settings: Settings, effects: &mut Effects) {
        let is_reordered = (settings.ordering, &settings.lane_by)
            != (self.settings.ordering, &self.settings.lane_by);
        self.settings = settings;
        if is_reordered {
            for offset in self.lanes.acked() {
                self.settle_offset(offset, effects);
            }
            self.start_over();
        } else {
            self.consider_all_again(now, effects);
            self.find_halted_unread();
        }
        effects.returned += 1;
    }

    /// Continues from `progress`: all leases end, and every ack id issued so far is void, even
    /// after a restart. The caller must then journal `progress`.
    pub fn seek(&mut self, mut progress: Progress) {
        progress.void_ids_before(self.identity.epoch, self.next_lease);
        self.progress = progress;
        for offset in self.leases.offsets(|_| true) {
            if let Some(held) = self.leases.remove(offset) {
                // Everyone is woken after a seek, freed or not.
                let mut freed = Effects::default();
                self.consumers.lease_ended(held.consumer, u64::from(held.bytes), &mut freed);
            }
        }
        self.early.clear();
        self.confirmed.clear();
        self.start_over();
    }

    /// Settles an exhausted record that was forwarded or dropped. Does nothing and returns false if
    /// the record is no longer exhausted.
    pub fn settle_exhausted(&mut self, now: Now, offset: Offset, effects: &mut Effects) -> bool {
        if !self.is_exhausted(offset) {
            return false;
        }
        match self.exhausted_lanes.get(&offset) {
            Some(&lane) => self.settle_next_in_lane(now, lane, offset, effects),
            None => self.settle_offset(offset, effects),
        }
        true
    }

    /// Puts an exhausted record back for one more try: it could not be forwarded.
    pub fn spare(&mut self, now: Now, offset: Offset, effects: &mut Effects) {
        if let Some(back) = self.returned.get(offset) {
            if back.standing == Standing::Exhausted {
                let back = Back { is_spared: true, ..back };
                self.place_returned(now, offset, back, None, effects);
            }
        } else if let Some(&id) = self.exhausted_lanes.get(&offset) {
            self.free_hold(id);
            if let Some(lane) = self.lanes.get_mut(id) {
                lane.spared = Some(offset);
            }
            self.consider(now, id, None, effects);
        }
    }

    /// Whether `offset` waits for its owner to forward or drop it.
    pub fn is_exhausted(&self, offset: Offset) -> bool {
        match self.returned.get(offset) {
            Some(back) => back.standing == Standing::Exhausted,
            None => self.exhausted_lanes.contains_key(&offset),
        }
    }

    /// What is settled. Contains every effect issued so far.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// How many leases have not ended.
    pub fn outstanding(&self) -> usize {
        self.leases.len()
    }

    /// Which delivery of `offset` is in progress, counted from 1, and when the record was
    /// published; `None` if it is not leased.
    pub fn leased(&self, offset: Offset) -> Option<(u32, Timestamp)> {
        let held = self.leases.get(offset)?;
        Some((held.failed.saturating_add(1), held.publish_time))
    }

    /// Who holds `offset`; `None` if it is not leased.
    pub fn holder(&self, offset: Offset) -> Option<ConsumerId> {
        self.leases.get(offset).map(|held| held.consumer)
    }

    /// How many records are known and waiting.
    pub fn indexed(&self) -> usize {
        self.returned.len() + self.lanes.pending()
    }

    /// How many records take memory one by one: leased, known and waiting, or acked behind others
    /// of their lane that are not.
    pub fn remembered(&self) -> usize {
        self.leases.len() + self.indexed() + self.lanes.done()
    }

    /// How many records could be leased now, if the log ends at `end`. Counts fresh offsets that
    /// will turn out to be gaps or settled, and lanes that are someone's, so it may be less.
    pub fn available(&self, end: Offset) -> u64 {
        let fresh = self.progress.next_unacked(self.fresh);
        let waiting = self.returned.ready() + self.lanes.pending();
        waiting as u64 + OffsetRange { from: fresh, to: end }.len()
    }

    /// How many offsets below `end` are not settled, including gaps not yet read.
    pub fn backlog(&self, end: Offset) -> u64 {
        let unread = OffsetRange { from: self.progress.cursor(), to: end }.len();
        unread.saturating_sub(self.progress.acked_above_count())
    }
}
