//! Looks whether the wall clock has jumped, and lets retention and expiry go on when it may.

use std::sync::Arc;
use std::time::Duration;

use domain::clock::{ClockChange, ClockView};

use crate::broker::Broker;

/// This often both clocks are compared. Whoever deletes by time notices a jump by himself.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Runs for ever.
pub(crate) async fn run(broker: Arc<Broker>) {
    let runtime = &broker.runtime;
    loop {
        let change = runtime.guard.look(&*runtime.clock);
        if matches!(change, Some(ClockChange::PutRight | ClockChange::Steady)) {
            go_on(&broker);
        }
        runtime.clock.sleep_until(runtime.clock.now().plus(LOOK_EVERY)).await;
    }
}

/// Has everything looked at that waited for time to go on, and the mark saved.
fn go_on(broker: &Broker) {
    broker.runtime.expiries.wake.notify_one();
    broker.runtime.changed.wake.notify_one();
}

/// How the clock stands, and what happens if it is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockStatus {
    /// How it stands.
    pub clock: ClockView,
    /// Subscriptions that expire as soon as the wall clock is believed.
    pub expiring_subscriptions: usize,
    /// Snapshots that do.
    pub expiring_snapshots: usize,
}

impl Broker {
    /// How the wall clock stands, and whether retention and expiry are suspended for it.
    pub fn clock(&self) -> ClockStatus {
        let runtime = &self.runtime;
        let clock = runtime.guard.view(&*runtime.clock);
        let mut status = ClockStatus { clock, expiring_subscriptions: 0, expiring_snapshots: 0 };
        if clock.suspended.is_some() {
            let is_over = |at| at <= clock.wall;
            let subscriptions = self.all_subscriptions();
            let expire = subscriptions.iter().filter_map(|one| one.expires_at(clock.wall));
            status.expiring_subscriptions = expire.filter(|&at| is_over(at)).count();
            let snapshots = self.snapshots.read();
            let expire = snapshots.values().map(|one| one.settings().expire_time);
            status.expiring_snapshots = expire.filter(|&at| is_over(at)).count();
        }
        status
    }

    /// Takes the wall clock for right: retention and expiry go on by it. Does nothing if they are
    /// not suspended; how it stood before comes back.
    pub fn confirm_clock(&self) -> ClockStatus {
        let before = self.clock();
        if self.runtime.guard.confirm(&*self.runtime.clock) {
            let ahead = before.clock.suspended.map_or(0, |jump| jump.ahead.as_secs());
            let details = format!("{ahead} s ahead of the time that has passed");
            self.audit("confirm clock", "clock", Some(details));
            go_on(self);
        }
        before
    }
}
