//! A replay of dead letters: what was requested, and how far it has come.

use domain::replay::{Destination, Selection};
use domain::{Offset, SubscriptionName, Timestamp, TopicId, TopicName};

/// The state of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayState {
    /// It is in progress, and resumes after a restart.
    Running,
    /// It finished.
    Done,
    /// An operator ended it.
    Cancelled,
    /// It cannot continue.
    Failed,
}

impl ReplayState {
    /// The word for it in the API and in the catalogue.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }

    /// Parses that word.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let all = [Self::Running, Self::Done, Self::Cancelled, Self::Failed];
        all.into_iter().find(|state| state.as_str() == word)
    }
}

/// A replay as its owner sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// `projects/{project}/replays/{replay}`.
    pub name: String,
    /// The dead letter topic.
    pub topic: TopicName,
    /// Whose letters; `None` = everyone's.
    pub subscription: Option<SubscriptionName>,
    /// Its state.
    pub state: ReplayState,
    /// How many letters are selected; zero until they are counted.
    pub total: u64,
    /// How many were replayed.
    pub replayed: u64,
    /// How many were skipped because they were already handled.
    pub skipped: u64,
    /// How many cannot be replayed; they stay where they are.
    pub failed: u64,
    /// Letters per second; zero = no limit.
    pub per_second: u32,
    /// Where to.
    pub to: Destination,
    /// Whether to replay letters that were already replayed.
    pub again: bool,
    /// When it was requested.
    pub create_time: Timestamp,
    /// When it last did something.
    pub update_time: Timestamp,
    /// What is wrong, if anything.
    pub error: Option<String>,
}

/// What was requested, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) topic_id: TopicId,
    pub(crate) topic: TopicName,
    pub(crate) subscription: Option<SubscriptionName>,
    pub(crate) selection: Selection,
    pub(crate) to: Destination,
    pub(crate) per_second: u32,
    pub(crate) again: bool,
    /// Letters from here on came after the request.
    pub(crate) until: Offset,
    pub(crate) created: Timestamp,
}

/// How far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) state: ReplayState,
    pub(crate) total: u64,
    pub(crate) replayed: u64,
    pub(crate) skipped: u64,
    pub(crate) failed: u64,
    pub(crate) updated: Timestamp,
    pub(crate) error: Option<String>,
}

impl Account {
    /// Nothing done yet.
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            state: ReplayState::Running,
            total: 0,
            replayed: 0,
            skipped: 0,
            failed: 0,
            updated: now,
            error: None,
        }
    }
}
