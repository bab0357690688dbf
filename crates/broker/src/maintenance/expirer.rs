//! Ends what expires: snapshots at their time, subscriptions that nobody uses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::{Moment, Timestamp};
use storage::Kind;

use crate::broker::{Broker, readable};
use crate::definition::Unreadable;
use crate::error::Result;

/// The name of the mark that says when subscriptions were last used: microseconds since 1970 by
/// subscription id.
pub(crate) const USED: &str = "subscriptions-used";

/// So long after the first use that is not saved yet, all are saved. A crash forgets no more.
const SAVE_AFTER: Duration = Duration::from_secs(60 * 60);

/// How long to wait after something could not be ended, or was used at the last moment.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Runs for ever. Sleeps until something expires or is to be saved.
pub(crate) async fn run(broker: Arc<Broker>) {
    let expiries = &broker.runtime.expiries;
    let clock = &broker.runtime.clock;
    let mut save_at = None;
    loop {
        expiries.start_over();
        let next = end_due(&broker).await;
        expiries.set_planned(next);
        if expiries.is_used() && save_at.is_none() {
            save_at = Some(clock.now().plus(SAVE_AFTER));
        }
        let expires_at = moment_of(&broker, next);
        tokio::select! {
            () = expiries.wake.notified() => {}
            () = sleep(&broker, expires_at) => {}
            () = sleep(&broker, save_at) => {
                save_at = None;
                if let Err(error) = save_used(&broker).await {
                    tracing::warn!(%error, "could not save when subscriptions were last used");
                }
            }
        }
    }
}

/// When the wall clock will show `time`, unless somebody sets it. While time stands still for
/// what expires, never: the chore is woken when it goes on.
fn moment_of(broker: &Broker, time: Option<Timestamp>) -> Option<Moment> {
    let now = broker.runtime.now();
    let retention = broker.runtime.retention_at(now);
    let is_suspended = broker.runtime.guard.is_suspended();
    time.filter(|_| !is_suspended).map(|time| now.moment.plus(time.since(retention)))
}

async fn sleep(broker: &Broker, until: Option<Moment>) {
    match until {
        Some(until) => broker.runtime.clock.sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// Ends what is due; when the next will be.
async fn end_due(broker: &Broker) -> Option<Timestamp> {
    let now = broker.runtime.retention_now();
    let mut next = Vec::new();
    let snapshots: Vec<_> = broker.snapshots.read().values().cloned().collect();
    for snapshot in snapshots {
        let settings = snapshot.settings();
        if settings.expire_time > now {
            next.push(settings.expire_time);
            continue;
        }
        let ended = broker.expire_snapshot(&settings.name).await;
        next.extend(tell(ended, "snapshot", settings.name.as_str(), now));
    }
    for subscription in broker.all_subscriptions() {
        let Some(expires_at) = subscription.expires_at(now) else { continue };
        if expires_at > now {
            next.push(expires_at);
            continue;
        }
        let ended = broker.expire_subscription(subscription.name()).await;
        next.extend(tell(ended, "subscription", subscription.name().as_str(), now));
    }
    next.into_iter().min()
}

/// Says that something expired; when to look again if it is still there.
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

/// Saves when every subscription was last used, if that has changed.
pub(crate) async fn save_used(broker: &Broker) -> Result<()> {
    let mut admin = broker.admin.lock().await;
    if !broker.runtime.expiries.take_used() {
        return Ok(());
    }
    let now = broker.runtime.clock.wall();
    let subscriptions = broker.all_subscriptions();
    let used: BTreeMap<u64, u64> = subscriptions
        .iter()
        .map(|subscription| (subscription.id().0, subscription.used_at(now).0))
        .collect();
    let value = readable(serde_json::to_vec(&used).map_err(Unreadable::Json), USED)?;
    let put = broker.engine.catalogue.put(Kind::Mark, USED, Bytes::from(value), admin.used_version);
    match put.await {
        Ok(entry) => {
            admin.used_version = Some(entry.version);
            Ok(())
        }
        Err(error) => {
            broker.runtime.expiries.note_use();
            Err(error.into())
        }
    }
}
