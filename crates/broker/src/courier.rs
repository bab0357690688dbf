//! Takes messages to a topic of another shard: dead letters there, and replays back.
//!
//! Two shards have no commit in common. So the target comes first: its owner appends the messages
//! and notes in the same commit which records of the source they stand for, its *mark*. Then the
//! source settles. A courier that does not know how far it came goes again, and the mark shows what
//! is there already: never neither, never twice.
//!
//! ```text
//!   source shard                                 target shard
//!   exhausted: 7, 9   ── parcel {7, 9} ──►   append 7', 9' + mark {7, 9}   one commit
//!   settle 7, 9       ◄──── done ────────
//! ```

use std::sync::Arc;

use bytes::Bytes;
use domain::{Offset, ShardId, SubscriptionId, TopicName};
use storage::Kind;
use storage::planted::{Fault, Planted};

use crate::catalogue::Catalogue;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::parcel::{Parcel, Peers, Piece, SourceId};
use crate::registry::Registry;
use crate::topic::Topic;

/// Sends parcels, and accepts those for topics that are run here.
pub(crate) struct Courier {
    registry: Arc<Registry>,
    catalogue: Arc<Catalogue>,
    /// `None` = this node is alone.
    peers: Option<Arc<dyn Peers>>,
    planted: Planted,
}

impl Courier {
    pub(crate) fn new(
        registry: Arc<Registry>,
        catalogue: Arc<Catalogue>,
        options: &Options,
    ) -> Self {
        Self { registry, catalogue, peers: options.peers.clone(), planted: options.planted }
    }

    /// The shard of the topic of that name.
    pub(crate) fn shard_of(&self, topic: &TopicName) -> ShardId {
        self.catalogue.shard_of(topic)
    }

    /// Takes a parcel to its topic, wherever that is run. `Ok` means that it is there for good.
    pub(crate) async fn send(&self, parcel: Parcel) -> Result<()> {
        let shard = self.shard_of(&parcel.topic);
        match (self.registry.topic(&parcel.topic), &self.peers) {
            (Err(Error::NotOwner(_)), Some(peers)) => peers.deliver(shard, parcel).await,
            (topic, _) => self.accept_at(&topic?, parcel).await,
        }
    }

    /// Appends what is not there yet. `Ok` means that all of it is there for good.
    pub(crate) async fn accept(&self, parcel: Parcel) -> Result<()> {
        let topic = self.registry.topic(&parcel.topic)?;
        self.accept_at(&topic, parcel).await
    }

    async fn accept_at(&self, topic: &Arc<Topic>, parcel: Parcel) -> Result<()> {
        let runtime = topic.runtime();
        runtime.check_serving()?;
        let mark = self.mark_of(topic, parcel.source).await?;
        if !runtime.log.has_room() {
            runtime.log.room().await?;
        }
        let append = |pieces: Vec<Piece>, progress| {
            let messages = pieces.into_iter().map(|piece| (piece.message, piece.addressee));
            topic.queue_addressed(messages, progress).map(|(_, receipt)| receipt)
        };
        let Parcel { generation, settled_below, pieces, .. } = parcel;
        if self.planted.has(Fault::CourierWithoutMark) {
            append(pieces, Vec::new())?.await?;
            return Ok(());
        }
        let (letters, changed) = (topic.letters(), &runtime.changed_letters);
        let received = letters.receive(changed, mark, (generation, settled_below), pieces, append);
        // What was there already may not be durable yet: its commit was queued before this one.
        let receipt = received?.unwrap_or_else(|| runtime.log.commit(storage::Commit::barrier()));
        receipt.await?;
        Ok(())
    }

    /// The id of the mark for a source, made the first time. It is on stable storage then.
    async fn mark_of(&self, topic: &Topic, source: SourceId) -> Result<SubscriptionId> {
        if let Some(mark) = topic.letters().mark_of(source.0) {
            return Ok(mark);
        }
        let _ledger = self.catalogue.lock().await;
        if let Some(mark) = topic.letters().mark_of(source.0) {
            return Ok(mark);
        }
        let (store, name) = (self.catalogue.store(), mark_name(topic, source));
        let entry = match store.put(Kind::Mark, &name, Bytes::new(), None).await {
            // Making it known failed the last time.
            Err(storage::Error::Conflict) => store.get(Kind::Mark, &name).await?,
            other => other?,
        };
        let mark = SubscriptionId(entry.id);
        let start = domain::Progress::starting_at(Offset(0));
        let progress = topic.runtime().progress.load_one(mark, start).await?;
        topic.letters().open_mark(source.0, mark, progress);
        Ok(mark)
    }
}

/// The catalogue's name for a mark: a topic with this id has received from that source.
fn mark_name(topic: &Topic, source: SourceId) -> String {
    format!("{}/{}", topic.id().0, source.0)
}
