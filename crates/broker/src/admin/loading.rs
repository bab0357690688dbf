//! Taking over what the store holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::delivery::{Delivery, Identity};
use domain::{Offset, Progress, SubscriptionId, Timestamp, TopicId, TopicName};
use storage::{Entry, Kind};

use super::{Admin, OFFSET_FLOOR, USED};
use crate::catalogue::{Ledger, read_value, readable};
use crate::definition::{
    StoredReplay, StoredSchema, StoredSnapshot, StoredSubscription, StoredTopic,
};
use crate::error::Result;
use crate::settings;
use crate::snapshot::Snapshot;
use crate::subscription::{Definition, Readers, Subscription};
use crate::topic::{Topic, Versioned};
use crate::transform::Functions;

/// Says what is wrong with a stored definition, as a start would find out.
pub fn check_definition(entry: &Entry) -> std::result::Result<(), String> {
    let (name, value) = (entry.name.as_str(), &entry.value);
    let read = match entry.kind {
        Kind::Topic => StoredTopic::decode(name, value).map(drop),
        Kind::Subscription => StoredSubscription::decode(name, value).map(drop),
        Kind::Snapshot => StoredSnapshot::decode(name, value).map(drop),
        Kind::Schema => StoredSchema::decode(name, value).map(drop),
        Kind::Replay => StoredReplay::decode(value).map(drop),
        Kind::Bookkeeping if name == OFFSET_FLOOR => read_value::<u64>(value).map(drop),
        Kind::Bookkeeping if name == USED => read_value::<BTreeMap<u64, u64>>(value).map(drop),
        Kind::Bookkeeping | Kind::HandledLetters => Ok(()),
    };
    read.map_err(|unreadable| unreadable.to_string())
}

impl Admin {
    /// Takes over everything that the store holds.
    pub(crate) async fn load(&self) -> Result<()> {
        let mut ledger = self.catalogue.lock().await;
        if let Some((floor, version)) = self.catalogue.value(OFFSET_FLOOR).await? {
            (ledger.offset_floor, ledger.floor_version) = (Offset(floor), Some(version));
        }
        let mut used: BTreeMap<u64, u64> = BTreeMap::new();
        if let Some((saved, version)) = self.catalogue.value(USED).await? {
            (used, ledger.used_version) = (saved, Some(version));
        }
        for entry in self.catalogue.entries(Kind::Schema).await? {
            let stored = readable(StoredSchema::decode(&entry.name, &entry.value), &entry.name)?;
            self.schemas.add(&entry, stored.0);
        }
        for entry in self.catalogue.entries(Kind::Topic).await? {
            self.load_topic(&entry, &ledger).await?;
        }
        for entry in self.catalogue.entries(Kind::Subscription).await? {
            let used_at = used.get(&entry.id).copied().map(Timestamp);
            let used_at = used_at.unwrap_or_else(|| self.runtime.clock.wall());
            // What was replayed from the log is in no checkpoint yet, and the next one moves the
            // position past it.
            self.load_subscription(&entry, used_at, &mut ledger).await?.mark_changed();
        }
        for entry in self.catalogue.entries(Kind::Snapshot).await? {
            self.load_snapshot(&entry).await?;
        }
        self.dependants.dead_letters.load().await
    }

    pub(super) async fn load_topic(&self, entry: &Entry, ledger: &Ledger) -> Result<Arc<Topic>> {
        let stored = readable(StoredTopic::decode(&entry.name, &entry.value), &entry.name)?;
        let id = TopicId(entry.id);
        let settings = Versioned { settings: Arc::new(stored.settings), version: entry.version };
        let claim = self.progress.claim(id, stored.first).await?;
        let runtime = Arc::clone(&self.runtime);
        let began = (stored.first, stored.kept_since);
        let functions = Functions::new(&entry.name, &settings.settings.transforms)?;
        let topic = Arc::new(Topic::new(id, began, settings, claim, runtime));
        topic.set_check(stored.schema.map(|check| self.schemas.check_as_stored(check)));
        topic.set_functions(functions);
        topic.set_dead_letter(ledger.dead_letter_topics.contains_key(topic.name()));
        self.registry.add_topic(Arc::new(Readers::new(Arc::clone(&topic))));
        self.dependants.live.look_at(&topic);
        Ok(topic)
    }

    pub(super) async fn load_subscription(
        &self,
        entry: &Entry,
        used_at: Timestamp,
        ledger: &mut Ledger,
    ) -> Result<Arc<Subscription>> {
        let stored = StoredSubscription::decode(&entry.name, &entry.value);
        let stored = readable(stored, &entry.name)?;
        let settings = Arc::new(stored.settings);
        let (id, first) = (SubscriptionId(entry.id), stored.cursor);
        let readers = self.readers_of(stored.topic, first, &settings.topic).await?;
        let progress = self.progress.load(id, Progress::starting_at(first)).await?;
        let identity = Identity { subscription: id, epoch: readers.topic().epoch() };
        let rules = settings::delivery(&settings, &self.runtime.options.push);
        let delivery = Delivery::new(identity, rules, progress);
        let definition = Definition {
            id,
            settings: Arc::clone(&settings),
            version: entry.version,
            functions: Functions::new(settings.name.as_str(), &settings.transforms)?,
            first,
            gone: stored.gone,
            used_at,
        };
        let handles = (Arc::clone(&self.runtime), Arc::clone(&self.notes));
        let subscription = Subscription::new(definition, Arc::clone(&readers), delivery, handles);
        let subscription = Arc::new(subscription);
        if settings.detached {
            self.registry.drop_if_unused(&readers);
        } else {
            readers.attach(Arc::clone(&subscription));
        }
        self.registry.add_subscription(Arc::clone(&subscription));
        self.note_policy(ledger, None, Some(&settings));
        self.plan_expiry(&subscription);
        Ok(subscription)
    }

    async fn load_snapshot(&self, entry: &Entry) -> Result<()> {
        let stored = readable(StoredSnapshot::decode(&entry.name, &entry.value), &entry.name)?;
        let cursor = stored.progress.cursor();
        let readers = self.readers_of(stored.topic, cursor, &stored.settings.topic).await?;
        let snapshot = Snapshot::new(stored, Arc::clone(readers.topic()), entry.version);
        snapshot.find_oldest(&*self.runtime.log, Timestamp(0)).await?;
        self.add_snapshot(snapshot);
        Ok(())
    }

    /// The topic of that id. One that is gone but for what reads it is taken over as such.
    async fn readers_of(
        &self,
        id: TopicId,
        first: Offset,
        name: &TopicName,
    ) -> Result<Arc<Readers>> {
        if let Some(readers) = self.registry.readers_of(id) {
            return Ok(readers);
        }
        let claim = self.progress.claim(id, first).await?;
        let settings = Arc::new(domain::Topic::new(name.clone()));
        let settings = Versioned { settings, version: 0 };
        let began = (first, Timestamp(0));
        let topic = Topic::new(id, began, settings, claim, Arc::clone(&self.runtime));
        topic.mark_deleted();
        let readers = Arc::new(Readers::new(Arc::new(topic)));
        self.registry.add_deleted_topic(Arc::clone(&readers));
        Ok(readers)
    }
}
