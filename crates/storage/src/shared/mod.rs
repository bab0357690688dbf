//! The core of every engine whose store several nodes share.
//!
//! ```text
//! commit ─▶ front ─▶ committer ─▶ Chunks::append ─▶ tail in memory ─▶ readers
//!          (queue,   (a chunk: number, epoch,               │
//!           group)    checksum of the one before)           ▼ trim, what is still needed
//!                               Chunks::trim ◀── chunks ── blocks
//! ```
//!
//! State is the fold of chunks in their order; checkpoint, blocks and memory are caches of a prefix
//! of it. A chunk is appended under its owner's epoch, at the number after the last: put-if-next.
//! After an unknown outcome the same is asked again until it is known, so that a chunk is there
//! once or never. What a store must do for all this is [`Chunks`]; the rest is here, once.
//!
//! | File | For |
//! |---|---|
//! | `chunks` | the seam below |
//! | `chain` | the bytes of a chunk; a hole shows |
//! | `patience` | waiting for the store, and asking again |
//! | `committer` | from a group to a durable, visible chunk |
//! | `index`, `blocks`, `read` | where a topic's records are; reading them |
//! | `rows`, `saver` | checkpoints |
//! | `trimmer`, `outgoing` | moving what is needed out of chunks |
//! | `opening` | taking a shard over: checkpoint and replay |
//! | `owned`, `log` | a shard in its owner's hands; the traits on it |
//! | `memory` | a store in memory, with faults, for tests and simulation |

mod blocks;
mod chain;
mod chunks;
mod committer;
mod index;
mod log;
pub mod memory;
mod opening;
mod outgoing;
mod owned;
mod patience;
mod read;
mod rows;
mod saver;
mod trimmer;

use std::sync::Arc;
use std::time::Duration;

pub use chunks::{Chunks, Head, Key, Row};
use domain::{NodeId, ShardId};
use futures::FutureExt;

use crate::planted::Planted;
use crate::{Error, Future, Listener, Result, Shard, Shards};

/// How a node uses its memory and the store, for each shard.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of the newest records kept in memory.
    pub tail_memory_bytes: usize,
    /// Queue size at which appends wait.
    pub queue_bytes_max: usize,
    /// Chunk size after which another commit goes into the next chunk.
    pub group_bytes_max: usize,
    /// How long a commit nobody waits for may be delayed to ride along.
    pub ride_delay: Duration,
    /// Bytes of chunks at which appends wait for a trim.
    pub log_bytes_max: u64,
    /// Bytes of chunks after which the owner is asked for a checkpoint: what the next owner has to
    /// replay.
    pub checkpoint_bytes: u64,
    /// Bytes of chunks that are indexed, moved and trimmed as a whole.
    pub stretch_bytes: u64,
    /// Bytes of the newest chunks that a trim leaves where they are: most of what is in them will
    /// not be needed for long.
    pub kept_bytes: u64,
    /// Block size after which a topic's records go into the next block.
    pub block_bytes: usize,
    /// What tests have it do wrong, to see that they find out.
    #[doc(hidden)]
    pub planted: Planted,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tail_memory_bytes: 4 << 20,
            queue_bytes_max: 8 << 20,
            group_bytes_max: 1 << 20,
            ride_delay: Duration::from_millis(20),
            log_bytes_max: 256 << 20,
            checkpoint_bytes: 16 << 20,
            stretch_bytes: 4 << 20,
            kept_bytes: 16 << 20,
            block_bytes: 1 << 20,
            planted: Planted::default(),
        }
    }
}

impl Options {
    /// The options, clamped so that a trim can always make room.
    fn within_bounds(self) -> Self {
        let kept_bytes = self.kept_bytes.min(self.log_bytes_max / 2);
        Self {
            group_bytes_max: self.group_bytes_max.clamp(1, 1 << 30),
            stretch_bytes: self.stretch_bytes.clamp(1, self.log_bytes_max.max(4) / 4),
            kept_bytes,
            ..self
        }
    }
}

/// The shards of a store, as one node sees them.
pub struct Core {
    chunks: Arc<dyn Chunks>,
    options: Options,
    /// Held while a shard is opened: two at once would take it under the same epoch.
    opening: Arc<[tokio::sync::Mutex<()>]>,
}

impl Core {
    /// The shards in `chunks`.
    pub fn new(chunks: Arc<dyn Chunks>, options: Options) -> Self {
        let opening = (0..chunks.count()).map(|_| tokio::sync::Mutex::default()).collect();
        Self { chunks, options: options.within_bounds(), opening }
    }
}

impl Shards for Core {
    fn count(&self) -> u32 {
        self.chunks.count()
    }

    fn open(
        &self,
        shard: ShardId,
        node: NodeId,
        listener: Arc<dyn Listener>,
    ) -> Future<Result<Shard>> {
        let (chunks, options) = (Arc::clone(&self.chunks), self.options);
        let opening = Arc::clone(&self.opening);
        async move {
            let place = usize::try_from(shard.0).unwrap_or(usize::MAX);
            let _one_at_a_time = opening.get(place).ok_or(Error::NotFound)?.lock().await;
            opening::open(chunks, options, (shard, node), listener).await
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
