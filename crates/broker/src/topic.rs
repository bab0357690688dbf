//! A topic at run time: who publishes to it next, and who waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::{Epoch, Message, Offset, OffsetRange, Timestamp, TopicId, TopicName};
use parking_lot::Mutex;
use storage::{Append, Claim, Commit, NewRecord, Receipt, Urgency};

use crate::error::{Error, Resource, Result};
use crate::runtime::Runtime;
use crate::subscription::Subscription;

/// One life of a topic.
pub struct Topic {
    id: TopicId,
    name: TopicName,
    epoch: Epoch,
    first: Offset,
    runtime: Arc<Runtime>,
    settings: Mutex<Versioned>,
    end: Mutex<End>,
    subscriptions: Mutex<Vec<Arc<Subscription>>>,
    hungry: Mutex<Vec<Arc<Subscription>>>,
    /// Whether `hungry` holds anybody, so that a publish nobody waits for takes no lock.
    is_hungry: AtomicBool,
}

/// A topic's settings as the catalogue has them.
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
}

impl Topic {
    /// A topic whose log began at `first` and goes on as `claim` says.
    pub(crate) fn new(
        id: TopicId,
        first: Offset,
        settings: Versioned,
        claim: Claim,
        runtime: Arc<Runtime>,
    ) -> Self {
        Self {
            id,
            name: settings.settings.name.clone(),
            epoch: claim.epoch,
            first,
            runtime,
            settings: Mutex::new(settings),
            end: Mutex::new(End {
                next: claim.next,
                last_publish_time: claim.last_publish_time,
                deleted: false,
            }),
            subscriptions: Mutex::default(),
            hungry: Mutex::default(),
            is_hungry: AtomicBool::new(false),
        }
    }

    /// Its name; `_deleted-topic_` is the API's word for it once it is deleted.
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

    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(crate) fn versioned(&self) -> Versioned {
        self.settings.lock().clone()
    }

    pub(crate) fn set_settings(&self, settings: Versioned) {
        *self.settings.lock() = settings;
    }

    /// Whether it was deleted; its log then lives on for the subscriptions left.
    pub fn is_deleted(&self) -> bool {
        self.end.lock().deleted
    }

    /// Ends publishing; returns the offset that will never be used.
    pub(crate) fn mark_deleted(&self) -> Offset {
        let mut end = self.end.lock();
        end.deleted = true;
        end.next
    }

    /// Takes a deletion back that could not be stored.
    pub(crate) fn unmark_deleted(&self) {
        self.end.lock().deleted = false;
    }

    /// Appends `messages` in one commit and returns their offsets once they are durable.
    pub async fn publish(&self, messages: Vec<Message>) -> Result<OffsetRange> {
        if !self.runtime.log.has_room() {
            self.runtime.log.room().await?;
        }
        let count = messages.len() as u64;
        let (first, receipt) = self.queue(messages)?;
        receipt.await?;
        Ok(OffsetRange { from: first, to: first.plus(count) })
    }

    /// Gives the messages their offsets and queues them, under one short lock.
    fn queue(&self, messages: Vec<Message>) -> Result<(Offset, Receipt)> {
        let mut end = self.end.lock();
        if end.deleted {
            return Err(Error::NotFound(Resource::Topic, self.name.to_string()));
        }
        // The wall clock may step back; a topic's publish times never do.
        end.last_publish_time = end.last_publish_time.max(self.runtime.clock.wall());
        let publish_time = end.last_publish_time;
        let count = messages.len() as u64;
        let records = messages
            .into_iter()
            .map(|message| NewRecord { message, publish_time, addressee: None })
            .collect();
        let append = Append { topic: self.id, epoch: self.epoch, first: end.next, records };
        let receipt = self.runtime.log.commit(Commit {
            appends: vec![append],
            progress: Vec::new(),
            urgency: Urgency::Durable,
        });
        match receipt.refused() {
            Some(error) => {
                // A group that found the disk full gave its offsets back: go on from there.
                if let storage::Error::Fenced { epoch, next, .. } = error
                    && *epoch == self.epoch
                {
                    end.next = *next;
                }
                Err(error.clone().into())
            }
            None => {
                let first = end.next;
                end.next = first.plus(count);
                Ok((first, receipt))
            }
        }
    }

    pub(crate) fn attach(&self, subscription: Arc<Subscription>) {
        self.subscriptions.lock().push(subscription);
    }

    pub(crate) fn detach(&self, subscription: &Subscription) {
        self.subscriptions.lock().retain(|other| other.id() != subscription.id());
        self.hungry.lock().retain(|other| other.id() != subscription.id());
    }

    /// The subscriptions on it, in order of creation.
    pub fn subscriptions(&self) -> Vec<Arc<Subscription>> {
        self.subscriptions.lock().clone()
    }

    /// Asks for `subscription` to be woken by the next record. The caller looks at the log once
    /// more afterwards: a record may have become visible in between.
    pub(crate) fn add_hungry(&self, subscription: &Arc<Subscription>) {
        let mut hungry = self.hungry.lock();
        hungry.push(Arc::clone(subscription));
        self.is_hungry.store(true, Ordering::SeqCst);
    }

    /// Records became visible: wakes who waits for them, and nobody else.
    pub(crate) fn on_visible(&self) {
        if !self.is_hungry.load(Ordering::SeqCst) {
            return;
        }
        let woken = {
            let mut hungry = self.hungry.lock();
            self.is_hungry.store(false, Ordering::SeqCst);
            std::mem::take(&mut *hungry)
        };
        for subscription in woken {
            subscription.on_visible();
        }
    }
}
