//! `Shards`: the logs of a store, each with one owner at a time; `Members`: the nodes that own
//! them.

use std::sync::Arc;
use std::time::Duration;

use domain::{Epoch, NodeId, ShardId};

use crate::{Future, Listener, LogFigures, MessageLog, ProgressStore, Result};

/// One shard, as one owner holds it.
#[derive(Clone)]
pub struct Shard {
    /// Which one.
    pub id: ShardId,
    /// Greater than that of every earlier owner.
    pub epoch: Epoch,
    /// Its messages, and every change of progress.
    pub log: Arc<dyn MessageLog>,
    /// Its progress checkpoints.
    pub progress: Arc<dyn ProgressStore>,
    /// Statistics of its log.
    pub figures: Arc<LogFigures>,
}

/// The shards of a store.
pub trait Shards: Send + Sync {
    /// How many there are; fixed when the store is made. Disk and memory have one.
    fn count(&self) -> u32;

    /// Takes `shard` for `node` under a new epoch, and reads what its log holds. From now on every
    /// earlier handle is `Fenced`. `Conflict`, with nothing changed, if another node has it whose
    /// lease is not over; a node may take what it has already. `Corrupt`, with nothing changed, if
    /// the log has a hole.
    fn open(
        &self,
        shard: ShardId,
        node: NodeId,
        listener: Arc<dyn Listener>,
    ) -> Future<Result<Shard>>;
}

/// A node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which one.
    pub node: NodeId,
    /// Where other nodes reach it.
    pub address: String,
    /// What topics can ask for in the node that runs them.
    pub labels: Vec<(String, String)>,
}

/// Who is there, and who owns what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The nodes whose lease is not over, by id.
    pub members: Vec<Member>,
    /// The owner and the epoch of each shard, in their order; `None` = it was released. The owner's
    /// lease may be over.
    pub shards: Vec<Option<(NodeId, Epoch)>>,
}

/// The nodes of a cluster. Leases are counted by the store's own clock.
pub trait Members: Send + Sync {
    /// How long a lease lasts after it was joined or renewed.
    fn lease(&self) -> Duration;

    /// Makes the node a member, with a lease. A node that is a member already is described anew.
    fn join(&self, member: Member) -> Future<Result<()>>;

    /// Renews the lease; `NotFound` if it is over: others may own its shards by now, and it must
    /// join again.
    fn renew(&self, node: NodeId) -> Future<Result<()>>;

    /// Ends the lease, and releases the node's shards.
    fn leave(&self, node: NodeId) -> Future<Result<()>>;

    /// Who is there, and who owns what.
    fn view(&self) -> Future<Result<View>>;
}
