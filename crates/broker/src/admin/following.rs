//! Hearing of changes that others made to definitions: other nodes, or an owner that was cut off
//! and does not know it yet.
//!
//! What this node changes itself is in force before it is heard of here, and then means nothing
//! new.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use domain::{SnapshotName, SubscriptionId, SubscriptionName, TopicName};
use futures::StreamExt;
use storage::{Change, Entry, Kind};

use super::Admin;
use super::topics::letters_to;
use crate::catalogue::{Ledger, readable};
use crate::definition::{
    StoredSchema, StoredSnapshot, StoredSubscription, StoredTopic, Unreadable,
};
use crate::directory::Listed;
use crate::error::{Error, Result};
use crate::shards::OpenShard;
use crate::subscription::Subscription;
use crate::topic::{Topic, Versioned};
use crate::transform::Functions;

/// How long to wait before the changes are asked for again.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Whose definitions the directory lists, in an order in which one can be loaded after the other.
const LISTED: [Kind; 3] = [Kind::Topic, Kind::Subscription, Kind::Snapshot];

impl Admin {
    /// Lists everything there is, and returns up to which change that is complete.
    pub(crate) async fn list_all(&self) -> Result<()> {
        let serial = self.catalogue.store().serial().await?;
        for kind in LISTED {
            let entries = self.catalogue.entries(kind).await?;
            let names: BTreeSet<_> = entries.iter().map(|entry| entry.name.clone()).collect();
            for entry in entries {
                self.hear_or_skip(Change::Put(entry)).await?;
            }
            for (name, id) in self.directory.others(kind, &|name| names.contains(name)) {
                self.hear_or_skip(Change::Deleted { kind, name, id }).await?;
            }
        }
        self.directory.reach(serial);
        Ok(())
    }

    /// Follows the changes for ever.
    pub(crate) async fn follow(self: Arc<Self>) {
        loop {
            if let Err(error) = self.follow_once().await {
                tracing::warn!(%error, "changes of definitions cannot be read; trying again");
            }
            let clock = &self.host.clock;
            clock.sleep_until(clock.now().plus(RETRY_AFTER)).await;
        }
    }

    async fn follow_once(&self) -> Result<()> {
        let mut changes = self.catalogue.store().changes(self.directory.serial());
        while let Some(next) = changes.next().await {
            let (serial, change) = next?;
            match change {
                Change::Resync => self.list_all().await?,
                change => self.hear_or_skip(change).await?,
            }
            self.directory.reach(serial);
        }
        Ok(())
    }

    /// What cannot be read, by this version or at all, does not keep others from being heard.
    async fn hear_or_skip(&self, change: Change) -> Result<()> {
        match self.hear(change).await {
            Err(error @ (Error::Unreadable(..) | Error::Invalid(_))) => {
                tracing::error!(%error, "a definition that was changed elsewhere is left alone");
                Ok(())
            }
            other => other,
        }
    }

    async fn hear(&self, change: Change) -> Result<()> {
        match change {
            Change::Put(entry) => match entry.kind {
                Kind::Topic => self.hear_of_topic(entry).await,
                Kind::Subscription => self.hear_of_subscription(entry).await,
                Kind::Snapshot => self.hear_of_snapshot(entry).await,
                Kind::Schema => {
                    let stored = StoredSchema::decode(&entry.name, &entry.value);
                    self.schemas.hear(&entry, readable(stored, &entry.name)?.0);
                    Ok(())
                }
                Kind::Bookkeeping | Kind::HandledLetters | Kind::Replay | Kind::Mark => Ok(()),
            },
            Change::Deleted { kind, name, id } => self.hear_of_end(kind, &name, id).await,
            Change::Resync => Ok(()),
        }
    }

    /// Whether an entry is still in the catalogue as it was heard of. If not, more will be heard.
    async fn is_current(&self, entry: &Entry) -> Result<bool> {
        match self.catalogue.store().get(entry.kind, &entry.name).await {
            Ok(now) => Ok(now.id == entry.id && now.version == entry.version),
            Err(storage::Error::NotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// What was stored.
impl Admin {
    async fn hear_of_topic(&self, entry: Entry) -> Result<()> {
        let id = self.shard_of_topic(&entry)?;
        self.list(&entry, id);
        let mut ledger = self.catalogue.lock().await;
        let Ok(shard) = self.shards.get(id) else { return Ok(()) };
        let name = readable(TopicName::parse("name", &entry.name).map_err(Unreadable::from), "")?;
        let known = self.registry.topic(&name).ok();
        let is_known = |topic: &Arc<Topic>| {
            topic.id().0 > entry.id
                || (topic.id().0 == entry.id && topic.versioned().version >= entry.version)
        };
        if known.as_ref().is_some_and(is_known) || !self.is_current(&entry).await? {
            return Ok(());
        }
        match known {
            Some(topic) if topic.id().0 == entry.id => self.take_topic_settings(&topic, &entry),
            Some(earlier) => {
                self.end_unheard(&mut ledger, &earlier).await?;
                self.load_topic(&shard, &entry).await.map(drop)
            }
            None => self.load_topic(&shard, &entry).await.map(drop),
        }
    }

    fn take_topic_settings(&self, topic: &Arc<Topic>, entry: &Entry) -> Result<()> {
        let stored = readable(StoredTopic::decode(&entry.name, &entry.value), &entry.name)?;
        let functions = Functions::new(&entry.name, &stored.settings.transforms)?;
        topic.set_kept_since(stored.kept_since);
        let settings = Arc::new(stored.settings);
        topic.set_settings(Versioned { settings, version: entry.version });
        topic.set_check(stored.schema.map(|check| self.schemas.check_as_stored(check)));
        topic.set_functions(functions);
        self.dependants.live.look_at(topic);
        Ok(())
    }

    async fn hear_of_subscription(&self, entry: Entry) -> Result<()> {
        let stored = StoredSubscription::decode(&entry.name, &entry.value);
        let stored = readable(stored, &entry.name)?;
        let id = self.catalogue.shard_of(&stored.settings.topic);
        let letters = letters_to(&stored.settings);
        let listed = Listed { id: entry.id, version: entry.version, shard: id, letters };
        let changed = self.directory.put(Kind::Subscription, &entry.name, listed, None);
        self.mark_dead_letter(changed);
        let _ledger = self.catalogue.lock().await;
        let Ok(shard) = self.shards.get(id) else { return Ok(()) };
        let known = self.registry.subscription(&stored.settings.name).ok();
        let is_known = |one: &Arc<Subscription>| {
            one.id().0 > entry.id || (one.id().0 == entry.id && one.versioned().1 >= entry.version)
        };
        if known.as_ref().is_some_and(is_known) || !self.is_current(&entry).await? {
            return Ok(());
        }
        let subscription = match known {
            Some(one) if one.id().0 == entry.id => {
                let functions = Functions::new(&entry.name, &stored.settings.transforms)?;
                let settings = Arc::new(stored.settings);
                one.set_settings(settings, functions, stored.gone, entry.version);
                one
            }
            earlier => {
                earlier.iter().for_each(|earlier| self.let_go(earlier));
                let Some(loaded) = self.load_heard(&shard, entry).await? else { return Ok(()) };
                loaded
            }
        };
        self.dependants.push.look_at(&subscription);
        self.dependants.export.look_at(&subscription);
        self.plan_expiry(&subscription);
        Ok(())
    }

    async fn load_heard(
        &self,
        shard: &OpenShard,
        entry: Entry,
    ) -> Result<Option<Arc<Subscription>>> {
        let now = self.host.clock.wall();
        Ok(self.load_subscriptions(shard, vec![(entry, now)]).await?.pop())
    }

    async fn hear_of_snapshot(&self, entry: Entry) -> Result<()> {
        let stored = readable(StoredSnapshot::decode(&entry.name, &entry.value), &entry.name)?;
        let id = self.catalogue.shard_of(&stored.settings.topic);
        self.list(&entry, id);
        let _ledger = self.catalogue.lock().await;
        let Ok(shard) = self.shards.get(id) else { return Ok(()) };
        if let Ok(known) = self.registry.snapshot(&stored.settings.name) {
            let now = known.versioned();
            if now.version >= entry.version {
                return Ok(());
            }
            if now.id == entry.id {
                known.set(stored.settings, &entry);
                return Ok(());
            }
            self.let_snapshot_go(&known);
        }
        if self.is_current(&entry).await? {
            self.load_snapshot(&shard, &entry).await?;
        }
        Ok(())
    }
}

/// What was deleted.
impl Admin {
    async fn hear_of_end(&self, kind: Kind, name: &str, id: u64) -> Result<()> {
        let mut ledger = self.catalogue.lock().await;
        match kind {
            Kind::Topic => {
                drop(self.directory.remove(kind, name, id, None));
                let name = TopicName::parse("name", name)?;
                if let Ok(topic) = self.registry.topic(&name)
                    && topic.id().0 == id
                {
                    self.end_unheard(&mut ledger, &topic).await?;
                }
            }
            Kind::Subscription => {
                self.mark_dead_letter(self.directory.remove(kind, name, id, None));
                let name = SubscriptionName::parse("name", name)?;
                if let Ok(subscription) = self.registry.subscription(&name)
                    && subscription.id() == SubscriptionId(id)
                {
                    self.let_go(&subscription);
                    self.dependants.attempts.forget(subscription.id());
                }
            }
            Kind::Snapshot => {
                drop(self.directory.remove(kind, name, id, None));
                let name = SnapshotName::parse("name", name)?;
                if let Ok(snapshot) = self.registry.snapshot(&name)
                    && snapshot.versioned().id == id
                {
                    self.let_snapshot_go(&snapshot);
                }
            }
            Kind::Schema => self.schemas.hear_of_end(name, id),
            Kind::Bookkeeping | Kind::HandledLetters | Kind::Replay | Kind::Mark => {}
        }
        Ok(())
    }

    /// Ends a topic that someone else deleted. It may have offsets here that they did not know.
    async fn end_unheard(&self, ledger: &mut Ledger, topic: &Arc<Topic>) -> Result<()> {
        let next = topic.mark_deleted();
        self.raise_floor(ledger, topic.shard(), next).await?;
        if let Some(readers) = self.registry.readers_of(topic.id()) {
            self.end_topic(&readers).await;
        }
        Ok(())
    }
}
