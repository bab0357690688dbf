//! What survives closing a store and opening it again.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use domain::{
    ClockMark, Moment, Offset, OffsetRange, Progress, ProgressChange, SubscriptionId, Timestamp,
    Uptime,
};

use super::support::{FIRST, Held, Needs, Topic, appends, hold, refused, same, settled, settles};
use super::trim::check_needed;
use super::{Case, Check, Durable, cases};
use crate::{Checkpoint, Commit, Error, Kind, Urgency};

pub(super) fn cases<S: Durable>() -> &'static [Case<S>] {
    cases![
        an_empty_store_opens_again,
        durable_records_are_there_after_a_reopen,
        the_next_offset_is_known_after_a_reopen,
        epochs_grow_across_a_reopen,
        durable_progress_is_there_after_a_reopen,
        what_rode_before_a_durable_commit_is_there_after_a_reopen,
        a_checkpoint_and_later_changes_are_there_after_a_reopen,
        the_mark_of_the_clock_is_there_after_a_reopen,
        a_seek_is_there_after_a_reopen,
        definitions_are_there_after_a_reopen,
        ids_and_versions_are_not_given_again_after_a_reopen,
        positions_grow_across_a_reopen,
        needed_records_survive_trims_and_reopens,
        the_next_offset_survives_a_trim_of_everything,
    ]
}

const SUBSCRIPTION: SubscriptionId = SubscriptionId(77);

async fn an_empty_store_opens_again<S: Durable>(store: S) -> Check {
    let store = store.reopen().await.reopen().await;
    let held = Held::of(&store).await?;
    let mut topic = Topic::create(&held, "t").await?;
    topic.publish(&held, &[10]).await?;
    topic.check(&held).await
}

async fn durable_records_are_there_after_a_reopen<S: Durable>(mut store: S) -> Check {
    let mut held = Held::of(&store).await?;
    let mut one = Topic::create(&held, "one").await?;
    let mut two = Topic::create(&held, "two").await?;
    for round in 0..5 {
        for n in 0..20 {
            one.publish(&held, &[n, 100 * n, round]).await?;
            let both = appends(vec![one.append(&[n]), two.append(&[5_000, n])]);
            held.log.commit(both).await?;
        }
        drop(held);
        store = store.reopen().await;
        held = Held::of(&store).await?;
        one.check(&held).await?;
        two.check(&held).await?;
        one.begin(&held).await?;
        two.begin(&held).await?;
    }
    Ok(())
}

async fn the_next_offset_is_known_after_a_reopen<S: Durable>(store: S) -> Check {
    let held = Held::of(&store).await?;
    let mut topic = Topic::create(&held, "t").await?;
    topic.publish(&held, &[1, 2, 3]).await?;
    drop(held);
    let store = store.reopen().await;
    let held = Held::of(&store).await?;
    same("end", &held.log.end(topic.id), &topic.next)?;
    topic.begin(&held).await?;
    topic.publish(&held, &[4]).await?;
    topic.check(&held).await
}

async fn epochs_grow_across_a_reopen<S: Durable>(mut store: S) -> Check {
    let mut last = None;
    for _ in 0..3 {
        let held = Held::of(&store).await?;
        let epochs = [held.epoch, held.again().await?.epoch];
        for epoch in epochs {
            hold(last < Some(epoch), || format!("{epoch:?} after {last:?}"))?;
            last = Some(epoch);
        }
        drop(held);
        store = store.reopen().await;
    }
    Ok(())
}

async fn durable_progress_is_there_after_a_reopen<S: Durable>(mut store: S) -> Check {
    let mut expected = Progress::starting_at(FIRST);
    for n in [3, 0, 8, 1] {
        let commit = settles(SUBSCRIPTION, &[FIRST.0 + n], Urgency::Durable);
        Held::of(&store).await?.log.commit(commit).await?;
        expected.apply(&settled(&[FIRST.0 + n]));
        store = store.reopen().await;
        let start = Progress::starting_at(FIRST);
        let progress = Held::of(&store).await?.progress.load_one(SUBSCRIPTION, start).await?;
        same("progress", &progress, &expected)?;
    }
    Ok(())
}

async fn what_rode_before_a_durable_commit_is_there_after_a_reopen<S: Durable>(store: S) -> Check {
    let held = Held::of(&store).await?;
    let mut topic = Topic::create(&held, "t").await?;
    for n in 0..10 {
        held.log.commit(settles(SUBSCRIPTION, &[FIRST.0 + n], Urgency::Ride)).await?;
    }
    topic.publish(&held, &[1]).await?;
    drop(held);
    let store = store.reopen().await;
    let start = Progress::starting_at(FIRST);
    let progress = Held::of(&store).await?.progress.load_one(SUBSCRIPTION, start).await?;
    same("cursor", &progress.cursor(), &FIRST.plus(10))?;
    topic.check(&Held::of(&store).await?).await
}

async fn a_checkpoint_and_later_changes_are_there_after_a_reopen<S: Durable>(store: S) -> Check {
    let held = Held::of(&store).await?;
    let before = settles(SUBSCRIPTION, &[FIRST.0, FIRST.0 + 4], Urgency::Durable);
    let position = held.log.commit(before).await?;
    let mut saved = Progress::starting_at(FIRST);
    saved.apply(&settled(&[FIRST.0, FIRST.0 + 4]));
    let checkpoint = Checkpoint {
        position,
        progress: vec![(SUBSCRIPTION, saved.clone())],
        ..Checkpoint::default()
    };
    held.progress.checkpoint(checkpoint).await?;
    let after = settles(SUBSCRIPTION, &[FIRST.0 + 1], Urgency::Durable);
    held.log.commit(after).await?;
    drop(held);
    saved.apply(&settled(&[FIRST.0 + 1]));
    let store = store.reopen().await.reopen().await;
    let start = Progress::starting_at(Offset(3));
    same("progress", &Held::of(&store).await?.progress.load_one(SUBSCRIPTION, start).await?, &saved)
}

async fn the_mark_of_the_clock_is_there_after_a_reopen<S: Durable>(store: S) -> Check {
    let uptime = Some(Uptime { boot: 7, time: Moment(9) });
    let clock = Some(ClockMark { wall: Timestamp(1_800_000_000_000_000), uptime });
    let held = Held::of(&store).await?;
    held.progress.checkpoint(Checkpoint { clock, ..Checkpoint::default() }).await?;
    drop(held);
    let store = store.reopen().await.reopen().await;
    same("mark", &Held::of(&store).await?.progress.clock_mark().await?, &clock)
}

async fn a_seek_is_there_after_a_reopen<S: Durable>(store: S) -> Check {
    let held = Held::of(&store).await?;
    held.log.commit(settles(SUBSCRIPTION, &[FIRST.0 + 20], Urgency::Durable)).await?;
    let mut target = Progress::starting_at(FIRST.plus(2));
    target.apply(&settled(&[FIRST.0 + 9]));
    let seek = ProgressChange::Replaced(Box::new(target.clone()));
    let progress = vec![(SUBSCRIPTION, seek)];
    let commit = Commit { appends: Vec::new(), progress, urgency: Urgency::Durable };
    held.log.commit(commit).await?;
    drop(held);
    let store = store.reopen().await;
    let start = Progress::starting_at(FIRST);
    same(
        "progress",
        &Held::of(&store).await?.progress.load_one(SUBSCRIPTION, start).await?,
        &target,
    )
}

async fn definitions_are_there_after_a_reopen<S: Durable>(store: S) -> Check {
    let held = Held::of(&store).await?;
    let value = Bytes::from_static(b"definition\0\xff");
    let stays = held.catalogue.put(Kind::Schema, "stays", value, None).await?;
    let goes = held.catalogue.put(Kind::Schema, "goes", Bytes::new(), None).await?;
    held.catalogue.delete(Kind::Schema, "goes", goes.version).await?;
    let version = Some(stays.version);
    let stays = held.catalogue.put(Kind::Schema, "stays", Bytes::from("new"), version).await?;
    drop(held);
    let store = store.reopen().await;
    let page = store.engine().catalogue.list(Kind::Schema, None, 10).await?;
    same("entries", &page.entries, &vec![stays])
}

async fn ids_and_versions_are_not_given_again_after_a_reopen<S: Durable>(mut store: S) -> Check {
    let mut last = (0, 0);
    for _ in 0..3 {
        let catalogue = store.engine().catalogue;
        let entry = catalogue.put(Kind::Topic, "t", Bytes::new(), None).await?;
        hold(entry.id > last.0 && entry.version > last.1, || {
            format!("id {} and version {} after {last:?}", entry.id, entry.version)
        })?;
        last = (entry.id, entry.version);
        catalogue.delete(Kind::Topic, "t", entry.version).await?;
        drop(catalogue);
        store = store.reopen().await;
        let gone = store.engine().catalogue.get(Kind::Topic, "t").await;
        refused(&gone, "NotFound", |error| matches!(error, Error::NotFound))?;
    }
    Ok(())
}

async fn positions_grow_across_a_reopen<S: Durable>(mut store: S) -> Check {
    let mut held = Held::of(&store).await?;
    let mut topic = Topic::create(&held, "t").await?;
    let mut last = None;
    for _ in 0..3 {
        let position = topic.publish(&held, &[1]).await?;
        hold(last < Some(position), || format!("{position:?} after {last:?}"))?;
        last = Some(held.log.position());
        drop(held);
        store = store.reopen().await;
        held = Held::of(&store).await?;
        let now = Some(held.log.position());
        hold(now >= last, || format!("{now:?} after {last:?}"))?;
        topic.begin(&held).await?;
    }
    Ok(())
}

async fn needed_records_survive_trims_and_reopens<S: Durable>(mut store: S) -> Check {
    let mut held = Held::of(&store).await?;
    let mut topic = Topic::create(&held, "t").await?;
    let mut needed: Vec<OffsetRange> = Vec::new();
    for _ in 0..4 {
        let from = topic.next;
        for _ in 0..20 {
            topic.publish(&held, &[4_000; 4]).await?;
        }
        needed.extend((from.0..topic.next.0).step_by(5).map(|o| OffsetRange::one(Offset(o))));
        let position = held.log.position();
        held.progress.checkpoint(Checkpoint { position, ..Checkpoint::default() }).await?;
        let needs = Needs(BTreeMap::from([(topic.id, needed.clone())]));
        held.log.trim(Arc::new(needs)).await?;
        drop(held);
        store = store.reopen().await;
        held = Held::of(&store).await?;
        check_needed(&held, &topic, &needed).await?;
        topic.begin(&held).await?;
        let half = needed.len() / 2;
        needed.drain(..half);
    }
    Ok(())
}

async fn the_next_offset_survives_a_trim_of_everything<S: Durable>(mut store: S) -> Check {
    let mut held = Held::of(&store).await?;
    let mut topic = Topic::create(&held, "t").await?;
    for _ in 0..3 {
        for _ in 0..20 {
            topic.publish(&held, &[4_000; 4]).await?;
        }
        let position = held.log.position();
        held.progress.checkpoint(Checkpoint { position, ..Checkpoint::default() }).await?;
        held.log.trim(Arc::new(Needs::default())).await?;
        drop(held);
        store = store.reopen().await;
        held = Held::of(&store).await?;
        topic.begin(&held).await?;
        check_needed(&held, &topic, &[]).await?;
    }
    Ok(())
}
