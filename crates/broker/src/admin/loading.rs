//! Taking over what the store holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::delivery::{Delivery, Identity};
use domain::{Offset, Progress, ShardId, SubscriptionId, Timestamp, TopicId, TopicName};
use storage::{Entry, Kind};

use super::{Admin, OFFSET_FLOOR, USED, is_kept_as, kept_for};
use crate::catalogue::{Ledger, ShardLedger, read_value, readable};
use crate::definition::{
    StoredReplay, StoredSchema, StoredSnapshot, StoredSubscription, StoredTopic, Unreadable,
};
use crate::error::Result;
use crate::settings;
use crate::shards::OpenShard;
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
        Kind::Bookkeeping if is_kept_as(OFFSET_FLOOR, name) => read_value::<u64>(value).map(drop),
        Kind::Bookkeeping if is_kept_as(USED, name) => {
            read_value::<BTreeMap<u64, u64>>(value).map(drop)
        }
        Kind::Bookkeeping | Kind::HandledLetters | Kind::Mark => Ok(()),
    };
    read.map_err(|unreadable| unreadable.to_string())
}

impl Admin {
    /// Reads the schemas, which belong to no shard.
    pub(crate) async fn load_schemas(&self) -> Result<()> {
        for entry in self.catalogue.entries(Kind::Schema).await? {
            let stored = readable(StoredSchema::decode(&entry.name, &entry.value), &entry.name)?;
            self.schemas.add(&entry, stored.0);
        }
        Ok(())
    }

    /// Takes over everything that the store holds of a shard.
    pub(crate) async fn load(&self, shard: &OpenShard) -> Result<()> {
        let id = shard.runtime.shard;
        let mut ledger = self.catalogue.lock().await;
        let used = self.load_ledger(&mut ledger, id).await?;
        let topics = self.catalogue.entries(Kind::Topic).await?;
        let living: BTreeSet<_> = topics.iter().map(|entry| TopicId(entry.id)).collect();
        for entry in topics {
            if self.shard_of_topic(&entry)? == id {
                self.load_topic(shard, &entry).await?;
            }
        }
        let mut loaded = Vec::new();
        for entry in self.catalogue.entries(Kind::Subscription).await? {
            if self.shard_of_subscription(&entry)? == id {
                let used_at = used.get(&entry.id).copied().map(Timestamp);
                loaded.push((entry, used_at.unwrap_or_else(|| self.host.clock.wall())));
            }
        }
        for subscription in self.load_subscriptions(shard, loaded).await? {
            // What was replayed from the log is in no checkpoint yet, and the next one moves the
            // position past it.
            subscription.mark_changed();
        }
        for entry in self.catalogue.entries(Kind::Snapshot).await? {
            self.load_snapshot(shard, &entry).await?;
        }
        self.dependants.dead_letters.load(&shard.runtime, &living).await
    }

    /// Forgets everything of a shard that is run here no more.
    pub(crate) async fn unload(&self, shard: ShardId) {
        let mut ledger = self.catalogue.lock().await;
        ledger.shards.remove(&shard);
        self.shards.remove(shard);
        let topics = self.registry.readers_in(shard);
        self.registry.remove_shard(shard);
        topics.iter().for_each(|readers| self.dependants.live.look_at(readers.topic()));
        self.directory.forget_unlisted();
    }

    /// Reads what is kept beside the definitions; returns when subscriptions were last used.
    async fn load_ledger(&self, ledger: &mut Ledger, shard: ShardId) -> Result<BTreeMap<u64, u64>> {
        let ledger = ledger.of(shard);
        *ledger = ShardLedger::default();
        if let Some((floor, version)) = self.catalogue.value(&kept_for(OFFSET_FLOOR, shard)).await?
        {
            (ledger.offset_floor, ledger.floor_version) = (Offset(floor), Some(version));
        }
        let saved = self.catalogue.value(&kept_for(USED, shard)).await?;
        let Some((used, version)) = saved else { return Ok(BTreeMap::new()) };
        ledger.used_version = Some(version);
        Ok(used)
    }

    /// The shard of a stored topic.
    pub(super) fn shard_of_topic(&self, entry: &Entry) -> Result<ShardId> {
        let name = TopicName::parse("name", &entry.name).map_err(Unreadable::from);
        Ok(self.catalogue.shard_of(&readable(name, &entry.name)?))
    }

    /// The shard of a stored subscription.
    pub(super) fn shard_of_subscription(&self, entry: &Entry) -> Result<ShardId> {
        let stored = StoredSubscription::decode(&entry.name, &entry.value);
        Ok(self.catalogue.shard_of(&readable(stored, &entry.name)?.settings.topic))
    }

    pub(super) async fn load_topic(&self, shard: &OpenShard, entry: &Entry) -> Result<Arc<Topic>> {
        let stored = readable(StoredTopic::decode(&entry.name, &entry.value), &entry.name)?;
        let id = TopicId(entry.id);
        let settings = Versioned { settings: Arc::new(stored.settings), version: entry.version };
        let runtime = Arc::clone(&shard.runtime);
        let claim = runtime.log.begin(id, stored.first).await?;
        let began = (stored.first, stored.kept_since);
        let functions = Functions::new(&entry.name, &settings.settings.transforms)?;
        let topic = Arc::new(Topic::new(id, began, settings, claim, runtime));
        topic.set_check(stored.schema.map(|check| self.schemas.check_as_stored(check)));
        topic.set_functions(functions);
        topic.set_dead_letter(self.directory.is_dead_letter(topic.name()));
        self.registry.add_topic(Arc::new(Readers::new(Arc::clone(&topic))));
        self.list(entry, topic.shard());
        self.dependants.live.look_at(&topic);
        Ok(topic)
    }

    /// Takes over subscriptions, whose progress is read at once; each with when it was last used.
    pub(super) async fn load_subscriptions(
        &self,
        shard: &OpenShard,
        entries: Vec<(Entry, Timestamp)>,
    ) -> Result<Vec<Arc<Subscription>>> {
        let mut starts = Vec::with_capacity(entries.len());
        let mut found = Vec::with_capacity(entries.len());
        for (entry, used_at) in entries {
            let stored = StoredSubscription::decode(&entry.name, &entry.value);
            let stored = readable(stored, &entry.name)?;
            let first = stored.cursor;
            starts.push((SubscriptionId(entry.id), Progress::starting_at(first)));
            let name = &stored.settings.topic;
            let readers = self.readers_of(shard, stored.topic, first, name).await?;
            found.push((entry, stored, readers, used_at));
        }
        let progress = shard.runtime.progress.load(starts).await?;
        let mut loaded = Vec::with_capacity(found.len());
        for ((entry, stored, readers, used_at), progress) in found.into_iter().zip(progress) {
            loaded.push(self.add_subscription(
                shard,
                &entry,
                stored,
                (readers, used_at),
                progress,
            )?);
        }
        Ok(loaded)
    }

    fn add_subscription(
        &self,
        shard: &OpenShard,
        entry: &Entry,
        stored: StoredSubscription,
        (readers, used_at): (Arc<Readers>, Timestamp),
        progress: Progress,
    ) -> Result<Arc<Subscription>> {
        let OpenShard { runtime, notes } = shard.clone();
        let settings = Arc::new(stored.settings);
        let id = SubscriptionId(entry.id);
        let identity = Identity { subscription: id, epoch: runtime.epoch };
        let rules = settings::delivery(&settings, &self.host.options.push);
        let delivery = Delivery::new(identity, rules, progress);
        let definition = Definition {
            id,
            settings: Arc::clone(&settings),
            version: entry.version,
            functions: Functions::new(settings.name.as_str(), &settings.transforms)?,
            first: stored.cursor,
            gone: stored.gone,
            used_at,
        };
        let handles = (runtime, notes);
        let subscription = Subscription::new(definition, Arc::clone(&readers), delivery, handles);
        let subscription = Arc::new(subscription);
        if settings.detached {
            self.registry.drop_if_unused(&readers);
        } else {
            readers.attach(Arc::clone(&subscription));
        }
        self.registry.add_subscription(Arc::clone(&subscription));
        self.list_subscription((id, entry.version), None, &settings);
        self.plan_expiry(&subscription);
        Ok(subscription)
    }

    /// Takes over a snapshot, if it is of that shard.
    pub(super) async fn load_snapshot(&self, shard: &OpenShard, entry: &Entry) -> Result<()> {
        let stored = readable(StoredSnapshot::decode(&entry.name, &entry.value), &entry.name)?;
        if self.catalogue.shard_of(&stored.settings.topic) != shard.runtime.shard {
            return Ok(());
        }
        let (cursor, name) = (stored.progress.cursor(), &stored.settings.topic);
        let readers = self.readers_of(shard, stored.topic, cursor, name).await?;
        let topic = Arc::clone(readers.topic());
        let snapshot = Snapshot::new(stored, topic, entry.id, entry.version);
        snapshot.find_oldest(&*shard.runtime.log, Timestamp(0)).await?;
        self.list(entry, shard.runtime.shard);
        self.add_snapshot(snapshot);
        Ok(())
    }

    /// The topic of that id. One that is gone but for what reads it is taken over as such.
    async fn readers_of(
        &self,
        shard: &OpenShard,
        id: TopicId,
        first: Offset,
        name: &TopicName,
    ) -> Result<Arc<Readers>> {
        if let Some(readers) = self.registry.readers_of(id) {
            return Ok(readers);
        }
        let claim = shard.runtime.log.begin(id, first).await?;
        let settings = Arc::new(domain::Topic::new(name.clone()));
        let settings = Versioned { settings, version: 0 };
        let began = (first, Timestamp(0));
        let topic = Topic::new(id, began, settings, claim, Arc::clone(&shard.runtime));
        topic.mark_deleted();
        let readers = Arc::new(Readers::new(Arc::new(topic)));
        self.registry.add_deleted_topic(Arc::clone(&readers));
        Ok(readers)
    }
}
