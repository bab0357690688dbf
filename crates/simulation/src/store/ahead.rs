//! A planted fault: checkpoints that say that they hold more of the log than they do.

use std::sync::Arc;
use std::time::Duration;

use clock::tasks;
use domain::{ClockMark, NodeId, Offset, Progress, ShardId, SubscriptionId, TopicId};
use futures::FutureExt;
use storage::{Checkpoint, Future, Listener, MessageLog, ProgressStore, Result, Shard, Shards};

/// So much more of the log is written meanwhile.
const LATE: Duration = Duration::from_millis(300);

/// Shards whose checkpoints are ahead of themselves.
pub(super) struct Ahead(pub(super) Arc<dyn Shards>);

impl Shards for Ahead {
    fn count(&self) -> u32 {
        self.0.count()
    }

    fn open(
        &self,
        shard: ShardId,
        node: NodeId,
        listener: Arc<dyn Listener>,
    ) -> Future<Result<Shard>> {
        let opened = self.0.open(shard, node, listener);
        async move {
            let shard = opened.await?;
            let (log, inner) = (Arc::clone(&shard.log), Arc::clone(&shard.progress));
            Ok(Shard { progress: Arc::new(Hasty { log, inner }), ..shard })
        }
        .boxed()
    }
}

struct Hasty {
    log: Arc<dyn MessageLog>,
    inner: Arc<dyn ProgressStore>,
}

impl ProgressStore for Hasty {
    fn load(&self, starts: Vec<(SubscriptionId, Progress)>) -> Future<Result<Vec<Progress>>> {
        self.inner.load(starts)
    }

    fn checkpoint(&self, checkpoint: Checkpoint) -> Future<Result<()>> {
        let (log, inner) = (Arc::clone(&self.log), Arc::clone(&self.inner));
        async move {
            tasks::sleep(LATE).await;
            inner.checkpoint(Checkpoint { position: log.position(), ..checkpoint }).await
        }
        .boxed()
    }

    fn clock_mark(&self) -> Future<Result<Option<ClockMark>>> {
        self.inner.clock_mark()
    }

    fn is_copy(&self) -> bool {
        self.inner.is_copy()
    }

    fn raise(&self, topics: Vec<(TopicId, Offset)>) -> Future<Result<()>> {
        self.inner.raise(topics)
    }
}
