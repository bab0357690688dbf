//! `MessageLog::commit`, `room`, `position` and the listener.

use domain::{Epoch, Offset, Progress, SubscriptionId};
use futures::FutureExt;

use super::support::{FIRST, Notes, Topic, appends, fenced, hold, refused, same, settled, settles};
use super::{Case, Check, cases};
use crate::{Commit, Engine, Urgency};

pub(super) const CASES: &[Case<Engine>] = cases![
    a_committed_record_comes_back_byte_for_byte,
    a_commit_over_several_topics_takes_effect_as_a_whole,
    an_append_under_an_old_epoch_is_fenced,
    an_append_at_another_offset_than_the_next_is_fenced,
    an_append_to_an_unclaimed_topic_is_fenced,
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

async fn a_committed_record_comes_back_byte_for_byte(engine: Engine) -> Check {
    let mut topic = Topic::create(&engine, "t").await?;
    topic.publish(&engine, &[0, 1, 100, 5_000]).await?;
    topic.publish(&engine, &[70_000]).await?;
    topic.check(&engine).await
}

async fn a_commit_over_several_topics_takes_effect_as_a_whole(engine: Engine) -> Check {
    let mut one = Topic::create(&engine, "one").await?;
    let mut two = Topic::create(&engine, "two").await?;
    let subscription = SubscriptionId(77);
    let commit = Commit {
        appends: vec![one.append(&[10, 20]), two.append(&[30])],
        progress: vec![(subscription, settled(&[FIRST.0]))],
        urgency: Urgency::Durable,
    };
    engine.log.commit(commit).await?;
    one.check(&engine).await?;
    two.check(&engine).await?;
    let progress = engine.progress.load(subscription, Progress::starting_at(FIRST)).await?;
    same("cursor", &progress.cursor(), &FIRST.next())
}

async fn an_append_under_an_old_epoch_is_fenced(engine: Engine) -> Check {
    let mut topic = Topic::create(&engine, "t").await?;
    let before = topic.epoch;
    let again = engine.progress.claim(topic.id, FIRST).await?;
    hold(again.epoch >= before, || format!("{:?} after {before:?}", again.epoch))?;
    let old = Epoch(again.epoch.0 - 1);
    let answer = engine.log.commit(appends(vec![topic.stray(old, FIRST)])).await;
    refused(&answer, "Fenced", fenced)?;
    topic.epoch = again.epoch;
    topic.publish(&engine, &[10]).await?;
    topic.check(&engine).await
}

async fn an_append_at_another_offset_than_the_next_is_fenced(engine: Engine) -> Check {
    let mut topic = Topic::create(&engine, "t").await?;
    topic.publish(&engine, &[10, 10]).await?;
    for wrong in [FIRST, FIRST.next(), topic.next.next(), Offset(0)] {
        let answer = engine.log.commit(appends(vec![topic.stray(topic.epoch, wrong)])).await;
        refused(&answer, "Fenced", fenced)?;
    }
    topic.publish(&engine, &[10]).await?;
    topic.check(&engine).await
}

async fn an_append_to_an_unclaimed_topic_is_fenced(engine: Engine) -> Check {
    let mut topic = Topic::create(&engine, "t").await?;
    let claimed = topic.id;
    topic.id.0 += 1_000;
    let answer = engine.log.commit(appends(vec![topic.stray(topic.epoch, FIRST)])).await;
    refused(&answer, "Fenced", fenced)?;
    topic.id = claimed;
    topic.check(&engine).await
}

async fn a_refusal_is_known_when_the_commit_is_queued(engine: Engine) -> Check {
    let mut topic = Topic::create(&engine, "t").await?;
    let wrong = engine.log.commit(appends(vec![topic.stray(topic.epoch, FIRST.next())]));
    hold(wrong.refused().is_some_and(fenced), || format!("{wrong:?}"))?;
    let right = engine.log.commit(appends(vec![topic.append(&[10])]));
    hold(right.refused().is_none(), || format!("{right:?}"))?;
    right.await?;
    topic.check(&engine).await
}

async fn a_refused_commit_changes_nothing(engine: Engine) -> Check {
    let mut one = Topic::create(&engine, "one").await?;
    let mut two = Topic::create(&engine, "two").await?;
    one.publish(&engine, &[10]).await?;
    let before = one.clone();
    let subscription = SubscriptionId(77);
    let commit = Commit {
        appends: vec![one.append(&[11, 12]), two.stray(two.epoch, two.next.plus(5))],
        progress: vec![(subscription, settled(&[FIRST.0]))],
        urgency: Urgency::Durable,
    };
    refused(&engine.log.commit(commit).await, "Fenced", fenced)?;
    engine.log.commit(Commit::barrier()).await?;
    before.check(&engine).await?;
    two.check(&engine).await?;
    let progress = engine.progress.load(subscription, Progress::starting_at(FIRST)).await?;
    same("cursor", &progress.cursor(), &FIRST)?;
    one = before;
    engine.log.commit(appends(vec![one.append(&[13]), two.append(&[14])])).await?;
    one.check(&engine).await?;
    two.check(&engine).await
}

async fn a_topic_may_appear_twice_in_one_commit(engine: Engine) -> Check {
    let mut topic = Topic::create(&engine, "t").await?;
    let commit = appends(vec![topic.append(&[10]), topic.append(&[20, 30])]);
    engine.log.commit(commit).await?;
    topic.check(&engine).await
}

async fn commits_become_durable_in_the_order_queued(engine: Engine) -> Check {
    let mut topics = [Topic::create(&engine, "one").await?, Topic::create(&engine, "two").await?];
    let receipts: Vec<_> = (0..200)
        .map(|n| engine.log.commit(appends(vec![topics[n % 2].append(&[n, 2 * n])])))
        .collect();
    let mut last = None;
    for receipt in receipts {
        let position = receipt.await?;
        hold(last <= Some(position), || format!("{position:?} after {last:?}"))?;
        last = Some(position);
    }
    topics[0].check(&engine).await?;
    topics[1].check(&engine).await
}

async fn a_barrier_resolves_after_all_that_was_queued_before(engine: Engine) -> Check {
    let mut topic = Topic::create(&engine, "t").await?;
    let subscription = SubscriptionId(77);
    let appended = engine.log.commit(appends(vec![topic.append(&[100; 50])]));
    for n in 0..50 {
        engine.log.commit(settles(subscription, &[FIRST.0 + n], Urgency::Ride)).await?;
    }
    let position = engine.log.commit(Commit::barrier()).await?;
    topic.check(&engine).await?;
    let progress = engine.progress.load(subscription, Progress::starting_at(FIRST)).await?;
    same("cursor", &progress.cursor(), &FIRST.plus(50))?;
    let answered = appended.now_or_never();
    hold(matches!(answered, Some(Ok(earlier)) if earlier <= position), || {
        format!("{answered:?} when the barrier has {position:?}")
    })
}

async fn a_ride_receipt_resolves_at_once(engine: Engine) -> Check {
    let ride = engine.log.commit(settles(SubscriptionId(77), &[5], Urgency::Ride));
    let answer = ride.now_or_never();
    hold(matches!(answer, Some(Ok(_))), || format!("{answer:?}"))
}

async fn a_ride_commit_becomes_durable_without_another_commit(engine: Engine) -> Check {
    let before = engine.log.position();
    let ride = settles(SubscriptionId(77), &[FIRST.0], Urgency::Ride);
    engine.log.commit(ride).await?;
    // Nothing tells of a commit that nobody waits for, so this looks until the suite's time is up.
    let mut look = tokio::time::interval(std::time::Duration::from_millis(1));
    while engine.log.position() == before {
        look.tick().await;
    }
    let progress = engine.progress.load(SubscriptionId(77), Progress::starting_at(FIRST)).await?;
    same("cursor", &progress.cursor(), &FIRST.next())
}

async fn the_position_covers_every_resolved_receipt(engine: Engine) -> Check {
    let mut topic = Topic::create(&engine, "t").await?;
    let mut last = engine.log.position();
    for size in [1, 10, 100] {
        let position = topic.publish(&engine, &[size]).await?;
        hold(position > last, || format!("{position:?} for new records, was at {last:?}"))?;
        last = engine.log.position();
        hold(position <= last, || format!("receipt {position:?}, durable up to {last:?}"))?;
    }
    Ok(())
}

async fn the_listener_hears_of_records_after_the_receipt_has_resolved(engine: Engine) -> Check {
    let notes = Notes::on(&engine);
    let mut topic = Topic::create(&engine, "t").await?;
    for size in [1, 10, 100] {
        // Under the lock, so that the listener finds the receipt.
        {
            let mut receipt = notes.receipt.lock();
            *receipt = Some(engine.log.commit(appends(vec![topic.append(&[size, size])])));
        }
        notes.hears_of(topic.id, topic.next).await?;
    }
    notes.engine.lock().take();
    same("told before the answer", &*notes.unanswered.lock(), &Vec::new())
}

async fn the_listener_hears_ends_in_commit_order_once_they_are_visible(engine: Engine) -> Check {
    let notes = Notes::on(&engine);
    let mut one = Topic::create(&engine, "one").await?;
    let mut two = Topic::create(&engine, "two").await?;
    let receipts: Vec<_> = (0..100)
        .map(|n| {
            let topic = if n % 3 == 0 { &mut one } else { &mut two };
            engine.log.commit(appends(vec![topic.append(&[n])]))
        })
        .collect();
    for receipt in receipts {
        receipt.await?;
    }
    for topic in [&one, &two] {
        notes.hears_of(topic.id, topic.next).await?;
    }
    // The listener holds the engine and the engine the listener: take one end away.
    notes.engine.lock().take();
    same("ends told before they were visible", &*notes.behind.lock(), &Vec::new())?;
    for topic in [&one, &two] {
        let told: Vec<_> =
            notes.ends.lock().iter().filter(|(id, _)| *id == topic.id).map(|(_, o)| *o).collect();
        hold(told.is_sorted(), || format!("ends fall: {told:?}"))?;
        same("last end told", &told.last().copied(), &Some(topic.next))?;
    }
    Ok(())
}

async fn a_fresh_store_has_room(engine: Engine) -> Check {
    hold(engine.log.has_room(), || "has_room is false".to_owned())?;
    let room = engine.log.room().now_or_never();
    hold(matches!(room, Some(Ok(()))), || format!("room: {room:?}"))
}
