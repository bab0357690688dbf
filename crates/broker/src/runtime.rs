//! What every topic and subscription needs from the server around it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use clock::Clock;
use domain::{Now, Timestamp};
use storage::MessageLog;
use tokio::sync::Notify;

use crate::audit::{self, AuditAct};
use crate::changed::{Changed, ChangedList};
use crate::compiling::Compiling;
use crate::damaged::Damaged;
use crate::delivery_log::DeliveryLog;
use crate::error::{Error, Result};
use crate::expiries::Expiries;
use crate::guard::Guard;
use crate::handled_letters::HandledLetters;
use crate::options::Options;
use crate::transform::Transforms;
use crate::upkeep::Upkeep;

/// The log, the clock, and the notes left for the chores.
pub(crate) struct Runtime {
    pub(crate) log: Arc<dyn MessageLog>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) guard: Guard,
    pub(crate) options: Options,
    pub(crate) changed: Arc<Changed>,
    /// Dead letter topics whose letters were handled since the last checkpoint.
    pub(crate) changed_letters: ChangedList<HandledLetters>,
    pub(crate) upkeep: Upkeep,
    /// Notified when a dead letter topic has something new.
    pub(crate) new_letters: Notify,
    pub(crate) damaged: Damaged,
    pub(crate) expiries: Expiries,
    pub(crate) delivery_log: DeliveryLog,
    pub(crate) compiling: Compiling,
    pub(crate) transforms: Transforms,
    closing: AtomicBool,
    failure: OnceLock<storage::Error>,
    failed: Notify,
}

impl Runtime {
    pub(crate) fn new(log: Arc<dyn MessageLog>, clock: Arc<dyn Clock>, options: Options) -> Self {
        let changed = Arc::new(Changed::default());
        Self {
            log,
            guard: Guard::new(&*clock),
            clock,
            delivery_log: DeliveryLog::new(options.log.clone()),
            transforms: Transforms::new(options.transforms.clone()),
            options,
            changed_letters: ChangedList::new(Arc::clone(&changed)),
            changed,
            upkeep: Upkeep::default(),
            new_letters: Notify::new(),
            damaged: Damaged::default(),
            expiries: Expiries::default(),
            compiling: Compiling::default(),
            closing: AtomicBool::new(false),
            failure: OnceLock::new(),
            failed: Notify::new(),
        }
    }

    /// The current time on both clocks.
    pub(crate) fn now(&self) -> Now {
        Now { moment: self.clock.now(), wall: self.clock.wall() }
    }

    /// The time that retention and expiry use at `now`: it stands still while the wall clock is not
    /// trusted. Anything that deletes or settles by time must use this one.
    pub(crate) fn retention_at(&self, now: Now) -> Timestamp {
        self.guard.retention(&*self.clock, now)
    }

    /// The same, now.
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

    /// Resolves with the log's failure, if it ever fails.
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

/// The log and the clock, for code that needs nothing else from the server.
pub(crate) struct LogAccess {
    pub(crate) log: Arc<dyn MessageLog>,
    pub(crate) clock: Arc<dyn Clock>,
    runtime: Arc<Runtime>,
}

impl LogAccess {
    pub(crate) fn new(runtime: &Arc<Runtime>) -> Self {
        let (log, clock) = (Arc::clone(&runtime.log), Arc::clone(&runtime.clock));
        Self { log, clock, runtime: Arc::clone(runtime) }
    }

    /// The current time on both clocks.
    pub(crate) fn now(&self) -> Now {
        Now { moment: self.clock.now(), wall: self.clock.wall() }
    }

    /// `Err` once the log has failed or the server stops: nothing more is delivered then.
    pub(crate) fn check_serving(&self) -> Result<()> {
        self.runtime.check_serving()
    }
}

/// Audit records.
impl Runtime {
    /// Records an action that is done, by the caller this task works for.
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
