//! Who reads a topic, and who of them waits for records.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use storage::planted::Fault;

use super::Subscription;
use crate::topic::Topic;

/// A topic and its subscriptions.
pub(crate) struct Readers {
    topic: Arc<Topic>,
    all: Mutex<Vec<Arc<Subscription>>>,
    hungry: Mutex<Vec<Arc<Subscription>>>,
    /// Whether `hungry` holds anyone, so that a publish nobody waits for takes no lock.
    is_hungry: AtomicBool,
}

impl Readers {
    /// Nobody reads `topic` yet.
    pub(crate) fn new(topic: Arc<Topic>) -> Self {
        Self {
            topic,
            all: Mutex::default(),
            hungry: Mutex::default(),
            is_hungry: AtomicBool::new(false),
        }
    }

    pub(crate) fn topic(&self) -> &Arc<Topic> {
        &self.topic
    }

    pub(crate) fn attach(&self, subscription: Arc<Subscription>) {
        self.all.lock().push(subscription);
    }

    pub(crate) fn detach(&self, subscription: &Subscription) {
        self.all.lock().retain(|other| other.id() != subscription.id());
        self.hungry.lock().retain(|other| other.id() != subscription.id());
    }

    /// The subscriptions on the topic, in order of creation. Detached ones are on it no more.
    pub(crate) fn subscriptions(&self) -> Vec<Arc<Subscription>> {
        self.all.lock().clone()
    }

    /// Lets go of all of them: the topic is run here no more.
    pub(crate) fn clear(&self) {
        self.all.lock().clear();
        self.hungry.lock().clear();
    }

    /// Whether nobody can publish to the topic or read it anymore.
    pub(crate) fn is_unused(&self) -> bool {
        self.topic.is_deleted() && self.all.lock().is_empty() && self.topic.holds().is_empty()
    }
}

/// Who waits for records.
impl Readers {
    /// Asks for `subscription` to be woken by the next record. The caller looks at the log once
    /// more afterwards: a record may have become visible in between.
    pub(super) fn add_hungry(&self, subscription: &Arc<Subscription>) {
        let mut hungry = self.hungry.lock();
        hungry.push(Arc::clone(subscription));
        self.is_hungry.store(true, Ordering::SeqCst);
    }

    /// Records became visible: wakes who waits for them, and nobody else.
    pub(crate) fn on_visible(&self) {
        self.topic.on_visible();
        if !self.is_hungry.load(Ordering::SeqCst) {
            return;
        }
        if self.topic.runtime().options.planted.has(Fault::MissedWake) && self.misses_one() {
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

    /// Whether tests want nobody to be woken this time.
    fn misses_one(&self) -> bool {
        self.topic.next().0.is_multiple_of(5)
    }

    /// Wakes everyone who waits for anything of the topic.
    pub(crate) fn wake_all(&self) {
        self.topic.watchers.notify_waiters();
        self.subscriptions().iter().for_each(|subscription| subscription.wake_all());
    }
}
