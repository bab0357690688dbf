//! A disk without space: messages are refused, everything else goes on (FAULT-2).

use std::time::Duration;

use futures::FutureExt;
use storage::{Error, Urgency};
use testkit::disk::Cut;

use crate::bed::Bed;
use crate::film::recovers;
use crate::owner::Owner;
use crate::script::{self, Ears};

const CAPACITY: u64 = 1 << 20;

/// A store that has been filled until it refused a message.
async fn filled() -> (Bed, Owner, std::sync::Arc<Ears>) {
    let bed = Bed::new();
    bed.disk.set_capacity(Some(CAPACITY));
    let mut owner = Owner::new(bed.open().expect("a fresh store"));
    let ears = Ears::on(&owner);
    script::set_up(&mut owner).await.expect("a working store");
    for number in 0..1_000 {
        if let Err(error) = owner.publish(1, &[3_000; 4]).await {
            assert!(matches!(error, Error::Full), "{error:?}");
            return (bed, owner, ears);
        }
        if number % 4 == 3 {
            owner.checkpoint().await.expect("a checkpoint");
            owner.trim().await.expect("a trim");
        }
    }
    panic!("never full, {} bytes used", bed.disk.used());
}

/// Publishes again and again until it is taken. Nothing tells when space is back, so this looks.
async fn publish_when_possible(owner: &mut Owner) {
    let taken = async {
        while let Err(error) = owner.publish(1, &[100]).await {
            assert!(matches!(error, Error::Full), "{error:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let timely = tokio::time::timeout(Duration::from_secs(20), taken).await;
    assert!(timely.is_ok(), "messages are still refused");
}

/// Checks that `room` says the same as `commit`. What an engine holds in store may give space for
/// a few more messages, so the disk is filled until both say no.
async fn check_room_is_refused(owner: &mut Owner) {
    for _ in 0..100 {
        let refused = owner.publish(1, &[3_000; 4]).await.is_err();
        let room = owner.engine.log.room().now_or_never();
        if refused && matches!(room, Some(Err(Error::Full))) && !owner.engine.log.has_room() {
            return;
        }
    }
    panic!("messages are refused, but there is said to be room");
}

async fn check_nothing_lost(bed: &Bed, owner: Owner) {
    let history = owner.history;
    bed.close();
    bed.disk.set_capacity(None);
    for cut in [Cut::LosesUnsynced, Cut::LosesNothing] {
        recovers(&bed.after(cut), &history, history.mark()).await.expect("nothing is lost");
    }
}

#[tokio::test]
async fn a_full_disk_refuses_messages_and_takes_all_else() {
    let (bed, mut owner, ears) = filled().await;
    check_room_is_refused(&mut owner).await;
    // Enough to fill the log several times: it must be recycled while the disk is full.
    for number in 0..200 {
        let subscription = number % 2;
        let urgency = if number % 5 == 0 { Urgency::Ride } else { Urgency::Durable };
        owner.ack(if subscription == 0 { 1 } else { 3 }, &[7], urgency).await.expect("an ack");
        if number % 20 == 19 {
            owner.define(&format!("schema {number}")).await.expect("a definition");
            owner.checkpoint().await.expect("a checkpoint");
            owner.trim().await.expect("a trim");
        }
    }
    assert_eq!(ears.times_failed(), 0, "a full disk is no failure");
    check_nothing_lost(&bed, owner).await;
}

#[tokio::test]
async fn messages_are_taken_again_once_acks_have_freed_space() {
    let (bed, mut owner, ears) = filled().await;
    for subscription in [1, 3] {
        script::ack_all(&mut owner, subscription).await.expect("acked");
    }
    for _ in 0..3 {
        owner.checkpoint().await.expect("a checkpoint");
        owner.trim().await.expect("a trim");
    }
    publish_when_possible(&mut owner).await;
    for _ in 0..10 {
        owner.publish(1, &[3_000; 4]).await.expect("space enough");
    }
    assert_eq!(ears.times_failed(), 0);
    check_nothing_lost(&bed, owner).await;
}

#[tokio::test]
async fn messages_are_taken_again_once_others_have_freed_space() {
    let (bed, mut owner, ears) = filled().await;
    bed.disk.set_capacity(Some(2 * CAPACITY));
    publish_when_possible(&mut owner).await;
    owner.publish(1, &[3_000; 4]).await.expect("space enough");
    assert_eq!(ears.times_failed(), 0);
    check_nothing_lost(&bed, owner).await;
}

#[tokio::test]
async fn what_was_queued_behind_a_refused_message_is_refused_too() {
    let bed = Bed::new();
    bed.disk.set_capacity(Some(CAPACITY));
    let mut owner = Owner::new(bed.open().expect("a fresh store"));
    script::set_up(&mut owner).await.expect("a working store");
    let mut refused = 0;
    while refused < 40 {
        let mut queued = Vec::new();
        for topic in [0, 1, 1, 0, 1, 1, 2, 1] {
            queued.push(owner.queue(&[(topic, &[3_000; 2])], Vec::new(), Urgency::Durable));
        }
        for pending in queued {
            let refusal = owner.settle(pending).await.err();
            refused += usize::from(refusal.is_some());
            let expected = matches!(refusal, None | Some(Error::Full | Error::Misplaced { .. }));
            assert!(expected, "{refusal:?}");
        }
        owner.checkpoint().await.expect("a checkpoint");
        owner.trim().await.expect("a trim");
    }
    script::ack_all(&mut owner, 0).await.expect("acked");
    bed.disk.set_capacity(Some(2 * CAPACITY));
    publish_when_possible(&mut owner).await;
    check_nothing_lost(&bed, owner).await;
}

#[tokio::test]
async fn a_full_store_opens_and_frees_itself() {
    let (bed, owner, _ears) = filled().await;
    let history = owner.history;
    bed.close();
    let engine = bed.open().expect("a full store opens");
    history.check(&engine, history.mark()).await;
}
