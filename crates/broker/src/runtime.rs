//! What the topics and subscriptions of one shard need from the server around them.

use std::sync::Arc;

use clock::Clock;
use domain::{Epoch, Now, ShardId, Timestamp};
use futures::FutureExt;
use storage::{MessageLog, ProgressStore, Shard};
use tokio::sync::Notify;

use crate::audit::Auditor;
use crate::changed::{Changed, ChangedList};
use crate::compiling::Compiling;
use crate::damaged::Damaged;
use crate::delivery_log::DeliveryLog;
use crate::error::Result;
use crate::expiries::Expiries;
use crate::guard::Guard;
use crate::handled_letters::HandledLetters;
use crate::lease::Lease;
use crate::options::Options;
use crate::serving::Serving;
use crate::transform::Transforms;
use crate::upkeep::Upkeep;

/// What all shards of this node have in common.
pub(crate) struct Host {
    pub(crate) clock: Arc<dyn Clock>,
    /// Whether this node still serves; each shard has its own answer besides.
    pub(crate) serving: Arc<Serving>,
    pub(crate) options: Options,
    pub(crate) auditor: Auditor,
    pub(crate) damaged: Arc<Damaged>,
    pub(crate) delivery_log: Arc<DeliveryLog>,
    pub(crate) compiling: Compiling,
    pub(crate) transforms: Arc<Transforms>,
    /// The right to run shards; `None` = nobody else could.
    pub(crate) lease: Option<Arc<Lease>>,
}

impl Host {
    pub(crate) fn new(clock: Arc<dyn Clock>, options: Options, lease: Option<Arc<Lease>>) -> Self {
        Self {
            serving: Arc::new(Serving::new(lease.clone())),
            auditor: Auditor::new(Arc::clone(&options.audit), Arc::clone(&clock)),
            clock,
            damaged: Arc::default(),
            delivery_log: Arc::new(DeliveryLog::new(options.log.clone())),
            transforms: Arc::new(Transforms::new(options.transforms.clone())),
            options,
            compiling: Compiling::default(),
            lease,
        }
    }

    /// The clock, and whether this node serves.
    pub(crate) fn access(&self) -> NodeAccess {
        NodeAccess { clock: Arc::clone(&self.clock), serving: Arc::clone(&self.serving) }
    }
}

/// The log, the clock, and the notes left for the chores of one shard. A chore gets only those it
/// reads.
pub(crate) struct Runtime {
    pub(crate) shard: ShardId,
    /// Names this opening of the shard in ack ids.
    pub(crate) epoch: Epoch,
    pub(crate) log: Arc<dyn MessageLog>,
    pub(crate) progress: Arc<dyn ProgressStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) serving: Arc<Serving>,
    pub(crate) options: Options,
    pub(crate) changed: Arc<Changed>,
    /// Dead letter topics whose letters were handled since the last checkpoint.
    pub(crate) changed_letters: Arc<ChangedList<HandledLetters>>,
    pub(crate) upkeep: Arc<Upkeep>,
    /// Notified when a dead letter topic has something new.
    pub(crate) new_letters: Arc<Notify>,
    pub(crate) damaged: Arc<Damaged>,
    pub(crate) expiries: Arc<Expiries>,
    pub(crate) delivery_log: Arc<DeliveryLog>,
    pub(crate) compiling: Compiling,
    pub(crate) transforms: Arc<Transforms>,
}

/// What the log of a shard tells its owner; the engine needs it to open one.
#[derive(Clone)]
pub(crate) struct Signals {
    pub(crate) serving: Arc<Serving>,
    pub(crate) changed: Arc<Changed>,
}

impl Signals {
    pub(crate) fn new(host: &Host) -> Self {
        let serving = Arc::new(Serving::new(host.lease.clone()));
        Self { serving, changed: Arc::default() }
    }
}

impl Runtime {
    pub(crate) fn new(host: &Host, shard: &Shard, signals: Signals) -> Self {
        let Signals { serving, changed } = signals;
        Self {
            shard: shard.id,
            epoch: shard.epoch,
            log: Arc::clone(&shard.log),
            progress: Arc::clone(&shard.progress),
            guard: Arc::new(Guard::new(Arc::clone(&host.clock))),
            clock: Arc::clone(&host.clock),
            serving,
            options: host.options.clone(),
            changed_letters: Arc::new(ChangedList::new(Arc::clone(&changed))),
            changed,
            upkeep: Arc::default(),
            new_letters: Arc::default(),
            damaged: Arc::clone(&host.damaged),
            expiries: Arc::default(),
            delivery_log: Arc::clone(&host.delivery_log),
            compiling: host.compiling.clone(),
            transforms: Arc::clone(&host.transforms),
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

    /// `Err` once the log has failed or the shard is closed: nothing more is delivered then.
    pub(crate) fn check_serving(&self) -> Result<()> {
        self.serving.check()
    }
}

/// The log and the clock of a shard, for code that needs little else.
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

    /// `Err` once the log has failed or the shard is closed: nothing more is delivered then.
    pub(crate) fn check_serving(&self) -> Result<()> {
        self.serving.check()
    }

    /// Whether the disk is full. A log that only waits for its chores does not count.
    pub(crate) fn is_full(&self) -> bool {
        let log = &self.log;
        !log.has_room() && matches!(log.room().now_or_never(), Some(Err(storage::Error::Full)))
    }
}

/// The clock and whether this node serves, for code that looks at several shards.
#[derive(Clone)]
pub(crate) struct NodeAccess {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) serving: Arc<Serving>,
}

impl NodeAccess {
    /// The current time on both clocks.
    pub(crate) fn now(&self) -> Now {
        Now { moment: self.clock.now(), wall: self.clock.wall() }
    }

    /// `Err` once the node stops.
    pub(crate) fn check_serving(&self) -> Result<()> {
        self.serving.check()
    }
}
