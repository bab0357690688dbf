//! What trims and saves leave behind.

use std::sync::Arc;

use clock::tasks;
use domain::{Offset, OffsetRange, Timestamp, TopicId};
use futures::FutureExt;

use super::bed::{
    FIRST, Needs, Node, SECOND, SHARD, TOPIC, WIDE, append, checkpoint, is_fenced, kept, no_faults,
    offsets, open, open_with, publish, read_all, record, settle, small, with_store,
};
use crate::shared::Options;
use crate::shared::memory::{Asked, Fault, Script};
use crate::{Append, Checkpoint, Keep, Need, Urgency};

#[test]
fn a_chunk_that_is_damaged_meanwhile_costs_its_own_records_only() {
    with_store(|store| async move {
        let node = open(&store, 1).await;
        publish(&node, 60, 500).await;
        let mut bytes = store.stored(SHARD)[4].1.to_vec();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        store.damage(SHARD, 5, Some(bytes.into()));
        store.damage(SHARD, 9, None);
        let (records, damaged) = read_all(node.log(), WIDE).await.unwrap();
        assert_eq!((records.len(), damaged), (58, vec![FIRST.plus(4), FIRST.plus(8)]));
        // They are told to be damaged after they were moved, too.
        checkpoint(&node).await;
        let all = OffsetRange { from: FIRST, to: FIRST.plus(60) };
        let trimmed = node.log().trim(Arc::new(Needs(vec![all]))).await.unwrap();
        assert_eq!(trimmed.records_damaged, 2);
        let (records, damaged) = read_all(node.log(), WIDE).await.unwrap();
        assert_eq!((records.len(), damaged), (58, vec![FIRST.plus(4), FIRST.plus(8)]));
    });
}

#[test]
fn what_is_needed_is_there_after_trims_and_take_overs() {
    with_store(|store| async move {
        let mut needed: Vec<OffsetRange> = Vec::new();
        for round in 0..8 {
            let node = open(&store, round + 1).await;
            let from = node.log().begin(TOPIC, FIRST).await.unwrap().next;
            let end = publish(&node, 40, 200).await;
            needed.extend((from.0..end.0).step_by(5).map(|o| OffsetRange::one(Offset(o))));
            checkpoint(&node).await;
            let trimmed = node.log().trim(Arc::new(Needs(needed.clone()))).await.unwrap();
            assert!(trimmed.bytes_freed > 0 && trimmed.records_moved > 0, "{trimmed:?}");
            assert!(store.stored(SHARD).len() < 30, "{}", store.stored(SHARD).len());
            for reader in [node, open(&store, 100 + round).await] {
                let (found, damaged) = read_all(reader.log(), WIDE).await.unwrap();
                assert_eq!(damaged, []);
                for range in &needed {
                    let record = found.iter().find(|record| record.offset == range.from);
                    let body = kept(range.from, range.from.0, 200);
                    assert_eq!(record.unwrap().body, body);
                }
                let first = found.first().unwrap().offset;
                let earliest = reader.log().offset_at(TOPIC, Timestamp(0)).await.unwrap();
                assert_eq!(earliest, first);
            }
            needed.drain(..needed.len() / 2);
        }
        assert!(store.blocks(SHARD) < 12, "{} blocks", store.blocks(SHARD));
        let node = open(&store, 1_000).await;
        checkpoint(&node).await;
        node.log().trim(Arc::new(Needs(Vec::new()))).await.unwrap();
        assert_eq!(store.blocks(SHARD), 0);
        let claim = node.log().begin(TOPIC, Offset(5)).await.unwrap();
        assert_eq!(claim.next, FIRST.plus(320), "offsets are never given again");
    });
}

#[test]
fn an_ack_that_is_not_durable_costs_no_record() {
    with_store(|store| async move {
        let script = Arc::new(Script::default());
        let node = open_with(&store, 1, &script).await;
        publish(&node, 40, 300).await;
        checkpoint(&node).await;
        for _ in 0..100 {
            script.add(Asked::Append, Fault::Refuse);
        }
        let ack = node.log().commit(settle(&[FIRST], Urgency::Durable));
        let trimmed = node.log().trim(Arc::new(Needs(Vec::new())));
        tasks::sleep(10 * SECOND).await;
        let other = open(&store, 2).await;
        script.clear();
        assert!(is_fenced(&ack.await));
        assert!(is_fenced(&trimmed.await));
        assert_eq!(offsets(&other).await.len(), 40);
    });
}

/// Knows only that a topic is gone.
struct Gone(TopicId);

impl Keep for Gone {
    fn needed(&self, topic: TopicId, _: OffsetRange) -> Need {
        if topic == self.0 { Need::Gone } else { Need::Unknown }
    }
}

#[test]
fn of_an_unknown_topic_nothing_is_dropped_and_one_that_is_gone_is_forgotten() {
    with_store(|store| async move {
        let node = open(&store, 1).await;
        let gone = TopicId(8);
        node.log().begin(gone, FIRST).await.unwrap();
        for number in 0..40 {
            let first = FIRST.plus(number);
            let records = vec![record(number, 100)];
            let mut commit = append(first, &[number], 100);
            commit.appends.push(Append { topic: gone, first, records });
            node.log().begin(TOPIC, FIRST).await.unwrap();
            node.log().commit(commit).await.unwrap();
        }
        node.log().close().await.unwrap();
        let node = open(&store, 2).await;
        checkpoint(&node).await;
        let trimmed = node.log().trim(Arc::new(Gone(gone))).await.unwrap();
        assert!(trimmed.records_dropped > 20 && trimmed.records_moved > 20, "{trimmed:?}");
        assert_eq!(offsets(&node).await.len(), 40);
        publish(&node, 20, 200).await;
        checkpoint(&node).await;
        node.log().trim(Arc::new(Gone(gone))).await.unwrap();
        node.log().close().await.unwrap();
        let node = open(&store, 3).await;
        assert_eq!(offsets(&node).await.len(), 60);
        assert_eq!(node.log().end(gone), Offset(0), "it was forgotten");
    });
}

#[test]
fn the_log_waits_for_a_trim_at_its_bound() {
    with_store(|store| async move {
        let options = Options { log_bytes_max: 10 << 10, ..small() };
        let node = Node::open(&store, 1, options, no_faults()).await.unwrap();
        publish(&node, 30, 500).await;
        assert!(!node.log().has_room());
        let mut room = node.log().room();
        assert!((&mut room).now_or_never().is_none());
        assert!(node.notes.pressed.load(std::sync::atomic::Ordering::SeqCst) > 0);
        checkpoint(&node).await;
        node.log().trim(Arc::new(Needs(Vec::new()))).await.unwrap();
        room.await.unwrap();
    });
}

#[test]
fn a_save_that_ends_in_the_middle_does_no_harm() {
    for rows in 0..8 {
        with_store(|store| async move {
            let mut nodes = 0;
            for round in 0..6 {
                // The checkpoint is one save, the trim is two: the first only reserves numbers.
                for torn in [1, 2, 3] {
                    nodes += 1;
                    let script = Arc::new(Script::default());
                    let node = open_with(&store, nodes, &script).await;
                    let end = publish(&node, 20, 300).await;
                    if torn > 1 {
                        checkpoint(&node).await;
                    }
                    if torn == 3 {
                        script.add(Asked::Save, Fault::None);
                    }
                    script.add(Asked::Save, Fault::Torn(rows));
                    script.add(Asked::Save, Fault::Fence);
                    let position = node.log().position();
                    let last = Checkpoint { position, ..Checkpoint::default() };
                    let needed = Needs(vec![OffsetRange { from: FIRST, to: end }]);
                    if torn == 1 {
                        assert!(is_fenced(&node.shard.progress.checkpoint(last).await));
                    } else {
                        assert!(is_fenced(&node.log().trim(Arc::new(needed)).await));
                    }
                    let next = open(&store, 1_000 + nodes).await;
                    let expected = 60 * round + 20 * torn;
                    assert_eq!(offsets(&next).await.len() as u64, expected, "{rows} {torn}");
                }
            }
            let node = open(&store, 5_000).await;
            checkpoint(&node).await;
            node.log().trim(Arc::new(Needs(Vec::new()))).await.unwrap();
            checkpoint(&node).await;
            node.log().trim(Arc::new(Needs(Vec::new()))).await.unwrap();
            assert_eq!(store.blocks(SHARD), 0);
        });
    }
}
