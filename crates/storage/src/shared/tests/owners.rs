//! Owners that open a shard, close it, and take it over.

use std::sync::Arc;

use clock::tasks;
use domain::{NodeId, Offset, OffsetRange, Progress, Timestamp};

use super::bed::{
    FIRST, Needs, Node, SECOND, SHARD, SUBSCRIPTION, TOPIC, append, checkpoint, is_fenced, loaded,
    no_faults, offsets, open, open_with, publish, settle, small, with_store,
};
use super::pool::Pool;
use crate::shared::memory::{Asked, Fault, Script, Store};
use crate::{Checkpoint, Commit, Error, Member, Urgency};

#[test]
fn a_missing_chunk_is_told_with_its_place_and_nothing_is_changed() {
    with_store(|store| async move {
        let node = open(&store, 1).await;
        publish(&node, 5, 100).await;
        node.log().close().await.unwrap();
        let chunks = store.stored(SHARD);
        assert_eq!(chunks.len(), 5);
        for (number, bytes) in chunks {
            store.damage(SHARD, number, None);
            let refused = Node::open(&store, 2, small(), no_faults()).await.map(drop);
            let Err(Error::Corrupt { place, .. }) = refused else { panic!("{refused:?}") };
            assert_eq!(place, format!("chunk {number} of shard 0"));
            assert_eq!(store.head(SHARD).owner, None, "it was given up again");
            store.damage(SHARD, number, Some(bytes));
        }
        assert_eq!(offsets(&open(&store, 3).await).await, [1_000, 1_001, 1_002, 1_003, 1_004]);
    });
}

#[test]
fn a_changed_chunk_is_told_with_its_place() {
    with_store(|store| async move {
        let node = open(&store, 1).await;
        publish(&node, 3, 100).await;
        node.log().close().await.unwrap();
        let mut bytes = store.stored(SHARD)[1].1.to_vec();
        bytes[60] ^= 1;
        store.damage(SHARD, 2, Some(bytes.into()));
        let refused = Node::open(&store, 2, small(), no_faults()).await.map(drop);
        let Err(Error::Corrupt { place, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(place, "chunk 2 of shard 0");
    });
}

#[test]
fn replay_from_a_checkpoint_comes_to_the_same_as_from_the_start() {
    for checkpoints in [vec![], vec![3], vec![0, 7, 19], (0..20).collect()] {
        with_store(|store| async move {
            let node = open(&store, 1).await;
            let mut progress = Progress::starting_at(FIRST);
            for round in 0..20 {
                let end = publish(&node, 3, 300).await;
                let acked = Offset(end.0 - 2);
                node.log().commit(settle(&[acked], Urgency::Durable)).await.unwrap();
                progress.ack(OffsetRange::one(acked));
                if checkpoints.contains(&round) {
                    let position = node.log().position();
                    let progress = vec![(SUBSCRIPTION, progress.clone())];
                    let checkpoint = Checkpoint { position, progress, ..Checkpoint::default() };
                    node.shard.progress.checkpoint(checkpoint).await.unwrap();
                }
            }
            node.log().close().await.unwrap();
            let node = open(&store, 2).await;
            assert_eq!(offsets(&node).await, (1_000..1_060).collect::<Vec<_>>());
            assert_eq!(loaded(&node).await, progress);
            let claim = node.log().begin(TOPIC, FIRST).await.unwrap();
            assert_eq!((claim.next, claim.last_publish_time.0), (FIRST.plus(60), 10_590));
            let found = node.log().offset_at(TOPIC, Timestamp(10_305)).await.unwrap();
            assert_eq!(found, Offset(1_031));
        });
    }
}

#[test]
fn after_a_last_checkpoint_the_next_owner_reads_no_chunk() {
    with_store(|store| async move {
        let node = open(&store, 1).await;
        publish(&node, 30, 300).await;
        checkpoint(&node).await;
        node.log().close().await.unwrap();
        let script = Arc::new(Script::default());
        script.add(Asked::Read, Fault::Refuse);
        let node = open_with(&store, 2, &script).await;
        assert_eq!(script.left(), 1, "no chunk was read");
        script.clear();
        assert_eq!(offsets(&node).await.len(), 30);
    });
}

#[test]
fn nothing_through_an_earlier_handle_counts() {
    with_store(|store| async move {
        let old = open(&store, 1).await;
        let end = publish(&old, 30, 300).await;
        checkpoint(&old).await;
        let spare = open(&store, 2).await;
        let other = open(&store, 3).await;
        let (head, chunks) = (store.head(SHARD), store.stored(SHARD));
        // It still believes that it is the owner, so the store has to tell.
        assert!(is_fenced(&spare.log().trim(Arc::new(Needs(Vec::new()))).await));
        let ack = old.log().commit(settle(&[FIRST], Urgency::Durable));
        let appended = old.log().commit(append(end, &[1], 20));
        assert!(is_fenced(&ack.await), "progress alone");
        assert!(is_fenced(&appended.await));
        let position = old.log().position();
        let late = Checkpoint { position, ..Checkpoint::default() };
        assert!(is_fenced(&old.shard.progress.checkpoint(late).await));
        assert!(is_fenced(&old.log().trim(Arc::new(Needs(Vec::new()))).await));
        assert!(matches!(*old.notes.failed.lock(), Some(Error::Fenced { .. })));
        assert!(is_fenced(&old.log().room().await));
        assert_eq!((store.head(SHARD), store.stored(SHARD)), (head, chunks));
        assert_eq!(offsets(&other).await.len(), 30);
        assert!(!loaded(&other).await.is_acked(FIRST));
        assert!(other.notes.failed.lock().is_none());
    });
}

#[test]
fn the_owner_is_asked_for_a_checkpoint_before_the_replay_gets_long() {
    with_store(|store| async move {
        let node = open(&store, 1).await;
        publish(&node, 100, 500).await;
        let pressed = node.notes.pressed.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(pressed, 3, "each 16 KiB");
    });
}

#[test]
fn a_shard_of_a_live_node_is_not_taken() {
    Pool::run(1, |pool| async move {
        let store = Store::new(2, Arc::new(pool.clock.clone()));
        let member = |node| Member {
            node: NodeId(node),
            address: format!("node-{node}:8085"),
            labels: Vec::new(),
        };
        let one = open(&store, 1).await;
        let members = one.engine.members.clone().unwrap();
        members.join(member(1)).await.unwrap();
        members.join(member(2)).await.unwrap();
        assert_eq!(members.lease(), 4 * SECOND);
        let view = members.view().await.unwrap();
        assert_eq!(view.members, [member(1), member(2)]);
        assert_eq!(view.shards, [Some((NodeId(1), one.shard.epoch)), None]);
        let refused = Node::open(&store, 2, small(), no_faults()).await.map(drop);
        assert!(matches!(refused, Err(Error::Conflict)), "{refused:?}");
        let again = open(&store, 1).await;
        assert!(again.shard.epoch > one.shard.epoch, "a node may take what it has");
        tasks::sleep(3 * SECOND).await;
        members.renew(NodeId(1)).await.unwrap();
        tasks::sleep(3 * SECOND).await;
        assert!(matches!(members.renew(NodeId(2)).await, Err(Error::NotFound)));
        let refused = Node::open(&store, 2, small(), no_faults()).await.map(drop);
        assert!(matches!(refused, Err(Error::Conflict)));
        tasks::sleep(2 * SECOND).await;
        assert_eq!(members.view().await.unwrap().members, []);
        let two = open(&store, 2).await;
        assert!(is_fenced(&again.log().commit(settle(&[FIRST], Urgency::Durable)).await));
        members.join(member(2)).await.unwrap();
        members.leave(NodeId(2)).await.unwrap();
        assert_eq!(members.view().await.unwrap().shards, [None, None]);
        drop((two, open(&store, 3).await));
    });
}

#[test]
fn a_closed_shard_can_be_opened_at_once_by_anyone() {
    Pool::run(1, |pool| async move {
        let store = Store::new(1, Arc::new(pool.clock.clone()));
        for node in 1..=1_000 {
            let one = open(&store, node).await;
            let member = Member { node: NodeId(node), address: String::new(), labels: Vec::new() };
            one.engine.members.as_ref().unwrap().join(member).await.unwrap();
            one.log().commit(settle(&[FIRST.plus(node)], Urgency::Ride)).await.unwrap();
            one.log().close().await.unwrap();
            one.log().close().await.unwrap();
            let after = one.log().commit(Commit::barrier()).await;
            assert!(matches!(after, Err(Error::Unavailable(_))), "{after:?}");
            assert!(one.notes.failed.lock().is_none());
        }
        tasks::sleep(10 * SECOND).await;
        assert_eq!(pool.tasks(), 0, "nothing is left behind");
        let last = open(&store, 2_000).await;
        let progress = loaded(&last).await;
        assert!((1..=1_000).all(|node| progress.is_acked(FIRST.plus(node))));
    });
}
