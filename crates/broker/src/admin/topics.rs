//! Topics: made, changed and ended; and which of them keep dead letters.

use std::sync::Arc;

use bytes::Bytes;
use domain::{Offset, ShardId, SubscriptionId, Timestamp, TopicName};
use storage::{Entry, Kind};

use super::{Admin, OFFSET_FLOOR, TOPIC, kept_for};
use crate::catalogue::{Ledger, readable};
use crate::definition::StoredTopic;
use crate::directory::Listed;
use crate::error::{Error, Resource, Result};
use crate::subscription::Readers;
use crate::topic::{Topic, Versioned};
use crate::transform::Functions;

impl Admin {
    /// Creates a topic, whose messages may have to be of a schema; it exists on stable storage
    /// when this returns.
    pub(crate) async fn create_topic(
        self: &Arc<Self>,
        settings: domain::Topic,
    ) -> Result<Arc<Topic>> {
        settings.validate()?;
        self.shards.of(&settings.name)?;
        self.host.transforms.check(settings.name.as_str(), &settings.transforms).await?;
        let admin = Arc::clone(self);
        let change = async move {
            let mut ledger = admin.catalogue.lock().await;
            let name = settings.name.clone();
            let shard = admin.shards.of(&name)?;
            let floor = ledger.of(shard.runtime.shard).offset_floor;
            let first = Offset(admin.host.clock.wall().0).max(floor);
            let kept_since = Timestamp(0);
            let check = |wanted| admin.schemas.check_of(wanted, None, true);
            let schema = settings.schema.as_ref().map(check).transpose()?;
            let schema = schema.map(|check| check.stored());
            let stored = StoredTopic { settings, first, kept_since, schema };
            let value = readable(stored.encode(), name.as_str())?;
            let entry = admin.catalogue.create(TOPIC, name.as_str(), value).await?;
            admin.load_topic(&shard, &entry).await
        };
        self.catalogue.change(change).await
    }

    /// Changes a topic's settings, and what its messages must look like.
    pub(crate) async fn update_topic(
        self: &Arc<Self>,
        name: &TopicName,
        change: domain::topic::Change,
    ) -> Result<Arc<Topic>> {
        let (admin, name) = (Arc::clone(self), name.clone());
        let topic = self.registry.topic(&name)?;
        let (current, check) = (topic.settings(), topic.check());
        let (tried, _) = self.schemas.changed(change.clone(), &current, check.as_ref())?;
        let tried = tried.transforms;
        if tried != current.transforms {
            self.host.transforms.check(name.as_str(), &tried).await?;
        }
        let change = async move {
            let _ledger = admin.catalogue.lock().await;
            let topic = admin.registry.topic(&name)?;
            let Versioned { settings: current, version } = topic.versioned();
            let before = topic.check();
            let (settings, check) = admin.schemas.changed(change, &current, before.as_ref())?;
            if ![&tried, &current.transforms].contains(&&settings.transforms) {
                return Err(Error::Contended(Resource::Topic, name.to_string()));
            }
            let functions = Functions::new(name.as_str(), &settings.transforms)?;
            let kept_since = topic.kept_since_with(settings.message_retention);
            let stored = StoredTopic {
                settings: settings.clone(),
                first: topic.first(),
                kept_since,
                schema: check.as_ref().map(|check| check.stored()),
            };
            let value = readable(stored.encode(), name.as_str())?;
            let entry = admin.catalogue.update(TOPIC, name.as_str(), value, version).await?;
            topic.set_kept_since(kept_since);
            topic.set_settings(Versioned { settings: Arc::new(settings), version: entry.version });
            admin.schemas.audit_check(&name, before.as_deref(), check.as_deref());
            topic.set_check(check);
            topic.set_functions(functions);
            admin.dependants.live.look_at(&topic);
            Ok(topic)
        };
        self.catalogue.change(change).await
    }

    /// Deletes a topic. Its subscriptions live on with what they have not delivered yet, and so
    /// do its snapshots.
    pub(crate) async fn delete_topic(self: &Arc<Self>, name: &TopicName) -> Result<()> {
        let (admin, name) = (Arc::clone(self), name.clone());
        let change = async move {
            let mut ledger = admin.catalogue.lock().await;
            let readers = admin.registry.readers(&name)?;
            let topic = readers.topic();
            let next = topic.mark_deleted();
            if let Err(error) = admin.store_deleted(&mut ledger, topic, next).await {
                topic.unmark_deleted();
                return Err(error);
            }
            admin.end_topic(&readers).await;
            admin.host.auditor.record("delete", name.to_string(), None);
            Ok(())
        };
        self.catalogue.change(change).await
    }

    /// Lets go of a topic that is deleted and stored so.
    pub(super) async fn end_topic(&self, readers: &Readers) {
        let topic = readers.topic();
        self.registry.remove_topic(topic.name());
        drop(self.directory.remove(Kind::Topic, topic.name().as_str(), topic.id().0, None));
        self.dependants.live.look_at(topic);
        self.dependants.dead_letters.drop_topic(topic).await;
        self.registry.drop_if_unused(readers);
    }

    /// The floor goes first: were the topic gone without it, its offsets could come again.
    async fn store_deleted(&self, ledger: &mut Ledger, topic: &Topic, next: Offset) -> Result<()> {
        self.raise_floor(ledger, topic.shard(), next).await?;
        let version = topic.versioned().version;
        self.catalogue.delete(TOPIC, topic.name().as_str(), version).await
    }

    /// No topic of that shard that is created from now on has an offset below `next`.
    pub(super) async fn raise_floor(
        &self,
        ledger: &mut Ledger,
        shard: ShardId,
        next: Offset,
    ) -> Result<()> {
        let ledger = ledger.of(shard);
        let floor = ledger.offset_floor.max(next);
        let (name, value) = (kept_for(OFFSET_FLOOR, shard), Bytes::from(floor.to_string()));
        let store = self.catalogue.store();
        let entry = store.put(Kind::Bookkeeping, &name, value, ledger.floor_version).await?;
        ledger.offset_floor = floor;
        ledger.floor_version = Some(entry.version);
        Ok(())
    }

    /// Lists a subscription with the dead letter policy it has now; topics that such a policy names
    /// keep their messages.
    pub(super) fn list_subscription(
        &self,
        (id, version): (SubscriptionId, u64),
        before: Option<&domain::Subscription>,
        after: &domain::Subscription,
    ) {
        let shard = self.catalogue.shard_of(&after.topic);
        let listed = Listed { id: id.0, version, shard, letters: letters_to(after) };
        let (name, before) = (after.name.as_str(), before.and_then(letters_to));
        self.mark_dead_letter(self.directory.put(Kind::Subscription, name, listed, before));
    }

    /// Lists a subscription no more.
    pub(super) fn unlist_subscription(&self, id: SubscriptionId, gone: &domain::Subscription) {
        let (name, before) = (gone.name.as_str(), letters_to(gone));
        self.mark_dead_letter(self.directory.remove(Kind::Subscription, name, id.0, before));
    }

    pub(super) fn mark_dead_letter(&self, changed: Vec<(TopicName, bool)>) {
        for (name, is_dead_letter) in changed {
            if let Ok(topic) = self.registry.topic(&name) {
                topic.set_dead_letter(is_dead_letter);
            }
        }
    }

    /// Lists a topic or a snapshot of that shard.
    pub(super) fn list(&self, entry: &Entry, shard: ShardId) {
        let Entry { kind, name, id, version, .. } = entry;
        let listed = Listed { id: *id, version: *version, shard, letters: None };
        drop(self.directory.put(*kind, name, listed, None));
    }
}

/// The topic that its dead letters go to.
pub(super) fn letters_to(settings: &domain::Subscription) -> Option<TopicName> {
    settings.dead_letter_policy.as_ref().map(|policy| policy.topic.clone())
}
