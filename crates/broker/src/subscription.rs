//! A subscription at run time: its settings and its `Delivery` under one short lock.

mod acks;
mod exhausted;
mod exporting;
mod fetching;
mod jobs;
mod journal;
mod lanes;
mod leasing;
mod looking;
mod notes;
mod pushing;
mod readers;
mod reporting;
#[cfg(test)]
mod tests;
mod transforming;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use domain::delivery::{ConsumerId, Delivery, Effects, Flow};
use domain::{
    Moment, Now, Offset, OffsetRange, Progress, ProgressChange, SubscriptionId, SubscriptionName,
    Timestamp,
};
use parking_lot::{Mutex, MutexGuard};
use storage::{Receipt, Urgency};

pub use acks::AckReport;
pub(crate) use jobs::{Job, JobOutcome, Jobs};
pub(crate) use leasing::{Ask, Step};
pub(crate) use notes::Notes;
pub(crate) use readers::Readers;
pub(crate) use transforming::Passed;

use fetching::Fetch;
use jobs::Trouble;
use reporting::Blocked;

use crate::delivery_log::LineLimit;
use crate::error::{Error, Resource, Result};
use crate::figures::{Counts, Exported, Oldest, Pushed};
use crate::runtime::Runtime;
use crate::serving::Serving;
use crate::topic::Topic;
use crate::transform::Functions;
use crate::waiters::Waiters;

/// Offsets looked up under one lock: deliveries should not wait for thousands.
const LOOKED_UP_AT_ONCE: usize = 500;

/// One life of a subscription.
pub struct Subscription {
    id: SubscriptionId,
    name: SubscriptionName,
    topic: Arc<Topic>,
    readers: Arc<Readers>,
    first: Offset,
    runtime: Arc<Runtime>,
    notes: Arc<Notes>,
    /// When it was last used, on the wall clock.
    used_at: AtomicU64,
    /// What its attempts to push came to; made with the first.
    pushed: OnceLock<Box<Pushed>>,
    /// What was exported of it; made with the first.
    exported: OnceLock<Box<Exported>>,
    /// How many lines it may have in the log.
    line_limit: Arc<LineLimit>,
    state: Mutex<State>,
}

struct State {
    settings: Arc<domain::Subscription>,
    version: u64,
    /// What its messages go through before they are delivered.
    functions: Option<Arc<Functions>>,
    delivery: Delivery,
    waiters: Waiters,
    /// Consumers that are open.
    consumers: usize,
    /// Older records, read from disk for all of them.
    fetch: Fetch,
    /// It is on the list of what the next checkpoint saves.
    is_changed: bool,
    /// It is on the topic's list of those to wake.
    is_hungry: bool,
    /// The server remembers too many records for it to read on; it is told when there is room.
    is_held_back: bool,
    /// How many records the server counts it for.
    reported: usize,
    /// When the timers will tick it.
    tick_at: Option<Moment>,
    /// When to look after consumers that were called.
    check_at: Option<Moment>,
    saved: Cursor,
    dead_letters: Trouble,
    counts: Counts,
    /// The record at the cursor, as it was found last.
    oldest: Option<Oldest>,
    /// What blocks it, where all messages go in order.
    blocked: Option<Blocked>,
    /// What was acked before it was told to keep acked messages.
    gone: Option<Arc<Progress>>,
    /// When it was paused, if that was since the start.
    paused_since: Option<Timestamp>,
    /// How often it was sent elsewhere (seek) since the start.
    seeks: u64,
    is_deleted: bool,
}

impl State {
    /// The state of a subscription that is taken up now.
    fn new(
        settings: Arc<domain::Subscription>,
        version: u64,
        (functions, gone): (Option<Arc<Functions>>, Option<Arc<Progress>>),
        delivery: Delivery,
        now: Now,
    ) -> Self {
        let saved = Cursor::of(delivery.progress(), now.wall);
        let blocked = Blocked::resumed(&settings, delivery.progress(), now);
        Self {
            settings,
            version,
            functions,
            delivery,
            waiters: Waiters::default(),
            consumers: 0,
            fetch: Fetch::default(),
            is_changed: false,
            is_hungry: false,
            is_held_back: false,
            reported: 0,
            tick_at: None,
            check_at: None,
            saved,
            dead_letters: Trouble::default(),
            counts: Counts::default(),
            oldest: None,
            blocked,
            gone,
            paused_since: None,
            seeks: 0,
            is_deleted: false,
        }
    }
}

/// The saved cursor, as its owner may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The lowest offset that is not acked; resuming starts here.
    pub resume: Offset,
    /// Acked offsets above it.
    pub acked_above: u64,
    /// When it was saved.
    pub saved_at: Timestamp,
}

impl Cursor {
    pub(crate) fn of(progress: &Progress, saved_at: Timestamp) -> Self {
        Self { resume: progress.cursor(), acked_above: progress.acked_above_count(), saved_at }
    }
}

/// What makes a subscription besides its topic and its `Delivery`.
pub(crate) struct Definition {
    pub(crate) id: SubscriptionId,
    pub(crate) settings: Arc<domain::Subscription>,
    /// The catalogue's version of them.
    pub(crate) version: u64,
    /// What its messages go through before they are delivered.
    pub(crate) functions: Option<Arc<Functions>>,
    /// The first offset it was ever to deliver.
    pub(crate) first: Offset,
    /// What was acked before it was told to keep acked messages.
    pub(crate) gone: Option<Arc<Progress>>,
    /// When it was last used.
    pub(crate) used_at: Timestamp,
}

impl Subscription {
    pub(crate) fn new(
        definition: Definition,
        readers: Arc<Readers>,
        delivery: Delivery,
        (runtime, notes): (Arc<Runtime>, Arc<Notes>),
    ) -> Self {
        let Definition { id, settings, version, functions, first, gone, used_at } = definition;
        let name = settings.name.clone();
        let state = State::new(settings, version, (functions, gone), delivery, runtime.now());
        Self {
            id,
            line_limit: Arc::new(LineLimit::new(name.clone())),
            name,
            topic: Arc::clone(readers.topic()),
            readers,
            first,
            runtime,
            notes,
            used_at: AtomicU64::new(used_at.0),
            pushed: OnceLock::new(),
            exported: OnceLock::new(),
            state: Mutex::new(state),
        }
    }

    /// Which life of the name this is.
    pub fn id(&self) -> SubscriptionId {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &SubscriptionName {
        &self.name
    }

    /// The topic it reads, living or deleted.
    pub fn topic(&self) -> &Arc<Topic> {
        &self.topic
    }

    /// Whether its shard is still served.
    pub(crate) fn serving(&self) -> &Serving {
        &self.runtime.serving
    }

    /// Its topic with all who read it.
    pub(crate) fn readers(&self) -> &Arc<Readers> {
        &self.readers
    }

    /// The settings as last stored.
    pub fn settings(&self) -> Arc<domain::Subscription> {
        Arc::clone(&self.state.lock().settings)
    }

    /// The first offset it was ever to deliver.
    pub(crate) fn first(&self) -> Offset {
        self.first
    }

    pub(crate) fn versioned(&self) -> (Arc<domain::Subscription>, u64) {
        let state = self.state.lock();
        (Arc::clone(&state.settings), state.version)
    }

    /// The cursor as it was last saved.
    pub fn cursor(&self) -> Cursor {
        self.state.lock().saved
    }

    /// Leases handed out and not settled.
    pub fn outstanding(&self) -> usize {
        self.state.lock().delivery.outstanding()
    }

    /// Why the last exhausted message could not go to the dead letter topic; `None` once one
    /// could.
    pub fn dead_letter_error(&self) -> Option<String> {
        self.state.lock().dead_letters.last_error()
    }

    /// How many exhausted messages went to the dead letter topic since the server started.
    pub fn dead_lettered(&self) -> u64 {
        self.state.lock().dead_letters.forwarded
    }

    /// How many exhausted messages were dropped since the server started, because there is no
    /// dead letter policy.
    pub fn dropped(&self) -> u64 {
        self.state.lock().dead_letters.dropped
    }

    /// What will be gone of its acked messages once `settings` are in force.
    pub(crate) fn gone_with(&self, settings: &domain::Subscription) -> Option<Arc<Progress>> {
        let state = self.state.lock();
        match (state.settings.retain_acked_messages, settings.retain_acked_messages) {
            (_, false) => None,
            (true, true) => state.gone.clone(),
            (false, true) => Some(Arc::new(state.delivery.progress().without_attempts())),
        }
    }

    /// Its settings in the form its `Delivery` takes.
    pub(crate) fn rules(&self) -> domain::delivery::Settings {
        crate::settings::delivery(&self.settings(), &self.runtime.options.push)
    }

    /// Takes changed settings, which the catalogue has, with the functions they name and what is
    /// gone with them.
    pub(crate) fn set_settings(
        self: &Arc<Self>,
        settings: Arc<domain::Subscription>,
        functions: Option<Arc<Functions>>,
        gone: Option<Arc<Progress>>,
        version: u64,
    ) {
        let now = self.runtime.now();
        self.touch(now.wall);
        let mut effects = Effects::default();
        let mut state = self.state.lock();
        let rules = crate::settings::delivery(&settings, &self.runtime.options.push);
        state.delivery.update_settings(now, rules, &mut effects);
        if state.settings.dead_letter_policy != settings.dead_letter_policy {
            state.dead_letters.forget_error();
        }
        if settings.paused && !state.settings.paused {
            state.paused_since = Some(now.wall);
        }
        if state.settings.transforms != settings.transforms {
            state.functions = functions;
        }
        state.settings = settings;
        state.gone = gone;
        state.version = version;
        drop(self.finish(&mut state, effects, Urgency::Ride));
        state.waiters.wake_all();
    }

    /// Goes on from where `sought` says instead, which is told the progress so far, whether acked
    /// messages are kept, and which of them are gone anyway. Durable when the receipt says
    /// so. Every ack id issued so far is invalid.
    pub(crate) fn seek(
        self: &Arc<Self>,
        sought: impl FnOnce(&Progress, bool, Option<&Progress>) -> Progress,
    ) -> Result<Receipt> {
        self.touch(self.runtime.clock.wall());
        let mut state = self.lock_attached()?;
        let retains = state.settings.retain_acked_messages;
        let progress = sought(state.delivery.progress(), retains, state.gone.as_deref());
        Ok(self.replace_progress(&mut state, progress))
    }

    /// Drops the backlog of a detached subscription and ends whoever waits for it.
    pub(crate) fn drop_backlog(self: &Arc<Self>) -> Receipt {
        let end = self.runtime.log.end(self.topic.id());
        let mut state = self.state.lock();
        self.replace_progress(&mut state, Progress::starting_at(end))
    }

    fn replace_progress(self: &Arc<Self>, state: &mut State, progress: Progress) -> Receipt {
        state.delivery.seek(progress);
        state.seeks += 1;
        let replaced = Box::new(state.delivery.progress().clone());
        let changes = vec![(self.id, ProgressChange::Replaced(replaced))];
        let receipt = self.journal(state, changes, Urgency::Durable);
        self.note_remembered(state);
        self.note_unblocked(state);
        state.waiters.wake_all();
        receipt
    }

    /// For whoever pulls; refused while messages are pushed.
    pub(crate) fn open_consumer(&self, flow: Flow) -> Result<ConsumerId> {
        self.runtime.check_serving()?;
        self.touch(self.runtime.clock.wall());
        let mut state = self.lock_attached()?;
        self.check_pulled(&state)?;
        state.consumers += 1;
        Ok(state.delivery.open_consumer(flow))
    }

    /// Its leases stay until their deadlines. Whoever is next in line is woken, in case the wake
    /// meant for this consumer came too late.
    pub(crate) fn close_consumer(self: &Arc<Self>, consumer: ConsumerId) {
        self.touch(self.runtime.clock.wall());
        let mut state = self.state.lock();
        state.consumers -= 1;
        if state.consumers == 0 {
            state.fetch.drop_read();
        }
        self.forget_consumer(&mut state, consumer);
    }

    fn forget_consumer(self: &Arc<Self>, state: &mut State, consumer: ConsumerId) {
        state.delivery.close_consumer(consumer);
        self.leave_fetch(state, consumer);
        state.waiters.remove(consumer);
        state.waiters.wake_one();
        state.pass_disk_on();
        self.keep_watch(state);
    }

    /// The progress to be checkpointed; from now on a further change asks for the next one.
    pub(crate) fn capture(&self) -> Option<Progress> {
        let mut state = self.state.lock();
        state.is_changed = false;
        (!state.is_deleted).then(|| state.delivery.progress().clone())
    }

    /// A checkpoint has this cursor now.
    pub(crate) fn mark_saved(&self, cursor: Cursor) {
        self.state.lock().saved = cursor;
    }

    /// A checkpoint did not happen: put it on the list again.
    pub(crate) fn mark_changed(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if !state.is_deleted {
            self.note_changed(&mut state);
        }
    }

    /// The offsets inside `range` this subscription still needs, ascending and disjoint.
    pub(crate) fn needed(&self, range: OffsetRange, retained_from: Offset) -> Vec<OffsetRange> {
        let from = range.from.max(retained_from);
        let range = OffsetRange { from, to: range.to };
        let state = self.state.lock();
        if range.is_empty() || state.is_deleted || state.settings.detached {
            Vec::new()
        } else if state.settings.retain_acked_messages {
            vec![range]
        } else {
            state.delivery.progress().unacked_in(range)
        }
    }

    /// Those of `offsets` that are not settled.
    pub(crate) fn unsettled(&self, offsets: &[Offset]) -> Vec<Offset> {
        let is_open = |state: &State, offset| !state.delivery.progress().is_acked(offset);
        let mut unsettled = Vec::new();
        for some in offsets.chunks(LOOKED_UP_AT_ONCE) {
            let state = self.state.lock();
            if state.is_deleted || state.settings.detached {
                return Vec::new();
            }
            unsettled.extend(some.iter().copied().filter(|&offset| is_open(&state, offset)));
        }
        unsettled
    }

    /// Calls `keep` with what is settled, before anything more can be. Attempts are left out.
    pub(crate) fn with_progress<T>(&self, keep: impl FnOnce(Progress) -> T) -> Result<T> {
        let state = self.lock_attached()?;
        Ok(keep(state.delivery.progress().without_attempts()))
    }

    /// Ends it: whoever holds or waits for something of it is told.
    pub(crate) fn mark_deleted(&self) {
        let mut state = self.state.lock();
        state.is_deleted = true;
        self.note_remembered(&mut state);
        state.waiters.wake_all();
    }

    /// Wakes everyone who waits, so that they see that the server stops.
    pub(crate) fn wake_all(&self) {
        self.state.lock().waiters.wake_all();
    }

    fn lock_living(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state.lock();
        if state.is_deleted {
            // It may only have gone to another node.
            self.runtime.check_serving()?;
            return Err(Error::NotFound(Resource::Subscription, self.name.to_string()));
        }
        Ok(state)
    }

    /// Messages go one way: what is pushed or exported cannot be pulled.
    fn check_pulled(&self, state: &State) -> Result<()> {
        let name = &self.name;
        let bucket = state.settings.cloud_storage.as_ref().map(|_| "cloud_storage_config");
        if let Some(setting) = bucket.or(state.settings.export()) {
            return Err(Error::FailedPrecondition(format!(
                "subscription {name} has a {setting} and cannot be pulled; clear its {setting} to \
                 pull from it"
            )));
        }
        if state.settings.push.is_none() {
            return Ok(());
        }
        Err(Error::FailedPrecondition(format!(
            "subscription {name} has a push endpoint and cannot be pulled; clear its push_config \
             to pull from it"
        )))
    }

    fn lock_attached(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.lock_living()?;
        if state.settings.detached {
            let name = &self.name;
            let why = format!("subscription {name} is detached from its topic and has no messages");
            return Err(Error::FailedPrecondition(why));
        }
        Ok(state)
    }
}

/// When it was used.
impl Subscription {
    /// Notes that someone uses it.
    pub(crate) fn touch(&self, now: Timestamp) {
        self.used_at.store(now.0, Ordering::Relaxed);
        self.runtime.expiries.note_use();
    }

    /// When it was last used; now, while a consumer is open.
    pub(crate) fn used_at(&self, now: Timestamp) -> Timestamp {
        let is_in_use = self.state.lock().consumers > 0;
        if is_in_use { now } else { Timestamp(self.used_at.load(Ordering::Relaxed)) }
    }

    /// When it expires if nobody uses it until then; `None` = never.
    pub(crate) fn expires_at(&self, now: Timestamp) -> Option<Timestamp> {
        let expiration = self.settings().expiration?;
        Some(self.used_at(now).plus(expiration))
    }
}
