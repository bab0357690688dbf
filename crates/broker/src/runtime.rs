//! What every topic and subscription needs from the server around it.

use std::sync::Arc;

use clock::Clock;
use domain::{Now, Timestamp};
use futures::FutureExt;
use storage::MessageLog;
use tokio::sync::Notify;

use crate::audit::Auditor;
use crate::changed::Changed;
use crate::compiling::Compiling;
use crate::damaged::Damaged;
use crate::delivery_log::DeliveryLog;
use crate::error::Result;
use crate::expiries::Expiries;
use crate::guard::Guard;
use crate::options::Options;
use crate::serving::Serving;
use crate::transform::Transforms;
use crate::upkeep::Upkeep;

/// The log, the clock, and the notes left for the chores. A chore gets only those it reads.
pub(crate) struct Runtime {
    pub(crate) log: Arc<dyn MessageLog>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) serving: Arc<Serving>,
    pub(crate) options: Options,
    pub(crate) auditor: Auditor,
    pub(crate) changed: Arc<Changed>,
    pub(crate) upkeep: Arc<Upkeep>,
    /// Notified when a dead letter topic has something new.
    pub(crate) new_letters: Arc<Notify>,
    pub(crate) damaged: Arc<Damaged>,
    pub(crate) expiries: Arc<Expiries>,
    pub(crate) delivery_log: DeliveryLog,
    pub(crate) compiling: Compiling,
    pub(crate) transforms: Transforms,
}

impl Runtime {
    pub(crate) fn new(log: Arc<dyn MessageLog>, clock: Arc<dyn Clock>, options: Options) -> Self {
        Self {
            log,
            guard: Arc::new(Guard::new(Arc::clone(&clock))),
            serving: Arc::default(),
            auditor: Auditor::new(Arc::clone(&options.audit), Arc::clone(&clock)),
            clock,
            delivery_log: DeliveryLog::new(options.log.clone()),
            transforms: Transforms::new(options.transforms.clone()),
            options,
            changed: Arc::default(),
            upkeep: Arc::default(),
            new_letters: Arc::default(),
            damaged: Arc::default(),
            expiries: Arc::default(),
            compiling: Compiling::default(),
        }
    }

    /// The current time on both clocks.
    pub(crate) fn now(&self) -> Now {
        Now { moment: self.clock.now(), wall: self.clock.wall() }
    }

    /// The time that retention and expiry use at `now`, as `Guard::retention_at` says.
    pub(crate) fn retention_at(&self, now: Now) -> Timestamp {
        self.guard.retention_at(now)
    }

    /// The same, now.
    pub(crate) fn retention_now(&self) -> Timestamp {
        self.guard.retention_now()
    }

    /// `Err` once the log has failed or the server stops: nothing more is delivered then.
    pub(crate) fn check_serving(&self) -> Result<()> {
        self.serving.check()
    }
}

/// The log and the clock, for code that needs little else from the server.
#[derive(Clone)]
pub(crate) struct LogAccess {
    pub(crate) log: Arc<dyn MessageLog>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) serving: Arc<Serving>,
}

impl LogAccess {
    pub(crate) fn new(runtime: &Runtime) -> Self {
        let (log, clock) = (Arc::clone(&runtime.log), Arc::clone(&runtime.clock));
        Self { log, clock, serving: Arc::clone(&runtime.serving) }
    }

    /// The current time on both clocks.
    pub(crate) fn now(&self) -> Now {
        Now { moment: self.clock.now(), wall: self.clock.wall() }
    }

    /// `Err` once the log has failed or the server stops: nothing more is delivered then.
    pub(crate) fn check_serving(&self) -> Result<()> {
        self.serving.check()
    }

    /// Whether the disk is full. A log that only waits for its chores does not count.
    pub(crate) fn is_full(&self) -> bool {
        let log = &self.log;
        !log.has_room() && matches!(log.room().now_or_never(), Some(Err(storage::Error::Full)))
    }
}
