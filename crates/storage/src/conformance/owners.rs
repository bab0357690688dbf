//! `Shards::open`, and what becomes of an owner when another one comes, or when it closes its
//! handle.

use std::sync::Arc;

use domain::{NodeId, Progress, ShardId, SubscriptionId};

use super::support::{
    FIRST, Held, Needs, Notes, Topic, appends, fenced, hold, misplaced, refused, same, settled,
    settles,
};
use super::{Case, Check, cases};
use crate::{Checkpoint, Commit, Error, Urgency};

pub(super) const CASES: &[Case<Held>] = cases![
    a_store_has_the_shards_it_counts,
    epochs_grow_with_every_owner,
    a_commit_through_an_older_handle_is_fenced,
    progress_alone_through_an_older_handle_is_fenced,
    what_an_older_handle_has_queued_is_there_or_refused,
    an_older_owner_is_told_that_it_is_fenced,
    a_checkpoint_through_an_older_handle_does_nothing,
    a_trim_through_an_older_handle_does_nothing,
    each_owner_begins_its_topics,
    closing_makes_all_that_is_queued_durable,
    a_closed_shard_can_be_opened_at_once_by_another_node,
    a_closed_handle_is_unavailable,
    closing_twice_does_nothing,
    a_closed_handle_is_told_nothing,
];

const SUBSCRIPTION: SubscriptionId = SubscriptionId(77);

fn unavailable(error: &Error) -> bool {
    matches!(error, Error::Unavailable(_))
}

async fn a_store_has_the_shards_it_counts(held: Held) -> Check {
    let count = held.engine.shards.count();
    hold(count > 0, || "there are no shards".to_owned())?;
    let listener = Arc::new(Notes::default());
    let beyond = held.engine.shards.open(ShardId(count), super::support::NODE, listener).await;
    refused(&beyond.map(drop), "an error", |_| true)
}

async fn epochs_grow_with_every_owner(held: Held) -> Check {
    let mut last = held.epoch;
    for _ in 0..3 {
        let next = held.again().await?.epoch;
        hold(next > last, || format!("{next:?} after {last:?}"))?;
        last = next;
    }
    Ok(())
}

async fn a_commit_through_an_older_handle_is_fenced(old: Held) -> Check {
    let mut topic = Topic::create(&old, "t").await?;
    topic.publish(&old, &[10]).await?;
    let new = old.again().await?;
    for _ in 0..2 {
        let stray = old.log.commit(appends(vec![topic.stray(topic.next)])).await;
        refused(&stray, "Fenced", fenced)?;
    }
    topic.check(&new).await?;
    topic.begin(&new).await?;
    topic.publish(&new, &[20]).await?;
    topic.check(&new).await
}

async fn progress_alone_through_an_older_handle_is_fenced(old: Held) -> Check {
    old.log.commit(settles(SUBSCRIPTION, &[FIRST.0], Urgency::Durable)).await?;
    let new = old.again().await?;
    let acks = settles(SUBSCRIPTION, &[FIRST.0 + 1], Urgency::Durable);
    refused(&old.log.commit(acks).await, "Fenced", fenced)?;
    // The answer to one that rides promises nothing; what counts is that it never happens.
    drop(old.log.commit(settles(SUBSCRIPTION, &[FIRST.0 + 1], Urgency::Ride)).await);
    refused(&old.log.commit(Commit::barrier()).await, "Fenced", fenced)?;
    new.log.commit(Commit::barrier()).await?;
    same("cursor", &new.cursor(SUBSCRIPTION).await?, &FIRST.next())?;
    let newest = new.again().await?;
    same("cursor", &newest.cursor(SUBSCRIPTION).await?, &FIRST.next())
}

async fn what_an_older_handle_has_queued_is_there_or_refused(old: Held) -> Check {
    let mut topic = Topic::create(&old, "t").await?;
    let receipts: Vec<_> =
        (0..50).map(|n| old.log.commit(appends(vec![topic.append(&[n])]))).collect();
    let new = old.again().await?;
    let mut durable = 0;
    for receipt in receipts {
        match receipt.await {
            Ok(_) => durable += 1,
            other => refused(&other, "Fenced", fenced)?,
        }
    }
    topic.records.truncate(durable);
    topic.next = FIRST.plus(durable as u64);
    topic.check(&new).await?;
    topic.begin(&new).await
}

async fn an_older_owner_is_told_that_it_is_fenced(held: Held) -> Check {
    let (old, notes) = Notes::on(&held).await?;
    notes.held.lock().take();
    let _new = old.again().await?;
    drop(old.log.commit(settles(SUBSCRIPTION, &[FIRST.0], Urgency::Durable)).await);
    notes.hears_that_it_is_fenced().await
}

async fn a_checkpoint_through_an_older_handle_does_nothing(old: Held) -> Check {
    let position = old.log.commit(settles(SUBSCRIPTION, &[FIRST.0], Urgency::Durable)).await?;
    let new = old.again().await?;
    let progress = vec![(SUBSCRIPTION, Progress::starting_at(FIRST.plus(500)))];
    let stale = Checkpoint { position, progress, ..Checkpoint::default() };
    refused(&old.progress.checkpoint(stale).await, "Fenced", fenced)?;
    same("cursor", &new.cursor(SUBSCRIPTION).await?, &FIRST.next())?;
    let newest = new.again().await?;
    same("cursor", &newest.cursor(SUBSCRIPTION).await?, &FIRST.next())
}

async fn a_trim_through_an_older_handle_does_nothing(old: Held) -> Check {
    let mut topic = Topic::create(&old, "t").await?;
    for _ in 0..40 {
        topic.publish(&old, &[3_000; 5]).await?;
    }
    let position = old.log.position();
    old.progress.checkpoint(Checkpoint { position, ..Checkpoint::default() }).await?;
    let new = old.again().await?;
    refused(&old.log.trim(Arc::new(Needs::default())).await, "Fenced", fenced)?;
    topic.check(&new).await
}

async fn each_owner_begins_its_topics(old: Held) -> Check {
    let mut topic = Topic::create(&old, "t").await?;
    topic.publish(&old, &[10]).await?;
    let new = old.again().await?;
    let unbegun = new.log.commit(appends(vec![topic.stray(topic.next)])).await;
    refused(&unbegun, "Misplaced", misplaced)?;
    topic.begin(&new).await?;
    topic.begin(&new).await?;
    topic.publish(&new, &[10]).await?;
    topic.check(&new).await
}

async fn closing_makes_all_that_is_queued_durable(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    let receipts: Vec<_> = (0..20)
        .map(|n| {
            let append = topic.append(&[n, 100 * n]);
            let progress = vec![(SUBSCRIPTION, settled(&[FIRST.0 + n as u64]))];
            let (appends, urgency) = (vec![append], Urgency::Durable);
            held.log.commit(Commit { appends, progress, urgency })
        })
        .collect();
    held.log.commit(settles(SUBSCRIPTION, &[FIRST.0 + 20], Urgency::Ride)).await?;
    held.log.close().await?;
    for receipt in receipts {
        receipt.await?;
    }
    let new = held.again().await?;
    topic.check(&new).await?;
    same("cursor", &new.cursor(SUBSCRIPTION).await?, &FIRST.plus(21))?;
    topic.begin(&new).await
}

async fn a_closed_shard_can_be_opened_at_once_by_another_node(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    topic.publish(&held, &[10, 20]).await?;
    held.log.close().await?;
    let other = Held::open_by(&held.engine, NodeId(2), Arc::new(Notes::default())).await?;
    hold(other.epoch > held.epoch, || format!("{:?} after {:?}", other.epoch, held.epoch))?;
    topic.check(&other).await?;
    topic.begin(&other).await?;
    topic.publish(&other, &[30]).await?;
    topic.check(&other).await
}

async fn a_closed_handle_is_unavailable(held: Held) -> Check {
    let topic = Topic::create(&held, "t").await?;
    held.log.close().await?;
    for round in 0..2 {
        let acks = settles(SUBSCRIPTION, &[FIRST.0], Urgency::Durable);
        refused(&held.log.commit(acks).await, "Unavailable", unavailable)?;
        let begun = held.log.begin(topic.id, FIRST).await;
        refused(&begun, "Unavailable", unavailable)?;
        refused(&held.log.room().await, "Unavailable", unavailable)?;
        hold(!held.log.has_room(), || "a closed handle has room".to_owned())?;
        let read = held.log.read(topic.id, FIRST, super::support::WIDE).await;
        refused(&read, "Unavailable", unavailable)?;
        let saved = held.progress.checkpoint(Checkpoint::default()).await;
        refused(&saved, "Unavailable", unavailable)?;
        let trimmed = held.log.trim(Arc::new(Needs::default())).await;
        refused(&trimmed, "Unavailable", unavailable)?;
        if round == 0 {
            // However many owners there were since then.
            held.again().await?;
        }
    }
    Ok(())
}

async fn closing_twice_does_nothing(held: Held) -> Check {
    held.log.close().await?;
    held.log.close().await?;
    let mut new = held.again().await?;
    held.log.close().await?;
    let mut topic = Topic::create(&new, "t").await?;
    topic.publish(&new, &[10]).await?;
    new = new.again().await?;
    topic.check(&new).await
}

async fn a_closed_handle_is_told_nothing(held: Held) -> Check {
    let (held, notes) = Notes::on(&held).await?;
    let mut topic = Topic::create(&held, "t").await?;
    topic.publish(&held, &[10]).await?;
    notes.held.lock().take();
    held.log.close().await?;
    let heard = notes.ends.lock().len();
    let new = held.again().await?;
    topic.begin(&new).await?;
    topic.publish(&new, &[10]).await?;
    same("ends told", &notes.ends.lock().len(), &heard)?;
    let failed = notes.failed.lock().len();
    same("failures told", &failed, &0)
}
