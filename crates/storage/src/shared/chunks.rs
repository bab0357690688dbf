//! `Chunks`: all that a replicated store must do so that shards can be kept in it.

use bytes::Bytes;
use domain::{Epoch, NodeId, ShardId};

use crate::{Future, Result};

/// Where a shard stands in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The epoch of its last owner; 0 if there was none yet.
    pub epoch: Epoch,
    /// Who owns it; `None` = it was released. The owner's lease may be over.
    pub owner: Option<NodeId>,
    /// The number of its last chunk; 0 if there was none yet.
    pub last: u64,
    /// The number of its last save; 0 if there was none yet.
    pub saves: u64,
}

/// The name of a saved row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// What the row is about.
    pub kind: u8,
    /// Which of that kind.
    pub id: u64,
}

/// A change of a saved row: its new value, or `None` to delete it.
pub type Row = (Key, Option<Bytes>);

/// A store of shards: for each a log of numbered chunks, blocks of records that outlive their
/// chunks, and a few saved rows.
///
/// Everything is put-if-next: a call names the epoch it is made under and the number it continues
/// with, and the store does it only if both still are what the caller believes. So a call may be
/// repeated, may arrive twice, or long after its caller gave up, and counts once or not at all. No
/// call needs another to be open at the same time, and none waits for a lock that a caller holds.
///
/// # What a call answers
///
/// | Answer | Means |
/// |---|---|
/// | `Ok` | it happened, and outlives the loss of whatever the store is made to outlive |
/// | `Unavailable`, `Full` | this call did not and will not happen |
/// | `Indeterminate` | it may have happened, or may still do so |
/// | `Fenced` | there is a later epoch: it did not happen, and nothing of this epoch ever will |
/// | `Conflict` | the number is not the next, or another node is the owner: it did not happen |
/// | `Corrupt` | what is stored is not what was written |
///
/// Whoever drops the answer's future before it resolves knows as much as after `Indeterminate`.
///
/// # Order
///
/// Once a call has answered `Ok`, every later call by anyone sees its effect. Reads answer from the
/// one true copy, never from a replica that may lag.
pub trait Chunks: Send + Sync {
    /// How many shards there are; fixed when the store is made.
    fn count(&self) -> u32;

    /// Where `shard` stands.
    fn head(&self, shard: ShardId) -> Future<Result<Head>>;

    /// Makes `node` the owner under `epoch`, which must be the epoch of `head` plus one. From then
    /// on every call under an earlier epoch is `Fenced`, wherever it was held up. Answers the head
    /// as it is then: its numbers are final for all earlier epochs.
    ///
    /// Allowed if the shard is released, belongs to `node` already, or its owner's lease is over by
    /// the store's own clock; else `Conflict`. The same (node, epoch) again, while that is the
    /// current one and not released, answers the same.
    fn take(&self, shard: ShardId, node: NodeId, epoch: Epoch) -> Future<Result<Head>>;

    /// Gives the shard up: anyone may take it. The epoch stays.
    fn release(&self, shard: ShardId, epoch: Epoch) -> Future<Result<()>>;

    /// Appends chunk `number`, which must be the last one plus one. A number that this epoch has
    /// appended already is answered `Ok` and changes nothing; the caller gives it the same bytes.
    fn append(&self, shard: ShardId, epoch: Epoch, number: u64, bytes: Bytes)
    -> Future<Result<()>>;

    /// The chunks `from..=to` that are there, ascending, each whole: about `bytes_max` bytes, at
    /// least one chunk if there is any. Trimmed ones are missing.
    fn read(
        &self,
        shard: ShardId,
        from: u64,
        to: u64,
        bytes_max: usize,
    ) -> Future<Result<Vec<(u64, Bytes)>>>;

    /// Drops the chunks below `below`. Some of them may come to be dropped later.
    fn trim(&self, shard: ShardId, epoch: Epoch, below: u64) -> Future<Result<()>>;

    /// Keeps each block under its number. A number is used once, and given the same bytes again
    /// only by a repeated call.
    fn put_blocks(
        &self,
        shard: ShardId,
        epoch: Epoch,
        blocks: Vec<(u64, Bytes)>,
    ) -> Future<Result<()>>;

    /// The blocks with these numbers, in their order; `None` for one that is not there.
    fn read_blocks(&self, shard: ShardId, numbers: Vec<u64>) -> Future<Result<Vec<Option<Bytes>>>>;

    /// Drops the blocks with these numbers; one that is not there is none the worse.
    fn drop_blocks(&self, shard: ShardId, epoch: Epoch, numbers: Vec<u64>) -> Future<Result<()>>;

    /// Save `number`, which must be the last one plus one: changes `rows` in their order. A number
    /// that this epoch has saved already is answered `Ok` and changes nothing.
    ///
    /// A store need not change them at once: if it is interrupted, and the epoch ends before the
    /// call is repeated, any number of the first rows may be changed and the others not.
    fn save(&self, shard: ShardId, epoch: Epoch, number: u64, rows: Vec<Row>)
    -> Future<Result<()>>;

    /// The saved rows with keys `from..=to`, ascending: about `bytes_max` bytes, at least one row
    /// if there is any.
    fn saved(
        &self,
        shard: ShardId,
        from: Key,
        to: Key,
        bytes_max: usize,
    ) -> Future<Result<Vec<(Key, Bytes)>>>;
}
