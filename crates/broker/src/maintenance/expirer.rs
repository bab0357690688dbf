//! Deletes what expires: snapshots at their time, subscriptions that nobody uses.

use std::sync::Arc;
use std::time::Duration;

use domain::{Moment, Timestamp};

use crate::admin::Admin;
use crate::error::Result;
use crate::registry::Registry;
use crate::runtime::Runtime;

/// This long after the first unsaved use, all uses are saved. A crash loses no more than that.
const SAVE_AFTER: Duration = Duration::from_secs(60 * 60);

/// How long to wait after something could not be deleted, or was used at the last moment.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Deletes what expires in one shard.
pub(crate) struct Expirer {
    pub(crate) shard: Arc<Runtime>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) admin: Arc<Admin>,
}

impl Expirer {
    /// Runs forever. Sleeps until something expires or has to be saved.
    pub(crate) async fn run(self) {
        let expiries = &self.shard.expiries;
        let mut save_at = None;
        loop {
            expiries.start_over();
            let next = self.end_due().await;
            expiries.set_planned(next);
            if expiries.is_used() && save_at.is_none() {
                save_at = Some(self.shard.clock.now().plus(SAVE_AFTER));
            }
            let expires_at = self.moment_of(next);
            // Saving first: what else wakes it is looked at in any case.
            tokio::select! {
                biased;
                () = self.sleep(save_at) => {
                    save_at = None;
                    if let Err(error) = self.admin.save_used(&self.shard).await {
                        tracing::warn!(%error, "could not save when subscriptions were last used");
                    }
                }
                () = self.sleep(expires_at) => {}
                () = expiries.wake.notified() => {}
            }
        }
    }

    /// When the wall clock will show `time`, unless someone sets it. While time stands still for
    /// expiry, never: the chore is woken when it resumes.
    fn moment_of(&self, time: Option<Timestamp>) -> Option<Moment> {
        let Runtime { clock, guard, .. } = &*self.shard;
        let (now, retention) = (clock.now(), guard.retention_now());
        let is_suspended = guard.is_suspended();
        time.filter(|_| !is_suspended).map(|time| now.plus(time.since(retention)))
    }

    async fn sleep(&self, until: Option<Moment>) {
        match until {
            Some(until) => self.shard.clock.sleep_until(until).await,
            None => std::future::pending().await,
        }
    }

    /// Deletes what is due; returns when the next is due.
    async fn end_due(&self) -> Option<Timestamp> {
        let now = self.shard.retention_now();
        let mut next = Vec::new();
        for snapshot in self.registry.snapshots_in(self.shard.shard) {
            let settings = snapshot.settings();
            if settings.expire_time > now {
                next.push(settings.expire_time);
                continue;
            }
            let ended = self.admin.expire_snapshot(&settings.name).await;
            next.extend(tell(ended, "snapshot", settings.name.as_str(), now));
        }
        for subscription in self.registry.subscriptions_in(self.shard.shard) {
            let Some(expires_at) = subscription.expires_at(now) else { continue };
            if expires_at > now {
                next.push(expires_at);
                continue;
            }
            let ended = self.admin.expire_subscription(subscription.name()).await;
            next.extend(tell(ended, "subscription", subscription.name().as_str(), now));
        }
        next.into_iter().min()
    }
}

/// Logs that something expired; returns when to look again if it still exists.
fn tell(ended: Result<bool>, kind: &str, name: &str, now: Timestamp) -> Option<Timestamp> {
    match ended {
        Ok(true) => {
            tracing::info!(kind, name, "expired and deleted");
            return None;
        }
        Ok(false) => {}
        Err(error) => tracing::warn!(kind, name, %error, "expired, but could not be deleted"),
    }
    Some(now.plus(RETRY_AFTER))
}
