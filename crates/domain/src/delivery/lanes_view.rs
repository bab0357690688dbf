//! Lanes as an operator sees them, and what an operator can do with one that is stuck.

use super::lane::{Hold, Lane, LaneId};
use super::readiness::Readiness;
use super::returned::{Back, Standing};
use super::{Delivery, Effects, Exhausted};
use crate::offset::Offset;
use crate::progress::Attempt;
use crate::time::{Now, Timestamp};

/// The state of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneState {
    /// Its next record is exhausted, and an operator decides what happens to it.
    Halted,
    /// Its next record waits for its backoff to end.
    BackingOff,
    /// Its next record is being forwarded to the dead letter topic, or dropped.
    Exhausted,
    /// Its next record is unreadable.
    Damaged,
    /// Nothing holds it.
    Moving,
}

impl LaneState {
    /// The word for it in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Halted => "halted",
            Self::BackingOff => "backing_off",
            Self::Exhausted => "exhausted",
            Self::Damaged => "damaged",
            Self::Moving => "moving",
        }
    }

    /// Whether the lane waits for something other than consumers.
    pub fn is_blocked(self) -> bool {
        self != Self::Moving
    }
}

/// One lane of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneView {
    /// The lane's key; empty = the one lane of a FIFO subscription.
    pub key: String,
    /// Its state.
    pub state: LaneState,
    /// The next record to go; `None` = all are leased, or not indexed.
    pub next: Option<Offset>,
    /// How many deliveries of that record failed.
    pub attempts: u32,
    /// Since when that record has been failing, if it is.
    pub blocked_since: Option<Timestamp>,
    /// When that record is retried, if it is backing off.
    pub next_attempt_at: Option<Timestamp>,
    /// Records known to wait in the lane. There may be more that are not indexed.
    pub pending: usize,
    /// How the last delivery in the lane failed.
    pub last_class: Option<&'static str>,
}

impl Delivery {
    /// The lanes that have something to do, longest blocked first.
    pub fn lanes(&self, now: Now) -> Vec<LaneView> {
        let mut views: Vec<_> = self.lanes.all().map(|(_, lane)| self.view(now, lane)).collect();
        views.sort_by_key(|view| {
            (view.blocked_since.unwrap_or(Timestamp(u64::MAX)), view.next, view.key.clone())
        });
        views
    }

    /// Records that failed and have not been read since the restart: their lanes are not known yet.
    pub fn attempts_unread(&self) -> Vec<(Offset, Attempt)> {
        self.progress.attempts().filter(|&(offset, _)| offset >= self.fresh).collect()
    }

    /// The lane `key` of such a record, as it will look once the record is read.
    pub fn lane_unread(&self, now: Now, key: &str, offset: Offset, attempt: Attempt) -> LaneView {
        let (state, next_attempt_at) = match self.readiness(now, offset, attempt.count, false, true)
        {
            Readiness::Ready => (LaneState::Moving, None),
            Readiness::BackingOff(_) => (LaneState::BackingOff, Some(attempt.due)),
            Readiness::Exhausted(_) => (LaneState::Exhausted, None),
            Readiness::Halted => (LaneState::Halted, None),
        };
        LaneView {
            key: key.to_owned(),
            state,
            next: Some(offset),
            attempts: attempt.count,
            blocked_since: None,
            next_attempt_at,
            pending: 1,
            last_class: None,
        }
    }

    /// The next record of the lane `key`, if the lane is blocked by it.
    pub fn blocked_by(&self, key: &str) -> Option<Offset> {
        let lane = self.lanes.get(self.lanes.find(key)?)?;
        if lane.hold() == Hold::Free {
            return None;
        }
        lane.next().map(|(offset, _)| offset)
    }

    /// How the last delivery of `offset` in the lane `key` failed, if known.
    pub fn last_class(&self, key: &str, offset: Offset) -> Option<&'static str> {
        let trouble = self.lanes.get(self.lanes.find(key)?)?.trouble()?;
        (trouble.offset == offset).then_some(trouble.class)
    }

    /// Lets a record that blocks its lane, or that failed and has not been read since, be retried
    /// at once with a fresh attempt count. False if it is neither.
    pub fn release(&mut self, now: Now, offset: Offset, effects: &mut Effects) -> bool {
        let Some(lane) = self.blocked_or_unread(offset) else { return false };
        let untried = Attempt { count: 0, due: Timestamp(0) };
        self.progress.set_attempt(offset, untried);
        self.forget_halted_unread(offset);
        effects.attempts.push((offset, untried));
        match lane {
            Some(id) => {
                self.free_hold(id);
                self.lanes.forget_failures(id);
                self.consider(now, id, None, effects);
            }
            None => effects.returned += 1,
        }
        true
    }

    /// Gives up on a record that blocks its lane, or that failed and has not been read since: its
    /// owner forwards or drops it. False if it is neither.
    pub fn skip(&mut self, offset: Offset, effects: &mut Effects) -> bool {
        let Some(lane) = self.blocked_or_unread(offset) else { return false };
        let known = lane.and_then(|id| self.lanes.get(id)?.next()).map_or(0, |(_, failed)| failed);
        let attempt = self.progress.attempt(offset);
        let failed = attempt.map_or(known, |attempt| attempt.count.max(known));
        match lane {
            Some(id) => {
                self.free_hold(id);
                self.exhausted_lanes.insert(offset, id);
                self.lanes.set_hold(id, Hold::Exhausted(offset));
            }
            None => {
                let standing = Standing::Exhausted;
                self.returned.insert(offset, Back { failed, standing, is_spared: false });
            }
        }
        self.forget_halted_unread(offset);
        effects.exhausted.push(Exhausted { offset, attempts: failed, failure: None });
        true
    }

    /// `Some(Some(_))` = it blocks that lane, `Some(None)` = it failed and has not been read since.
    fn blocked_or_unread(&self, offset: Offset) -> Option<Option<LaneId>> {
        let blocks = |lane: &Lane| {
            lane.hold() != Hold::Free && lane.next().is_some_and(|(next, _)| next == offset)
        };
        if let Some((id, _)) = self.lanes.all().find(|(_, lane)| blocks(lane)) {
            return Some(Some(id));
        }
        let is_unread = offset >= self.fresh && self.progress.attempt(offset).is_some();
        is_unread.then_some(None)
    }

    fn view(&self, now: Now, lane: &Lane) -> LaneView {
        let (state, until) = match lane.hold() {
            Hold::Free => (LaneState::Moving, None),
            Hold::BackingOff(backoff) => (LaneState::BackingOff, self.ends_at(now, backoff)),
            Hold::Exhausted(_) => (LaneState::Exhausted, None),
            Hold::Halted => (LaneState::Halted, None),
            Hold::Damaged => (LaneState::Damaged, None),
        };
        let next = lane.next();
        let trouble = lane.trouble().filter(|trouble| next.is_some_and(|n| n.0 == trouble.offset));
        LaneView {
            key: lane.key().to_owned(),
            state,
            next: next.map(|(offset, _)| offset),
            attempts: next.map_or(0, |(_, failed)| failed),
            blocked_since: trouble.map(|trouble| trouble.since),
            next_attempt_at: until,
            pending: lane.pending(),
            last_class: lane.trouble().map(|trouble| trouble.class),
        }
    }
}
