//! One record as an operator sees it: read only.

use super::Delivery;
use super::backoffs::BackoffId;
use super::lane::Hold;
use super::readiness::Readiness;
use super::returned::Standing;
use crate::offset::Record;
use crate::time::{Now, Timestamp};

/// What an unsettled record is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordState {
    /// For a consumer.
    Waiting,
    /// For the consumer that holds it.
    Leased,
    /// For its backoff to end.
    BackingOff,
    /// For the records in front of it in its lane.
    Blocked,
    /// To be dead-lettered or dropped.
    Exhausted,
    /// For an operator: it halted its lane.
    Halted,
}

impl RecordState {
    /// The word for it in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Leased => "leased",
            Self::BackingOff => "backing off",
            Self::Blocked => "blocked",
            Self::Exhausted => "exhausted",
            Self::Halted => "halted",
        }
    }
}

/// The state of an unsettled record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordView {
    /// What it is waiting for.
    pub state: RecordState,
    /// The attempt in progress, or else the number of failed ones.
    pub attempts: u32,
    /// When it is retried, if it is backing off.
    pub next_attempt_at: Option<Timestamp>,
}

impl Delivery {
    /// The state of `record`; `None` if it is settled or not meant for this subscription.
    pub fn view_record(&self, now: Now, record: &Record) -> Option<RecordView> {
        if self.progress.is_acked(record.offset) || !self.is_meant(record) {
            return None;
        }
        if let Some(held) = self.leases.get(record.offset) {
            let attempts = held.failed.saturating_add(1);
            let state = RecordState::Leased;
            return Some(RecordView { state, attempts, next_attempt_at: None });
        }
        if let Some(back) = self.returned.get(record.offset) {
            let (state, next_attempt_at) = match back.standing {
                Standing::Ready => (RecordState::Waiting, None),
                Standing::BackingOff(id) => (RecordState::BackingOff, self.ends_at(now, id)),
                Standing::Exhausted => (RecordState::Exhausted, None),
            };
            return Some(RecordView { state, attempts: back.failed, next_attempt_at });
        }
        let attempt = self.progress.attempt(record.offset);
        let attempts = attempt.map_or(0, |attempt| attempt.count);
        let key = self.settings.lane_key(record);
        if let Some(lane) = key.and_then(|key| self.lanes.get(self.lanes.find(key)?))
            && record.offset < self.fresh
        {
            let is_next = lane.next().is_some_and(|(next, _)| next == record.offset);
            let next_attempt_at = match lane.hold() {
                Hold::BackingOff(id) if is_next => self.ends_at(now, id),
                _ => None,
            };
            let state = in_lane(lane.hold(), is_next);
            return Some(RecordView { state, attempts, next_attempt_at });
        }
        let mut next_attempt_at = None;
        let state = match self.readiness(now, record.offset, attempts, false, key.is_some()) {
            Readiness::Ready => RecordState::Waiting,
            Readiness::BackingOff(until) => {
                next_attempt_at = Some(now.wall.plus(until.since(now.moment)));
                RecordState::BackingOff
            }
            Readiness::Exhausted(_) => RecordState::Exhausted,
            Readiness::Halted => RecordState::Halted,
        };
        Some(RecordView { state, attempts, next_attempt_at })
    }

    /// When a backoff ends, on the wall clock.
    pub(super) fn ends_at(&self, now: Now, backoff: BackoffId) -> Option<Timestamp> {
        let until = self.backoffs.until(backoff)?;
        Some(now.wall.plus(until.since(now.moment)))
    }

    fn is_meant(&self, record: &Record) -> bool {
        let filter = &self.settings.filter;
        record.addressee.is_none_or(|addressee| addressee == self.identity.subscription)
            && filter.as_ref().is_none_or(|filter| filter.matches(&record.body).unwrap_or(true))
    }
}

fn in_lane(hold: Hold, is_next: bool) -> RecordState {
    match hold {
        Hold::Free => RecordState::Waiting,
        _ if !is_next => RecordState::Blocked,
        Hold::BackingOff(_) => RecordState::BackingOff,
        Hold::Exhausted(_) => RecordState::Exhausted,
        Hold::Halted => RecordState::Halted,
        Hold::Damaged => RecordState::Blocked,
    }
}
