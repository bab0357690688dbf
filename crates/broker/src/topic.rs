//! A topic at run time: assigning the next offsets, and who waits for records.

mod hold;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use domain::{
    Message, Offset, OffsetRange, ProgressChange, ShardId, SubscriptionId, Timestamp, TopicId,
    TopicName,
};
use parking_lot::Mutex;
use storage::{Append, Claim, Commit, MessageLog, NewRecord, Position, Receipt, Urgency};
use tokio::sync::Notify;

pub(crate) use hold::Hold;

use crate::error::{Error, Resource, Result};
use crate::figures::TopicFigures;
use crate::handled_letters::HandledLetters;
use crate::runtime::Runtime;
use crate::schema::Check;
use crate::transform::Functions;

/// One life of a topic.
pub struct Topic {
    id: TopicId,
    name: TopicName,
    first: Offset,
    /// Messages published before this time are not kept for the topic's own sake.
    kept_since: AtomicU64,
    runtime: Arc<Runtime>,
    settings: Mutex<Versioned>,
    gate: Mutex<Gate>,
    /// Whether there is anything in `gate`, so that a publish without takes no lock.
    has_gate: AtomicBool,
    end: Mutex<End>,
    /// What snapshots keep, in order of their creation.
    holds: Mutex<Vec<Arc<Hold>>>,
    /// The publish time of the oldest message that a snapshot keeps; the maximum if there is none.
    held_since: AtomicU64,
    /// Whether a dead letter policy names it.
    is_dead_letter: AtomicBool,
    /// How long every message is kept, in microseconds; zero = not for the topic's own sake.
    /// Separate from the settings, so that leasing takes no lock for it.
    kept_us: AtomicU64,
    /// Notified whenever records become visible, for readers that take no leases.
    pub(crate) watchers: Notify,
    letters: Arc<HandledLetters>,
}

/// What messages go through before they are stored.
#[derive(Clone, Default)]
struct Gate {
    /// What changes them, first.
    functions: Option<Arc<Functions>>,
    /// What they must look like then.
    check: Option<Arc<Check>>,
}

/// What became of the messages of one publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The offsets of those that were stored, in their order.
    pub offsets: OffsetRange,
    /// Those that a transform dropped: their places among all, ascending, and the ids that they
    /// are given nevertheless.
    pub dropped: Vec<(usize, u64)>,
}

impl Published {
    /// The ids of all messages, in their order.
    pub fn message_ids(&self) -> Vec<String> {
        let mut ids: Vec<String> =
            (self.offsets.from.0..self.offsets.to.0).map(|offset| offset.to_string()).collect();
        for (place, id) in &self.dropped {
            ids.insert((*place).min(ids.len()), id.to_string());
        }
        ids
    }
}

/// A topic's settings as they are in the catalogue.
#[derive(Clone, Debug)]
pub(crate) struct Versioned {
    /// The settings.
    pub(crate) settings: Arc<domain::Topic>,
    /// The catalogue's version of them.
    pub(crate) version: u64,
}

/// Where the next record goes. Held while a commit is queued, so that offsets are dense.
struct End {
    next: Offset,
    last_publish_time: Timestamp,
    deleted: bool,
    /// Messages published since the start.
    messages: u64,
    /// Bytes of their content.
    bytes: u64,
}

impl Topic {
    /// A topic whose log started at `first` and continues as `claim` says. Its retention does not
    /// cover what was published before `kept_since`.
    pub(crate) fn new(
        id: TopicId,
        (first, kept_since): (Offset, Timestamp),
        settings: Versioned,
        claim: Claim,
        runtime: Arc<Runtime>,
    ) -> Self {
        let topic = Self {
            id,
            name: settings.settings.name.clone(),
            first,
            kept_since: AtomicU64::new(kept_since.0),
            runtime,
            settings: Mutex::new(settings),
            gate: Mutex::default(),
            has_gate: AtomicBool::new(false),
            end: Mutex::new(End {
                next: claim.next,
                last_publish_time: claim.last_publish_time.max(kept_since),
                deleted: false,
                messages: 0,
                bytes: 0,
            }),
            holds: Mutex::default(),
            held_since: AtomicU64::new(u64::MAX),
            is_dead_letter: AtomicBool::new(false),
            kept_us: AtomicU64::new(0),
            watchers: Notify::new(),
            letters: Arc::default(),
        };
        topic.note_retention();
        topic
    }

    /// The shard it is in.
    pub fn shard(&self) -> ShardId {
        self.runtime.shard
    }

    /// What it needs of its shard, for chores that come to it.
    pub(crate) fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// The log it is in.
    pub(crate) fn log(&self) -> &Arc<dyn MessageLog> {
        &self.runtime.log
    }

    /// Its name; the API calls it `_deleted-topic_` once it is deleted.
    pub fn name(&self) -> &TopicName {
        &self.name
    }

    /// Which life of the name this is.
    pub fn id(&self) -> TopicId {
        self.id
    }

    /// The settings as last stored.
    pub fn settings(&self) -> Arc<domain::Topic> {
        Arc::clone(&self.settings.lock().settings)
    }

    pub(crate) fn first(&self) -> Offset {
        self.first
    }

    /// What was done with its records as dead letters.
    pub(crate) fn letters(&self) -> &Arc<HandledLetters> {
        &self.letters
    }

    pub(crate) fn versioned(&self) -> Versioned {
        self.settings.lock().clone()
    }

    pub(crate) fn set_settings(&self, settings: Versioned) {
        *self.settings.lock() = settings;
        self.note_retention();
    }

    /// Whether its messages must be of a schema that is gone.
    pub fn is_schema_deleted(&self) -> bool {
        self.check().is_some_and(|check| check.is_deleted())
    }

    pub(crate) fn check(&self) -> Option<Arc<Check>> {
        self.gate.lock().check.clone()
    }

    pub(crate) fn set_check(&self, check: Option<Arc<Check>>) {
        self.set_gate(|gate| gate.check = check);
    }

    pub(crate) fn set_functions(&self, functions: Option<Arc<Functions>>) {
        self.set_gate(|gate| gate.functions = functions);
    }

    fn set_gate(&self, set: impl FnOnce(&mut Gate)) {
        let mut gate = self.gate.lock();
        set(&mut gate);
        let is_any = gate.functions.is_some() || gate.check.is_some();
        self.has_gate.store(is_any, Ordering::SeqCst);
    }

    /// The offset that the next record gets.
    pub(crate) fn next(&self) -> Offset {
        self.end.lock().next
    }

    /// Sets the offset of the next record to `next`.
    pub(crate) fn raise(&self, next: Offset) {
        self.end.lock().next = next;
    }

    /// Whether it was deleted; its log then lives on for the remaining subscriptions and snapshots.
    pub fn is_deleted(&self) -> bool {
        self.end.lock().deleted
    }

    /// Ends publishing; returns the offset that will never be used.
    pub(crate) fn mark_deleted(&self) -> Offset {
        let next = {
            let mut end = self.end.lock();
            end.deleted = true;
            end.next
        };
        self.note_retention();
        next
    }

    /// Undoes a deletion that could not be stored.
    pub(crate) fn unmark_deleted(&self) {
        self.end.lock().deleted = false;
        self.note_retention();
    }
}

/// How long messages are kept.
impl Topic {
    /// Notes whether a dead letter policy names it.
    pub(crate) fn set_dead_letter(&self, is_dead_letter: bool) {
        self.is_dead_letter.store(is_dead_letter, Ordering::SeqCst);
        self.note_retention();
        if is_dead_letter {
            self.note_letters();
        }
    }

    /// Whether a dead letter policy names it.
    pub(crate) fn is_dead_letter(&self) -> bool {
        self.is_dead_letter.load(Ordering::SeqCst)
    }

    /// How long every message is kept, whether acked or not; `None` = only while someone needs it.
    /// A deleted topic keeps nothing for its own sake.
    pub(crate) fn retention(&self) -> Option<Duration> {
        match self.kept_us.load(Ordering::SeqCst) {
            0 => None,
            kept_us => Some(Duration::from_micros(kept_us)),
        }
    }

    /// Anything that affects the retention is changed under the broker's lock for definitions, so
    /// no two of these run at a time.
    fn note_retention(&self) {
        let is_dead_letter = self.is_dead_letter.load(Ordering::SeqCst);
        let as_dead_letter = is_dead_letter.then_some(self.runtime.options.dead_letter_retention);
        let retention = self.settings().message_retention.max(as_dead_letter);
        let retention = retention.filter(|_| !self.is_deleted()).unwrap_or_default();
        let kept_us = u64::try_from(retention.as_micros()).unwrap_or(u64::MAX);
        self.kept_us.store(kept_us, Ordering::SeqCst);
    }

    /// From when on its retention would apply if it became `after`: what the previous one did not
    /// cover may already be gone, and must not come back just because it happens to still be there.
    pub(crate) fn kept_since_with(&self, after: Option<Duration>) -> Timestamp {
        let kept_since = Timestamp(self.kept_since.load(Ordering::SeqCst));
        let before = self.settings().message_retention;
        if after <= before {
            return kept_since;
        }
        let since = match before {
            Some(before) => self.runtime.retention_now().minus(before),
            None => self.end.lock().last_publish_time.plus(Duration::from_micros(1)),
        };
        since.max(kept_since)
    }

    /// Its retention covers nothing from before `since`. Messages published from now on are not
    /// affected.
    pub(crate) fn set_kept_since(&self, since: Timestamp) {
        self.kept_since.store(since.0, Ordering::SeqCst);
        let mut end = self.end.lock();
        end.last_publish_time = end.last_publish_time.max(since);
    }

    /// The publish time from which on it keeps everything at `now`; `None` = it keeps nothing for
    /// its own sake.
    pub(crate) fn keeps_since(&self, now: Timestamp) -> Option<Timestamp> {
        let since = now.minus(self.retention()?);
        let kept_since = Timestamp(self.kept_since.load(Ordering::SeqCst));
        // We do not know since when it has been a dead letter topic.
        Some(if self.is_dead_letter() { since } else { since.max(kept_since) })
    }

    /// The earliest publish time of messages that a subscription with its own retention `own` may
    /// get at `now`, the time that retention uses. What the topic or a snapshot keeps is available
    /// to all of them.
    pub(crate) fn leasable_since(&self, now: Timestamp, own: Duration) -> Timestamp {
        let own_since = now.minus(own);
        let since = self.keeps_since(now).map_or(own_since, |since| since.min(own_since));
        since.min(Timestamp(self.held_since.load(Ordering::SeqCst)))
    }
}

/// Publishing.
impl Topic {
    async fn wait_for_room(&self) -> Result<()> {
        let room = tokio::select! {
            biased;
            room = self.runtime.log.room() => room,
            problem = self.no_room_to_come() => return Err(Error::LogStuck(problem)),
        };
        if let Err(storage::Error::Full) = room {
            // Deleted or expired records may be in the way, and nobody else asks for a trim.
            self.runtime.changed.press();
        }
        Ok(room?)
    }

    /// Resolves if nobody will make room, so that waiting for it would be pointless. A
    /// publish that only waits for the disk to write gets a second.
    async fn no_room_to_come(&self) -> String {
        const PATIENCE: Duration = Duration::from_secs(1);
        let clock = &self.runtime.clock;
        loop {
            self.runtime.upkeep.stuck().await;
            clock.sleep_until(clock.now().plus(PATIENCE)).await;
            if let Some(failing) = self.runtime.upkeep.failing() {
                return failing.problem;
            }
        }
    }

    /// Appends `messages` in one commit and returns their offsets once they are durable. They go
    /// through the topic's transforms first, and then all of them must match its schema.
    pub async fn publish(&self, mut messages: Vec<Message>) -> Result<Published> {
        if !self.runtime.log.has_room() {
            self.wait_for_room().await?;
        }
        let mut dropped = Vec::new();
        if self.has_gate.load(Ordering::SeqCst) {
            (messages, dropped) = self.pass_gate(messages).await?;
        }
        let count = messages.len() as u64;
        if count == 0 && !dropped.is_empty() {
            let next = self.next();
            return Ok(Published { offsets: OffsetRange { from: next, to: next }, dropped });
        }
        let (first, receipt) = self.queue(messages, Vec::new())?;
        if self.runtime.serving.may_stall() {
            // Boxed, so that a publish that never needs it carries nothing for it.
            Box::pin(self.with_patience(receipt)).await?;
        } else {
            receipt.await?;
        }
        let offsets = OffsetRange { from: first, to: first.plus(count) };
        Ok(Published { offsets, dropped })
    }

    /// Waits for a receipt, but not for ever while the store does not answer.
    async fn with_patience(&self, receipt: Receipt) -> Result<Position> {
        const PATIENCE: Duration = Duration::from_secs(10);
        let (serving, clock) = (&self.runtime.serving, &self.runtime.clock);
        let impatient = async {
            loop {
                let changed = serving.stall_changed();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if !serving.is_stalled() {
                    changed.await;
                    continue;
                }
                tokio::select! {
                    biased;
                    () = &mut changed => {}
                    () = clock.sleep_until(clock.now().plus(PATIENCE)) => return,
                }
            }
        };
        tokio::select! {
            biased;
            answer = receipt => Ok(answer?),
            () = impatient => Err(Error::Stalled),
        }
    }

    /// The messages to store, and the places and ids of those that are dropped.
    async fn pass_gate(
        &self,
        mut messages: Vec<Message>,
    ) -> Result<(Vec<Message>, Vec<(usize, u64)>)> {
        let gate = self.gate.lock().clone();
        let Runtime { transforms, compiling, clock, .. } = &*self.runtime;
        let mut dropped = Vec::new();
        if let Some(functions) = &gate.functions {
            let passed = transforms.publish(&**clock, functions, messages).await?;
            let is_dropped =
                |(place, one): (usize, &Option<Message>)| one.is_none().then_some(place);
            let places = passed.iter().enumerate().filter_map(is_dropped);
            dropped = places.map(|place| (place, transforms.dropped_id(clock.wall()))).collect();
            messages = passed.into_iter().flatten().collect();
        }
        if let Some(check) = &gate.check {
            messages = check.pass(compiling, &self.name, messages).await?;
        }
        Ok((messages, dropped))
    }

    /// Assigns the messages their offsets and queues them, along with `progress` in the same
    /// commit, under one short lock. If it is refused, nothing happened.
    pub(crate) fn queue(
        &self,
        messages: Vec<Message>,
        progress: Vec<(SubscriptionId, ProgressChange)>,
    ) -> Result<(Offset, Receipt)> {
        self.queue_addressed(messages.into_iter().map(|message| (message, None)), progress)
    }

    /// The same for messages that may each be addressed to one subscription only.
    pub(crate) fn queue_addressed(
        &self,
        messages: impl ExactSizeIterator<Item = (Message, Option<SubscriptionId>)>,
        progress: Vec<(SubscriptionId, ProgressChange)>,
    ) -> Result<(Offset, Receipt)> {
        let mut end = self.end.lock();
        if end.deleted {
            return Err(Error::NotFound(Resource::Topic, self.name.to_string()));
        }
        // The wall clock may go back; a topic's publish times never do.
        end.last_publish_time = end.last_publish_time.max(self.runtime.clock.wall());
        let publish_time = end.last_publish_time;
        let count = messages.len() as u64;
        let mut bytes = 0;
        let records = messages
            .map(|(message, addressee)| {
                bytes += message.content_bytes();
                NewRecord { message, publish_time, addressee }
            })
            .collect();
        let first = end.next;
        let append = Append { topic: self.id, first, records };
        let urgency = Urgency::Durable;
        let receipt = self.runtime.log.commit(Commit { appends: vec![append], progress, urgency });
        // An accepted commit keeps its offsets whatever happens to it; a refused one has used none.
        if let Some(error) = receipt.refused() {
            return Err(error.clone().into());
        }
        end.next = first.plus(count);
        end.messages += count;
        end.bytes += bytes as u64;
        Ok((first, receipt))
    }
}

/// Statistics.
impl Topic {
    pub(crate) fn figures(&self) -> TopicFigures {
        let end = self.end.lock();
        TopicFigures { name: self.name.clone(), messages: end.messages, bytes: end.bytes }
    }

    /// The average message size since the start, if anything was published.
    pub(crate) fn average_bytes(&self) -> Option<u64> {
        let end = self.end.lock();
        end.bytes.checked_div(end.messages)
    }
}

/// What snapshots keep in it.
impl Topic {
    /// From now on what `hold` leaves unacked is kept. Called again once we know how far back that
    /// reaches.
    pub(crate) fn add_hold(&self, hold: &Arc<Hold>) {
        let mut holds = self.holds.lock();
        if !holds.iter().any(|other| Arc::ptr_eq(other, hold)) {
            holds.push(Arc::clone(hold));
        }
        self.note_holds(&holds);
    }

    pub(crate) fn remove_hold(&self, hold: &Arc<Hold>) {
        let mut holds = self.holds.lock();
        holds.retain(|other| !Arc::ptr_eq(other, hold));
        self.note_holds(&holds);
    }

    fn note_holds(&self, holds: &[Arc<Hold>]) {
        let since = holds.iter().map(|hold| hold.since().0).min();
        self.held_since.store(since.unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// What snapshots of its subscriptions keep, in order of their creation.
    pub(crate) fn holds(&self) -> Vec<Arc<Hold>> {
        self.holds.lock().clone()
    }
}

/// Readers that take no leases.
impl Topic {
    /// Records became visible: notifies readers that take no leases.
    pub(crate) fn on_visible(&self) {
        self.watchers.notify_waiters();
        if self.is_dead_letter() {
            self.note_letters();
        }
    }

    /// There may be new dead letters.
    fn note_letters(&self) {
        self.letters.note_letters();
        self.runtime.new_letters.notify_one();
    }
}
