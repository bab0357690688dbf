//! Taking over what the store holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::delivery::{Delivery, Identity};
use domain::{Offset, Progress, SubscriptionId, Timestamp, TopicId, TopicName};
use storage::{Entry, Kind};

use super::topics::OFFSET_FLOOR;
use super::{Admin, Broker, readable};
use crate::definition::{
    StoredReplay, StoredSchema, StoredSnapshot, StoredSubscription, StoredTopic, Unreadable,
};
use crate::error::Result;
use crate::maintenance::expirer;
use crate::settings;
use crate::snapshot::Snapshot;
use crate::subscription::{Definition, Subscription};
use crate::topic::{Topic, Versioned};

/// Says what is wrong with a stored definition, as a start would find out.
pub fn check_definition(entry: &Entry) -> std::result::Result<(), String> {
    let (name, value) = (entry.name.as_str(), &entry.value);
    let read = match entry.kind {
        Kind::Topic => StoredTopic::decode(name, value).map(drop),
        Kind::Subscription => StoredSubscription::decode(name, value).map(drop),
        Kind::Snapshot => StoredSnapshot::decode(name, value).map(drop),
        Kind::Schema => StoredSchema::decode(name, value).map(drop),
        Kind::Replay => StoredReplay::decode(value).map(drop),
        Kind::Mark if name == OFFSET_FLOOR => read_mark::<u64>(value).map(drop),
        Kind::Mark if name == expirer::USED => read_mark::<BTreeMap<u64, u64>>(value).map(drop),
        Kind::Mark | Kind::Desk => Ok(()),
    };
    read.map_err(|unreadable| unreadable.to_string())
}

fn read_mark<T: serde::de::DeserializeOwned>(value: &[u8]) -> Result<T, Unreadable> {
    Ok(serde_json::from_slice(value)?)
}

/// Entries read from the catalogue at a time.
const PAGE: usize = 1_000;

impl Broker {
    pub(super) async fn load(self: &Arc<Self>) -> Result<()> {
        let mut admin = self.admin.lock().await;
        if let Some((floor, version)) = self.mark(OFFSET_FLOOR).await? {
            (admin.offset_floor, admin.floor_version) = (Offset(floor), Some(version));
        }
        let mut used: BTreeMap<u64, u64> = BTreeMap::new();
        if let Some((saved, version)) = self.mark(expirer::USED).await? {
            (used, admin.used_version) = (saved, Some(version));
        }
        for entry in self.entries(Kind::Schema).await? {
            let stored = readable(StoredSchema::decode(&entry.name, &entry.value), &entry.name)?;
            self.add_schema(&entry, stored.0);
        }
        for entry in self.entries(Kind::Topic).await? {
            self.load_topic(&entry, &admin).await?;
        }
        for entry in self.entries(Kind::Subscription).await? {
            let used_at = used.get(&entry.id).copied().map(Timestamp);
            let used_at = used_at.unwrap_or_else(|| self.runtime.clock.wall());
            // What was replayed from the log is in no checkpoint yet, and the next one moves the
            // position past it.
            self.load_subscription(&entry, used_at, &mut admin).await?.mark_changed();
        }
        for entry in self.entries(Kind::Snapshot).await? {
            self.load_snapshot(&entry).await?;
        }
        self.load_desks().await
    }

    /// A mark of the store, and its version.
    async fn mark<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<Option<(T, u64)>> {
        match self.engine.catalogue.get(Kind::Mark, name).await {
            Ok(entry) => Ok(Some((readable(read_mark(&entry.value), name)?, entry.version))),
            Err(storage::Error::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn entries(&self, kind: Kind) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let mut after = None;
        loop {
            let page = self.engine.catalogue.list(kind, after.as_deref(), PAGE).await?;
            entries.extend(page.entries);
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(entries),
            }
        }
    }

    pub(super) async fn load_topic(&self, entry: &Entry, admin: &Admin) -> Result<Arc<Topic>> {
        let stored = readable(StoredTopic::decode(&entry.name, &entry.value), &entry.name)?;
        let id = TopicId(entry.id);
        let settings = Versioned { settings: Arc::new(stored.settings), version: entry.version };
        let claim = self.engine.progress.claim(id, stored.first).await?;
        let runtime = Arc::clone(&self.runtime);
        let began = (stored.first, stored.kept_since);
        let topic = Arc::new(Topic::new(id, began, settings, claim, runtime));
        topic.set_check(stored.schema.map(|check| self.check_as_stored(check)));
        topic.set_dead_letter(admin.dead_letter_topics.contains_key(topic.name()));
        self.tail.add(Arc::clone(&topic));
        self.topics.write().insert(topic.name().clone(), Arc::clone(&topic));
        self.live.look_at(&topic);
        Ok(topic)
    }

    pub(super) async fn load_subscription(
        &self,
        entry: &Entry,
        used_at: Timestamp,
        admin: &mut Admin,
    ) -> Result<Arc<Subscription>> {
        let stored = StoredSubscription::decode(&entry.name, &entry.value);
        let stored = readable(stored, &entry.name)?;
        let settings = Arc::new(stored.settings);
        let (id, first) = (SubscriptionId(entry.id), stored.cursor);
        let topic = self.topic_of(stored.topic, first, &settings.topic).await?;
        let progress = self.engine.progress.load(id, Progress::starting_at(first)).await?;
        let identity = Identity { subscription: id, epoch: topic.epoch() };
        let rules = settings::delivery(&settings, &self.runtime.options.push);
        let delivery = Delivery::new(identity, rules, progress);
        let definition = Definition {
            id,
            settings: Arc::clone(&settings),
            version: entry.version,
            first,
            gone: stored.gone,
            used_at,
        };
        let runtime = Arc::clone(&self.runtime);
        let subscription =
            Arc::new(Subscription::new(definition, Arc::clone(&topic), delivery, runtime));
        if settings.detached {
            self.drop_if_unused(&topic);
        } else {
            topic.attach(Arc::clone(&subscription));
        }
        self.subscriptions.write().insert(settings.name.clone(), Arc::clone(&subscription));
        self.note_policy(admin, None, Some(&settings));
        self.plan_expiry(&subscription);
        Ok(subscription)
    }

    async fn load_snapshot(&self, entry: &Entry) -> Result<()> {
        let stored = readable(StoredSnapshot::decode(&entry.name, &entry.value), &entry.name)?;
        let cursor = stored.progress.cursor();
        let topic = self.topic_of(stored.topic, cursor, &stored.settings.topic).await?;
        let snapshot = Snapshot::new(stored, Arc::clone(&topic), entry.version);
        snapshot.find_oldest(&*self.runtime.log, Timestamp(0)).await?;
        self.add_snapshot(snapshot);
        Ok(())
    }

    /// The topic of that id. One that is gone but for what reads it is taken over as such.
    async fn topic_of(&self, id: TopicId, first: Offset, name: &TopicName) -> Result<Arc<Topic>> {
        if let Some(topic) = self.tail.get(id) {
            return Ok(topic);
        }
        let claim = self.engine.progress.claim(id, first).await?;
        let settings = Arc::new(domain::Topic::new(name.clone()));
        let settings = Versioned { settings, version: 0 };
        let began = (first, Timestamp(0));
        let topic = Topic::new(id, began, settings, claim, Arc::clone(&self.runtime));
        let topic = Arc::new(topic);
        topic.mark_deleted();
        self.tail.add(Arc::clone(&topic));
        Ok(topic)
    }
}
