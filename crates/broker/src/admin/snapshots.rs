//! Snapshots: taken, changed and ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::snapshot::{Change, lifetime};
use domain::{SnapshotName, SubscriptionName, Timestamp};
use storage::Commit;

use super::{Admin, SNAPSHOT};
use crate::catalogue::readable;
use crate::definition::StoredSnapshot;
use crate::error::{Error, Resource, Result};
use crate::snapshot::{Snapshot, Stored};
use crate::subscription::Subscription;

impl Admin {
    /// Takes a snapshot of what `subscription` has acked. Everything it has not acked, and
    /// everything published from now on, is kept until the snapshot expires: after 7 days less
    /// the age of the oldest message not acked. `FailedPrecondition` if that is less than an hour.
    pub(crate) async fn create_snapshot(
        self: &Arc<Self>,
        name: SnapshotName,
        subscription: &SubscriptionName,
        labels: BTreeMap<String, String>,
        tags: BTreeMap<String, String>,
    ) -> Result<Arc<Snapshot>> {
        let (admin, subscription) = (Arc::clone(self), subscription.clone());
        let change = async move {
            let _ledger = admin.catalogue.lock().await;
            if admin.registry.has_snapshot(&name) {
                return Err(Error::AlreadyExists(Resource::Snapshot, name.to_string()));
            }
            let subscription = admin.registry.subscription(&subscription)?;
            let snapshot = admin.take_snapshot(name, &subscription, labels, tags)?;
            match admin.store_snapshot(&subscription, &snapshot).await {
                Ok(()) => {
                    admin.add_snapshot(Arc::clone(&snapshot));
                    Ok(snapshot)
                }
                Err(error) => {
                    snapshot.topic().remove_hold(snapshot.hold());
                    Err(error)
                }
            }
        };
        self.catalogue.change(change).await
    }

    /// Captures the progress and has its records kept, before anything more can be acked.
    fn take_snapshot(
        &self,
        name: SnapshotName,
        subscription: &Subscription,
        labels: BTreeMap<String, String>,
        tags: BTreeMap<String, String>,
    ) -> Result<Arc<Snapshot>> {
        let topic = subscription.topic();
        let created = self.host.clock.wall();
        let (topic_name, expire_time) = (topic.name().clone(), created);
        let settings = domain::Snapshot { name, topic: topic_name, expire_time, labels, tags };
        settings.validate()?;
        subscription.touch(created);
        subscription.with_progress(|progress| {
            let stored = StoredSnapshot { settings, topic: topic.id(), created, progress };
            let snapshot = Snapshot::new(stored, Arc::clone(topic), 0, 0);
            topic.add_hold(snapshot.hold());
            snapshot
        })
    }

    async fn store_snapshot(
        &self,
        subscription: &Subscription,
        snapshot: &Arc<Snapshot>,
    ) -> Result<()> {
        let own = subscription.settings().message_retention;
        let runtime = snapshot.topic().runtime();
        let now = runtime.retention_now();
        let since = snapshot.topic().leasable_since(now, own);
        snapshot.find_oldest(&*runtime.log, since).await?;
        let settings = snapshot.settings();
        let expire_time = expire_time(snapshot, subscription, now)?;
        let settings = domain::Snapshot { expire_time, ..(*settings).clone() };
        let name = settings.name.clone();
        let value = readable(snapshot.stored_as(settings.clone()).encode(), name.as_str())?;
        // The catalogue names only what the log has.
        runtime.log.commit(Commit::barrier()).await?;
        let entry = self.catalogue.create(SNAPSHOT, name.as_str(), value).await?;
        self.list(&entry, snapshot.topic().shard());
        snapshot.set(settings, &entry);
        Ok(())
    }

    /// Makes a stored snapshot known.
    pub(super) fn add_snapshot(&self, snapshot: Arc<Snapshot>) {
        snapshot.topic().add_hold(snapshot.hold());
        snapshot.topic().runtime().expiries.plan(snapshot.settings().expire_time);
        self.registry.add_snapshot(snapshot);
    }

    /// Changes a snapshot's labels or the time when it expires.
    pub(crate) async fn update_snapshot(
        self: &Arc<Self>,
        name: &SnapshotName,
        change: Change,
    ) -> Result<Arc<Snapshot>> {
        let (admin, name) = (Arc::clone(self), name.clone());
        let change = async move {
            let _ledger = admin.catalogue.lock().await;
            let snapshot = admin.registry.snapshot(&name)?;
            let Stored { settings, version, .. } = snapshot.versioned();
            let now = admin.host.clock.wall();
            let settings = change.apply(&settings, snapshot.created(), now)?;
            let value = readable(snapshot.stored_as(settings.clone()).encode(), name.as_str())?;
            let entry = admin.catalogue.update(SNAPSHOT, name.as_str(), value, version).await?;
            snapshot.topic().runtime().expiries.plan(settings.expire_time);
            snapshot.set(settings, &entry);
            admin.list(&entry, snapshot.topic().shard());
            Ok(snapshot)
        };
        self.catalogue.change(change).await
    }

    /// Deletes a snapshot. What only it kept is dropped.
    pub(crate) async fn delete_snapshot(self: &Arc<Self>, name: &SnapshotName) -> Result<()> {
        let (admin, name) = (Arc::clone(self), name.clone());
        let change = async move {
            let _ledger = admin.catalogue.lock().await;
            admin.end_snapshot(&admin.registry.snapshot(&name)?).await?;
            admin.host.auditor.record("delete", name.to_string(), None);
            Ok(())
        };
        self.catalogue.change(change).await
    }

    /// Deletes a snapshot whose time has come. False if it is gone, or has more time.
    pub(crate) async fn expire_snapshot(self: &Arc<Self>, name: &SnapshotName) -> Result<bool> {
        let (admin, name) = (Arc::clone(self), name.clone());
        let change = async move {
            let _ledger = admin.catalogue.lock().await;
            let Ok(snapshot) = admin.registry.snapshot(&name) else { return Ok(false) };
            if snapshot.settings().expire_time > snapshot.topic().runtime().retention_now() {
                return Ok(false);
            }
            admin.end_snapshot(&snapshot).await?;
            Ok(true)
        };
        self.catalogue.change(change).await
    }

    async fn end_snapshot(&self, snapshot: &Arc<Snapshot>) -> Result<()> {
        let Stored { settings, version, .. } = snapshot.versioned();
        let name = settings.name.as_str();
        self.catalogue.delete(SNAPSHOT, name, version).await?;
        self.let_snapshot_go(snapshot);
        Ok(())
    }

    /// Lets go of a snapshot that is not in the catalogue anymore.
    pub(super) fn let_snapshot_go(&self, snapshot: &Arc<Snapshot>) {
        let Stored { settings, id, .. } = snapshot.versioned();
        drop(self.directory.remove(SNAPSHOT.0, settings.name.as_str(), id, None));
        self.registry.remove_snapshot(&settings.name);
        snapshot.topic().remove_hold(snapshot.hold());
        if let Some(readers) = self.registry.readers_of(snapshot.topic().id()) {
            self.registry.drop_if_unused(&readers);
        }
    }
}

/// When it expires; `now` is the time by which messages age.
fn expire_time(
    snapshot: &Snapshot,
    subscription: &Subscription,
    now: Timestamp,
) -> Result<Timestamp> {
    let age = now.since(snapshot.hold().since());
    let lifetime = lifetime(age).ok_or_else(|| {
        let (name, age) = (subscription.name(), age.as_secs());
        Error::FailedPrecondition(format!(
            "the oldest unacked message of subscription {name} is {age} s old, so a snapshot would \
             expire in less than 1 hour"
        ))
    })?;
    Ok(snapshot.created().plus(lifetime))
}
