//! Deletes what expires: snapshots at their time, subscriptions that nobody uses.

use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use domain::{Moment, Timestamp};

use crate::admin::Admin;
use crate::error::Result;
use crate::expiries::Expiries;
use crate::guard::Guard;
use crate::registry::Registry;

/// This long after the first unsaved use, all uses are saved. A crash loses no more than that.
const SAVE_AFTER: Duration = Duration::from_secs(60 * 60);

/// How long to wait after something could not be deleted, or was used at the last moment.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Deletes what expires.
pub(crate) struct Expirer {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) expiries: Arc<Expiries>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) admin: Arc<Admin>,
}

impl Expirer {
    /// Runs forever. Sleeps until something expires or has to be saved.
    pub(crate) async fn run(self) {
        let expiries = &self.expiries;
        let mut save_at = None;
        loop {
            expiries.start_over();
            let next = self.end_due().await;
            expiries.set_planned(next);
            if expiries.is_used() && save_at.is_none() {
                save_at = Some(self.clock.now().plus(SAVE_AFTER));
            }
            let expires_at = self.moment_of(next);
            tokio::select! {
                () = expiries.wake.notified() => {}
                () = self.sleep(expires_at) => {}
                () = self.sleep(save_at) => {
                    save_at = None;
                    if let Err(error) = self.admin.save_used().await {
                        tracing::warn!(%error, "could not save when subscriptions were last used");
                    }
                }
            }
        }
    }

    /// When the wall clock will show `time`, unless someone sets it. While time stands still for
    /// expiry, never: the chore is woken when it resumes.
    fn moment_of(&self, time: Option<Timestamp>) -> Option<Moment> {
        let (now, retention) = (self.clock.now(), self.guard.retention_now());
        let is_suspended = self.guard.is_suspended();
        time.filter(|_| !is_suspended).map(|time| now.plus(time.since(retention)))
    }

    async fn sleep(&self, until: Option<Moment>) {
        match until {
            Some(until) => self.clock.sleep_until(until).await,
            None => std::future::pending().await,
        }
    }

    /// Deletes what is due; returns when the next is due.
    async fn end_due(&self) -> Option<Timestamp> {
        let now = self.guard.retention_now();
        let mut next = Vec::new();
        for snapshot in self.registry.all_snapshots() {
            let settings = snapshot.settings();
            if settings.expire_time > now {
                next.push(settings.expire_time);
                continue;
            }
            let ended = self.admin.expire_snapshot(&settings.name).await;
            next.extend(tell(ended, "snapshot", settings.name.as_str(), now));
        }
        for subscription in self.registry.all_subscriptions() {
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
