//! One replay: what was asked for, and how far it has come.

use std::sync::atomic::{AtomicBool, Ordering};

use domain::replay::{Destination, Selection};
use domain::{SubscriptionId, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::LetterPlace;
use crate::replay::{Account, Order, Replay, ReplayState};

/// What to replay, where to and how fast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayRequest {
    /// Whose letters.
    pub place: LetterPlace,
    /// Which of them. Letters that were already handled are left out, unless `again` is set;
    /// letters that are named one by one go though everyone subscribed has acked them.
    pub selection: Selection,
    /// Where to.
    pub to: Destination,
    /// Letters each second; zero = as fast as it goes.
    pub per_second: u32,
    /// Letters that were replayed, or that everyone subscribed has acked, go too.
    pub again: bool,
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
