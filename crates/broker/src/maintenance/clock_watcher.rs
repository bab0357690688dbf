//! Checks whether the wall clock has jumped, and resumes retention and expiry when it is safe.

use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use domain::clock::{ClockChange, ClockView};

use crate::audit::Auditor;
use crate::changed::Changed;
use crate::expiries::Expiries;
use crate::guard::Guard;
use crate::registry::Registry;

/// How often both clocks are compared. Code that deletes by time notices a jump by itself.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The state of the clock, and what happens if it is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockStatus {
    /// The state of the clock.
    pub clock: ClockView,
    /// Subscriptions that expire as soon as the wall clock is trusted.
    pub expiring_subscriptions: usize,
    /// Snapshots that expire then.
    pub expiring_snapshots: usize,
}

/// Compares the clocks.
pub(crate) struct ClockWatcher {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) auditor: Auditor,
    pub(crate) registry: Arc<Registry>,
    pub(crate) expiries: Arc<Expiries>,
    pub(crate) changed: Arc<Changed>,
}

impl ClockWatcher {
    /// Runs forever.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            let change = self.guard.look();
            if matches!(change, Some(ClockChange::PutRight | ClockChange::Steady)) {
                self.go_on();
            }
            self.clock.sleep_until(self.clock.now().plus(LOOK_EVERY)).await;
        }
    }

    /// Wakes everything that waited for time to resume, and has the mark saved.
    fn go_on(&self) {
        self.expiries.wake.notify_one();
        self.changed.wake.notify_one();
    }

    /// The state of the wall clock, and whether retention and expiry are suspended because of it.
    pub(crate) fn status(&self) -> ClockStatus {
        let clock = self.guard.view();
        let mut status = ClockStatus { clock, expiring_subscriptions: 0, expiring_snapshots: 0 };
        if clock.suspended.is_some() {
            let is_over = |at| at <= clock.wall;
            let subscriptions = self.registry.all_subscriptions();
            let expire = subscriptions.iter().filter_map(|one| one.expires_at(clock.wall));
            status.expiring_subscriptions = expire.filter(|&at| is_over(at)).count();
            let snapshots = self.registry.all_snapshots();
            let expire = snapshots.iter().map(|one| one.settings().expire_time);
            status.expiring_snapshots = expire.filter(|&at| is_over(at)).count();
        }
        status
    }

    /// Trusts the wall clock: retention and expiry resume. Does nothing if they are not suspended;
    /// returns the previous state.
    pub(crate) fn confirm(&self) -> ClockStatus {
        let before = self.status();
        if self.guard.confirm() {
            let ahead = before.clock.suspended.map_or(0, |jump| jump.ahead.as_secs());
            let details = format!("{ahead} s ahead of the time that has passed");
            self.auditor.record("confirm clock", "clock", Some(details));
            self.go_on();
        }
        before
    }
}
