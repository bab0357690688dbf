//! What survives closing a store and opening it again.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use domain::{
    ClockMark, Moment, Offset, OffsetRange, Progress, ProgressChange, SubscriptionId, Timestamp,
    Uptime,
};

use super::support::{FIRST, Needs, Topic, appends, fenced, hold, refused, same, settled, settles};
use super::trim::check_needed;
use super::{Case, Check, Durable, cases};
use crate::{Checkpoint, Commit, Engine, Error, Kind, Urgency};

pub(super) fn cases<S: Durable>() -> &'static [Case<S>] {
    cases![
        an_empty_store_opens_again,
        durable_records_are_there_after_a_reopen,
        the_next_offset_is_known_after_a_reopen,
        an_old_epoch_is_fenced_after_a_reopen,
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

/// Claims the topic anew, as its owner does after a start.
async fn reclaim(engine: &Engine, topic: &mut Topic) -> Check {
    let claim = engine.progress.claim(topic.id, Offset(5)).await?;
    same("next", &claim.next, &topic.next)?;
    same("time", &claim.last_publish_time, &topic.last_publish_time())?;
    topic.epoch = claim.epoch;
    Ok(())
}

async fn an_empty_store_opens_again<S: Durable>(store: S) -> Check {
    let store = store.reopen().await.reopen().await;
    let mut topic = Topic::create(&store.engine(), "t").await?;
    topic.publish(&store.engine(), &[10]).await?;
    topic.check(&store.engine()).await
}

async fn durable_records_are_there_after_a_reopen<S: Durable>(mut store: S) -> Check {
    let mut one = Topic::create(&store.engine(), "one").await?;
    let mut two = Topic::create(&store.engine(), "two").await?;
    for round in 0..5 {
        let engine = store.engine();
        for n in 0..20 {
            one.publish(&engine, &[n, 100 * n, round]).await?;
            let both = appends(vec![one.append(&[n]), two.append(&[5_000, n])]);
            engine.log.commit(both).await?;
        }
        drop(engine);
        store = store.reopen().await;
        let engine = store.engine();
        one.check(&engine).await?;
        two.check(&engine).await?;
        reclaim(&engine, &mut one).await?;
        reclaim(&engine, &mut two).await?;
    }
    Ok(())
}

async fn the_next_offset_is_known_after_a_reopen<S: Durable>(store: S) -> Check {
    let mut topic = Topic::create(&store.engine(), "t").await?;
    topic.publish(&store.engine(), &[1, 2, 3]).await?;
    let store = store.reopen().await;
    let engine = store.engine();
    same("end", &engine.log.end(topic.id), &topic.next)?;
    reclaim(&engine, &mut topic).await?;
    topic.publish(&engine, &[4]).await?;
    topic.check(&engine).await
}

async fn an_old_epoch_is_fenced_after_a_reopen<S: Durable>(store: S) -> Check {
    let mut topic = Topic::create(&store.engine(), "t").await?;
    topic.publish(&store.engine(), &[1]).await?;
    let old = topic.epoch;
    let store = store.reopen().await;
    let engine = store.engine();
    reclaim(&engine, &mut topic).await?;
    hold(topic.epoch > old, || format!("{:?} after {old:?}", topic.epoch))?;
    let answer = engine.log.commit(appends(vec![topic.stray(old, topic.next)])).await;
    refused(&answer, "Fenced", fenced)?;
    topic.check(&engine).await
}

async fn durable_progress_is_there_after_a_reopen<S: Durable>(mut store: S) -> Check {
    let mut expected = Progress::starting_at(FIRST);
    for n in [3, 0, 8, 1] {
        let commit = settles(SUBSCRIPTION, &[FIRST.0 + n], Urgency::Durable);
        store.engine().log.commit(commit).await?;
        expected.apply(&settled(&[FIRST.0 + n]));
        store = store.reopen().await;
        let start = Progress::starting_at(FIRST);
        let progress = store.engine().progress.load(SUBSCRIPTION, start).await?;
        same("progress", &progress, &expected)?;
    }
    Ok(())
}

async fn what_rode_before_a_durable_commit_is_there_after_a_reopen<S: Durable>(store: S) -> Check {
    let engine = store.engine();
    let mut topic = Topic::create(&engine, "t").await?;
    for n in 0..10 {
        engine.log.commit(settles(SUBSCRIPTION, &[FIRST.0 + n], Urgency::Ride)).await?;
    }
    topic.publish(&engine, &[1]).await?;
    drop(engine);
    let store = store.reopen().await;
    let start = Progress::starting_at(FIRST);
    let progress = store.engine().progress.load(SUBSCRIPTION, start).await?;
    same("cursor", &progress.cursor(), &FIRST.plus(10))?;
    topic.check(&store.engine()).await
}

async fn a_checkpoint_and_later_changes_are_there_after_a_reopen<S: Durable>(store: S) -> Check {
    let engine = store.engine();
    let before = settles(SUBSCRIPTION, &[FIRST.0, FIRST.0 + 4], Urgency::Durable);
    let position = engine.log.commit(before).await?;
    let mut saved = Progress::starting_at(FIRST);
    saved.apply(&settled(&[FIRST.0, FIRST.0 + 4]));
    let checkpoint = Checkpoint {
        position,
        progress: vec![(SUBSCRIPTION, saved.clone())],
        ..Checkpoint::default()
    };
    engine.progress.checkpoint(checkpoint).await?;
    let after = settles(SUBSCRIPTION, &[FIRST.0 + 1], Urgency::Durable);
    engine.log.commit(after).await?;
    drop(engine);
    saved.apply(&settled(&[FIRST.0 + 1]));
    let store = store.reopen().await.reopen().await;
    let start = Progress::starting_at(Offset(3));
    same("progress", &store.engine().progress.load(SUBSCRIPTION, start).await?, &saved)
}

async fn the_mark_of_the_clock_is_there_after_a_reopen<S: Durable>(store: S) -> Check {
    let uptime = Some(Uptime { boot: 7, time: Moment(9) });
    let clock = Some(ClockMark { wall: Timestamp(1_800_000_000_000_000), uptime });
    let engine = store.engine();
    engine.progress.checkpoint(Checkpoint { clock, ..Checkpoint::default() }).await?;
    drop(engine);
    let store = store.reopen().await.reopen().await;
    same("mark", &store.engine().progress.clock_mark().await?, &clock)
}

async fn a_seek_is_there_after_a_reopen<S: Durable>(store: S) -> Check {
    let engine = store.engine();
    engine.log.commit(settles(SUBSCRIPTION, &[FIRST.0 + 20], Urgency::Durable)).await?;
    let mut target = Progress::starting_at(FIRST.plus(2));
    target.apply(&settled(&[FIRST.0 + 9]));
    let seek = ProgressChange::Replaced(Box::new(target.clone()));
    let progress = vec![(SUBSCRIPTION, seek)];
    let commit = Commit { appends: Vec::new(), progress, urgency: Urgency::Durable };
    engine.log.commit(commit).await?;
    drop(engine);
    let store = store.reopen().await;
    let start = Progress::starting_at(FIRST);
    same("progress", &store.engine().progress.load(SUBSCRIPTION, start).await?, &target)
}

async fn definitions_are_there_after_a_reopen<S: Durable>(store: S) -> Check {
    let engine = store.engine();
    let value = Bytes::from_static(b"definition\0\xff");
    let stays = engine.catalogue.put(Kind::Schema, "stays", value, None).await?;
    let goes = engine.catalogue.put(Kind::Schema, "goes", Bytes::new(), None).await?;
    engine.catalogue.delete(Kind::Schema, "goes", goes.version).await?;
    let version = Some(stays.version);
    let stays = engine.catalogue.put(Kind::Schema, "stays", Bytes::from("new"), version).await?;
    drop(engine);
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
    let mut topic = Topic::create(&store.engine(), "t").await?;
    let mut last = None;
    for _ in 0..3 {
        let position = topic.publish(&store.engine(), &[1]).await?;
        hold(last < Some(position), || format!("{position:?} after {last:?}"))?;
        last = Some(store.engine().log.position());
        store = store.reopen().await;
        let now = Some(store.engine().log.position());
        hold(now >= last, || format!("{now:?} after {last:?}"))?;
        reclaim(&store.engine(), &mut topic).await?;
    }
    Ok(())
}

async fn needed_records_survive_trims_and_reopens<S: Durable>(mut store: S) -> Check {
    let mut topic = Topic::create(&store.engine(), "t").await?;
    let mut needed: Vec<OffsetRange> = Vec::new();
    for _ in 0..4 {
        let engine = store.engine();
        let from = topic.next;
        for _ in 0..20 {
            topic.publish(&engine, &[4_000; 4]).await?;
        }
        needed.extend((from.0..topic.next.0).step_by(5).map(|o| OffsetRange::one(Offset(o))));
        let position = engine.log.position();
        engine.progress.checkpoint(Checkpoint { position, ..Checkpoint::default() }).await?;
        let needs = Needs(BTreeMap::from([(topic.id, needed.clone())]));
        engine.log.trim(Arc::new(needs)).await?;
        drop(engine);
        store = store.reopen().await;
        check_needed(&store.engine(), &topic, &needed).await?;
        reclaim(&store.engine(), &mut topic).await?;
        let half = needed.len() / 2;
        needed.drain(..half);
    }
    Ok(())
}

async fn the_next_offset_survives_a_trim_of_everything<S: Durable>(mut store: S) -> Check {
    let mut topic = Topic::create(&store.engine(), "t").await?;
    for _ in 0..3 {
        let engine = store.engine();
        for _ in 0..20 {
            topic.publish(&engine, &[4_000; 4]).await?;
        }
        let position = engine.log.position();
        engine.progress.checkpoint(Checkpoint { position, ..Checkpoint::default() }).await?;
        engine.log.trim(Arc::new(Needs::default())).await?;
        drop(engine);
        store = store.reopen().await;
        reclaim(&store.engine(), &mut topic).await?;
        check_needed(&store.engine(), &topic, &[]).await?;
    }
    Ok(())
}
