//! What every topic and subscription needs of the server around it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use domain::{Now, Timestamp};
use parking_lot::Mutex;
use storage::{Engine, MessageLog};
use tokio::sync::Notify;

use crate::audit::{self, AuditAct};
use crate::clock::Clock;
use crate::compiling::Compiling;
use crate::damaged::Damaged;
use crate::dead_letter::Jobs;
use crate::dead_letter_admin::Desk;
use crate::delivery_log::DeliveryLog;
use crate::error::{Error, Result};
use crate::expiries::Expiries;
use crate::guard::Guard;
use crate::index::Index;
use crate::options::Options;
use crate::push::attempts::Attempts;
use crate::subscription::Subscription;
use crate::timers::Timers;
use crate::upkeep::Upkeep;

/// The log, the clock, and the notes left for the chores.
pub(crate) struct Runtime {
    pub(crate) log: Arc<dyn MessageLog>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) guard: Guard,
    pub(crate) options: Options,
    pub(crate) timers: Timers<Subscription>,
    pub(crate) changed: Changed,
    pub(crate) upkeep: Upkeep,
    pub(crate) index: Index<Subscription>,
    pub(crate) dead_letters: Jobs,
    /// Told when a dead letter topic has something new.
    pub(crate) letters: Notify,
    pub(crate) damaged: Damaged,
    pub(crate) expiries: Expiries,
    pub(crate) attempts: Attempts,
    pub(crate) delivery_log: DeliveryLog,
    pub(crate) compiling: Compiling,
    /// Whose oldest record is looked up next.
    pub(crate) oldest_turn: AtomicUsize,
    closing: AtomicBool,
    failure: OnceLock<storage::Error>,
    failed: Notify,
}

impl Runtime {
    pub(crate) fn new(engine: &Engine, clock: Arc<dyn Clock>, options: Options) -> Self {
        Self {
            log: Arc::clone(&engine.log),
            attempts: Attempts::new(Arc::clone(&engine.attempts), clock.wall()),
            guard: Guard::new(&*clock),
            clock,
            delivery_log: DeliveryLog::new(options.log.clone()),
            options,
            timers: Timers::default(),
            changed: Changed::default(),
            upkeep: Upkeep::default(),
            index: Index::default(),
            dead_letters: Jobs::open(),
            letters: Notify::new(),
            damaged: Damaged::default(),
            expiries: Expiries::default(),
            compiling: Compiling::default(),
            oldest_turn: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            failure: OnceLock::new(),
            failed: Notify::new(),
        }
    }

    /// The present on both clocks.
    pub(crate) fn now(&self) -> Now {
        Now { moment: self.clock.now(), wall: self.clock.wall() }
    }

    /// The time by which retention and expiry count at `now`: it stands still while the wall
    /// clock is not to be believed. Whatever deletes or settles by time asks for this one.
    pub(crate) fn retention_at(&self, now: Now) -> Timestamp {
        self.guard.retention(&*self.clock, now)
    }

    /// The same as of the present.
    pub(crate) fn retention_now(&self) -> Timestamp {
        self.retention_at(self.now())
    }

    /// `Err` once the log has failed or the server stops: nothing more is delivered then.
    pub(crate) fn check_serving(&self) -> Result<()> {
        if let Some(error) = self.failure.get() {
            return Err(Error::Storage(error.clone()));
        }
        if self.closing.load(Ordering::Relaxed) {
            return Err(Error::Closing);
        }
        Ok(())
    }

    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    pub(crate) fn fail(&self, error: &storage::Error) {
        if self.failure.set(error.clone()).is_ok() {
            self.failed.notify_waiters();
        }
    }

    /// Why the log failed, if it did.
    pub(crate) fn failed(&self) -> Option<&storage::Error> {
        self.failure.get()
    }

    /// Resolves with the log's failure, if it ever comes.
    pub(crate) async fn failure(&self) -> storage::Error {
        loop {
            let notified = self.failed.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if let Some(error) = self.failure.get() {
                return error.clone();
            }
            notified.await;
        }
    }
}

/// Acts on record.
impl Runtime {
    /// Puts an act on record that is done, by whoever asked for what this task does.
    pub(crate) fn audit(
        &self,
        act: &'static str,
        resource: impl Into<String>,
        details: Option<String>,
    ) {
        self.audit_of(audit::peer(), act, resource, details);
    }

    /// The same, by `peer`.
    pub(crate) fn audit_of(
        &self,
        peer: Option<SocketAddr>,
        act: &'static str,
        resource: impl Into<String>,
        details: Option<String>,
    ) {
        self.options.audit.record(&AuditAct {
            at: self.clock.wall(),
            resource: resource.into(),
            act,
            key: None,
            message_id: None,
            details,
            peer,
        });
    }
}

/// Whose progress changed since the last checkpoint, and the wish for one.
#[derive(Default)]
pub(crate) struct Changed {
    subscriptions: Mutex<Vec<Arc<Subscription>>>,
    forgotten: Mutex<Vec<domain::SubscriptionId>>,
    desks: Mutex<Vec<Arc<Desk>>>,
    pressed: AtomicBool,
    pub(crate) wake: Notify,
}

impl Changed {
    pub(crate) fn add(&self, subscription: Arc<Subscription>) {
        self.subscriptions.lock().push(subscription);
        self.wake.notify_one();
    }

    pub(crate) fn forget(&self, subscription: domain::SubscriptionId) {
        self.forgotten.lock().push(subscription);
        self.wake.notify_one();
    }

    /// A desk's marks have changed.
    pub(crate) fn add_desk(&self, desk: Arc<Desk>) {
        self.desks.lock().push(desk);
        self.wake.notify_one();
    }

    pub(crate) fn take_desks(&self) -> Vec<Arc<Desk>> {
        std::mem::take(&mut *self.desks.lock())
    }

    /// The log wants room: checkpoint and trim now.
    pub(crate) fn press(&self) {
        self.pressed.store(true, Ordering::SeqCst);
        self.wake.notify_one();
    }

    pub(crate) fn take_pressed(&self) -> bool {
        self.pressed.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn is_pressed(&self) -> bool {
        self.pressed.load(Ordering::SeqCst)
    }

    pub(crate) fn take(&self) -> (Vec<Arc<Subscription>>, Vec<domain::SubscriptionId>) {
        (
            std::mem::take(&mut *self.subscriptions.lock()),
            std::mem::take(&mut *self.forgotten.lock()),
        )
    }
}
