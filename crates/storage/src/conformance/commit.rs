//! `MessageLog::commit`, `room`, `position` and the listener.

use domain::{Offset, SubscriptionId};
use futures::FutureExt;

use super::support::{
    FIRST, Held, Notes, Topic, appends, hold, misplaced, refused, same, settled, settles,
};
use super::{Case, Check, cases};
use crate::{Commit, Urgency};

pub(super) const CASES: &[Case<Held>] = cases![
    a_committed_record_comes_back_byte_for_byte,
    a_commit_over_several_topics_takes_effect_as_a_whole,
    an_append_at_another_offset_than_the_next_is_misplaced,
    an_append_to_a_topic_that_was_not_begun_is_misplaced,
    a_refusal_is_known_when_the_commit_is_queued,
    a_refused_commit_changes_nothing,
    a_topic_may_appear_twice_in_one_commit,
    commits_become_durable_in_the_order_queued,
    a_barrier_resolves_after_all_that_was_queued_before,
    a_ride_receipt_resolves_at_once,
    a_ride_commit_becomes_durable_without_another_commit,
    the_position_covers_every_resolved_receipt,
    the_listener_hears_of_records_after_the_receipt_has_resolved,
    the_listener_hears_ends_in_commit_order_once_they_are_visible,
    a_fresh_store_has_room,
];

async fn a_committed_record_comes_back_byte_for_byte(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    topic.publish(&held, &[0, 1, 100, 5_000]).await?;
    topic.publish(&held, &[70_000]).await?;
    topic.check(&held).await
}

async fn a_commit_over_several_topics_takes_effect_as_a_whole(held: Held) -> Check {
    let mut one = Topic::create(&held, "one").await?;
    let mut two = Topic::create(&held, "two").await?;
    let subscription = SubscriptionId(77);
    let commit = Commit {
        appends: vec![one.append(&[10, 20]), two.append(&[30])],
        progress: vec![(subscription, settled(&[FIRST.0]))],
        urgency: Urgency::Durable,
    };
    held.log.commit(commit).await?;
    one.check(&held).await?;
    two.check(&held).await?;
    same("cursor", &held.cursor(subscription).await?, &FIRST.next())
}

async fn an_append_at_another_offset_than_the_next_is_misplaced(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    topic.publish(&held, &[10, 10]).await?;
    for wrong in [FIRST, FIRST.next(), topic.next.next(), Offset(0)] {
        let answer = held.log.commit(appends(vec![topic.stray(wrong)])).await;
        refused(&answer, "Misplaced", misplaced)?;
    }
    topic.publish(&held, &[10]).await?;
    topic.check(&held).await
}

async fn an_append_to_a_topic_that_was_not_begun_is_misplaced(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    let begun = topic.id;
    topic.id.0 += 1_000;
    let answer = held.log.commit(appends(vec![topic.stray(FIRST)])).await;
    refused(&answer, "Misplaced", misplaced)?;
    topic.id = begun;
    topic.check(&held).await
}

async fn a_refusal_is_known_when_the_commit_is_queued(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    let wrong = held.log.commit(appends(vec![topic.stray(FIRST.next())]));
    hold(wrong.refused().is_some_and(misplaced), || format!("{wrong:?}"))?;
    let right = held.log.commit(appends(vec![topic.append(&[10])]));
    hold(right.refused().is_none(), || format!("{right:?}"))?;
    right.await?;
    topic.check(&held).await
}

async fn a_refused_commit_changes_nothing(held: Held) -> Check {
    let mut one = Topic::create(&held, "one").await?;
    let mut two = Topic::create(&held, "two").await?;
    one.publish(&held, &[10]).await?;
    let before = one.clone();
    let subscription = SubscriptionId(77);
    let commit = Commit {
        appends: vec![one.append(&[11, 12]), two.stray(two.next.plus(5))],
        progress: vec![(subscription, settled(&[FIRST.0]))],
        urgency: Urgency::Durable,
    };
    refused(&held.log.commit(commit).await, "Misplaced", misplaced)?;
    held.log.commit(Commit::barrier()).await?;
    before.check(&held).await?;
    two.check(&held).await?;
    same("cursor", &held.cursor(subscription).await?, &FIRST)?;
    one = before;
    held.log.commit(appends(vec![one.append(&[13]), two.append(&[14])])).await?;
    one.check(&held).await?;
    two.check(&held).await
}

async fn a_topic_may_appear_twice_in_one_commit(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    let commit = appends(vec![topic.append(&[10]), topic.append(&[20, 30])]);
    held.log.commit(commit).await?;
    topic.check(&held).await
}

async fn commits_become_durable_in_the_order_queued(held: Held) -> Check {
    let mut topics = [Topic::create(&held, "one").await?, Topic::create(&held, "two").await?];
    let receipts: Vec<_> = (0..200)
        .map(|n| held.log.commit(appends(vec![topics[n % 2].append(&[n, 2 * n])])))
        .collect();
    let mut last = None;
    for receipt in receipts {
        let position = receipt.await?;
        hold(last <= Some(position), || format!("{position:?} after {last:?}"))?;
        last = Some(position);
    }
    topics[0].check(&held).await?;
    topics[1].check(&held).await
}

async fn a_barrier_resolves_after_all_that_was_queued_before(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    let subscription = SubscriptionId(77);
    let appended = held.log.commit(appends(vec![topic.append(&[100; 50])]));
    for n in 0..50 {
        held.log.commit(settles(subscription, &[FIRST.0 + n], Urgency::Ride)).await?;
    }
    let position = held.log.commit(Commit::barrier()).await?;
    topic.check(&held).await?;
    same("cursor", &held.cursor(subscription).await?, &FIRST.plus(50))?;
    let answered = appended.now_or_never();
    hold(matches!(answered, Some(Ok(earlier)) if earlier <= position), || {
        format!("{answered:?} when the barrier has {position:?}")
    })
}

async fn a_ride_receipt_resolves_at_once(held: Held) -> Check {
    let ride = held.log.commit(settles(SubscriptionId(77), &[5], Urgency::Ride));
    let answer = ride.now_or_never();
    hold(matches!(answer, Some(Ok(_))), || format!("{answer:?}"))
}

async fn a_ride_commit_becomes_durable_without_another_commit(held: Held) -> Check {
    let before = held.log.position();
    let ride = settles(SubscriptionId(77), &[FIRST.0], Urgency::Ride);
    held.log.commit(ride).await?;
    // Nothing tells of a commit that nobody waits for, so this looks until the suite's time is up.
    let mut look = tokio::time::interval(std::time::Duration::from_millis(1));
    while held.log.position() == before {
        look.tick().await;
    }
    same("cursor", &held.cursor(SubscriptionId(77)).await?, &FIRST.next())
}

async fn the_position_covers_every_resolved_receipt(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    let mut last = held.log.position();
    for size in [1, 10, 100] {
        let position = topic.publish(&held, &[size]).await?;
        hold(position > last, || format!("{position:?} for new records, was at {last:?}"))?;
        last = held.log.position();
        hold(position <= last, || format!("receipt {position:?}, durable up to {last:?}"))?;
    }
    Ok(())
}

async fn the_listener_hears_of_records_after_the_receipt_has_resolved(held: Held) -> Check {
    let (held, notes) = Notes::on(&held).await?;
    let mut topic = Topic::create(&held, "t").await?;
    for size in [1, 10, 100] {
        // Under the lock, so that the listener finds the receipt.
        {
            let mut receipt = notes.receipt.lock();
            *receipt = Some(held.log.commit(appends(vec![topic.append(&[size, size])])));
        }
        notes.hears_of(topic.id, topic.next).await?;
    }
    notes.held.lock().take();
    same("told before the answer", &*notes.unanswered.lock(), &Vec::new())
}

async fn the_listener_hears_ends_in_commit_order_once_they_are_visible(held: Held) -> Check {
    let (held, notes) = Notes::on(&held).await?;
    let mut one = Topic::create(&held, "one").await?;
    let mut two = Topic::create(&held, "two").await?;
    let receipts: Vec<_> = (0..100)
        .map(|n| {
            let topic = if n % 3 == 0 { &mut one } else { &mut two };
            held.log.commit(appends(vec![topic.append(&[n])]))
        })
        .collect();
    for receipt in receipts {
        receipt.await?;
    }
    for topic in [&one, &two] {
        notes.hears_of(topic.id, topic.next).await?;
    }
    // The listener holds the log and the log the listener: take one end away.
    notes.held.lock().take();
    same("ends told before they were visible", &*notes.behind.lock(), &Vec::new())?;
    for topic in [&one, &two] {
        let told: Vec<_> =
            notes.ends.lock().iter().filter(|(id, _)| *id == topic.id).map(|(_, o)| *o).collect();
        hold(told.is_sorted(), || format!("ends fall: {told:?}"))?;
        same("last end told", &told.last().copied(), &Some(topic.next))?;
    }
    Ok(())
}

async fn a_fresh_store_has_room(held: Held) -> Check {
    hold(held.log.has_room(), || "has_room is false".to_owned())?;
    let room = held.log.room().now_or_never();
    hold(matches!(room, Some(Ok(()))), || format!("room: {room:?}"))
}
