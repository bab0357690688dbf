//! One replay: what was asked for, and how far it has come.

use std::sync::atomic::{AtomicBool, Ordering};

use domain::replay::{Destination, Selection};
use domain::{Offset, SubscriptionId, SubscriptionName, Timestamp, TopicId, TopicName};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::LetterPlace;

/// What to replay, where to and how fast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayRequest {
    /// Whose letters.
    pub place: LetterPlace,
    /// Which of them. Letters that somebody has dealt with are left out, unless `again` is set;
    /// letters that are named one by one go though everybody subscribed has acked them.
    pub selection: Selection,
    /// Where to.
    pub to: Destination,
    /// Letters each second; zero = as fast as it goes.
    pub per_second: u32,
    /// Letters that were replayed, or that everybody subscribed has acked, go too.
    pub again: bool,
}

/// What a replay does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayState {
    /// It is under way; after a restart it goes on.
    Running,
    /// It came to its end.
    Done,
    /// An operator ended it.
    Cancelled,
    /// It cannot go on.
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

    /// Reads that word.
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
    /// Whose letters; `None` = everybody's.
    pub subscription: Option<SubscriptionName>,
    /// What it does.
    pub state: ReplayState,
    /// How many letters are selected; zero until they are counted.
    pub total: u64,
    /// How many were replayed.
    pub replayed: u64,
    /// How many were left out, because somebody had dealt with them.
    pub skipped: u64,
    /// How many cannot be replayed; they stay where they are.
    pub failed: u64,
    /// Letters each second; zero = as fast as it goes.
    pub per_second: u32,
    /// Where to.
    pub to: Destination,
    /// Whether letters go that were replayed before.
    pub again: bool,
    /// When it was asked for.
    pub create_time: Timestamp,
    /// When it last did something.
    pub update_time: Timestamp,
    /// What is wrong, if anything is.
    pub error: Option<String>,
}

/// What was asked for, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) topic_id: TopicId,
    pub(crate) topic: TopicName,
    pub(crate) subscription: Option<SubscriptionName>,
    pub(crate) selection: Selection,
    pub(crate) to: Destination,
    pub(crate) per_second: u32,
    pub(crate) again: bool,
    /// Letters from here on came after it was asked for.
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
    /// Nothing is done yet.
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

/// A replay, running or not.
pub(crate) struct Run {
    pub(super) name: String,
    /// Under which the letters that it has sent are kept while it runs.
    pub(super) id: SubscriptionId,
    pub(super) order: Order,
    account: Mutex<(Account, u64)>,
    is_counted: AtomicBool,
    is_cancelled: AtomicBool,
    /// Told when it is counted, when it is to end, and when it has ended.
    pub(super) changed: Notify,
}

impl Run {
    /// `version` is the catalogue's.
    pub(super) fn new(
        name: String,
        id: SubscriptionId,
        order: Order,
        account: Account,
        version: u64,
    ) -> Self {
        let is_ended = account.state != ReplayState::Running;
        Self {
            name,
            id,
            order,
            account: Mutex::new((account, version)),
            is_counted: AtomicBool::new(is_ended),
            is_cancelled: AtomicBool::new(false),
            changed: Notify::new(),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.account.lock().0.state == ReplayState::Running
    }

    pub(super) fn is_counted(&self) -> bool {
        self.is_counted.load(Ordering::SeqCst)
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::SeqCst)
    }

    pub(super) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    pub(super) fn set_total(&self, total: u64) {
        self.account.lock().0.total = total;
        self.is_counted.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Writes something down.
    pub(super) fn note(&self, now: Timestamp, write: impl FnOnce(&mut Account)) {
        let mut account = self.account.lock();
        write(&mut account.0);
        account.0.updated = now;
    }

    /// How far it has come, and the catalogue's version of what is stored of it.
    pub(super) fn account(&self) -> (Account, u64) {
        self.account.lock().clone()
    }

    /// It has ended so, and the catalogue knows.
    pub(super) fn end(&self, account: Account, version: u64) {
        *self.account.lock() = (account, version);
        self.is_counted.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    pub(super) fn view(&self) -> Replay {
        let (account, _) = self.account();
        Replay {
            name: self.name.clone(),
            topic: self.order.topic.clone(),
            subscription: self.order.subscription.clone(),
            state: account.state,
            total: account.total,
            replayed: account.replayed,
            skipped: account.skipped,
            failed: account.failed,
            per_second: self.order.per_second,
            to: self.order.to,
            again: self.order.again,
            create_time: self.order.created,
            update_time: account.updated,
            error: account.error,
        }
    }
}
