//! Checks whether the wall clock has jumped, and resumes retention and expiry when it is safe.

use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use domain::clock::{ClockChange, ClockView};

use crate::audit::Auditor;
use crate::guard::Guard;
use crate::registry::Registry;
use crate::runtime::Runtime;
use crate::shards::{OpenShard, OpenShards};

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

/// Compares the clocks, for every open shard.
pub(crate) struct ClockWatcher {
    pub(crate) clock: Arc<dyn Clock>,
    /// How the clock is as far as this process can tell, whatever shards were told before.
    pub(crate) own: Guard,
    pub(crate) auditor: Auditor,
    pub(crate) registry: Arc<Registry>,
    pub(crate) shards: Arc<OpenShards>,
}

impl ClockWatcher {
    /// Runs forever.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            self.own.look();
            for OpenShard { runtime, .. } in self.shards.all() {
                let change = runtime.guard.look();
                if matches!(change, Some(ClockChange::PutRight | ClockChange::Steady)) {
                    go_on(&runtime);
                }
            }
            self.clock.sleep_until(self.clock.now().plus(LOOK_EVERY)).await;
        }
    }

    /// How far the clock is ahead of the time that has passed; `None` = it is trusted.
    pub(crate) fn view(&self) -> ClockView {
        let views = self.shards.all().into_iter().map(|shard| shard.runtime.guard.view());
        views.max_by_key(|view| view.suspended.is_some()).unwrap_or_else(|| self.own.view())
    }

    /// The state of the wall clock, and whether retention and expiry are suspended because of it.
    pub(crate) fn status(&self) -> ClockStatus {
        let clock = self.view();
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
        self.own.confirm();
        let mut is_confirmed = false;
        for OpenShard { runtime, .. } in self.shards.all() {
            if runtime.guard.confirm() {
                is_confirmed = true;
                go_on(&runtime);
            }
        }
        if is_confirmed {
            let ahead = before.clock.suspended.map_or(0, |jump| jump.ahead.as_secs());
            let details = format!("{ahead} s ahead of the time that has passed");
            self.auditor.record("confirm clock", "clock", Some(details));
        }
        before
    }
}

/// Wakes everything in a shard that waited for time to resume, and has the mark saved.
fn go_on(shard: &Runtime) {
    shard.expiries.wake.notify_one();
    shard.changed.wake.notify_one();
}
