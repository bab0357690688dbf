//! Listens to the log: records became visible, room is needed, the log failed.

use std::collections::HashMap;
use std::sync::Arc;

use domain::{Offset, TopicId};
use parking_lot::RwLock;
use storage::Listener;

use crate::changed::Changed;
use crate::serving::Serving;
use crate::subscription::Readers;

/// All topics by id, including deleted ones with subscriptions; wakes whoever waits on them.
pub(crate) struct Tail {
    topics: RwLock<HashMap<TopicId, Arc<Readers>>>,
    changed: Arc<Changed>,
    serving: Arc<Serving>,
}

impl Tail {
    pub(crate) fn new(changed: Arc<Changed>, serving: Arc<Serving>) -> Self {
        Self { topics: RwLock::default(), changed, serving }
    }

    pub(crate) fn add(&self, readers: Arc<Readers>) {
        self.topics.write().insert(readers.topic().id(), readers);
    }

    pub(crate) fn remove(&self, topic: TopicId) {
        self.topics.write().remove(&topic);
    }

    pub(crate) fn get(&self, topic: TopicId) -> Option<Arc<Readers>> {
        self.topics.read().get(&topic).cloned()
    }

    /// Every topic with its readers, in order of creation.
    pub(crate) fn all(&self) -> Vec<Arc<Readers>> {
        let mut topics: Vec<_> = self.topics.read().values().cloned().collect();
        topics.sort_unstable_by_key(|readers| readers.topic().id());
        topics
    }

    /// Wakes everyone who waits for anything.
    pub(crate) fn wake_all(&self) {
        self.all().iter().for_each(|readers| readers.wake_all());
    }
}

impl Listener for Tail {
    fn visible(&self, ends: &[(TopicId, Offset)]) {
        let topics = self.topics.read();
        for (topic, _) in ends {
            if let Some(readers) = topics.get(topic) {
                readers.on_visible();
            }
        }
    }

    fn pressed(&self) {
        self.changed.press();
    }

    fn failed(&self, error: &storage::Error) {
        tracing::error!(%error, "the log failed; nothing more is accepted or delivered");
        self.serving.fail(error);
        self.wake_all();
    }
}
