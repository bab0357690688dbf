//! A store that refuses, loses answers, or does not answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clock::tasks;
use domain::{NodeId, OffsetRange, Progress};
use futures::StreamExt;

use super::bed::{
    FIRST, Needs, SECOND, SHARD, SUBSCRIPTION, append, checkpoint, is_fenced, loaded, no_faults,
    offsets, open, open_with, publish, settle, small, with_store,
};
use super::pool::Pool;
use crate::shared::memory::{Asked, Fault, Faults, Script, Store};
use crate::{Checkpoint, Commit, Error, Kind, Urgency};

#[test]
fn a_checkpoint_while_progress_is_loaded_costs_no_ack() {
    with_store(|store| async move {
        let script = Arc::new(Script::default());
        let node = open_with(&store, 1, &script).await;
        let acked = [FIRST, FIRST.next()];
        let position = node.log().commit(settle(&acked, Urgency::Durable)).await.unwrap();
        let mut progress = Progress::starting_at(FIRST);
        progress.ack(OffsetRange { from: FIRST, to: FIRST.plus(2) });
        script.add(Asked::Saved, Fault::DelayAnswer(SECOND));
        let saved = async {
            tasks::sleep(SECOND / 2).await;
            let progress = vec![(SUBSCRIPTION, progress.clone())];
            let checkpoint = Checkpoint { position, progress, ..Checkpoint::default() };
            node.shard.progress.checkpoint(checkpoint).await.unwrap();
        };
        let (found, ()) = futures::future::join(loaded(&node), saved).await;
        assert_eq!(found, progress);
    });
}

#[test]
fn a_call_that_arrives_again_later_has_no_effect() {
    with_store(|store| async move {
        let script = Arc::new(Script::default());
        let node = open_with(&store, 1, &script).await;
        for time in [1, 10, 60] {
            script.add(Asked::Append, Fault::Twice(time * SECOND));
            script.add(Asked::Save, Fault::Twice(time * SECOND));
            script.add(Asked::Trim, Fault::Twice(time * SECOND));
            script.add(Asked::PutBlocks, Fault::Twice(time * SECOND));
            let end = publish(&node, 20, 300).await;
            checkpoint(&node).await;
            let needed = OffsetRange { from: FIRST, to: end };
            node.log().trim(Arc::new(Needs(vec![needed]))).await.unwrap();
        }
        tasks::sleep(5 * SECOND).await;
        let next = open(&store, 2).await;
        publish(&next, 5, 300).await;
        let (head, chunks) = (store.head(SHARD), store.stored(SHARD));
        store.settle();
        assert_eq!((store.head(SHARD), store.stored(SHARD)), (head, chunks));
        assert_eq!(offsets(&open(&store, 3).await).await.len(), 65);
    });
}

#[test]
fn a_commit_whose_answer_is_lost_is_there_once() {
    for fault in [
        Fault::Refuse,
        Fault::LoseCall,
        Fault::LoseAnswer,
        Fault::Late(SECOND),
        Fault::Delay(10 * SECOND),
        Fault::DelayAnswer(10 * SECOND),
        Fault::Silence,
        Fault::SilenceAfter,
    ] {
        with_store(|store| async move {
            let script = Arc::new(Script::default());
            let node = open_with(&store, 1, &script).await;
            for _ in 0..3 {
                script.add(Asked::Append, fault);
            }
            assert_eq!(publish(&node, 4, 50).await, FIRST.plus(4));
            tasks::sleep(60 * SECOND).await;
            assert_eq!(offsets(&node).await, [1_000, 1_001, 1_002, 1_003]);
            assert_eq!(store.stored(SHARD).len(), 4, "{fault:?}");
            assert_eq!(offsets(&open(&store, 2).await).await.len(), 4);
        });
    }
}

#[test]
fn a_store_that_does_not_answer_stalls_the_shard_until_it_does() {
    with_store(|store| async move {
        let script = Arc::new(Script::default());
        let node = open_with(&store, 1, &script).await;
        for _ in 0..4 {
            script.add(Asked::Append, Fault::Silence);
        }
        let commit = node.log().commit(append(FIRST, &[1], 50));
        assert!(node.log().has_room());
        tasks::sleep(SECOND + Duration::from_millis(1)).await;
        assert_eq!(*node.notes.stalls.lock(), [true]);
        assert!(!node.log().has_room());
        let room = node.log().room();
        commit.await.unwrap();
        assert_eq!(script.left(), 0);
        room.await.unwrap();
        assert_eq!(*node.notes.stalls.lock(), [true, false]);
        assert!(node.notes.failed.lock().is_none());
        node.log().commit(append(FIRST.next(), &[2], 50)).await.unwrap();
        assert_eq!(*node.notes.stalls.lock(), [true, false]);
    });
}

#[test]
fn a_store_that_refuses_stalls_the_shard_as_well() {
    with_store(|store| async move {
        let script = Arc::new(Script::default());
        let node = open_with(&store, 1, &script).await;
        for _ in 0..10 {
            script.add(Asked::Append, Fault::Refuse);
        }
        node.log().commit(append(FIRST, &[1], 50)).await.unwrap();
        assert_eq!(*node.notes.stalls.lock(), [true, false]);
    });
}

#[test]
fn a_fence_is_told_to_each_commit_as_far_as_it_is_known() {
    with_store(|store| async move {
        let script = Arc::new(Script::default());
        let node = open_with(&store, 1, &script).await;
        script.add(Asked::Append, Fault::LoseCall);
        script.add(Asked::Append, Fault::Fence);
        let doubtful = node.log().commit(append(FIRST, &[1], 1_900));
        let queued = node.log().commit(append(FIRST.next(), &[2], 1_900));
        assert!(matches!(doubtful.await, Err(Error::Indeterminate(_))));
        assert!(is_fenced(&queued.await));
        assert!(is_fenced(&node.log().commit(Commit::barrier()).await));
        let script = Arc::new(Script::default());
        let node = open_with(&store, 1, &script).await;
        script.add(Asked::Append, Fault::Fence);
        assert!(is_fenced(&node.log().commit(append(FIRST, &[3], 50)).await));
        assert!(offsets(&open(&store, 1).await).await.is_empty());
    });
}

#[test]
fn the_catalogue_and_the_members_meet_faults_too() {
    Pool::run(1, |pool| async move {
        let store = Store::new(1, Arc::new(pool.clock.clone()));
        let script = Arc::new(Script::default());
        let engine = store.engine(small(), Arc::clone(&script) as Arc<dyn Faults>);
        script.add(Asked::Put, Fault::Refuse);
        script.add(Asked::Put, Fault::LoseAnswer);
        script.add(Asked::Serial, Fault::Delay(SECOND));
        script.add(Asked::Renew, Fault::LoseCall);
        script.add(Asked::Changes, Fault::Refuse);
        let put = |name| engine.catalogue.put(Kind::Topic, name, Bytes::new(), None);
        assert!(matches!(put("a").await, Err(Error::Unavailable(_))));
        assert!(matches!(put("b").await, Err(Error::Indeterminate(_))));
        assert!(matches!(put("b").await, Err(Error::Conflict)), "it had happened");
        let other = store.engine(small(), no_faults());
        assert_eq!(engine.catalogue.serial().await.unwrap(), 1);
        let found = other.catalogue.get(Kind::Topic, "b").await.unwrap();
        assert_eq!(found.name, "b");
        let renewed = engine.members.as_ref().unwrap().renew(NodeId(1)).await;
        assert!(matches!(renewed, Err(Error::Indeterminate(_))));
        let mut changes = engine.catalogue.changes(0);
        let broken = StreamExt::next(&mut changes).await;
        assert!(matches!(broken, Some(Err(Error::Unavailable(_)))));
        assert!(StreamExt::next(&mut changes).await.is_none());
        let mut changes = engine.catalogue.changes(0);
        let change = StreamExt::next(&mut changes).await.unwrap().unwrap();
        assert_eq!(change.0, 1);
        assert_eq!(script.left(), 0);
    });
}
