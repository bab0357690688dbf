//! Every topic, subscription and snapshot: lookup, listing, adding and removing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use domain::{
    ProjectName, ShardId, SnapshotName, SubscriptionId, SubscriptionName, TopicId, TopicName,
};
use parking_lot::RwLock;
use storage::Kind;

use crate::catalogue::{Page, page};
use crate::directory::Directory;
use crate::error::{Error, Resource, Result};
use crate::shards::OpenShards;
use crate::snapshot::Snapshot;
use crate::subscription::{Readers, Subscription};
use crate::tail::Tail;
use crate::topic::Topic;

/// What exists, by name.
pub(crate) struct Registry {
    tail: Arc<Tail>,
    directory: Arc<Directory>,
    shards: Arc<OpenShards>,
    topics: RwLock<BTreeMap<TopicName, Arc<Topic>>>,
    subscriptions: RwLock<BTreeMap<SubscriptionName, Arc<Subscription>>>,
    snapshots: RwLock<BTreeMap<SnapshotName, Arc<Snapshot>>>,
    /// The greatest id of a topic that was ever here.
    last_topic: AtomicU64,
}

impl Registry {
    /// An empty registry; `tail` is told about topics.
    pub(crate) fn new(tail: Arc<Tail>, directory: Arc<Directory>, shards: Arc<OpenShards>) -> Self {
        Self {
            tail,
            directory,
            shards,
            topics: RwLock::default(),
            subscriptions: RwLock::default(),
            snapshots: RwLock::default(),
            last_topic: AtomicU64::new(0),
        }
    }
}

/// Whole shards.
impl Registry {
    /// What to say of something that is listed, and not run here.
    fn elsewhere(&self, kind: Kind, name: &str) -> Option<Error> {
        let listed = self.directory.listed(kind, name)?;
        Some(Error::NotOwner(listed.shard))
    }

    /// Forgets everything of a shard that is run here no more.
    pub(crate) fn remove_shard(&self, shard: ShardId) {
        for readers in self.tail.of_shard(shard) {
            self.tail.remove(readers.topic().id());
            readers.clear();
        }
        self.topics.write().retain(|_, topic| topic.shard() != shard);
        self.snapshots.write().retain(|_, snapshot| snapshot.topic().shard() != shard);
        let subscriptions = self.subscriptions_in(shard);
        self.subscriptions.write().retain(|_, one| one.topic().shard() != shard);
        subscriptions.iter().for_each(|subscription| subscription.mark_deleted());
    }
}

/// Topics.
impl Registry {
    /// Adds an existing topic.
    pub(crate) fn add_topic(&self, readers: Arc<Readers>) {
        let topic = Arc::clone(readers.topic());
        self.last_topic.fetch_max(topic.id().0, Ordering::SeqCst);
        self.tail.add(readers);
        self.topics.write().insert(topic.name().clone(), topic);
    }

    /// Adds a deleted topic that still has readers.
    pub(crate) fn add_deleted_topic(&self, readers: Arc<Readers>) {
        self.tail.add(readers);
    }

    /// The greatest id of a topic that was ever here, if there was one. A shard that is open here
    /// has no topic up to it that is not here.
    pub(crate) fn last_topic(&self) -> Option<TopicId> {
        Some(self.last_topic.load(Ordering::SeqCst)).filter(|&id| id > 0).map(TopicId)
    }

    /// Frees the name. Readers of the topic are not affected.
    pub(crate) fn remove_topic(&self, name: &TopicName) {
        self.topics.write().remove(name);
    }

    /// Forgets a deleted topic without readers: its log goes with the next trim.
    pub(crate) fn drop_if_unused(&self, readers: &Readers) {
        if readers.is_unused() {
            self.tail.remove(readers.topic().id());
        }
    }

    /// The topic with that name.
    pub(crate) fn topic(&self, name: &TopicName) -> Result<Arc<Topic>> {
        let found = self.topics.read().get(name).cloned();
        found.ok_or_else(|| {
            let elsewhere = self.shards.of(name).err();
            elsewhere.unwrap_or_else(|| Error::NotFound(Resource::Topic, name.to_string()))
        })
    }

    /// The same with its readers.
    pub(crate) fn readers(&self, name: &TopicName) -> Result<Arc<Readers>> {
        let found = self.readers_of(self.topic(name)?.id());
        found.ok_or_else(|| Error::NotFound(Resource::Topic, name.to_string()))
    }

    /// The readers of the topic with that id, existing or deleted.
    pub(crate) fn readers_of(&self, topic: TopicId) -> Option<Arc<Readers>> {
        self.tail.get(topic)
    }

    /// Every topic of a shard with its readers, including deleted ones that still have some, in
    /// creation order.
    pub(crate) fn readers_in(&self, shard: ShardId) -> Vec<Arc<Readers>> {
        self.tail.of_shard(shard)
    }

    /// Every existing topic, in name order.
    pub(crate) fn living_topics(&self) -> Vec<Arc<Topic>> {
        self.topics.read().values().cloned().collect()
    }

    /// Topics of `project` in name order, after the name `after`.
    pub(crate) fn list_topics(
        &self,
        project: &ProjectName,
        after: Option<&str>,
        limit: usize,
    ) -> Page<Topic> {
        page(&self.topics.read(), after, limit, |name| name.is_in(project))
    }
}

/// Subscriptions.
impl Registry {
    pub(crate) fn add_subscription(&self, subscription: Arc<Subscription>) {
        self.subscriptions.write().insert(subscription.name().clone(), subscription);
    }

    pub(crate) fn remove_subscription(&self, name: &SubscriptionName) {
        self.subscriptions.write().remove(name);
    }

    /// The subscription with that name.
    pub(crate) fn subscription(&self, name: &SubscriptionName) -> Result<Arc<Subscription>> {
        let found = self.subscriptions.read().get(name).cloned();
        found.ok_or_else(|| {
            self.elsewhere(Kind::Subscription, name.as_str())
                .unwrap_or_else(|| Error::NotFound(Resource::Subscription, name.to_string()))
        })
    }

    pub(crate) fn has_subscription(&self, name: &SubscriptionName) -> bool {
        self.subscriptions.read().contains_key(name)
    }

    /// Every subscription, in name order.
    pub(crate) fn all_subscriptions(&self) -> Vec<Arc<Subscription>> {
        self.subscriptions.read().values().cloned().collect()
    }

    /// The same of one shard.
    pub(crate) fn subscriptions_in(&self, shard: ShardId) -> Vec<Arc<Subscription>> {
        let known = self.subscriptions.read();
        known.values().filter(|one| one.topic().shard() == shard).cloned().collect()
    }

    /// Every subscription by id.
    pub(crate) fn subscriptions_by_id(&self) -> BTreeMap<SubscriptionId, Arc<Subscription>> {
        let all = self.all_subscriptions().into_iter();
        all.map(|subscription| (subscription.id(), subscription)).collect()
    }

    /// Subscriptions of `project` in name order, after the name `after`.
    pub(crate) fn list_subscriptions(
        &self,
        project: &ProjectName,
        after: Option<&str>,
        limit: usize,
    ) -> Page<Subscription> {
        page(&self.subscriptions.read(), after, limit, |name| name.is_in(project))
    }

    /// The subscriptions on `topic` in name order, after the name `after`.
    pub(crate) fn list_topic_subscriptions(
        &self,
        topic: &Topic,
        after: Option<&str>,
        limit: usize,
    ) -> Page<Subscription> {
        let readers = self.readers_of(topic.id());
        let all = readers.map(|readers| readers.subscriptions()).unwrap_or_default();
        let by_name =
            all.into_iter().map(|subscription| (subscription.name().clone(), subscription));
        page(&by_name.collect(), after, limit, |_| true)
    }
}

/// Snapshots.
impl Registry {
    pub(crate) fn add_snapshot(&self, snapshot: Arc<Snapshot>) {
        self.snapshots.write().insert(snapshot.settings().name.clone(), snapshot);
    }

    pub(crate) fn remove_snapshot(&self, name: &SnapshotName) {
        self.snapshots.write().remove(name);
    }

    /// The snapshot with that name.
    pub(crate) fn snapshot(&self, name: &SnapshotName) -> Result<Arc<Snapshot>> {
        let found = self.snapshots.read().get(name).cloned();
        found.ok_or_else(|| {
            self.elsewhere(Kind::Snapshot, name.as_str())
                .unwrap_or_else(|| Error::NotFound(Resource::Snapshot, name.to_string()))
        })
    }

    pub(crate) fn has_snapshot(&self, name: &SnapshotName) -> bool {
        self.snapshots.read().contains_key(name)
    }

    /// Every snapshot, in name order.
    pub(crate) fn all_snapshots(&self) -> Vec<Arc<Snapshot>> {
        self.snapshots.read().values().cloned().collect()
    }

    /// The same of one shard.
    pub(crate) fn snapshots_in(&self, shard: ShardId) -> Vec<Arc<Snapshot>> {
        let known = self.snapshots.read();
        known.values().filter(|one| one.topic().shard() == shard).cloned().collect()
    }

    /// Snapshots of `project` in name order, after the name `after`.
    pub(crate) fn list_snapshots(
        &self,
        project: &ProjectName,
        after: Option<&str>,
        limit: usize,
    ) -> Page<Snapshot> {
        page(&self.snapshots.read(), after, limit, |name| name.is_in(project))
    }

    /// The snapshots of subscriptions on `topic` in name order, after the name `after`.
    pub(crate) fn list_topic_snapshots(
        &self,
        topic: &Topic,
        after: Option<&str>,
        limit: usize,
    ) -> Page<Snapshot> {
        let known = self.snapshots.read();
        // One that is being created is not known yet.
        let of_topic = known.iter().filter(|(_, snapshot)| snapshot.topic().id() == topic.id());
        let by_name = of_topic.map(|(name, snapshot)| (name.clone(), Arc::clone(snapshot)));
        page(&by_name.collect(), after, limit, |_| true)
    }
}
