//! What the server can do, whichever way a call comes in: gRPC and REST both call this.

mod about;
mod acks;
mod attempts;
mod backups;
mod figures;
pub(crate) mod fuzzing;
mod lanes;
mod letters;
mod live;
mod paging;
mod peeking;
mod schemas;
mod seek;
mod snapshots;
mod subscriptions;
mod topics;
mod transforms;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use broker::{Broker, Clock};
use domain::Timestamp;

use crate::config::Unsupported;
use crate::status::{Refusal, Result};

pub(crate) use about::About;
pub(crate) use acks::{GivenIds, ack_ids, check_ack_bytes};
pub(crate) use attempts::{AttemptsPage, ListAttempts};
pub(crate) use backups::Backups;
pub(crate) use lanes::{LanesPage, ListLanes};
pub(crate) use letters::{CriteriaText, ListLetters, ReplayLetters, Selected};
pub(crate) use live::{LIVE_BATCH_MAX, LIVE_TURN, ListLive};
pub(crate) use peeking::PeekMessages;
pub(crate) use subscriptions::Warned;
pub(crate) use topics::WarnedTopic;
pub(crate) use transforms::Tried;

/// The calls of the API over one broker.
#[derive(Clone)]
pub(crate) struct Api {
    broker: Arc<Broker>,
    clock: Arc<dyn Clock>,
    /// How long a Pull waits for a message.
    pull_wait: Duration,
    about: Option<Arc<About>>,
    /// Open StreamingPull calls.
    open_streams: Arc<AtomicU64>,
    backups: Option<Arc<Backups>>,
    /// What becomes of definitions of what this server does not run.
    unsupported: Unsupported,
}

impl Api {
    pub(crate) fn new(broker: Arc<Broker>, clock: Arc<dyn Clock>, pull_wait: Duration) -> Self {
        Self {
            broker,
            clock,
            pull_wait,
            about: None,
            open_streams: Arc::default(),
            backups: None,
            unsupported: Unsupported::Keep,
        }
    }

    /// The same with what becomes of definitions of what this server does not run.
    pub(crate) fn with_unsupported(self, unsupported: Unsupported) -> Self {
        Self { unsupported, ..self }
    }

    /// Refuses such a definition, if the settings say so.
    fn check_only_kept(&self, given: Option<&'static str>) -> Result<()> {
        match (self.unsupported, given) {
            (Unsupported::Refuse, Some(setting)) => Err(Refusal::not_run(setting)),
            _ => Ok(()),
        }
    }

    /// The time of day.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.wall()
    }

    /// How many StreamingPull calls are open, counted by those who open and end them.
    pub(crate) fn open_streams(&self) -> &Arc<AtomicU64> {
        &self.open_streams
    }

    pub(crate) fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }
}
