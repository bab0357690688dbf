//! Snapshots: what a subscription had acked at one moment, kept so that it can be put back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use domain::snapshot::{Change, lifetime};
use domain::{Offset, Progress, ProjectName, SnapshotName, SubscriptionName, Timestamp};
use parking_lot::Mutex;
use storage::{Commit, Kind, MessageLog, ReadLimit};

use crate::broker::{Broker, Page, exists, gone, page, readable};
use crate::definition::StoredSnapshot;
use crate::error::{Error, Resource, Result};
use crate::subscription::Subscription;
use crate::topic::Topic;

/// How much is read at a time to find the oldest message.
const READ: ReadLimit = ReadLimit { records: 1_000, bytes: 1 << 20 };

/// One life of a snapshot.
pub struct Snapshot {
    topic: Arc<Topic>,
    created: Timestamp,
    progress: Progress,
    /// The publish time of the oldest message it keeps.
    keeps_since: AtomicU64,
    stored: Mutex<Stored>,
}

/// Its settings as the catalogue has them.
#[derive(Clone)]
struct Stored {
    settings: Arc<domain::Snapshot>,
    version: u64,
}

impl Snapshot {
    pub(crate) fn new(stored: StoredSnapshot, topic: Arc<Topic>, version: u64) -> Arc<Self> {
        let StoredSnapshot { settings, created, progress, .. } = stored;
        Arc::new(Self {
            topic,
            created,
            progress,
            keeps_since: AtomicU64::new(created.0),
            stored: Mutex::new(Stored { settings: Arc::new(settings), version }),
        })
    }

    /// The settings as last stored.
    pub fn settings(&self) -> Arc<domain::Snapshot> {
        Arc::clone(&self.stored.lock().settings)
    }

    /// The topic of the subscription it was taken of, living or deleted.
    pub fn topic(&self) -> &Arc<Topic> {
        &self.topic
    }

    /// What was acked when it was taken.
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The publish time of the oldest message it keeps.
    pub(crate) fn keeps_since(&self) -> Timestamp {
        Timestamp(self.keeps_since.load(Ordering::SeqCst))
    }

    /// Looks for the oldest message it leaves unacked that is not from before `since`, and notes
    /// when that was published. Without one it keeps what came after it was taken.
    pub(crate) async fn find_oldest(&self, log: &dyn MessageLog, since: Timestamp) -> Result<()> {
        let mut from = log.offset_at(self.topic.id(), since).await?;
        loop {
            from = self.progress.next_unacked(from);
            let batch = log.read(self.topic.id(), from, READ).await?;
            let is_kept = |offset: Offset| !self.progress.is_acked(offset);
            if let Some(oldest) = batch.records.iter().find(|record| is_kept(record.offset)) {
                let oldest = oldest.publish_time.0.min(self.created.0);
                self.keeps_since.store(oldest, Ordering::SeqCst);
                return Ok(());
            }
            if batch.covered.is_empty() {
                return Ok(());
            }
            from = batch.covered.to;
        }
    }

    fn set(&self, settings: domain::Snapshot, version: u64) {
        *self.stored.lock() = Stored { settings: Arc::new(settings), version };
    }

    fn stored_as(&self, settings: domain::Snapshot) -> StoredSnapshot {
        let (topic, created) = (self.topic.id(), self.created);
        StoredSnapshot { settings, topic, created, progress: self.progress.clone() }
    }
}

impl Broker {
    /// Takes a snapshot of what `subscription` has acked. Everything it has not acked, and
    /// everything published from now on, is kept until the snapshot expires: after 7 days less
    /// the age of the oldest message not acked. `FailedPrecondition` if that is less than an hour.
    pub async fn create_snapshot(
        &self,
        name: SnapshotName,
        subscription: &SubscriptionName,
        labels: BTreeMap<String, String>,
    ) -> Result<Arc<Snapshot>> {
        let subscription = subscription.clone();
        self.change(|broker| async move {
            let _admin = broker.admin.lock().await;
            if broker.snapshots.read().contains_key(&name) {
                return Err(Error::AlreadyExists(Resource::Snapshot, name.to_string()));
            }
            let subscription = broker.subscription(&subscription)?;
            let snapshot = broker.take_snapshot(name, &subscription, labels)?;
            match broker.store_snapshot(&subscription, &snapshot).await {
                Ok(()) => {
                    broker.add_snapshot(Arc::clone(&snapshot));
                    Ok(snapshot)
                }
                Err(error) => {
                    snapshot.topic.remove_snapshot(&snapshot);
                    Err(error)
                }
            }
        })
        .await
    }

    /// Captures the progress and has its records kept, before anything more can be acked.
    fn take_snapshot(
        &self,
        name: SnapshotName,
        subscription: &Subscription,
        labels: BTreeMap<String, String>,
    ) -> Result<Arc<Snapshot>> {
        let topic = subscription.topic();
        let created = self.runtime.clock.wall();
        let settings =
            domain::Snapshot { name, topic: topic.name().clone(), expire_time: created, labels };
        settings.validate()?;
        subscription.touch(created);
        subscription.with_progress(|progress| {
            let stored = StoredSnapshot { settings, topic: topic.id(), created, progress };
            let snapshot = Snapshot::new(stored, Arc::clone(topic), 0);
            topic.add_snapshot(&snapshot);
            snapshot
        })
    }

    async fn store_snapshot(
        &self,
        subscription: &Subscription,
        snapshot: &Arc<Snapshot>,
    ) -> Result<()> {
        let own = subscription.settings().message_retention;
        let now = self.runtime.retention_now();
        let since = snapshot.topic.leasable_since(now, own);
        snapshot.find_oldest(&*self.runtime.log, since).await?;
        let settings = snapshot.settings();
        let expire_time = expire_time(snapshot, subscription, now)?;
        let settings = domain::Snapshot { expire_time, ..(*settings).clone() };
        let name = settings.name.clone();
        let value = readable(snapshot.stored_as(settings.clone()).encode(), name.as_str())?;
        // The catalogue names only what the log has.
        self.runtime.log.commit(Commit::barrier()).await?;
        let put = self.engine.catalogue.put(Kind::Snapshot, name.as_str(), value, None).await;
        let entry = put.map_err(|error| exists(error, Resource::Snapshot, name.as_str()))?;
        snapshot.set(settings, entry.version);
        Ok(())
    }

    /// Makes a stored snapshot known.
    pub(crate) fn add_snapshot(&self, snapshot: Arc<Snapshot>) {
        let settings = snapshot.settings();
        snapshot.topic.add_snapshot(&snapshot);
        self.runtime.expiries.plan(settings.expire_time);
        self.snapshots.write().insert(settings.name.clone(), snapshot);
    }

    /// The snapshot of that name.
    pub fn snapshot(&self, name: &SnapshotName) -> Result<Arc<Snapshot>> {
        let found = self.snapshots.read().get(name).cloned();
        found.ok_or_else(|| Error::NotFound(Resource::Snapshot, name.to_string()))
    }

    /// Snapshots of `project` in name order, after the name `after`.
    pub fn list_snapshots(
        &self,
        project: &ProjectName,
        after: Option<&str>,
        limit: usize,
    ) -> Page<Snapshot> {
        page(&self.snapshots.read(), after, limit, |name| name.is_in(project))
    }

    /// The snapshots of subscriptions on `topic` in name order, after the name `after`.
    pub fn list_topic_snapshots(
        &self,
        topic: &Topic,
        after: Option<&str>,
        limit: usize,
    ) -> Page<Snapshot> {
        let known = self.snapshots.read();
        // One that is being made is not known yet.
        let of_topic = known.iter().filter(|(_, snapshot)| snapshot.topic.id() == topic.id());
        let by_name = of_topic.map(|(name, snapshot)| (name.clone(), Arc::clone(snapshot)));
        page(&by_name.collect(), after, limit, |_| true)
    }

    /// Changes a snapshot's labels or the time when it expires.
    pub async fn update_snapshot(
        &self,
        name: &SnapshotName,
        change: Change,
    ) -> Result<Arc<Snapshot>> {
        let name = name.clone();
        self.change(|broker| async move {
            let _admin = broker.admin.lock().await;
            let snapshot = broker.snapshot(&name)?;
            let Stored { settings, version } = snapshot.stored.lock().clone();
            let now = broker.runtime.clock.wall();
            let settings = change.apply(&settings, snapshot.created, now)?;
            let value = readable(snapshot.stored_as(settings.clone()).encode(), name.as_str())?;
            let catalogue = &broker.engine.catalogue;
            let put = catalogue.put(Kind::Snapshot, name.as_str(), value, Some(version)).await;
            let entry = put.map_err(|error| gone(error, Resource::Snapshot, name.as_str()))?;
            broker.runtime.expiries.plan(settings.expire_time);
            snapshot.set(settings, entry.version);
            Ok(snapshot)
        })
        .await
    }

    /// Deletes a snapshot. What only it kept is dropped.
    pub async fn delete_snapshot(&self, name: &SnapshotName) -> Result<()> {
        let name = name.clone();
        self.change(|broker| async move {
            let _admin = broker.admin.lock().await;
            broker.end_snapshot(&broker.snapshot(&name)?).await?;
            broker.audit("delete", name.to_string(), None);
            Ok(())
        })
        .await
    }

    /// Deletes a snapshot whose time has come. False if it is gone, or has more time.
    pub(crate) async fn expire_snapshot(&self, name: &SnapshotName) -> Result<bool> {
        let name = name.clone();
        self.change(|broker| async move {
            let _admin = broker.admin.lock().await;
            let Ok(snapshot) = broker.snapshot(&name) else { return Ok(false) };
            if snapshot.settings().expire_time > broker.runtime.retention_now() {
                return Ok(false);
            }
            broker.end_snapshot(&snapshot).await?;
            Ok(true)
        })
        .await
    }

    async fn end_snapshot(&self, snapshot: &Arc<Snapshot>) -> Result<()> {
        let Stored { settings, version } = snapshot.stored.lock().clone();
        let name = settings.name.as_str();
        let deleted = self.engine.catalogue.delete(Kind::Snapshot, name, version).await;
        deleted.map_err(|error| gone(error, Resource::Snapshot, name))?;
        self.snapshots.write().remove(&settings.name);
        snapshot.topic.remove_snapshot(snapshot);
        self.drop_if_unused(&snapshot.topic);
        Ok(())
    }
}

/// When it expires; `now` is the time by which messages age.
fn expire_time(
    snapshot: &Snapshot,
    subscription: &Subscription,
    now: Timestamp,
) -> Result<Timestamp> {
    let age = now.since(snapshot.keeps_since());
    let lifetime = lifetime(age).ok_or_else(|| {
        let (name, age) = (subscription.name(), age.as_secs());
        Error::FailedPrecondition(format!(
            "the oldest unacked message of subscription {name} is {age} s old, so that a snapshot \
             would expire in less than 1 hour"
        ))
    })?;
    Ok(snapshot.created.plus(lifetime))
}
