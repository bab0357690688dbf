//! What the store in memory holds, and what each call does to it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use domain::{Epoch, Moment, NodeId, ShardId, SubscriptionId};

use crate::front::format::{Frame, frames};
use crate::planted::{Fault, Planted};
use crate::shared::chain::body;
use crate::shared::chunks::{Head, Key, Row};
use crate::{Error, Member, Result, View};

/// Everything but definitions and attempts.
pub(super) struct State {
    pub shards: Vec<Shard>,
    pub members: BTreeMap<NodeId, Joined>,
    pub lease: Duration,
    /// Who may have attempts in the history.
    pub tried: BTreeSet<SubscriptionId>,
    pub planted: Planted,
}

/// One shard.
#[derive(Default)]
pub(super) struct Shard {
    head: Head,
    /// The last chunk and the last save of earlier epochs.
    before: (u64, u64),
    pub chunks: BTreeMap<u64, Bytes>,
    pub blocks: BTreeMap<u64, Bytes>,
    pub rows: BTreeMap<Key, Bytes>,
}

/// A node, and until when its lease lasts.
pub(super) struct Joined {
    member: Member,
    until: Moment,
}

impl State {
    pub(super) fn new(count: u32, lease: Duration) -> Self {
        let shards = (0..count).map(|_| Shard::default()).collect();
        let (members, tried) = (BTreeMap::new(), BTreeSet::new());
        Self { shards, members, lease, tried, planted: Planted::default() }
    }

    pub(super) fn shard(&mut self, id: ShardId) -> Result<&mut Shard> {
        let place = usize::try_from(id.0).unwrap_or(usize::MAX);
        self.shards.get_mut(place).ok_or(Error::NotFound)
    }

    pub(super) fn head(&mut self, id: ShardId) -> Result<Head> {
        Ok(self.shard(id)?.head)
    }

    pub(super) fn take(
        &mut self,
        id: ShardId,
        node: NodeId,
        epoch: Epoch,
        now: Moment,
    ) -> Result<Head> {
        let head = self.head(id)?;
        if head.epoch == epoch && head.owner == Some(node) {
            return Ok(head);
        }
        let is_owned = head.owner.is_some_and(|owner| owner != node && self.is_live(owner, now));
        if epoch.0 != head.epoch.0 + 1 || is_owned {
            return Err(Error::Conflict);
        }
        let shard = self.shard(id)?;
        shard.head = Head { epoch, owner: Some(node), ..head };
        shard.before = (head.last, head.saves);
        Ok(shard.head)
    }

    fn is_live(&self, node: NodeId, now: Moment) -> bool {
        self.members.get(&node).is_some_and(|joined| joined.until > now)
    }

    /// The shard, if it is still at `epoch`.
    pub(super) fn owned(&mut self, id: ShardId, epoch: Epoch) -> Result<&mut Shard> {
        let shard = self.shard(id)?;
        if shard.head.epoch == epoch { Ok(shard) } else { Err(Error::Fenced { shard: id, epoch }) }
    }

    pub(super) fn release(&mut self, id: ShardId, epoch: Epoch) -> Result<()> {
        self.owned(id, epoch)?.head.owner = None;
        Ok(())
    }

    /// Another owner came and went.
    pub(super) fn fence(&mut self, id: ShardId) {
        if let Ok(shard) = self.shard(id) {
            shard.head.epoch.0 += 1;
            shard.head.owner = None;
            shard.before = (shard.head.last, shard.head.saves);
        }
    }

    pub(super) fn append(
        &mut self,
        id: ShardId,
        epoch: Epoch,
        number: u64,
        bytes: &Bytes,
    ) -> Result<()> {
        let is_unfenced = self.planted.has(Fault::NoFenceOnAcks);
        let shard = match self.owned(id, epoch) {
            // The planted fault: an old owner's acks are taken for good, and go nowhere.
            Err(Error::Fenced { .. }) if is_unfenced && !has_records(bytes) => return Ok(()),
            other => other?,
        };
        if number > shard.before.0 && number <= shard.head.last {
            return Ok(());
        }
        if number != shard.head.last + 1 {
            return Err(Error::Conflict);
        }
        shard.head.last = number;
        // A copy: those of the caller are part of a larger buffer.
        shard.chunks.insert(number, Bytes::copy_from_slice(bytes));
        Ok(())
    }

    pub(super) fn read(
        &mut self,
        id: ShardId,
        (from, to): (u64, u64),
        bytes_max: usize,
    ) -> Result<Vec<(u64, Bytes)>> {
        if from > to {
            return Ok(Vec::new());
        }
        let chunks = self.shard(id)?.chunks.range(from..=to);
        Ok(up_to(bytes_max, chunks.map(|(number, bytes)| (*number, bytes.clone()))))
    }

    pub(super) fn save(
        &mut self,
        id: ShardId,
        epoch: Epoch,
        number: u64,
        rows: &[Row],
    ) -> Result<()> {
        let shard = self.owned(id, epoch)?;
        if number > shard.before.1 && number <= shard.head.saves {
            return Ok(());
        }
        if number != shard.head.saves + 1 {
            return Err(Error::Conflict);
        }
        shard.head.saves = number;
        shard.change(rows);
        Ok(())
    }

    /// A save that ended after its first `count` rows.
    pub(super) fn tear(
        &mut self,
        id: ShardId,
        epoch: Epoch,
        number: u64,
        rows: &[Row],
        count: usize,
    ) {
        if let Ok(shard) = self.owned(id, epoch)
            && number == shard.head.saves + 1
        {
            shard.change(rows.get(..count).unwrap_or(rows));
        }
    }

    pub(super) fn saved(
        &mut self,
        id: ShardId,
        (from, to): (Key, Key),
        bytes_max: usize,
    ) -> Result<Vec<(Key, Bytes)>> {
        if from > to {
            return Ok(Vec::new());
        }
        let rows = self.shard(id)?.rows.range(from..=to);
        Ok(up_to(bytes_max, rows.map(|(key, bytes)| (*key, bytes.clone()))))
    }

    pub(super) fn join(&mut self, member: Member, now: Moment) {
        let until = now.plus(self.lease);
        self.members.insert(member.node, Joined { member, until });
    }

    pub(super) fn renew(&mut self, node: NodeId, now: Moment) -> Result<()> {
        let until = now.plus(self.lease);
        if !self.is_live(node, now) {
            self.members.remove(&node);
            return Err(Error::NotFound);
        }
        if let Some(joined) = self.members.get_mut(&node) {
            joined.until = until;
        }
        Ok(())
    }

    pub(super) fn leave(&mut self, node: NodeId) {
        self.members.remove(&node);
        for shard in &mut self.shards {
            if shard.head.owner == Some(node) {
                shard.head.owner = None;
            }
        }
    }

    pub(super) fn view(&self, now: Moment) -> View {
        let live = self.members.values().filter(|joined| joined.until > now);
        let owner = |shard: &Shard| Some((shard.head.owner?, shard.head.epoch));
        View {
            members: live.map(|joined| joined.member.clone()).collect(),
            shards: self.shards.iter().map(owner).collect(),
        }
    }
}

impl Shard {
    fn change(&mut self, rows: &[Row]) {
        for (key, value) in rows {
            match value {
                Some(value) => drop(self.rows.insert(*key, value.clone())),
                None => drop(self.rows.remove(key)),
            }
        }
    }
}

/// Whether a chunk has records, not only progress.
fn has_records(chunk: &Bytes) -> bool {
    frames(&body(chunk)).any(|(_, frame)| matches!(frame, Some((Frame::Append(_), _))))
}

/// About `bytes_max` bytes of what is found, at least one of it.
fn up_to<K>(bytes_max: usize, found: impl Iterator<Item = (K, Bytes)>) -> Vec<(K, Bytes)> {
    let mut bytes = 0;
    let fits = |(_, one): &(K, Bytes)| {
        let is_first = bytes == 0;
        bytes += one.len().max(1);
        is_first || bytes <= bytes_max
    };
    found.take_while(fits).collect()
}
