//! Live subscriptions: filtered watchers without a backlog, kept alive by heartbeats.
//!
//! ```text
//! topic ─► follower ─► index ─► registrations: whose? ─► session of each gateway ─► stream
//!          (one per    (per collection,                  (bounded frames, with a
//!           topic)      exact)                            number without gaps)
//! ```
//!
//! A follower reads its topic's log behind the publishers, so that no publisher waits for it, and
//! puts one frame into the session of each gateway that has matching subscriptions. A session that
//! is full loses its frames and says so; nobody waits for a slow gateway.
//!
//! Lock order: the followers, the registrations (registry and sessions), a part of the index, a
//! session. A follower holds one at a time.

mod figures;
mod follower;
mod frame;
mod matcher;
mod registrations;
mod session;
mod shards;
mod stream;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::live::{Ended, Page, Query, Refusal, Registered, Request, Spec, View};
use domain::matching::Summary;
use domain::{Offset, Timestamp, TopicId, TopicName};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

pub use figures::LiveFigures;
pub use frame::{Change, LiveEvent, LiveFrame, LiveIds, LiveMatch, LiveMessage, Lost};
pub use stream::{LiveStart, LiveStream};

use crate::options::LiveOptions;
use crate::runtime::NodeAccess;
use crate::topic::Topic;
use clock::tasks;
use figures::{Counters, add};
use follower::Follower;
use registrations::Registrations;
use session::{Memory, Session};
use shards::Shards;

/// How many subscriptions are ended under one lock.
const ENDED_AT_A_TIME: usize = 1_000;
/// How often to check for expired ones, while there are any subscriptions.
const EXPIRY_STEP: Duration = Duration::from_secs(1);

/// The live subscriptions of a server.
pub struct Live {
    access: NodeAccess,
    options: LiveOptions,
    followers: Mutex<BTreeMap<TopicId, Arc<Follower>>>,
    registrations: Mutex<Registrations>,
    shards: Shards,
    figures: Counters,
    memory: Arc<Memory>,
    /// Notified when there is something that can expire.
    registered: Notify,
}

/// An accepted registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRegistered {
    /// Whether it already existed with the same content.
    pub renewed: bool,
    /// When it was first registered.
    pub created: Timestamp,
    /// When it expires without a heartbeat.
    pub expires: Timestamp,
    /// Whether the filter can be found by a value or a bound. If not, it is run for every message.
    pub indexed: bool,
    /// Version of what is wanted in the collection, including this subscription.
    pub interest_version: u64,
    /// For every followed topic: messages after this offset are matched against this subscription,
    /// and those up to it are not. For a renewed one, from now on.
    pub effective: Vec<(TopicName, Offset)>,
}

/// What is known about a subscription.
#[derive(Clone, Debug)]
pub struct LiveView {
    /// What the registry knows.
    pub view: View,
    /// Its filter in the CEL spelling; `None` = everything.
    pub filter: Option<String>,
}

impl Live {
    pub(crate) fn new(access: NodeAccess, options: LiveOptions) -> Arc<Self> {
        let memory = Arc::new(Memory::new(options.buffer_bytes));
        let registrations = Mutex::new(Registrations::new(options.settings.clone()));
        Arc::new(Self {
            access,
            options,
            followers: Mutex::default(),
            registrations,
            shards: Shards::default(),
            figures: Counters::default(),
            memory,
            registered: Notify::new(),
        })
    }

    /// The options for live subscriptions.
    pub fn options(&self) -> &LiveOptions {
        &self.options
    }

    fn new_session(&self, gateway: Arc<str>) -> Session {
        let first = self.access.clock.wall().0;
        Session::new(gateway, first, self.options().buffer_frames, Arc::clone(&self.memory))
    }
}

/// Which topics are followed.
impl Live {
    /// Starts or stops following a topic, according to the settings.
    pub(crate) fn look_at(self: &Arc<Self>, topic: &Arc<Topic>) {
        let mut followers = self.followers.lock();
        if !self.is_wanted(topic) {
            if let Some(follower) = followers.remove(&topic.id()) {
                follower.leave();
            }
            return;
        }
        followers.entry(topic.id()).or_insert_with(|| {
            let at = topic.log().end(topic.id());
            let follower = Arc::new(Follower::new(Arc::clone(topic), at));
            let run = follower::run(Arc::clone(self), Arc::clone(&follower));
            // It ends with its topic, or with the server.
            drop(tasks::spawn("live follower", run));
            follower
        });
    }

    fn is_wanted(&self, topic: &Topic) -> bool {
        let is_wanted = match &self.options().topics {
            Some(topics) => topics.contains(topic.name()),
            None => topic.settings().is_live(),
        };
        is_wanted && !topic.is_deleted() && !topic.runtime().serving.is_over()
    }

    /// Whether streams may be opened and continue: no longer once the server stops.
    pub fn is_serving(&self) -> bool {
        self.access.check_serving().is_ok()
    }

    /// The topics whose messages are matched.
    pub fn topics(&self) -> Vec<TopicName> {
        self.followers.lock().values().map(|held| held.topic.name().clone()).collect()
    }

    /// Ends every stream and follower because the server stops.
    pub(crate) fn close(&self) {
        self.followers.lock().values().for_each(|follower| follower.wake.notify_one());
        self.wake_streams();
    }

    fn wake_streams(&self) {
        self.registrations.lock().sessions().for_each(|session| session.wake.notify_one());
    }

    /// Messages were dropped without being matched: every gateway has to be told.
    fn lose(&self, lost: Lost) {
        let sessions: Vec<_> = self.registrations.lock().sessions().cloned().collect();
        for session in sessions {
            self.figures.note_resync();
            session.say(LiveEvent::Resync(lost));
        }
    }
}

/// Calls for gateways.
impl Live {
    /// Registers a subscription, or renews the existing one with the same content.
    pub fn register(&self, request: Request) -> Result<LiveRegistered, Refusal> {
        let begun = self.access.clock.now();
        let registered = self.try_register(request);
        let took = self.access.clock.now().since(begun);
        self.figures.note_registration(took, registered.is_ok());
        registered
    }

    fn try_register(&self, request: Request) -> Result<LiveRegistered, Refusal> {
        let spec = Spec::new(request, &self.options().settings)?;
        let followers: Vec<_> = self.followers.lock().values().cloned().collect();
        let mut registrations = self.registrations.lock();
        let registered = registrations.registry.register(self.access.now(), &spec)?;
        if let Some(ended) = &registered.ended {
            self.note_ended(&mut registrations, std::slice::from_ref(ended));
            self.shards.remove(ended);
        }
        let answer = if registered.renewed {
            let view = registrations.registry.get(self.access.now(), spec.subscription())?;
            let interest_version = self.shards.interest_version(&view.scope);
            let effective = positions(&followers);
            LiveRegistered {
                indexed: view.indexed,
                ..answer(registered, interest_version, effective)
            }
        } else {
            self.add(&mut registrations, registered, &spec, &followers)?
        };
        registrations.session_or(spec.gateway(), |name| self.new_session(name));
        drop(registrations);
        if !answer.renewed {
            add(&self.figures.registered, 1);
            self.registered.notify_one();
        }
        Ok(answer)
    }

    /// Adds a new subscription to the index.
    fn add(
        &self,
        registrations: &mut Registrations,
        registered: Registered,
        spec: &Spec,
        followers: &[Arc<Follower>],
    ) -> Result<LiveRegistered, Refusal> {
        let placed = self.shards.insert(&registered, spec, || positions(followers));
        let (placed, mut effective) = match placed {
            Ok(placed) => placed,
            Err(refusal) => {
                registrations.registry.withdraw(registered.handle);
                return Err(refusal);
            }
        };
        registrations.registry.place(registered.handle, placed.group, placed.indexed);
        if registrations.registry.counts().total == 1 {
            // It is the first one: followers may be idle, and start at the end of their logs.
            followers.iter().for_each(|follower| follower.rouse());
            effective = positions(followers);
        }
        let indexed = placed.indexed;
        Ok(LiveRegistered { indexed, ..answer(registered, placed.interest_version, effective) })
    }

    /// Renews a subscription by its own TTL; returns when it then expires. `gateway` is the caller,
    /// if known.
    pub fn heartbeat(&self, id: &str, gateway: Option<&str>) -> Result<Timestamp, Refusal> {
        let begun = self.access.now();
        let renewed = self.registrations.lock().registry.heartbeat(begun, id, gateway);
        let took = self.access.clock.now().since(begun.moment);
        self.figures.note_renewal(took, renewed.is_ok());
        renewed
    }

    /// Renews all subscriptions of a gateway; returns how many.
    pub fn heartbeat_gateway(&self, gateway: &str) -> usize {
        let begun = self.access.now();
        let renewed = self.registrations.lock().registry.heartbeat_gateway(begun, gateway);
        self.figures.note_renewal(self.access.clock.now().since(begun.moment), true);
        renewed
    }

    /// Removes a subscription; returns whether there was one.
    pub fn delete(&self, id: &str, gateway: Option<&str>) -> Result<bool, Refusal> {
        let mut registrations = self.registrations.lock();
        let ended = registrations.registry.delete(id, gateway)?;
        self.end(registrations, ended.as_slice());
        Ok(ended.is_some())
    }

    /// Removes all subscriptions of a gateway; returns how many. If there are many, the index is
    /// cleaned up after the answer: they get no more messages, and what is wanted may include them
    /// a little longer.
    pub fn close_gateway(self: &Arc<Self>, gateway: &str) -> usize {
        let mut registrations = self.registrations.lock();
        let ended = registrations.registry.close_gateway(gateway);
        let count = ended.len();
        if count <= ENDED_AT_A_TIME {
            self.end(registrations, &ended);
            return count;
        }
        self.note_ended(&mut registrations, &ended);
        drop(registrations);
        let live = Arc::clone(self);
        // It ends on its own, and nobody waits for it.
        drop(tasks::spawn("live removal", async move {
            for some in ended.chunks(ENDED_AT_A_TIME) {
                some.iter().for_each(|ended| live.shards.remove(ended));
                tokio::task::yield_now().await;
            }
        }));
        count
    }

    /// Forgets ended subscriptions. They are removed from the index after the registrations are
    /// unlocked, so that matching does not wait for many: until then, matches for them have no
    /// owner.
    fn end(&self, mut registrations: MutexGuard<'_, Registrations>, ended: &[Ended]) {
        self.note_ended(&mut registrations, ended);
        drop(registrations);
        ended.iter().for_each(|ended| self.shards.remove(ended));
    }

    fn note_ended(&self, registrations: &mut Registrations, ended: &[Ended]) {
        for ended in ended {
            let counter = match ended.expired {
                true => &self.figures.expired,
                false => &self.figures.unregistered,
            };
            add(counter, 1);
        }
        if self.options().notify_on_expiry {
            self.tell_expired(registrations, ended);
        }
        registrations.forget_gone(ended.iter());
    }

    fn tell_expired(&self, registrations: &Registrations, ended: &[Ended]) {
        let mut told: BTreeMap<&str, LiveIds> = BTreeMap::new();
        for ended in ended.iter().filter(|ended| ended.expired) {
            told.entry(&ended.gateway).or_default().push(&ended.id);
        }
        for (gateway, ids) in told {
            if let Some(session) = registrations.session(gateway)
                && session.say(LiveEvent::Expired(ids))
            {
                self.figures.note_resync();
            }
        }
    }
}

/// Reading.
impl Live {
    /// One subscription. Does not renew it.
    pub fn get(&self, id: &str) -> Result<LiveView, Refusal> {
        let view = self.registrations.lock().registry.get(self.access.now(), id)?;
        Ok(self.with_filter(view))
    }

    /// Subscriptions in pages, and where the next page starts.
    pub fn list(&self, query: &Query) -> (Vec<LiveView>, Option<u32>) {
        let Page { subscriptions, next } =
            self.registrations.lock().registry.list(self.access.now(), query);
        let views = subscriptions.into_iter().map(|view| self.with_filter(view)).collect();
        (views, next)
    }

    fn with_filter(&self, view: View) -> LiveView {
        let filter = self.shards.filter(&view.scope, view.group).map(|filter| filter.cel());
        LiveView { view, filter }
    }

    /// What is wanted in a collection now.
    pub fn interest(&self, tenant: &str, collection: &str) -> Arc<Summary> {
        self.shards.interest(tenant, collection)
    }

    /// Statistics, with this many of the largest collections.
    pub fn figures(&self, largest: usize) -> LiveFigures {
        let (counts, by_gateway, by_tenant) = {
            let registrations = self.registrations.lock();
            let owned = |(name, count): (&str, usize)| (name.to_owned(), count);
            let by_gateway: Vec<_> = registrations.registry.by_gateway().map(owned).collect();
            let by_tenant: Vec<_> = registrations.registry.by_tenant().map(owned).collect();
            (registrations.registry.counts(), by_gateway, by_tenant)
        };
        LiveFigures {
            counts,
            by_gateway,
            by_tenant,
            groups: self.shards.groups(),
            largest: self.shards.largest(largest),
            buffer_bytes: self.memory.bytes(),
            ..self.figures.snapshot()
        }
    }
}

/// Ends subscriptions that are past their deadline. Runs forever.
pub(crate) async fn expire(live: Arc<Live>) {
    loop {
        let next = {
            let mut registrations = live.registrations.lock();
            let now = live.access.clock.now();
            let ended = registrations.registry.expire(now, ENDED_AT_A_TIME);
            let next = registrations.registry.next_wake();
            live.end(registrations, &ended);
            if ended.len() == ENDED_AT_A_TIME { Some(now) } else { next }
        };
        let Some(next) = next else {
            live.registered.notified().await;
            continue;
        };
        // A registration may have set an earlier deadline since.
        let now = live.access.clock.now();
        live.access.clock.sleep_until(next.min(now.plus(EXPIRY_STEP))).await;
        tokio::task::coop::consume_budget().await;
    }
}

fn answer(
    registered: Registered,
    interest_version: u64,
    effective: Vec<(TopicName, Offset)>,
) -> LiveRegistered {
    LiveRegistered {
        renewed: registered.renewed,
        created: registered.created,
        expires: registered.expires,
        indexed: false,
        interest_version,
        effective,
    }
}

/// The last offset of each topic that was matched.
fn positions(followers: &[Arc<Follower>]) -> Vec<(TopicName, Offset)> {
    let last = |follower: &Arc<Follower>| Offset(follower.at().0.saturating_sub(1));
    followers.iter().map(|held| (held.topic.name().clone(), last(held))).collect()
}
