//! Topics: made, changed and ended; and which of them keep dead letters.

use std::sync::Arc;

use bytes::Bytes;
use domain::{Offset, Timestamp, TopicName};
use storage::Kind;

use super::{Admin, OFFSET_FLOOR, TOPIC};
use crate::catalogue::{Ledger, readable};
use crate::definition::StoredTopic;
use crate::error::{Error, Resource, Result};
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
        self.runtime.transforms.check(settings.name.as_str(), &settings.transforms).await?;
        let admin = Arc::clone(self);
        let change = async move {
            let ledger = admin.catalogue.lock().await;
            let name = settings.name.clone();
            let first = Offset(admin.runtime.clock.wall().0).max(ledger.offset_floor);
            let kept_since = Timestamp(0);
            let check = |wanted| admin.schemas.check_of(wanted, None, true);
            let schema = settings.schema.as_ref().map(check).transpose()?;
            let schema = schema.map(|check| check.stored());
            let stored = StoredTopic { settings, first, kept_since, schema };
            let value = readable(stored.encode(), name.as_str())?;
            let entry = admin.catalogue.create(TOPIC, name.as_str(), value).await?;
            admin.load_topic(&entry, &ledger).await
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
            self.runtime.transforms.check(name.as_str(), &tried).await?;
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
            admin.registry.remove_topic(&name);
            admin.dependants.live.look_at(topic);
            admin.dependants.dead_letters.drop_topic(topic).await;
            admin.registry.drop_if_unused(&readers);
            admin.runtime.auditor.record("delete", name.to_string(), None);
            Ok(())
        };
        self.catalogue.change(change).await
    }

    /// The floor goes first: were the topic gone without it, its offsets could come again.
    async fn store_deleted(&self, ledger: &mut Ledger, topic: &Topic, next: Offset) -> Result<()> {
        let floor = ledger.offset_floor.max(next);
        let value = Bytes::from(floor.to_string());
        let store = self.catalogue.store();
        let entry = store.put(Kind::Bookkeeping, OFFSET_FLOOR, value, ledger.floor_version).await?;
        ledger.offset_floor = floor;
        ledger.floor_version = Some(entry.version);
        let version = topic.versioned().version;
        self.catalogue.delete(TOPIC, topic.name().as_str(), version).await
    }

    /// Counts the dead letter policies that name a topic, as one of them changes. Such topics
    /// keep their messages.
    pub(super) fn note_policy(
        &self,
        ledger: &mut Ledger,
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
            let count = ledger.dead_letter_topics.get_mut(&name);
            let is_last = count.is_none_or(|count| {
                *count -= 1;
                *count == 0
            });
            if is_last {
                ledger.dead_letter_topics.remove(&name);
                self.mark_dead_letter(&name, false);
            }
        }
        if let Some(name) = after {
            self.mark_dead_letter(&name, true);
            *ledger.dead_letter_topics.entry(name).or_default() += 1;
        }
    }

    fn mark_dead_letter(&self, name: &TopicName, is_dead_letter: bool) {
        if let Ok(topic) = self.registry.topic(name) {
            topic.set_dead_letter(is_dead_letter);
        }
    }
}
