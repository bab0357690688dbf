//! What the log tells: records became visible, room is wanted, the log failed.

use std::collections::HashMap;
use std::sync::Arc;

use domain::{Offset, TopicId};
use parking_lot::RwLock;
use storage::Listener;

use crate::runtime::Runtime;
use crate::topic::Topic;

/// All topics by id, deleted ones with subscriptions included; wakes who waits on them.
pub(crate) struct Tail {
    topics: RwLock<HashMap<TopicId, Arc<Topic>>>,
    runtime: Arc<Runtime>,
}

impl Tail {
    pub(crate) fn new(runtime: Arc<Runtime>) -> Self {
        Self { topics: RwLock::default(), runtime }
    }

    pub(crate) fn add(&self, topic: Arc<Topic>) {
        self.topics.write().insert(topic.id(), topic);
    }

    pub(crate) fn remove(&self, topic: TopicId) {
        self.topics.write().remove(&topic);
    }

    pub(crate) fn get(&self, topic: TopicId) -> Option<Arc<Topic>> {
        self.topics.read().get(&topic).cloned()
    }

    /// Every topic, in order of creation.
    pub(crate) fn all(&self) -> Vec<Arc<Topic>> {
        let mut topics: Vec<_> = self.topics.read().values().cloned().collect();
        topics.sort_unstable_by_key(|topic| topic.id());
        topics
    }

    /// Wakes everybody who waits for anything.
    pub(crate) fn wake_all(&self) {
        for topic in self.all() {
            topic.watchers.notify_waiters();
            topic.subscriptions().iter().for_each(|subscription| subscription.wake_all());
        }
    }
}

impl Listener for Tail {
    fn visible(&self, ends: &[(TopicId, Offset)]) {
        let topics = self.topics.read();
        for (topic, _) in ends {
            if let Some(topic) = topics.get(topic) {
                topic.on_visible();
            }
        }
    }

    fn pressed(&self) {
        self.runtime.changed.press();
    }

    fn failed(&self, error: &storage::Error) {
        tracing::error!(%error, "the log failed; nothing more is accepted or delivered");
        self.runtime.fail(error);
        self.wake_all();
    }
}
