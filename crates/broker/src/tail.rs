//! Listens to the logs: records became visible, room is needed, a store does not answer, a log
//! failed.

use std::collections::HashMap;
use std::sync::Arc;

use domain::{Offset, ShardId, TopicId};
use parking_lot::RwLock;
use storage::Listener;
use tokio::sync::Notify;

use crate::runtime::Signals;
use crate::subscription::Readers;

/// All topics of the open shards by id, including deleted ones with subscriptions.
#[derive(Default)]
pub(crate) struct Tail {
    topics: RwLock<HashMap<TopicId, Arc<Readers>>>,
    /// Notified when the log of a shard has failed.
    pub(crate) failed: Notify,
}

impl Tail {
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

    /// The same of one shard.
    pub(crate) fn of_shard(&self, shard: ShardId) -> Vec<Arc<Readers>> {
        let mut topics = self.all();
        topics.retain(|readers| readers.topic().shard() == shard);
        topics
    }

    /// Wakes everyone who waits for anything in that shard.
    pub(crate) fn wake_all(&self, shard: ShardId) {
        self.of_shard(shard).iter().for_each(|readers| readers.wake_all());
    }
}

/// Hears what the log of one shard tells, and wakes whoever waits for it.
pub(crate) struct ShardListener {
    pub(crate) shard: ShardId,
    pub(crate) tail: Arc<Tail>,
    pub(crate) signals: Signals,
}

impl Listener for ShardListener {
    fn visible(&self, ends: &[(TopicId, Offset)]) {
        let topics = self.tail.topics.read();
        for (topic, _) in ends {
            if let Some(readers) = topics.get(topic) {
                readers.on_visible();
            }
        }
    }

    fn pressed(&self) {
        self.signals.changed.press();
    }

    fn stalled(&self, stalled: bool) {
        self.signals.serving.set_stalled(stalled);
    }

    fn failed(&self, error: &storage::Error) {
        let shard = self.shard.0;
        match error {
            storage::Error::Fenced { .. } => {
                tracing::warn!(shard, %error, "another node runs this shard now");
            }
            _ => tracing::error!(
                shard, %error, "the log failed; nothing more is accepted or delivered"
            ),
        }
        self.signals.serving.fail(error);
        self.tail.wake_all(self.shard);
        self.tail.failed.notify_one();
    }
}
