//! Lanes, as an operator sees them and acts on them.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::delivery::{Effects, Exhausted, Failure, LaneView, Ordering};
use domain::{Now, Offset};
use storage::Urgency;
use tokio::sync::oneshot;

use super::Subscription;
use super::acks::confirm;
use super::jobs::{Job, Skip};
use crate::audit::{self, AuditAct};
use crate::error::{Error, Result};
use crate::source::{Found, find};

/// Most records that are read to learn which lanes they block.
const UNREAD_MAX: usize = 1_000;

impl Subscription {
    /// The lanes that have something to do, those blocked longest first. Behind them come lanes
    /// that were blocked when the server stopped and were not read since.
    pub async fn lanes(self: &Arc<Self>, blocked_only: bool) -> Result<Vec<LaneView>> {
        let now = self.runtime.now();
        let mut lanes = self.lock_attached()?.delivery.lanes(now);
        let mut unread = self.unread_lanes(now).await?;
        for lane in &lanes {
            unread.remove(&lane.key);
        }
        lanes.extend(unread.into_values());
        if blocked_only {
            lanes.retain(|lane| lane.state.is_blocked());
        }
        Ok(lanes)
    }

    /// Lets the message that blocks the lane `key` be tried at once, as if it had never been.
    /// Durable when it returns; `FailedPrecondition` if nothing blocks the lane.
    pub async fn release_lane(self: &Arc<Self>, key: &str) -> Result<()> {
        let offset = self.blocked_by(key).await?;
        let receipt = {
            let now = self.runtime.now();
            let mut effects = Effects::default();
            let mut state = self.lock_attached()?;
            if !state.delivery.release(now, offset, &mut effects) {
                return Err(self.not_blocked(key));
            }
            self.finish(&mut state, effects, Urgency::Durable)
        };
        confirm(receipt).await?;
        self.audit("release", key, offset);
        Ok(())
    }

    /// Gives the message up that blocks the lane `key`: it goes to the dead letter topic if there
    /// is one, and is dropped otherwise. Durable when it returns; `FailedPrecondition` if nothing
    /// blocks the lane, or if the dead letter topic does not exist.
    pub async fn skip_lane(self: &Arc<Self>, key: &str) -> Result<()> {
        let offset = self.blocked_by(key).await?;
        let (class, attempt) = {
            let state = self.lock_attached()?;
            let class = state.delivery.last_class(key, offset);
            (class, state.delivery.progress().attempt(offset))
        };
        let failure = class.map(Failure::of);
        let attempts = attempt.map_or(0, |attempt| attempt.count);
        let (answer, answered) = oneshot::channel();
        self.notes.given_up.add(Job {
            subscription: Arc::clone(self),
            exhausted: Exhausted { offset, attempts, failure },
            skip: Some(Skip { key: key.to_owned(), answer }),
        });
        answered.await.unwrap_or(Err(Error::Closing))?;
        self.audit("skip", key, offset);
        Ok(())
    }

    /// The message that blocks the lane `key`.
    async fn blocked_by(self: &Arc<Self>, key: &str) -> Result<Offset> {
        self.runtime.check_serving()?;
        let now = self.runtime.now();
        self.touch(now.wall);
        let known = self.lock_attached()?.delivery.blocked_by(key);
        if let Some(offset) = known {
            return Ok(offset);
        }
        let unread = self.unread_lanes(now).await?;
        let blocked = unread.get(key).filter(|lane| lane.state.is_blocked());
        blocked.and_then(|lane| lane.next).ok_or_else(|| self.not_blocked(key))
    }

    fn not_blocked(&self, key: &str) -> Error {
        let name = &self.name;
        Error::FailedPrecondition(format!("lane {key:?} of subscription {name} is not blocked"))
    }

    fn audit(&self, act: &'static str, key: &str, offset: Offset) {
        self.runtime.options.audit.record(&AuditAct {
            at: self.runtime.clock.wall(),
            resource: self.name.to_string(),
            act,
            key: Some(key.to_owned()),
            message_id: Some(offset.to_string()),
            details: None,
            peer: audit::peer(),
        });
    }

    /// The lanes of records that failed and were not read since the restart, by key.
    async fn unread_lanes(&self, now: Now) -> Result<BTreeMap<String, LaneView>> {
        let (settings, mut unread) = {
            let state = self.lock_attached()?;
            (Arc::clone(&state.settings), state.delivery.attempts_unread())
        };
        let mut lanes = BTreeMap::new();
        if settings.ordering() == Ordering::None {
            return Ok(lanes);
        }
        unread.truncate(UNREAD_MAX);
        let rules = crate::settings::delivery(&settings, &self.runtime.options.push);
        for (offset, attempt) in unread {
            let found = find(&*self.runtime.log, self.topic.id(), offset).await?;
            let Found::Record(record) = found else { continue };
            let Some(key) = rules.lane_key(&record) else { continue };
            let lane = self.lock_attached()?.delivery.lane_unread(now, key, offset, attempt);
            lanes
                .entry(key.to_owned())
                .and_modify(|known: &mut LaneView| known.pending += 1)
                .or_insert(lane);
        }
        Ok(lanes)
    }
}
