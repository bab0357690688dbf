//! The shards that this node runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{ShardId, TopicName};
use parking_lot::RwLock;

use crate::error::{Error, Result};
use crate::runtime::Runtime;
use crate::subscription::Notes;

/// A shard that this node runs: what its topics and subscriptions are given.
#[derive(Clone)]
pub(crate) struct OpenShard {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) notes: Arc<Notes>,
}

/// The open shards, by id.
pub(crate) struct OpenShards {
    /// How many the store has.
    count: u32,
    open: RwLock<BTreeMap<ShardId, OpenShard>>,
}

impl OpenShards {
    /// None is open yet of `count`.
    pub(crate) fn new(count: u32) -> Self {
        Self { count, open: RwLock::default() }
    }

    /// How many the store has, open here or not.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn add(&self, shard: OpenShard) {
        self.open.write().insert(shard.runtime.shard, shard);
    }

    pub(crate) fn remove(&self, shard: ShardId) {
        self.open.write().remove(&shard);
    }

    /// All of them, by id.
    pub(crate) fn all(&self) -> Vec<OpenShard> {
        self.open.read().values().cloned().collect()
    }

    /// The shard of that id; `NotOwner` if it is not open here.
    pub(crate) fn get(&self, shard: ShardId) -> Result<OpenShard> {
        self.open.read().get(&shard).cloned().ok_or(Error::NotOwner(shard))
    }

    /// The shard that a topic of that name is in; `NotOwner` if it is not open here.
    pub(crate) fn of(&self, topic: &TopicName) -> Result<OpenShard> {
        self.get(ShardId::of(topic, self.count))
    }
}
