//! Shards: which log a topic is in.

use crate::TopicName;

/// One log of a store, with its own group commit, checkpoint and owner. Counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u32);

impl ShardId {
    /// The shard of a topic, in a store of `count` shards. The same for ever: a topic of that name
    /// always goes on where an earlier one ended, so its message ids never come again. Its
    /// subscriptions and snapshots are in the same shard.
    pub fn of(topic: &TopicName, count: u32) -> Self {
        // FNV-1a, with its bits mixed so that the low ones depend on all of them.
        const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0100_0000_01b3;
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
        let hash = topic.as_str().bytes().fold(BASIS, step);
        let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let shard = (mixed >> 32) % u64::from(count.max(1));
        Self(u32::try_from(shard).unwrap_or(0))
    }
}

/// One life of one process that runs shards. A process that starts again is another node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn topic(number: u32) -> TopicName {
        TopicName::parse("topic", &format!("projects/p/topics/topic-{number}")).unwrap()
    }

    #[test]
    fn a_name_leads_to_the_same_shard_for_ever() {
        let shards: Vec<u32> = (0..8).map(|number| ShardId::of(&topic(number), 32).0).collect();
        assert_eq!(shards, PINNED);
        assert!((0..100).all(|number| ShardId::of(&topic(number), 1) == ShardId(0)));
    }

    /// What stores in use depend on.
    const PINNED: [u32; 8] = [30, 22, 31, 0, 21, 19, 16, 21];

    #[test]
    fn topics_are_spread_evenly() {
        let mut counts = BTreeMap::new();
        for number in 0..32_000 {
            *counts.entry(ShardId::of(&topic(number), 32)).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 32);
        assert!(counts.values().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }
}
