//! What a courier carries from one shard to another, and to whom.

use domain::{Epoch, Message, Offset, ShardId, SubscriptionId, TopicName};
use futures::future::BoxFuture;

use crate::error::Result;

/// What messages come from: a subscription that gives them up, or a replay. Its number is that of
/// its definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u64);

/// One message on its way.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The record of the source that it stands for.
    pub offset: Offset,
    /// The message.
    pub message: Message,
    /// The only subscription it is meant for.
    pub addressee: Option<SubscriptionId>,
}

/// Messages of one source for one topic.
#[derive(Clone, Debug)]
pub struct Parcel {
    /// The topic they go to.
    pub topic: TopicName,
    /// Where they come from.
    pub source: SourceId,
    /// Grows when the source goes back, and may send the same records anew.
    pub generation: (Epoch, u64),
    /// The source has settled everything below: it will not send that again.
    pub settled_below: Offset,
    /// The messages, in offset order.
    pub pieces: Vec<Piece>,
}

/// The other nodes.
pub trait Peers: Send + Sync {
    /// Has the owner of `shard` accept a parcel: `Broker::accept` there. `Ok` means that all of it
    /// is there for good; an error, that any part of it may be.
    fn deliver(&self, shard: ShardId, parcel: Parcel) -> BoxFuture<'static, Result<()>>;
}
