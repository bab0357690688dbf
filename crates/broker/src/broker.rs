//! The broker: every topic and subscription, how they are made, found, changed and ended.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::delivery::{Delivery, Flow, Identity, Lease};
use domain::subscription::Start;
use domain::{
    Invalid, Message, Offset, OffsetRange, Progress, ProjectName, SubscriptionId, SubscriptionName,
    Timestamp, TopicId, TopicName,
};
use parking_lot::RwLock;
use storage::{Engine, Entry, Kind};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::consumer::{self, Consumer};
use crate::definition::{StoredSubscription, StoredTopic, Unreadable};
use crate::error::{Error, Resource, Result};
use crate::maintenance::checkpointer;
use crate::runtime::Runtime;
use crate::subscription::Subscription;
use crate::tail::Tail;
use crate::topic::{Topic, Versioned};
use crate::{settings, spawn};

/// The name of the mark that no new topic's offsets may fall below: offsets of deleted topics
/// are never used again.
const OFFSET_FLOOR: &str = "offset-floor";

/// Entries read from the catalogue at a time.
const PAGE: usize = 1_000;

/// What the broker can be told.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How often changed progress is saved.
    pub progress_flush: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { progress_flush: Duration::from_secs(5) }
    }
}

/// The running broker.
pub struct Broker {
    pub(crate) engine: Engine,
    pub(crate) runtime: Arc<Runtime>,
    tail: Arc<Tail>,
    topics: RwLock<BTreeMap<TopicName, Arc<Topic>>>,
    subscriptions: RwLock<BTreeMap<SubscriptionName, Arc<Subscription>>>,
    /// Serialises changes of definitions; holds the floor for the offsets of new topics.
    admin: Mutex<Admin>,
    chores: parking_lot::Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Admin {
    offset_floor: Offset,
    floor_version: Option<u64>,
}

/// A page of a listing: what is on it, and the name to go on after if there is more.
pub type Page<T> = (Vec<Arc<T>>, Option<String>);

impl Broker {
    /// Takes over everything `engine` holds and starts the chores.
    pub async fn open(
        engine: Engine,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Arc<Self>> {
        let runtime = Arc::new(Runtime::new(Arc::clone(&engine.log), clock));
        let tail = Arc::new(Tail::new(Arc::clone(&runtime)));
        engine.log.listen(Arc::clone(&tail) as _);
        let broker = Arc::new(Self {
            engine,
            runtime,
            tail,
            topics: RwLock::default(),
            subscriptions: RwLock::default(),
            admin: Mutex::default(),
            chores: parking_lot::Mutex::default(),
        });
        broker.load().await?;
        broker.start_chores(options);
        Ok(broker)
    }

    fn start_chores(self: &Arc<Self>, options: Options) {
        let runtime = Arc::clone(&self.runtime);
        let timers = spawn::named("lease expirer", async move {
            runtime.timers.run(Arc::clone(&runtime.clock)).await;
        });
        let checkpoints = checkpointer::run(Arc::clone(self), options.progress_flush);
        let checkpoints = spawn::named("checkpointer", checkpoints);
        self.chores.lock().extend([timers, checkpoints]);
    }

    /// Ends every stream and wait, saves all progress and stops the chores.
    pub async fn close(&self) -> Result<()> {
        self.runtime.close();
        self.tail.wake_all();
        let chores = std::mem::take(&mut *self.chores.lock());
        for chore in chores {
            chore.abort();
            // An aborted chore ends with an error that says just that.
            drop(chore.await);
        }
        checkpointer::once(self, false).await
    }

    /// Resolves if the log ever fails: nothing more is then accepted or delivered.
    pub async fn failure(&self) -> storage::Error {
        self.runtime.failure().await
    }

    async fn load(self: &Arc<Self>) -> Result<()> {
        let mut admin = self.admin.lock().await;
        match self.engine.catalogue.get(Kind::Mark, OFFSET_FLOOR).await {
            Ok(entry) => {
                let floor = serde_json::from_slice(&entry.value).map_err(Unreadable::Json);
                admin.offset_floor = Offset(readable(floor, &entry.name)?);
                admin.floor_version = Some(entry.version);
            }
            Err(storage::Error::NotFound) => {}
            Err(error) => return Err(error.into()),
        }
        for entry in self.entries(Kind::Topic).await? {
            self.load_topic(&entry).await?;
        }
        for entry in self.entries(Kind::Subscription).await? {
            // What was replayed from the log is in no checkpoint yet, and the next one moves the
            // position past it.
            self.load_subscription(&entry).await?.mark_changed();
        }
        Ok(())
    }

    async fn entries(&self, kind: Kind) -> Result<Vec<Entry>> {
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

    async fn load_topic(&self, entry: &Entry) -> Result<Arc<Topic>> {
        let stored = readable(StoredTopic::decode(&entry.name, &entry.value), &entry.name)?;
        let id = TopicId(entry.id);
        let settings = Versioned { settings: Arc::new(stored.settings), version: entry.version };
        let claim = self.engine.progress.claim(id, stored.first).await?;
        let runtime = Arc::clone(&self.runtime);
        let topic = Arc::new(Topic::new(id, stored.first, settings, claim, runtime));
        self.tail.add(Arc::clone(&topic));
        self.topics.write().insert(topic.name().clone(), Arc::clone(&topic));
        Ok(topic)
    }

    async fn load_subscription(&self, entry: &Entry) -> Result<Arc<Subscription>> {
        let stored = StoredSubscription::decode(&entry.name, &entry.value);
        let stored = readable(stored, &entry.name)?;
        let topic = match self.tail.get(stored.topic) {
            Some(topic) => topic,
            None => self.load_deleted_topic(&stored).await?,
        };
        let id = SubscriptionId(entry.id);
        let start = Progress::starting_at(stored.cursor);
        let progress = self.engine.progress.load(id, start).await?;
        let identity = Identity { subscription: id, epoch: topic.epoch() };
        let subscription = Arc::new(Subscription::new(
            id,
            Arc::new(stored.settings.clone()),
            entry.version,
            Arc::clone(&topic),
            stored.cursor,
            Delivery::new(identity, settings::delivery(&stored.settings), progress),
            Arc::clone(&self.runtime),
        ));
        topic.attach(Arc::clone(&subscription));
        let name = subscription.name().clone();
        self.subscriptions.write().insert(name, Arc::clone(&subscription));
        Ok(subscription)
    }

    /// The log of a topic that is gone but for its subscriptions.
    async fn load_deleted_topic(&self, stored: &StoredSubscription) -> Result<Arc<Topic>> {
        let claim = self.engine.progress.claim(stored.topic, stored.cursor).await?;
        let settings = Arc::new(domain::Topic::new(stored.settings.topic.clone()));
        let settings = Versioned { settings, version: 0 };
        let runtime = Arc::clone(&self.runtime);
        let topic = Topic::new(stored.topic, stored.cursor, settings, claim, runtime);
        let topic = Arc::new(topic);
        topic.mark_deleted();
        self.tail.add(Arc::clone(&topic));
        Ok(topic)
    }

    pub(crate) fn all_topics(&self) -> Vec<Arc<Topic>> {
        self.tail.all()
    }
}

/// Topics.
impl Broker {
    /// Creates a topic; it exists on stable storage when this returns.
    pub async fn create_topic(&self, settings: domain::Topic) -> Result<Arc<Topic>> {
        self.runtime.check_serving()?;
        settings.validate()?;
        let admin = self.admin.lock().await;
        let name = settings.name.clone();
        let first = Offset(self.runtime.clock.wall().0).max(admin.offset_floor);
        let value = readable(StoredTopic { settings, first }.encode(), name.as_str())?;
        let put = self.engine.catalogue.put(Kind::Topic, name.as_str(), value, None).await;
        let entry = put.map_err(|error| exists(error, Resource::Topic, name.as_str()))?;
        self.load_topic(&entry).await
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
        self.runtime.check_serving()?;
        let _admin = self.admin.lock().await;
        let topic = self.topic(name)?;
        let Versioned { settings, version } = topic.versioned();
        let settings = change.apply(&settings)?;
        let first = topic.first();
        let stored = StoredTopic { settings: settings.clone(), first };
        let value = readable(stored.encode(), name.as_str())?;
        let put = self.engine.catalogue.put(Kind::Topic, name.as_str(), value, Some(version));
        let entry = put.await.map_err(|error| gone(error, Resource::Topic, name.as_str()))?;
        topic.set_settings(Versioned { settings: Arc::new(settings), version: entry.version });
        Ok(topic)
    }

    /// Deletes a topic. Its subscriptions live on with what they have not delivered yet.
    pub async fn delete_topic(&self, name: &TopicName) -> Result<()> {
        self.runtime.check_serving()?;
        let mut admin = self.admin.lock().await;
        let topic = self.topic(name)?;
        let next = topic.mark_deleted();
        if let Err(error) = self.store_deleted(&mut admin, &topic, next).await {
            topic.unmark_deleted();
            return Err(error);
        }
        self.topics.write().remove(name);
        self.drop_if_unused(&topic);
        Ok(())
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

    fn drop_if_unused(&self, topic: &Topic) {
        if topic.is_deleted() && topic.subscriptions().is_empty() {
            self.tail.remove(topic.id());
        }
    }

    /// Appends `messages` to a topic; their offsets come back once they are durable.
    pub async fn publish(&self, topic: &TopicName, messages: Vec<Message>) -> Result<OffsetRange> {
        self.runtime.check_serving()?;
        self.topic(topic)?.publish(messages).await
    }
}

/// Subscriptions.
impl Broker {
    /// Creates a subscription. It and the place where it starts are on stable storage when this
    /// returns.
    pub async fn create_subscription(
        &self,
        settings: domain::Subscription,
    ) -> Result<Arc<Subscription>> {
        self.runtime.check_serving()?;
        settings.validate()?;
        let _admin = self.admin.lock().await;
        let name = settings.name.clone();
        if self.subscriptions.read().contains_key(&name) {
            return Err(Error::AlreadyExists(Resource::Subscription, name.to_string()));
        }
        let topic = self.topic(&settings.topic)?;
        let cursor = self.resolve(settings.start, &topic).await?;
        let stored = StoredSubscription { settings, topic: topic.id(), cursor };
        let value = readable(stored.encode(), name.as_str())?;
        let put = self.engine.catalogue.put(Kind::Subscription, name.as_str(), value, None).await;
        let entry = put.map_err(|error| exists(error, Resource::Subscription, name.as_str()))?;
        self.load_subscription(&entry).await
    }

    /// The first offset for `start`. Only visible offsets are ever named: they are durable.
    async fn resolve(&self, start: Start, topic: &Topic) -> Result<Offset> {
        let log = &self.runtime.log;
        let end = log.end(topic.id());
        match start {
            Start::Latest => Ok(end),
            Start::Earliest => Ok(log.offset_at(topic.id(), Timestamp(0)).await?),
            Start::Time(time) => Ok(log.offset_at(topic.id(), time).await?),
            Start::Offset(offset) if offset <= end => Ok(offset),
            Start::Offset(offset) => Err(Invalid::new(
                "postrider.start",
                format!("offset {offset} is past the end of the topic, which is {end}"),
            )
            .into()),
        }
    }

    /// The subscription of that name.
    pub fn subscription(&self, name: &SubscriptionName) -> Result<Arc<Subscription>> {
        let found = self.subscriptions.read().get(name).cloned();
        found.ok_or_else(|| Error::NotFound(Resource::Subscription, name.to_string()))
    }

    /// Subscriptions of `project` in name order, after the name `after`.
    pub fn list_subscriptions(
        &self,
        project: &ProjectName,
        after: Option<&str>,
        limit: usize,
    ) -> Page<Subscription> {
        page(&self.subscriptions.read(), after, limit, |name| name.is_in(project))
    }

    /// The subscriptions on `topic` in name order, after the name `after`.
    pub fn list_topic_subscriptions(
        &self,
        topic: &Topic,
        after: Option<&str>,
        limit: usize,
    ) -> Page<Subscription> {
        let all = topic.subscriptions();
        let by_name =
            all.into_iter().map(|subscription| (subscription.name().clone(), subscription));
        page(&by_name.collect(), after, limit, |_| true)
    }

    /// Changes a subscription's settings.
    pub async fn update_subscription(
        &self,
        name: &SubscriptionName,
        change: domain::subscription::Change,
    ) -> Result<Arc<Subscription>> {
        self.runtime.check_serving()?;
        let _admin = self.admin.lock().await;
        let subscription = self.subscription(name)?;
        let (settings, version) = subscription.versioned();
        let settings = change.apply(&settings)?;
        let stored = StoredSubscription {
            settings: settings.clone(),
            topic: subscription.topic().id(),
            cursor: subscription.first(),
        };
        let value = readable(stored.encode(), name.as_str())?;
        let put =
            self.engine.catalogue.put(Kind::Subscription, name.as_str(), value, Some(version));
        let entry =
            put.await.map_err(|error| gone(error, Resource::Subscription, name.as_str()))?;
        subscription.set_settings(Arc::new(settings), entry.version);
        Ok(subscription)
    }

    /// Deletes a subscription with its backlog.
    pub async fn delete_subscription(&self, name: &SubscriptionName) -> Result<()> {
        self.runtime.check_serving()?;
        let _admin = self.admin.lock().await;
        let subscription = self.subscription(name)?;
        let (_, version) = subscription.versioned();
        let deleted =
            self.engine.catalogue.delete(Kind::Subscription, name.as_str(), version).await;
        deleted.map_err(|error| gone(error, Resource::Subscription, name.as_str()))?;
        self.subscriptions.write().remove(name);
        subscription.mark_deleted();
        subscription.topic().detach(&subscription);
        self.drop_if_unused(subscription.topic());
        self.runtime.changed.forget(subscription.id());
        Ok(())
    }

    /// Leases up to `records_max` records of `name`, waiting up to `wait` for the first.
    pub async fn pull(
        &self,
        name: &SubscriptionName,
        records_max: usize,
        wait: Duration,
    ) -> Result<Vec<Lease>> {
        let subscription = self.subscription(name)?;
        consumer::pull(subscription, Arc::clone(&self.runtime), records_max, wait).await
    }

    /// Opens a stream of leases with their `ack_deadline`, as many at a time as `flow` allows.
    pub fn stream(
        &self,
        name: &SubscriptionName,
        flow: Flow,
        ack_deadline: Duration,
    ) -> Result<Consumer> {
        let subscription = self.subscription(name)?;
        consumer::stream(subscription, Arc::clone(&self.runtime), flow, ack_deadline)
    }
}

fn page<Name, T>(
    all: &BTreeMap<Name, Arc<T>>,
    after: Option<&str>,
    limit: usize,
    is_listed: impl Fn(&Name) -> bool,
) -> Page<T>
where
    Name: Ord + std::borrow::Borrow<str>,
{
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let listed = all.range::<str, _>((from, Bound::Unbounded)).filter(|(name, _)| is_listed(name));
    let mut listed = listed.peekable();
    let mut items = Vec::new();
    let mut last = None;
    while items.len() < limit
        && let Some((name, item)) = listed.next()
    {
        items.push(Arc::clone(item));
        last = Some(name.borrow().to_owned());
    }
    let next = if listed.peek().is_some() { last } else { None };
    (items, next)
}

fn readable<T>(value: Result<T, Unreadable>, name: &str) -> Result<T> {
    value.map_err(|source| Error::Unreadable(name.to_owned(), Arc::new(source)))
}

fn exists(error: storage::Error, resource: Resource, name: &str) -> Error {
    match error {
        storage::Error::Conflict => Error::AlreadyExists(resource, name.to_owned()),
        other => other.into(),
    }
}

fn gone(error: storage::Error, resource: Resource, name: &str) -> Error {
    match error {
        storage::Error::Conflict => Error::Contended(resource, name.to_owned()),
        storage::Error::NotFound => Error::NotFound(resource, name.to_owned()),
        other => other.into(),
    }
}
