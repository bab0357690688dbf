//! Statistics of topics and subscriptions: for metrics, alerts and people, never for decisions.
//!
//! Counters start at zero when the server starts. They are kept under locks that are held anyway,
//! or, for pushes, are single atomics; they need no allocations.

mod exported;
mod obstacles;
mod oldest;
mod pushed;

use std::time::Duration;

use domain::delivery::{AckStatus, Failed, Failure};
use domain::{SubscriptionId, SubscriptionName, TopicName};
use storage::HistogramSnapshot;

pub use exported::ExportFigures;
pub(crate) use exported::Exported;
pub(crate) use obstacles::EndpointFigures;
pub use obstacles::{Cause, LeftAlone, Obstacles};
pub(crate) use oldest::{ONE, Oldest};
pub(crate) use pushed::Pushed;

/// Statistics of a subscription.
#[derive(Clone, Debug)]
pub struct SubscriptionFigures {
    /// Which life of the name this is; counters continue within one life.
    pub id: SubscriptionId,
    /// Its name.
    pub name: SubscriptionName,
    /// Its topic; `None` = deleted.
    pub topic: Option<TopicName>,
    /// Whether its messages are pushed.
    pub is_push: bool,
    /// Whether all its messages are delivered in order, one at a time.
    pub is_fifo: bool,
    /// Unacked records. Exact for what was read; for the rest, records that the filter will skip
    /// and that were dropped meanwhile count too.
    pub backlog_messages: u64,
    /// Approximate bytes of these: their number times the average message size of the topic since
    /// the start, or the size of the oldest if none was published since.
    pub backlog_bytes: u64,
    /// How long ago the oldest of them was published. If that one is on disk and was not looked up
    /// yet, the age of the previous oldest; `None` = unknown, or there is no backlog.
    pub oldest_unacked_age: Option<Duration>,
    /// Leases not yet settled.
    pub outstanding: u64,
    /// Leases granted.
    pub deliveries: u64,
    /// Acks that counted.
    pub acks: u64,
    /// Deliveries that failed because of a nack or an endpoint's answer.
    pub nacks: u64,
    /// Deliveries whose ack deadline passed.
    pub expiries: u64,
    /// Attempts to push by class, in the words of the attempt history (`ok`, `http_4xx`,
    /// `http_5xx`, `timeout`, …), all of them; empty if nothing is pushed.
    pub attempts: Vec<(&'static str, u64)>,
    /// How long requests took, in microseconds; empty if nothing is pushed.
    pub push_latency: HistogramSnapshot,
    /// How many requests the endpoint is sent at a time; `None` = nothing is pushing now.
    pub push_window: Option<u32>,
    /// What was exported; `None` = nothing is, and was since the start.
    pub export: Option<ExportFigures>,
    /// Messages that were dead-lettered.
    pub dead_letters: u64,
    /// Its dead letters that nobody has handled.
    pub dead_letters_waiting: u64,
    /// Messages dropped because they were exhausted without a dead letter policy.
    pub dropped: u64,
    /// What it is waiting for.
    pub obstacles: Obstacles,
    /// Whether its messages are in lanes, a single one or one per key.
    pub has_lanes: bool,
    /// How long the longest-failing lane has been failing; `None` = none is.
    pub lane_blocked_for: Option<Duration>,
    /// Only for a FIFO subscription.
    pub fifo: Option<FifoFigures>,
}

/// What a FIFO subscription is waiting for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FifoFigures {
    /// Waiting messages, including the one being tried.
    pub queue_depth: u64,
    /// How long the first message has been failing; `None` = it is not.
    pub blocked_for: Option<Duration>,
    /// How often it failed.
    pub current_retry_count: u32,
}

/// Statistics of a topic.
#[derive(Clone, Debug)]
pub struct TopicFigures {
    /// Its name.
    pub name: TopicName,
    /// Messages published to it, including dead letters.
    pub messages: u64,
    /// Bytes of their data, attributes and ordering keys.
    pub bytes: u64,
}

/// What is counted under a subscription's lock.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) deliveries: u64,
    pub(crate) acks: u64,
    pub(crate) nacks: u64,
    pub(crate) expiries: u64,
}

impl Counts {
    pub(crate) fn note_ack(&mut self, status: AckStatus) {
        let counts = matches!(status, AckStatus::Settled | AckStatus::Provisional);
        self.acks += u64::from(counts);
    }

    pub(crate) fn note_failed(&mut self, failed: &Failed) {
        if failed.failure.class == Failure::EXPIRED.class {
            self.expiries += 1;
        } else {
            self.nacks += 1;
        }
    }
}
