//! When what is committed becomes durable, visible and answered (LOG-2, LOG-4, LOG-5).

use std::time::Duration;

use domain::{OffsetRange, Progress, ProgressChange, SubscriptionId};
use futures::FutureExt;
use storage::disk::{Durability, Options};
use storage::{Checkpoint, Commit, ReadLimit, TailRead, Urgency};
use testkit::disk::{Call, Traced};

use crate::bed::{Bed, tiny};
use crate::owner::Owner;
use crate::script::{self, Ears};

const WIDE: ReadLimit = ReadLimit { records: 1_000, bytes: 1 << 20 };

/// A fresh store with the script's topics, and one commit behind it.
async fn started(options: Options) -> (Bed, Owner) {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open_with(options).expect("a fresh store"));
    script::set_up(&mut owner).await.expect("a working store");
    (bed, owner)
}

fn roomy() -> Options {
    Options { group_bytes_max: 4 << 20, wal_segment_bytes: 1 << 20, ..tiny() }
}

/// Calls on the log's files since call `from`.
fn log_calls(bed: &Bed, from: u64, call: Call) -> Vec<Traced> {
    let matches = |traced: &Traced| {
        traced.number > from && traced.call == call && traced.name.starts_with("wal/")
    };
    bed.disk.trace().into_iter().filter(matches).collect()
}

#[tokio::test]
async fn a_record_is_visible_only_after_its_group_is_synced() {
    let (bed, mut owner) = started(tiny()).await;
    let ears = Ears::on(&owner);
    owner.publish(0, &[10]).await.expect("published");
    let (topic, end) = (owner.topics[0].id, owner.topics[0].next);
    bed.disk.hold_syncs("wal/");
    let commit = owner.queue(&[(0, &[20])], Vec::new(), Urgency::Durable);
    bed.disk.wait_for_held_sync();
    let tail = owner.engine.log.read_tail(topic, end, WIDE);
    assert!(matches!(tail, TailRead::AtEnd), "{tail:?}");
    let read = owner.engine.log.read(topic, end, WIDE).await.expect("a read");
    assert!(read.records.is_empty() && read.covered.is_empty(), "{read:?}");
    assert_eq!(owner.engine.log.end(topic), end);
    ears.hears_of(topic, end).await;
    let mut waiting = Box::pin(owner.settle(commit));
    assert!((&mut waiting).now_or_never().is_none(), "answered before it was synced");
    bed.disk.release();
    waiting.await.expect("published");
    assert_eq!(owner.engine.log.end(topic), end.next());
    ears.hears_of(topic, end.next()).await;
    bed.close();
}

#[tokio::test]
async fn all_commits_queued_during_a_sync_share_the_next_one() {
    let (bed, mut owner) = started(roomy()).await;
    owner.publish(0, &[10]).await.expect("published");
    bed.disk.hold_syncs("wal/");
    let from = bed.disk.calls();
    let mut queued = vec![owner.queue(&[(0, &[20])], Vec::new(), Urgency::Durable)];
    bed.disk.wait_for_held_sync();
    for size in 0..50 {
        queued.push(owner.queue(&[(size % 3, &[size])], Vec::new(), Urgency::Durable));
    }
    bed.disk.release();
    for pending in queued {
        owner.settle(pending).await.expect("published");
    }
    assert_eq!(log_calls(&bed, from, Call::Sync).len(), 2, "one for the first, one for the rest");
    assert_eq!(log_calls(&bed, from, Call::Write).len(), 2);
    bed.close();
}

#[tokio::test]
async fn a_ride_commit_is_synced_without_anyone_else() {
    let (bed, mut owner) = started(tiny()).await;
    owner.publish(0, &[10, 10]).await.expect("published");
    bed.disk.hold_syncs("wal/");
    owner.ack(0, &[0], Urgency::Ride).await.expect("taken");
    bed.disk.wait_for_held_sync();
    bed.disk.release();
    bed.close();
}

#[tokio::test]
async fn a_ride_commit_wakes_nobody_and_goes_with_the_next_durable_one() {
    let (bed, mut owner) =
        started(Options { ride_delay: Duration::from_secs(3_600), ..tiny() }).await;
    owner.publish(0, &[10, 10]).await.expect("published");
    let from = bed.disk.calls();
    owner.ack(0, &[0], Urgency::Ride).await.expect("taken");
    assert_eq!(log_calls(&bed, from, Call::Write), []);
    owner.publish(1, &[10]).await.expect("published");
    assert_eq!(log_calls(&bed, from, Call::Sync).len(), 1);
    let mark = owner.history.mark();
    let (history, database) = (owner.history, bed.database());
    bed.close();
    let left = Bed::of(bed.disk.power_cut(), &database);
    history.check(&left.open().expect("it opens"), mark).await;
}

#[tokio::test]
async fn without_syncs_only_the_system_is_trusted() {
    let (bed, mut owner) = started(Options { durability: Durability::Os, ..roomy() }).await;
    let from = bed.disk.calls();
    owner.publish(0, &[10, 10]).await.expect("published");
    assert_eq!(log_calls(&bed, from, Call::Write).len(), 1);
    assert_eq!(log_calls(&bed, from, Call::Sync), []);
    let warm = Bed::of(bed.disk.fork(), &bed.database());
    owner.history.check(&warm.open().expect("it opens"), owner.history.mark()).await;
}

#[tokio::test]
async fn changes_of_one_subscription_share_a_frame() {
    let (bed, mut owner) = started(roomy()).await;
    for _ in 0..20 {
        owner.publish(0, &[1; 100]).await.expect("published");
    }
    bed.disk.hold_syncs("wal/");
    let first = owner.queue(&[(0, &[20])], Vec::new(), Urgency::Durable);
    bed.disk.wait_for_held_sync();
    let from = bed.disk.calls();
    for _ in 0..2_000 {
        owner.ack(0, &[0], Urgency::Ride).await.expect("taken");
    }
    bed.disk.release();
    owner.settle(first).await.expect("published");
    let barrier = owner.queue(&[], Vec::new(), Urgency::Durable);
    owner.settle(barrier).await.expect("durable");
    let bytes: u64 = log_calls(&bed, from, Call::Write).iter().map(|call| call.length).sum();
    assert!(bytes <= 8_192, "{bytes} bytes for acks that one frame holds");
    owner.history.check(&owner.engine, owner.history.mark()).await;
    bed.close();
}

#[tokio::test]
async fn frames_of_unknown_and_forgotten_subscriptions_are_ignored() {
    let (bed, mut owner) = started(tiny()).await;
    owner.publish(0, &[10; 5]).await.expect("published");
    owner.ack(0, &[0], Urgency::Durable).await.expect("acked");
    let settled = |offset| ProgressChange::Settled(vec![OffsetRange::one(offset)]);
    let at = owner.topics[0].first;
    let (unknown, forgotten) = (SubscriptionId(1 << 40), SubscriptionId(1 << 41));
    let progress = vec![(unknown, settled(at)), (forgotten, settled(at))];
    let commit = Commit { appends: Vec::new(), progress, urgency: Urgency::Durable };
    let position = owner.engine.log.commit(commit.clone()).await.expect("taken");
    let known = owner.subscriptions.iter();
    let progress = known.map(|known| (known.id, known.progress())).collect();
    let gone = Checkpoint { position, progress, forgotten: vec![forgotten], clock: None };
    owner.engine.progress.checkpoint(gone).await.expect("a checkpoint");
    owner.engine.log.commit(commit).await.expect("taken");
    let (mark, history) = (owner.history.mark(), owner.history);
    bed.close();
    let left = Bed::of(bed.disk.power_cut(), &bed.database());
    let recovered = left.open().expect("it opens");
    history.check(&recovered, mark).await;
    let start = Progress::starting_at(at);
    let never = recovered.progress.load_one(SubscriptionId(1 << 42), start.clone()).await;
    assert_eq!(never.expect("loads"), start);
}
