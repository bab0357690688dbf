//! One replay: what was requested, and how far it has come.

use std::sync::atomic::{AtomicBool, Ordering};

use domain::replay::{Destination, Selection};
use domain::{ShardId, SubscriptionId, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::LetterPlace;
use crate::replay::{Account, Order, Replay, ReplayState};

/// What to replay, where to and how fast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayRequest {
    /// Whose letters.
    pub place: LetterPlace,
    /// Which of them. Letters that were already handled are skipped, unless `again` is set; letters
    /// listed one by one are replayed even if all subscriptions have acked them.
    pub selection: Selection,
    /// Where to.
    pub to: Destination,
    /// Letters per second; zero = no limit.
    pub per_second: u32,
    /// Also replays letters that were already replayed, or that all subscriptions have acked.
    pub again: bool,
}

/// A replay, running or not.
pub(crate) struct Run {
    pub(super) name: String,
    /// The id under which the letters it has sent are stored while it runs.
    pub(super) id: SubscriptionId,
    /// The shard of its letters, which runs it.
    pub(super) shard: ShardId,
    pub(super) order: Order,
    account: Mutex<(Account, u64)>,
    is_counted: AtomicBool,
    is_cancelled: AtomicBool,
    /// Notified when it is counted, when it should end, and when it has ended.
    pub(super) changed: Notify,
}

impl Run {
    /// `version` is the version in the catalogue.
    pub(super) fn new(
        (name, id, shard): (String, SubscriptionId, ShardId),
        order: Order,
        account: Account,
        version: u64,
    ) -> Self {
        let is_ended = account.state != ReplayState::Running;
        Self {
            name,
            id,
            shard,
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

    /// Updates its account.
    pub(super) fn note(&self, now: Timestamp, write: impl FnOnce(&mut Account)) {
        let mut account = self.account.lock();
        write(&mut account.0);
        account.0.updated = now;
    }

    /// How far it has come, and the version of its catalogue entry.
    pub(super) fn account(&self) -> (Account, u64) {
        self.account.lock().clone()
    }

    /// It has ended like this, and the catalogue knows.
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
