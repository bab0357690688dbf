use domain::{Message, OffsetRange, ProgressChange, SubscriptionId};

use super::*;
use crate::NewRecord;

fn queue() -> Queue {
    Queue::new(1 << 20, 10_000, Duration::from_millis(1))
}

fn append(topic: u64, epoch: Epoch, first: u64, count: usize) -> Append {
    let message = Message { data: vec![0; 1_000].into(), ..Message::default() };
    let record = NewRecord { message, publish_time: Timestamp(first), addressee: None };
    Append { topic: TopicId(topic), epoch, first: Offset(first), records: vec![record; count] }
}

fn durable(appends: Vec<Append>) -> Commit {
    Commit { appends, progress: Vec::new(), urgency: Urgency::Durable }
}

fn claim(queue: &Queue, topic: u64, first: u64) -> Claim {
    queue.claim(Arc::new(Topic::new(TopicId(topic), Offset(first), 0)), Epoch(7))
}

fn commit(queue: &Queue, commit: Commit) -> Receipt {
    queue.commit(commit, false, Position(0))
}

#[test]
fn a_claim_fences_the_one_before() {
    let queue = queue();
    let first = claim(&queue, 1, 100);
    assert_eq!((first.epoch, first.next), (Epoch(7), Offset(100)));
    assert!(commit(&queue, durable(vec![append(1, first.epoch, 100, 2)])).refused().is_none());
    let second = claim(&queue, 1, 0);
    assert_eq!((second.epoch, second.next), (Epoch(8), Offset(102)));
    assert_eq!(second.last_publish_time, Timestamp(100));
    let refused = commit(&queue, durable(vec![append(1, first.epoch, 102, 1)]));
    assert!(matches!(refused.refused(), Some(Error::Fenced { epoch: Epoch(8), .. })));
    assert!(commit(&queue, durable(vec![append(1, second.epoch, 102, 1)])).refused().is_none());
}

#[test]
fn a_refused_commit_changes_nothing() {
    let queue = queue();
    let claim = claim(&queue, 1, 0);
    let bad = durable(vec![append(1, claim.epoch, 0, 2), append(1, claim.epoch, 3, 1)]);
    let next = Offset(2);
    assert!(matches!(
        commit(&queue, bad).refused(),
        Some(Error::Fenced { next: found, .. }) if *found == next
    ));
    let good = durable(vec![append(1, claim.epoch, 0, 2), append(1, claim.epoch, 2, 1)]);
    assert!(commit(&queue, good).refused().is_none());
    let group = queue.take().unwrap();
    assert_eq!(group.frames.iter().map(|frame| frame.count).sum::<u32>(), 3);
    let full = queue.commit(durable(vec![append(1, claim.epoch, 3, 1)]), true, Position(0));
    assert!(matches!(full.refused(), Some(Error::Full)));
    let unknown = commit(&queue, durable(vec![append(2, claim.epoch, 0, 1)]));
    assert!(matches!(unknown.refused(), Some(Error::Fenced { .. })));
}

#[test]
fn commits_share_a_group_up_to_its_bound() {
    let queue = queue();
    let claim = claim(&queue, 1, 0);
    let mut receipts = Vec::new();
    for at in 0..6 {
        receipts.push(commit(&queue, durable(vec![append(1, claim.epoch, at * 3, 3)])));
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
    let queue = Queue::new(1 << 19, 1 << 20, Duration::from_millis(1));
    let claim = claim(&queue, 1, 0);
    let mut receipts = Vec::new();
    for at in 0..5 {
        receipts.push(commit(&queue, durable(vec![append(1, claim.epoch, at * 27, 27)])));
    }
    let groups: Vec<_> = (0..3).map(|_| queue.take().unwrap()).collect();
    let answers: Vec<_> = groups.iter().map(|group| group.answers.len()).collect();
    assert_eq!(answers, [2, 2, 1]);
    assert!(groups.iter().all(|group| group.bytes.len() <= 64 << 10));
    // A commit larger than any piece is not split either.
    receipts.push(commit(&queue, durable(vec![append(1, claim.epoch, 5 * 27, 200)])));
    assert_eq!(queue.take().unwrap().frames.iter().map(|frame| frame.count).sum::<u32>(), 200);
}

#[test]
fn a_riding_commit_is_taken_after_the_delay_and_changes_are_merged() {
    let queue = queue();
    for offset in 0..3 {
        let settled = ProgressChange::Settled(vec![OffsetRange::one(Offset(offset))]);
        let progress = vec![(SubscriptionId(1), settled)];
        let ride = Commit { appends: Vec::new(), progress, urgency: Urgency::Ride };
        assert_eq!(commit(&queue, ride).wait().unwrap(), Position(0));
    }
    let group = queue.take().unwrap();
    assert_eq!(group.changes.len(), 1, "one frame per subscription and group");
    assert!(group.answers.is_empty());
}

#[test]
fn a_stopped_queue_is_emptied_and_takes_no_more() {
    let queue = queue();
    let claim = claim(&queue, 1, 0);
    let receipt = commit(&queue, durable(vec![append(1, claim.epoch, 0, 1)]));
    queue.stop(Error::Full);
    assert!(commit(&queue, Commit::barrier()).refused().is_some());
    assert_eq!(queue.take().unwrap().answers.len(), 1);
    assert!(queue.take().is_none());
    drop(receipt);
}

#[test]
fn what_is_refused_is_answered() {
    let queue = queue();
    let claim = claim(&queue, 1, 0);
    let receipt = commit(&queue, durable(vec![append(1, claim.epoch, 0, 1)]));
    queue.refuse(&Error::NotFound);
    assert!(matches!(receipt.wait(), Err(Error::NotFound)));
    assert!(queue.take().is_none());
}
