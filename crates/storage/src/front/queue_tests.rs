use domain::{Message, OffsetRange, ProgressChange, SubscriptionId};
use futures::FutureExt;

use super::*;
use crate::NewRecord;

/// Nothing of its own; groups as a disk has them.
#[derive(Debug, Default)]
struct Blocks;

impl Part for Blocks {
    const HEADER: usize = 32;
    const BLOCK: usize = 4096;
}

const EPOCH: Epoch = Epoch(7);

/// A queue whose owner has `EPOCH`.
fn queue() -> Queue<Blocks> {
    queue_of(1 << 20, 10_000)
}

fn queue_of(tail_bytes: usize, group_bytes_max: usize) -> Queue<Blocks> {
    let queue = Queue::new(ShardId(3), tail_bytes, group_bytes_max, Duration::from_millis(1));
    queue.open(EPOCH).unwrap();
    queue
}

fn append(topic: u64, first: u64, count: usize) -> Append {
    let message = Message { data: vec![0; 1_000].into(), ..Message::default() };
    let record = NewRecord { message, publish_time: Timestamp(first), addressee: None };
    Append { topic: TopicId(topic), first: Offset(first), records: vec![record; count] }
}

fn durable(appends: Vec<Append>) -> Commit {
    Commit { appends, progress: Vec::new(), urgency: Urgency::Durable }
}

fn ride(offset: u64) -> Commit {
    let settled = ProgressChange::Settled(vec![OffsetRange::one(Offset(offset))]);
    let progress = vec![(SubscriptionId(1), settled)];
    Commit { appends: Vec::new(), progress, urgency: Urgency::Ride }
}

fn begin(queue: &Queue<Blocks>, topic: u64, first: u64) -> Claim {
    let topic = Arc::new(Topic::new(TopicId(topic), Offset(first), 0));
    queue.begin(EPOCH, topic).unwrap()
}

fn commit(queue: &Queue<Blocks>, commit: Commit) -> Receipt {
    queue.commit(EPOCH, commit, false, Position(0))
}

fn is_fenced(receipt: &Receipt) -> bool {
    let shard = ShardId(3);
    matches!(receipt.refused(), Some(Error::Fenced { shard: of, epoch: EPOCH }) if *of == shard)
}

#[test]
fn a_later_owner_fences_appends_and_progress_of_the_one_before() {
    let queue = queue();
    assert_eq!(begin(&queue, 1, 100).next, Offset(100));
    assert!(commit(&queue, durable(vec![append(1, 100, 2)])).refused().is_none());
    queue.open(Epoch(9)).unwrap();
    assert!(is_fenced(&commit(&queue, durable(vec![append(1, 102, 1)]))));
    assert!(is_fenced(&commit(&queue, ride(5))));
    assert!(is_fenced(&commit(&queue, Commit::barrier())));
    assert!(is_fenced(&queue.release(EPOCH)));
    assert!(queue.open(Epoch(8)).is_err(), "epochs only grow");
    let unbegun = queue.commit(Epoch(9), durable(vec![append(1, 102, 1)]), false, Position(0));
    assert!(matches!(unbegun.refused(), Some(Error::Misplaced { .. })));
    assert_eq!(queue.take().unwrap().frames.len(), 1, "what was queued before is still written");
}

#[test]
fn beginning_twice_does_nothing_more() {
    let queue = queue();
    begin(&queue, 1, 100);
    let receipt = commit(&queue, durable(vec![append(1, 100, 2)]));
    let again = begin(&queue, 1, 0);
    assert_eq!((again.next, again.last_publish_time), (Offset(102), Timestamp(100)));
    assert!(receipt.refused().is_none());
}

#[test]
fn a_released_queue_takes_no_more_and_writes_what_it_has() {
    let queue = queue();
    let ridden = commit(&queue, ride(1));
    let released = queue.release(EPOCH);
    assert!(released.refused().is_none());
    for late in [ride(2), Commit::barrier()] {
        assert!(matches!(commit(&queue, late).refused(), Some(Error::Unavailable(_))));
    }
    let group = queue.take().unwrap();
    assert_eq!((group.changes.len(), group.answers.len()), (1, 1));
    drop(ridden);
    queue.open(Epoch(8)).unwrap();
    assert!(queue.commit(Epoch(8), ride(3), false, Position(0)).refused().is_none());
}

#[test]
fn a_refused_commit_changes_nothing() {
    let queue = queue();
    begin(&queue, 1, 0);
    let bad = durable(vec![append(1, 0, 2), append(1, 3, 1)]);
    let next = Offset(2);
    assert!(matches!(
        commit(&queue, bad).refused(),
        Some(Error::Misplaced { next: found, .. }) if *found == next
    ));
    let good = durable(vec![append(1, 0, 2), append(1, 2, 1)]);
    assert!(commit(&queue, good).refused().is_none());
    let group = queue.take().unwrap();
    assert_eq!(group.frames.iter().map(|frame| frame.count).sum::<u32>(), 3);
    let full = queue.commit(EPOCH, durable(vec![append(1, 3, 1)]), true, Position(0));
    assert!(matches!(full.refused(), Some(Error::Full)));
    let unknown = commit(&queue, durable(vec![append(2, 0, 1)]));
    assert!(matches!(unknown.refused(), Some(Error::Misplaced { .. })));
}

#[test]
fn commits_share_a_group_up_to_its_bound() {
    let queue = queue();
    begin(&queue, 1, 0);
    let mut receipts = Vec::new();
    for at in 0..6 {
        receipts.push(commit(&queue, durable(vec![append(1, at * 3, 3)])));
    }
    let groups: Vec<_> = (0..3).map(|_| queue.take().unwrap()).collect();
    let answers: Vec<_> = groups.iter().map(|group| group.answers.len()).collect();
    assert_eq!(answers, [2, 2, 2]);
    let before = queue.bytes();
    let left = queue.done(groups[0].queued_bytes);
    assert_eq!(left, before - groups[0].queued_bytes);
}

#[test]
fn a_group_ends_where_its_piece_of_memory_ends() {
    // Pieces are 64 KiB: two commits of 30 KB fit, a third would move them.
    let queue = queue_of(1 << 19, 1 << 20);
    begin(&queue, 1, 0);
    let mut receipts = Vec::new();
    for at in 0..5 {
        receipts.push(commit(&queue, durable(vec![append(1, at * 27, 27)])));
    }
    let groups: Vec<_> = (0..3).map(|_| queue.take().unwrap()).collect();
    let answers: Vec<_> = groups.iter().map(|group| group.answers.len()).collect();
    assert_eq!(answers, [2, 2, 1]);
    assert!(groups.iter().all(|group| group.bytes.len() <= 64 << 10));
    // A commit larger than any piece is not split either.
    receipts.push(commit(&queue, durable(vec![append(1, 5 * 27, 200)])));
    assert_eq!(queue.take().unwrap().frames.iter().map(|frame| frame.count).sum::<u32>(), 200);
}

#[test]
fn a_riding_commit_is_taken_after_the_delay_and_changes_are_merged() {
    let queue = queue();
    for offset in 0..3 {
        assert_eq!(commit(&queue, ride(offset)).wait().unwrap(), Position(0));
    }
    let group = queue.take().unwrap();
    assert_eq!(group.changes.len(), 1, "one frame per subscription and group");
    assert!(group.answers.is_empty());
}

#[test]
fn a_stopped_queue_is_emptied_and_takes_no_more() {
    let queue = queue();
    begin(&queue, 1, 0);
    let receipt = commit(&queue, durable(vec![append(1, 0, 1)]));
    queue.stop(Error::Full);
    assert!(commit(&queue, Commit::barrier()).refused().is_some());
    assert_eq!(queue.take().unwrap().answers.len(), 1);
    assert!(queue.take().is_none());
    drop(receipt);
}

#[test]
fn what_is_refused_is_answered() {
    let queue = queue();
    begin(&queue, 1, 0);
    let receipt = commit(&queue, durable(vec![append(1, 0, 1)]));
    queue.refuse(&Error::NotFound);
    assert!(matches!(receipt.wait(), Err(Error::NotFound)));
    assert!(queue.take().is_none());
}

#[tokio::test]
async fn a_task_gets_what_waits_and_what_comes_and_what_rides() {
    let queue = queue();
    let barrier = commit(&queue, Commit::barrier());
    assert_eq!(queue.next().await.unwrap().answers.len(), 1);
    drop(barrier);
    let mut next = std::pin::pin!(queue.next());
    assert!(next.as_mut().now_or_never().is_none(), "nothing is there");
    drop(commit(&queue, ride(1)));
    assert!(next.as_mut().now_or_never().is_none(), "it may still ride with another");
    let barrier = commit(&queue, Commit::barrier());
    assert_eq!(next.await.unwrap().changes.len(), 1);
    drop((barrier, commit(&queue, ride(2))));
    assert_eq!(queue.next().await.unwrap().changes.len(), 1, "after the delay");
    queue.stop(Error::NotFound);
    assert!(queue.next().await.is_none());
}
