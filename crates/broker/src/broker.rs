//! The broker: every topic, subscription, snapshot and schema, and the chores beside them.

mod copied;
mod loading;
mod pushing;
mod subscriptions;
mod topics;

pub use loading::check_definition;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::ops::Bound;
use std::sync::{Arc, Weak};
use std::time::Duration;

use domain::{Offset, SchemaName, SnapshotName, SubscriptionName, TopicName};
use parking_lot::RwLock;
use storage::Engine;
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;

use crate::alerts::Alerts;
use crate::audit;
use crate::clock::Clock;
use crate::dead_letter_admin::{Replays, counter};
use crate::definition::Unreadable;
use crate::error::{Error, Resource, Result};
use crate::live::{self, Live};
use crate::maintenance::{checkpointer, clock_watcher, expirer};
use crate::options::Options;
use crate::push::scheduler::Scheduler;
use crate::runtime::Runtime;
use crate::schema::Schema;
use crate::snapshot::Snapshot;
use crate::subscription::Subscription;
use crate::tail::Tail;
use crate::topic::Topic;
use crate::{alerts, dead_letter, spawn};

/// The running broker.
pub struct Broker {
    pub(crate) me: Weak<Self>,
    pub(crate) engine: Engine,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) tail: Arc<Tail>,
    topics: RwLock<BTreeMap<TopicName, Arc<Topic>>>,
    subscriptions: RwLock<BTreeMap<SubscriptionName, Arc<Subscription>>>,
    pub(crate) snapshots: RwLock<BTreeMap<SnapshotName, Arc<Snapshot>>>,
    pub(crate) schemas: RwLock<BTreeMap<SchemaName, Arc<Schema>>>,
    /// Serialises changes of definitions; holds what goes with them.
    pub(crate) admin: Mutex<Admin>,
    pub(crate) push: Scheduler,
    pub(crate) live: Arc<Live>,
    pub(crate) replays: Replays,
    pub(crate) alerts: Alerts,
    chores: parking_lot::Mutex<Vec<JoinHandle<()>>>,
}

/// What changes only together with definitions.
#[derive(Default)]
pub(crate) struct Admin {
    /// No new topic's offsets may fall below it.
    offset_floor: Offset,
    floor_version: Option<u64>,
    /// How many dead letter policies name a topic, living or not.
    dead_letter_topics: BTreeMap<TopicName, usize>,
    /// The catalogue's version of the times when subscriptions were last used.
    pub(crate) used_version: Option<u64>,
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
        let runtime = Arc::new(Runtime::new(&engine, clock, options));
        let push = Scheduler::start(&runtime)?;
        let live = Live::new(Arc::clone(&runtime));
        let tail = Arc::new(Tail::new(Arc::clone(&runtime)));
        engine.log.listen(Arc::clone(&tail) as _);
        let broker = Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            engine,
            runtime,
            tail,
            topics: RwLock::default(),
            subscriptions: RwLock::default(),
            snapshots: RwLock::default(),
            schemas: RwLock::default(),
            admin: Mutex::default(),
            push,
            live,
            replays: Replays::default(),
            alerts: Alerts::default(),
            chores: parking_lot::Mutex::default(),
        });
        if let Some(mark) = broker.engine.progress.clock_mark().await? {
            broker.runtime.guard.resume(&*broker.runtime.clock, &mark);
        }
        broker.load().await?;
        broker.take_copy_into_use().await?;
        broker.runtime.attempts.load(&broker.living()).await;
        broker.start_chores();
        broker.start_alerts().await;
        for subscription in broker.all_subscriptions() {
            broker.push.look_at(&subscription);
        }
        broker.resume_replays();
        Ok(broker)
    }

    fn start_chores(self: &Arc<Self>) {
        let runtime = Arc::clone(&self.runtime);
        let timers = async move {
            runtime.timers.run(&*runtime.clock, |subscription| subscription.tick()).await;
        };
        let runtime = Arc::clone(&self.runtime);
        let lines = async move { runtime.delivery_log.run(&*runtime.clock).await };
        let flush = self.runtime.options.progress_flush;
        self.chores.lock().extend([
            spawn::named("lease expirer", timers),
            spawn::named("checkpointer", checkpointer::run(Arc::clone(self), flush)),
            spawn::named("dead letters", dead_letter::run(Arc::clone(self))),
            spawn::named("delivery log", lines),
            spawn::named("expirer", expirer::run(Arc::clone(self))),
            spawn::named("clock watcher", clock_watcher::run(Arc::clone(self))),
            spawn::named("live expirer", live::expire(Arc::clone(&self.live))),
            spawn::named("dead letter counter", counter::run(Arc::clone(self))),
        ]);
    }

    async fn start_alerts(self: &Arc<Self>) {
        let Some(options) = self.runtime.options.alerts.clone() else { return };
        // The server is of use without them, and they are tried again when there is one to tell.
        if let Err(error) = alerts::prepare(self, &options).await {
            tracing::warn!(%error, "what alerts need could not be made");
        }
        let interval = options.interval;
        self.chores.lock().extend([
            spawn::named("alerts", alerts::run(Arc::clone(self), interval)),
            spawn::named("alerts sender", alerts::send(Arc::clone(self), options)),
        ]);
    }

    /// Ends every stream and wait, lets pushes end within `grace`, saves all progress and stops
    /// the chores.
    pub async fn close(&self, grace: Duration) -> Result<()> {
        self.runtime.close();
        self.tail.wake_all();
        self.live.close();
        self.push.stop(grace).await;
        self.replays.close().await;
        let chores = std::mem::take(&mut *self.chores.lock());
        for chore in chores {
            chore.abort();
            // An aborted chore ends with an error that says just that.
            drop(chore.await);
        }
        self.runtime.dead_letters.close();
        self.runtime.delivery_log.flush();
        if let Err(error) = expirer::save_used(self).await {
            tracing::warn!(%error, "could not save when subscriptions were last used");
        }
        checkpointer::once(self, false).await
    }

    /// The live subscriptions.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// Ends the grace time of `close` early.
    pub fn hurry(&self) {
        self.push.hurry();
    }

    /// The public keys that the tokens of pushes can be checked with, as a JSON Web Key Set.
    pub async fn token_keys(&self) -> Result<String> {
        self.push.token_keys().await
    }

    /// Resolves if the log ever fails: nothing more is then accepted or delivered.
    pub async fn failure(&self) -> storage::Error {
        self.runtime.failure().await
    }

    pub(crate) fn all_topics(&self) -> Vec<Arc<Topic>> {
        self.tail.all()
    }

    pub(crate) fn living_topics(&self) -> Vec<Arc<Topic>> {
        self.topics.read().values().cloned().collect()
    }

    pub(crate) fn all_subscriptions(&self) -> Vec<Arc<Subscription>> {
        self.subscriptions.read().values().cloned().collect()
    }

    /// Puts an act on record that is done, by whoever asked for what this task does.
    pub fn audit(&self, act: &'static str, resource: impl Into<String>, details: Option<String>) {
        self.runtime.audit(act, resource, details);
    }

    /// The same, by `peer`: for work that is not done in the task of whoever asked.
    pub fn audit_of(
        &self,
        peer: Option<SocketAddr>,
        act: &'static str,
        resource: impl Into<String>,
        details: Option<String>,
    ) {
        self.runtime.audit_of(peer, act, resource, details);
    }

    /// Changes definitions, in a task of its own: a caller who goes away half way leaves nothing
    /// half done, such as an entry in the catalogue that nobody knows of.
    pub(crate) async fn change<T, Work>(&self, change: impl FnOnce(Arc<Self>) -> Work) -> Result<T>
    where
        Work: Future<Output = Result<T>> + Send + 'static,
        T: Send + 'static,
    {
        self.runtime.check_serving()?;
        let work = change(self.me.upgrade().ok_or(Error::Closing)?);
        let work = audit::asked_by(audit::peer(), work);
        let (answer, answered) = oneshot::channel();
        // The task is on its own from here; the caller may be gone when it answers.
        drop(spawn::named("change of definitions", async move {
            drop(answer.send(work.await));
        }));
        answered.await.unwrap_or_else(|_| Err(Error::broken_off()))
    }
}

/// The part of a listing that comes after the name `after`.
pub(crate) fn page<Name, T>(
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

pub(crate) fn readable<T>(value: Result<T, Unreadable>, name: &str) -> Result<T> {
    value.map_err(|source| Error::Unreadable(name.to_owned(), Arc::new(source)))
}

pub(crate) fn exists(error: storage::Error, resource: Resource, name: &str) -> Error {
    match error {
        storage::Error::Conflict => Error::AlreadyExists(resource, name.to_owned()),
        other => other.into(),
    }
}

pub(crate) fn gone(error: storage::Error, resource: Resource, name: &str) -> Error {
    match error {
        storage::Error::Conflict => Error::Contended(resource, name.to_owned()),
        storage::Error::NotFound => Error::NotFound(resource, name.to_owned()),
        other => other.into(),
    }
}
