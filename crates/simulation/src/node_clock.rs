//! The clocks of one node: a monotonic one that is the world's, and a wall clock that may be wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use clock::Clock;
use domain::{Moment, Timestamp, Uptime};
use futures::future::BoxFuture;

use crate::executor::{Executor, Timers};

/// The wall clocks begin in January 2027.
const WALL_START: u64 = 1_800_000_000_000_000;

/// The clocks of one life of a node.
pub struct NodeClock {
    time: Arc<Timers>,
    /// What the world's time was when this life began.
    start: u64,
    /// How far the wall clock is wrong, in microseconds. It outlives the life.
    skew: Arc<AtomicI64>,
    /// Which life of the machine this is, as opposed to that of the process.
    boot: u64,
}

impl NodeClock {
    /// Clocks whose `Moment(0)` is now.
    pub fn start(executor: &Executor, skew: &Arc<AtomicI64>, boot: u64) -> Self {
        let time = Arc::clone(executor.timers());
        Self { start: time.now(), time, skew: Arc::clone(skew), boot }
    }
}

impl Clock for NodeClock {
    fn now(&self) -> Moment {
        Moment(self.time.now() - self.start)
    }

    fn wall(&self) -> Timestamp {
        let right = WALL_START + self.time.now();
        Timestamp(right.saturating_add_signed(self.skew.load(Ordering::SeqCst)))
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        self.time.sleep_until(self.start.saturating_add(moment.0))
    }

    fn uptime(&self) -> Option<Uptime> {
        Some(Uptime { boot: self.boot, time: Moment(self.time.now()) })
    }
}
