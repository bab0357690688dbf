//! Topics: made, found, changed, published to and ended.

use std::sync::Arc;

use bytes::Bytes;
use domain::{Message, Offset, OffsetRange, ProjectName, Timestamp, TopicName};
use storage::Kind;

use super::{Admin, Broker, Page, exists, gone, page, readable};
use crate::definition::StoredTopic;
use crate::error::{Error, Resource, Result};
use crate::schema::SchemaChange;
use crate::topic::{Topic, Versioned};

/// The name of the mark that no new topic's offsets may fall below: offsets of deleted topics
/// are never used again.
pub(super) const OFFSET_FLOOR: &str = "offset-floor";

impl Broker {
    /// Creates a topic; it exists on stable storage when this returns.
    pub async fn create_topic(&self, settings: domain::Topic) -> Result<Arc<Topic>> {
        self.create_topic_with(settings, SchemaChange::Leave).await
    }

    /// The same for a topic whose messages may have to be of a schema.
    pub async fn create_topic_with(
        &self,
        settings: domain::Topic,
        schema: SchemaChange,
    ) -> Result<Arc<Topic>> {
        settings.validate()?;
        self.change(|broker| async move {
            let admin = broker.admin.lock().await;
            let name = settings.name.clone();
            let first = Offset(broker.runtime.clock.wall().0).max(admin.offset_floor);
            let kept_since = Timestamp(0);
            let schema = broker.changed_check(None, schema)?.map(|check| check.stored());
            let stored = StoredTopic { settings, first, kept_since, schema };
            let value = readable(stored.encode(), name.as_str())?;
            let put = broker.engine.catalogue.put(Kind::Topic, name.as_str(), value, None).await;
            let entry = put.map_err(|error| exists(error, Resource::Topic, name.as_str()))?;
            broker.load_topic(&entry, &admin).await
        })
        .await
    }

    /// The living topic of that name.
    pub fn topic(&self, name: &TopicName) -> Result<Arc<Topic>> {
        let found = self.topics.read().get(name).cloned();
        found.ok_or_else(|| Error::NotFound(Resource::Topic, name.to_string()))
    }

    /// Topics of `project` in name order, after the name `after`.
    pub fn list_topics(
        &self,
        project: &ProjectName,
        after: Option<&str>,
        limit: usize,
    ) -> Page<Topic> {
        page(&self.topics.read(), after, limit, |name| name.is_in(project))
    }

    /// Changes a topic's settings.
    pub async fn update_topic(
        &self,
        name: &TopicName,
        change: domain::topic::Change,
    ) -> Result<Arc<Topic>> {
        self.update_topic_with(name, change, SchemaChange::Leave).await
    }

    /// The same, and changes what its messages must look like.
    pub async fn update_topic_with(
        &self,
        name: &TopicName,
        change: domain::topic::Change,
        schema: SchemaChange,
    ) -> Result<Arc<Topic>> {
        let name = name.clone();
        self.change(|broker| async move {
            let _admin = broker.admin.lock().await;
            let topic = broker.topic(&name)?;
            let Versioned { settings, version } = topic.versioned();
            let settings = change.apply(&settings)?;
            let kept_since = topic.kept_since_with(settings.message_retention);
            let before = topic.check();
            let check = broker.changed_check(before.as_ref(), schema)?;
            let stored = StoredTopic {
                settings: settings.clone(),
                first: topic.first(),
                kept_since,
                schema: check.as_ref().map(|check| check.stored()),
            };
            let value = readable(stored.encode(), name.as_str())?;
            let catalogue = &broker.engine.catalogue;
            let put = catalogue.put(Kind::Topic, name.as_str(), value, Some(version)).await;
            let entry = put.map_err(|error| gone(error, Resource::Topic, name.as_str()))?;
            topic.set_kept_since(kept_since);
            topic.set_settings(Versioned { settings: Arc::new(settings), version: entry.version });
            broker.audit_check(&name, before.as_deref(), check.as_deref());
            topic.set_check(check);
            broker.live.look_at(&topic);
            Ok(topic)
        })
        .await
    }

    /// Deletes a topic. Its subscriptions live on with what they have not delivered yet, and so
    /// do its snapshots.
    pub async fn delete_topic(&self, name: &TopicName) -> Result<()> {
        let name = name.clone();
        self.change(|broker| async move {
            let mut admin = broker.admin.lock().await;
            let topic = broker.topic(&name)?;
            let next = topic.mark_deleted();
            if let Err(error) = broker.store_deleted(&mut admin, &topic, next).await {
                topic.unmark_deleted();
                return Err(error);
            }
            broker.topics.write().remove(&name);
            broker.live.look_at(&topic);
            broker.drop_desk(&topic).await;
            broker.drop_if_unused(&topic);
            broker.audit("delete", name.to_string(), None);
            Ok(())
        })
        .await
    }

    /// The floor goes first: were the topic gone without it, its offsets could come again.
    async fn store_deleted(&self, admin: &mut Admin, topic: &Topic, next: Offset) -> Result<()> {
        let floor = admin.offset_floor.max(next);
        let value = Bytes::from(floor.to_string());
        let catalogue = &self.engine.catalogue;
        let entry = catalogue.put(Kind::Mark, OFFSET_FLOOR, value, admin.floor_version).await?;
        admin.offset_floor = floor;
        admin.floor_version = Some(entry.version);
        let version = topic.versioned().version;
        let deleted = catalogue.delete(Kind::Topic, topic.name().as_str(), version).await;
        deleted.map_err(|error| gone(error, Resource::Topic, topic.name().as_str()))
    }

    /// Forgets a deleted topic that nobody reads: its log goes with the next trim.
    pub(crate) fn drop_if_unused(&self, topic: &Topic) {
        if topic.is_unused() {
            self.tail.remove(topic.id());
        }
    }

    /// Appends `messages` to a topic; their offsets come back once they are durable.
    pub async fn publish(&self, topic: &TopicName, messages: Vec<Message>) -> Result<OffsetRange> {
        self.runtime.check_serving()?;
        self.topic(topic)?.publish(messages).await
    }

    /// Counts the dead letter policies that name a topic, as one of them changes. Such topics
    /// keep their messages.
    pub(super) fn note_policy(
        &self,
        admin: &mut Admin,
        before: Option<&domain::Subscription>,
        after: Option<&domain::Subscription>,
    ) {
        let named = |settings: &domain::Subscription| {
            settings.dead_letter_policy.as_ref().map(|policy| policy.topic.clone())
        };
        let (before, after) = (before.and_then(named), after.and_then(named));
        if before == after {
            return;
        }
        if let Some(name) = before {
            let count = admin.dead_letter_topics.get_mut(&name);
            let is_last = count.is_none_or(|count| {
                *count -= 1;
                *count == 0
            });
            if is_last {
                admin.dead_letter_topics.remove(&name);
                self.mark_dead_letter(&name, false);
            }
        }
        if let Some(name) = after {
            self.mark_dead_letter(&name, true);
            *admin.dead_letter_topics.entry(name).or_default() += 1;
        }
    }

    fn mark_dead_letter(&self, name: &TopicName, is_dead_letter: bool) {
        if let Ok(topic) = self.topic(name) {
            topic.set_dead_letter(is_dead_letter);
        }
    }
}
