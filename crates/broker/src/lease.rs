//! The right of this node to run shards, as long as its lease in the store lasts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clock::Clock;
use domain::Moment;
use storage::planted::{Fault, Planted};

use crate::error::{Error, Result};

/// A call begins only if the lease lasts this much longer: an ordinary ack is answered before it is
/// durable, and must not be when another node may have taken over by then.
const MARGIN: Duration = Duration::from_secs(1);

/// Until when others leave the shards of this node alone.
pub(crate) struct Lease {
    clock: Arc<dyn Clock>,
    /// On the monotonic clock, in microseconds; counted from before the renewal was asked for.
    good_until: AtomicU64,
    planted: Planted,
}

impl Lease {
    pub(crate) fn new(clock: Arc<dyn Clock>, planted: Planted) -> Self {
        Self { clock, good_until: AtomicU64::new(0), planted }
    }

    /// The store has renewed it, having been asked at `asked`.
    pub(crate) fn renewed(&self, asked: Moment, lasts: Duration) {
        self.good_until.fetch_max(asked.plus(lasts).0, Ordering::SeqCst);
    }

    /// The store says that it is over.
    pub(crate) fn lost(&self) {
        self.good_until.store(0, Ordering::SeqCst);
    }

    /// `Err` if it may end before a call does that begins now.
    pub(crate) fn check(&self) -> Result<()> {
        let needed = self.clock.now().plus(MARGIN);
        let is_good = needed.0 <= self.good_until.load(Ordering::SeqCst);
        if is_good || self.planted.has(Fault::NoLeaseCheck) {
            return Ok(());
        }
        Err(Error::LeaseOver)
    }
}
