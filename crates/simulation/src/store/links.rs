//! What leads from an engine back to its broker, so that it can be cut.
//!
//! A broker and its engine know each other. A process that is killed takes both along; in a
//! simulation they would keep each other in memory, with their open files.

use std::sync::Arc;

use domain::{NodeId, Offset, ShardId, TopicId};
use parking_lot::Mutex;
use storage::{Error, Future, Listener, Result, Shard, Shards};

/// The links of one node.
#[derive(Default)]
pub(super) struct Links(Mutex<Vec<Arc<Link>>>);

impl Links {
    /// Cuts all of them.
    pub(super) fn cut(&self) {
        let links = std::mem::take(&mut *self.0.lock());
        // Not under the lock: the broker may end with it.
        links.iter().for_each(|link| drop(link.0.lock().take()));
    }
}

struct Link(Mutex<Option<Arc<dyn Listener>>>);

impl Link {
    fn with(&self, tell: impl FnOnce(&dyn Listener)) {
        let listener = self.0.lock().clone();
        if let Some(listener) = listener {
            tell(&*listener);
        }
    }
}

impl Listener for Link {
    fn visible(&self, ends: &[(TopicId, Offset)]) {
        self.with(|listener| listener.visible(ends));
    }

    fn pressed(&self) {
        self.with(|listener| listener.pressed());
    }

    fn stalled(&self, stalled: bool) {
        self.with(|listener| listener.stalled(stalled));
    }

    fn failed(&self, error: &Error) {
        self.with(|listener| listener.failed(error));
    }
}

/// Shards that speak to their owner over links.
pub(super) struct Linked {
    pub(super) shards: Arc<dyn Shards>,
    pub(super) links: Arc<Links>,
}

impl Shards for Linked {
    fn count(&self) -> u32 {
        self.shards.count()
    }

    fn open(
        &self,
        shard: ShardId,
        node: NodeId,
        listener: Arc<dyn Listener>,
    ) -> Future<Result<Shard>> {
        let link = Arc::new(Link(Mutex::new(Some(listener))));
        self.links.0.lock().push(Arc::clone(&link));
        self.shards.open(shard, node, link)
    }
}
