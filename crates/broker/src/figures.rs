//! Figures of topics and subscriptions: for metrics, alerts and people, never for decisions.
//!
//! Counters begin at zero when the server starts. They are kept under locks that are held anyway,
//! or are single atomic numbers of what is pushed; nothing is allocated for them.

mod obstacles;
mod oldest;
mod pushed;

use std::time::Duration;

use domain::delivery::{AckStatus, Failed, Failure};
use domain::{SubscriptionId, SubscriptionName, TopicName};
use storage::HistogramSnapshot;

pub(crate) use obstacles::EndpointFigures;
pub use obstacles::{Cause, LeftAlone, Obstacles};
pub(crate) use oldest::{ONE, Oldest};
pub(crate) use pushed::Pushed;

/// What a subscription does.
#[derive(Clone, Debug)]
pub struct SubscriptionFigures {
    /// Which life of the name this is; counters go on within one life.
    pub id: SubscriptionId,
    /// Its name.
    pub name: SubscriptionName,
    /// Its topic; `None` = it was deleted.
    pub topic: Option<TopicName>,
    /// Whether its messages are pushed.
    pub is_push: bool,
    /// Whether all its messages go in order, one at a time.
    pub is_fifo: bool,
    /// Records that are not acked. Exact for what was read; of what was not, records that the
    /// filter will pass over and that were dropped meanwhile count too.
    pub backlog_messages: u64,
    /// About how many bytes these are: their number times the average of the topic's messages
    /// since the start, or the size of the oldest where none was published since.
    pub backlog_bytes: u64,
    /// How long ago the oldest of them was published. Where that is on disk and was not looked
    /// up yet, it is that of the one that was the oldest before; `None` = not known, or there is
    /// no backlog.
    pub oldest_unacked_age: Option<Duration>,
    /// Leases not yet settled.
    pub outstanding: u64,
    /// Leases handed out.
    pub deliveries: u64,
    /// Acks that counted.
    pub acks: u64,
    /// Deliveries that failed by a nack, or by what an endpoint answered.
    pub nacks: u64,
    /// Deliveries whose ack deadline passed.
    pub expiries: u64,
    /// Attempts to push by class, in the words of the history of attempts (`ok`, `http_4xx`,
    /// `http_5xx`, `timeout`, …), all of them; none where nothing is pushed.
    pub attempts: Vec<(&'static str, u64)>,
    /// How long requests took, in microseconds; empty where nothing is pushed.
    pub push_latency: HistogramSnapshot,
    /// How many requests the endpoint is sent at a time; `None` = nobody pushes now.
    pub push_window: Option<u32>,
    /// Messages that went to the dead letter topic.
    pub dead_letters: u64,
    /// Its dead letters that nobody has handled.
    pub dead_letters_waiting: u64,
    /// Messages dropped, exhausted and without a dead letter policy.
    pub dropped: u64,
    /// What it waits for.
    pub obstacles: Obstacles,
    /// Whether its messages go in lanes, one of all or one for each key.
    pub has_lanes: bool,
    /// How long the lane has failed that has failed longest; `None` = none fails.
    pub lane_blocked_for: Option<Duration>,
    /// Of a FIFO subscription.
    pub fifo: Option<FifoFigures>,
}

/// What a FIFO subscription waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FifoFigures {
    /// Messages that wait, the one that is tried included.
    pub queue_depth: u64,
    /// Since when the message in front fails; `None` = it does not.
    pub blocked_for: Option<Duration>,
    /// How often it failed.
    pub current_retry_count: u32,
}

/// What a topic does.
#[derive(Clone, Debug)]
pub struct TopicFigures {
    /// Its name.
    pub name: TopicName,
    /// Messages published to it, dead letters included.
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
