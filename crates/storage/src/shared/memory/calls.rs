//! The traits of the store in memory: each call goes over the wire.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::{Epoch, NodeId, ShardId, SubscriptionId};
use futures::{FutureExt, StreamExt, stream};
use parking_lot::Mutex;

use super::faults::{Asked, Call, Fault};
use super::state::State;
use super::wire::{Acts, Wire};
use crate::shared::chunks::{Chunks, Head, Key, Row};
use crate::{
    AttemptHistory, AttemptPage, AttemptQuery, Catalogue, Changes, Entry, Error, Future, Kind,
    Member, Members, NumberedAttempt, Page, Result, Unsettled, View,
};

/// The store as one engine sees it.
pub(super) struct Remote {
    pub state: Arc<Mutex<State>>,
    pub wire: Wire,
    pub catalogue: Arc<dyn Catalogue>,
    pub attempts: Arc<dyn AttemptHistory>,
}

impl Remote {
    /// A call about one shard.
    fn shard<T: Send + 'static>(
        &self,
        asked: Asked,
        shard: ShardId,
        act: impl Fn(&mut State) -> Result<T> + Send + Sync + 'static,
    ) -> Future<Result<T>> {
        self.send(asked, Some(shard), self.acts(shard, act))
    }

    fn acts<T: 'static>(
        &self,
        shard: ShardId,
        act: impl Fn(&mut State) -> Result<T> + Send + Sync + 'static,
    ) -> Acts<T> {
        let (state, fenced) = (Arc::clone(&self.state), Arc::clone(&self.state));
        let acts = Acts::new(move || act(&mut state.lock()));
        Acts { fence: Some(Box::new(move || fenced.lock().fence(shard))), ..acts }
    }

    fn send<T: Send + 'static>(
        &self,
        asked: Asked,
        shard: Option<ShardId>,
        acts: Acts<T>,
    ) -> Future<Result<T>> {
        self.wire.clone().call(Call { asked, shard }, acts).boxed()
    }

    /// A call about the nodes.
    fn members<T: Send + 'static>(
        &self,
        asked: Asked,
        act: impl Fn(&mut State) -> Result<T> + Send + Sync + 'static,
    ) -> Future<Result<T>> {
        let state = Arc::clone(&self.state);
        self.send(asked, None, Acts::new(move || act(&mut state.lock())))
    }

    /// A call of the catalogue or the history, which answer at once.
    fn inner<T: Send + 'static>(
        &self,
        asked: Asked,
        ask: impl Fn() -> Future<Result<T>> + Send + Sync + 'static,
    ) -> Future<Result<T>> {
        let later = || Err(Error::unavailable("the memory has no answer at once"));
        let act = move || ask().now_or_never().unwrap_or_else(later);
        self.send(asked, None, Acts::new(act))
    }
}

impl Chunks for Remote {
    fn count(&self) -> u32 {
        u32::try_from(self.state.lock().shards.len()).unwrap_or(u32::MAX)
    }

    fn head(&self, shard: ShardId) -> Future<Result<Head>> {
        self.shard(Asked::Head, shard, move |state| state.head(shard))
    }

    fn take(&self, shard: ShardId, node: NodeId, epoch: Epoch) -> Future<Result<Head>> {
        let clock = Arc::clone(&self.wire.transit.clock);
        self.shard(Asked::Take, shard, move |state| state.take(shard, node, epoch, clock.now()))
    }

    fn release(&self, shard: ShardId, epoch: Epoch) -> Future<Result<()>> {
        self.shard(Asked::Release, shard, move |state| state.release(shard, epoch))
    }

    fn append(
        &self,
        shard: ShardId,
        epoch: Epoch,
        number: u64,
        bytes: Bytes,
    ) -> Future<Result<()>> {
        self.shard(Asked::Append, shard, move |state| state.append(shard, epoch, number, &bytes))
    }

    fn read(
        &self,
        shard: ShardId,
        from: u64,
        to: u64,
        bytes_max: usize,
    ) -> Future<Result<Vec<(u64, Bytes)>>> {
        self.shard(Asked::Read, shard, move |state| state.read(shard, (from, to), bytes_max))
    }

    fn trim(&self, shard: ShardId, epoch: Epoch, below: u64) -> Future<Result<()>> {
        self.shard(Asked::Trim, shard, move |state| {
            let owned = state.owned(shard, epoch)?;
            owned.chunks = owned.chunks.split_off(&below);
            Ok(())
        })
    }

    fn put_blocks(
        &self,
        shard: ShardId,
        epoch: Epoch,
        blocks: Vec<(u64, Bytes)>,
    ) -> Future<Result<()>> {
        self.shard(Asked::PutBlocks, shard, move |state| {
            state.owned(shard, epoch)?.blocks.extend(blocks.iter().cloned());
            Ok(())
        })
    }

    fn read_blocks(&self, shard: ShardId, numbers: Vec<u64>) -> Future<Result<Vec<Option<Bytes>>>> {
        self.shard(Asked::ReadBlocks, shard, move |state| {
            let blocks = &state.shard(shard)?.blocks;
            Ok(numbers.iter().map(|number| blocks.get(number).cloned()).collect())
        })
    }

    fn drop_blocks(&self, shard: ShardId, epoch: Epoch, numbers: Vec<u64>) -> Future<Result<()>> {
        self.shard(Asked::DropBlocks, shard, move |state| {
            let blocks = &mut state.owned(shard, epoch)?.blocks;
            numbers.iter().for_each(|number| drop(blocks.remove(number)));
            Ok(())
        })
    }

    fn save(
        &self,
        shard: ShardId,
        epoch: Epoch,
        number: u64,
        rows: Vec<Row>,
    ) -> Future<Result<()>> {
        let (state, torn) = (Arc::clone(&self.state), rows.clone());
        let acts = self.acts(shard, move |state| state.save(shard, epoch, number, &rows));
        let tear = move |count| state.lock().tear(shard, epoch, number, &torn, count);
        self.send(Asked::Save, Some(shard), Acts { tear: Some(Box::new(tear)), ..acts })
    }

    fn saved(
        &self,
        shard: ShardId,
        from: Key,
        to: Key,
        bytes_max: usize,
    ) -> Future<Result<Vec<(Key, Bytes)>>> {
        self.shard(Asked::Saved, shard, move |state| state.saved(shard, (from, to), bytes_max))
    }
}

impl Members for Remote {
    fn lease(&self) -> Duration {
        self.state.lock().lease
    }

    fn join(&self, member: Member) -> Future<Result<()>> {
        let clock = Arc::clone(&self.wire.transit.clock);
        self.members(Asked::Join, move |state| {
            state.join(member.clone(), clock.now());
            Ok(())
        })
    }

    fn renew(&self, node: NodeId) -> Future<Result<()>> {
        let clock = Arc::clone(&self.wire.transit.clock);
        self.members(Asked::Renew, move |state| state.renew(node, clock.now()))
    }

    fn leave(&self, node: NodeId) -> Future<Result<()>> {
        self.members(Asked::Leave, move |state| {
            state.leave(node);
            Ok(())
        })
    }

    fn view(&self) -> Future<Result<View>> {
        let clock = Arc::clone(&self.wire.transit.clock);
        self.members(Asked::View, move |state| Ok(state.view(clock.now())))
    }
}

impl Catalogue for Remote {
    fn get(&self, kind: Kind, name: &str) -> Future<Result<Entry>> {
        let (catalogue, name) = (Arc::clone(&self.catalogue), name.to_owned());
        self.inner(Asked::Lookup, move || catalogue.get(kind, &name))
    }

    fn list(&self, kind: Kind, after: Option<&str>, limit: usize) -> Future<Result<Page>> {
        let (catalogue, after) = (Arc::clone(&self.catalogue), after.map(ToOwned::to_owned));
        self.inner(Asked::Lookup, move || catalogue.list(kind, after.as_deref(), limit))
    }

    fn put(
        &self,
        kind: Kind,
        name: &str,
        value: Bytes,
        version: Option<u64>,
    ) -> Future<Result<Entry>> {
        let (catalogue, name) = (Arc::clone(&self.catalogue), name.to_owned());
        self.inner(Asked::Put, move || catalogue.put(kind, &name, value.clone(), version))
    }

    fn delete(&self, kind: Kind, name: &str, version: u64) -> Future<Result<()>> {
        let (catalogue, name) = (Arc::clone(&self.catalogue), name.to_owned());
        self.inner(Asked::Delete, move || catalogue.delete(kind, &name, version))
    }

    fn serial(&self) -> Future<Result<u64>> {
        let catalogue = Arc::clone(&self.catalogue);
        self.inner(Asked::Serial, move || catalogue.serial())
    }

    fn changes(&self, after: u64) -> Changes {
        let (wire, changes) = (self.wire.clone(), Some(self.catalogue.changes(after)));
        let step = |(wire, changes): (Wire, Option<Changes>)| async move {
            let mut changes = changes?;
            let change = changes.next().await?;
            let asked = Call { asked: Asked::Changes, shard: None };
            match wire.faults.decide(asked) {
                Fault::Refuse => {
                    let broken = Error::unavailable("the stream of changes broke");
                    return Some((Err(broken), (wire, None)));
                }
                Fault::Delay(time) | Fault::DelayAnswer(time) | Fault::Late(time) => {
                    let clock = Arc::clone(&wire.transit.clock);
                    clock.sleep_until(clock.now().plus(time)).await;
                }
                _ => {}
            }
            Some((change, (wire, Some(changes))))
        };
        stream::unfold((wire, changes), step).boxed()
    }
}

impl AttemptHistory for Remote {
    fn last(&self, subscriptions: Vec<SubscriptionId>) -> Future<Result<Vec<u64>>> {
        let attempts = Arc::clone(&self.attempts);
        self.inner(Asked::Attempts, move || attempts.last(subscriptions.clone()))
    }

    fn append(
        &self,
        added: Vec<NumberedAttempt>,
        unsettled: Arc<dyn Unsettled>,
    ) -> Future<Result<()>> {
        let (attempts, state) = (Arc::clone(&self.attempts), Arc::clone(&self.state));
        self.inner(Asked::Attempts, move || {
            state.lock().tried.extend(added.iter().map(|added| added.attempt.subscription));
            attempts.append(added.clone(), Arc::clone(&unsettled))
        })
    }

    fn list(
        &self,
        subscription: SubscriptionId,
        query: AttemptQuery,
    ) -> Future<Result<AttemptPage>> {
        let attempts = Arc::clone(&self.attempts);
        self.inner(Asked::Attempts, move || attempts.list(subscription, query.clone()))
    }

    fn forget(&self, subscriptions: Vec<SubscriptionId>) -> Future<Result<()>> {
        let attempts = Arc::clone(&self.attempts);
        self.inner(Asked::Attempts, move || attempts.forget(subscriptions.clone()))
    }
}
