//! `ProgressStore`.

use domain::progress::Attempt;
use domain::{
    ClockMark, Moment, Offset, Progress, ProgressChange, SubscriptionId, Timestamp, Uptime,
};

use super::support::{FIRST, Held, Topic, hold, refused, same, settled, settles};
use super::{Case, Check, cases};
use crate::{Checkpoint, Commit, Error, Position, Urgency};

pub(super) const CASES: &[Case<Held>] = cases![
    a_topic_new_to_the_log_starts_where_it_is_begun,
    a_known_topic_goes_on_at_its_next_offset_however_often_it_is_begun,
    a_claim_tells_the_last_publish_time,
    progress_without_changes_is_the_start,
    progress_of_many_subscriptions_comes_in_their_order,
    every_durable_change_is_applied_to_the_start,
    changes_are_applied_in_the_order_committed,
    a_checkpoint_replaces_the_start,
    changes_after_a_checkpoint_are_applied_to_it,
    a_checkpoint_that_contains_later_changes_does_no_harm,
    a_forgotten_subscription_has_no_progress,
    a_checkpoint_past_the_log_is_refused,
    the_mark_of_the_clock_is_the_last_that_was_saved,
    a_raised_topic_goes_on_there_and_what_lies_between_is_a_gap,
];

const SUBSCRIPTION: SubscriptionId = SubscriptionId(77);
const OTHER: SubscriptionId = SubscriptionId(78);

fn start() -> Progress {
    Progress::starting_at(FIRST)
}

async fn commit(held: &Held, change: ProgressChange) -> Result<Position, crate::Error> {
    let progress = vec![(SUBSCRIPTION, change)];
    let commit = Commit { appends: Vec::new(), progress, urgency: Urgency::Durable };
    held.log.commit(commit).await
}

async fn a_topic_new_to_the_log_starts_where_it_is_begun(held: Held) -> Check {
    let topic = Topic::create(&held, "t").await?;
    same("next", &topic.next, &FIRST)
}

async fn a_known_topic_goes_on_at_its_next_offset_however_often_it_is_begun(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    topic.publish(&held, &[1, 2]).await?;
    for first in [Offset(0), FIRST, Offset(1 << 50)] {
        let claim = held.log.begin(topic.id, first).await?;
        same("next", &claim.next, &FIRST.plus(2))?;
    }
    Ok(())
}

async fn a_claim_tells_the_last_publish_time(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    let claim = held.log.begin(topic.id, FIRST).await?;
    same("time of an empty topic", &claim.last_publish_time, &Timestamp(0))?;
    topic.publish(&held, &[1, 2]).await?;
    let claim = held.log.begin(topic.id, FIRST).await?;
    same("time", &claim.last_publish_time, &topic.last_publish_time())
}

async fn progress_without_changes_is_the_start(held: Held) -> Check {
    let progress = held.progress.load_one(SUBSCRIPTION, start()).await?;
    same("progress", &progress, &start())
}

async fn progress_of_many_subscriptions_comes_in_their_order(held: Held) -> Check {
    let saved = vec![(OTHER, Progress::starting_at(FIRST.plus(9)))];
    let checkpoint = Checkpoint { progress: saved, ..Checkpoint::default() };
    held.progress.checkpoint(checkpoint).await?;
    commit(&held, settled(&[FIRST.0])).await?;
    held.log.commit(settles(OTHER, &[FIRST.0 + 9], Urgency::Durable)).await?;
    let unknown = Progress::starting_at(FIRST.plus(500));
    let asked =
        vec![(OTHER, start()), (SubscriptionId(9_999), unknown.clone()), (SUBSCRIPTION, start())];
    let loaded = held.progress.load(asked).await?;
    let cursors: Vec<_> = loaded.iter().map(Progress::cursor).collect();
    let expected = [FIRST.plus(10), unknown.cursor(), FIRST.next()];
    same("cursors", &cursors.as_slice(), &&expected[..])?;
    same("of none", &held.progress.load(Vec::new()).await?, &Vec::new())
}

async fn every_durable_change_is_applied_to_the_start(held: Held) -> Check {
    let mut expected = start();
    for n in [4, 2, 0, 9, 1] {
        held.log.commit(settles(SUBSCRIPTION, &[FIRST.0 + n], Urgency::Ride)).await?;
        held.log.commit(settles(OTHER, &[FIRST.0 + n + 100], Urgency::Ride)).await?;
        expected.apply(&settled(&[FIRST.0 + n]));
    }
    let tried = vec![(FIRST.plus(7), Attempt { count: 2, due: Timestamp(5) })];
    let tried = ProgressChange::Attempts(tried);
    expected.apply(&tried);
    commit(&held, tried).await?;
    let progress = held.progress.load_one(SUBSCRIPTION, start()).await?;
    same("progress", &progress, &expected)?;
    let again = held.progress.load_one(SUBSCRIPTION, start()).await?;
    same("progress loaded again", &again, &expected)
}

async fn changes_are_applied_in_the_order_committed(held: Held) -> Check {
    let seek = ProgressChange::Replaced(Box::new(Progress::starting_at(FIRST.plus(3))));
    let changes = [settled(&[FIRST.0, FIRST.0 + 50]), seek, settled(&[FIRST.0 + 3])];
    let mut expected = start();
    for change in changes {
        expected.apply(&change);
        let progress = vec![(SUBSCRIPTION, change)];
        let ride = Commit { appends: Vec::new(), progress, urgency: Urgency::Ride };
        held.log.commit(ride).await?;
    }
    held.log.commit(Commit::barrier()).await?;
    let progress = held.progress.load_one(SUBSCRIPTION, start()).await?;
    same("progress", &progress, &expected)?;
    hold(!progress.is_acked(FIRST.plus(50)), || "the seek was lost".to_owned())
}

async fn a_checkpoint_replaces_the_start(held: Held) -> Check {
    let position = commit(&held, settled(&[FIRST.0])).await?;
    let mut saved = start();
    saved.apply(&settled(&[FIRST.0]));
    let progress = vec![(SUBSCRIPTION, saved.clone())];
    let checkpoint = Checkpoint { position, progress, forgotten: Vec::new(), clock: None };
    held.progress.checkpoint(checkpoint).await?;
    let loaded = held.progress.load_one(SUBSCRIPTION, Progress::starting_at(Offset(5))).await?;
    same("progress", &loaded, &saved)
}

async fn changes_after_a_checkpoint_are_applied_to_it(held: Held) -> Check {
    let position = commit(&held, settled(&[FIRST.0])).await?;
    let mut saved = start();
    saved.apply(&settled(&[FIRST.0]));
    commit(&held, settled(&[FIRST.0 + 1, FIRST.0 + 5])).await?;
    let progress = vec![(SUBSCRIPTION, saved.clone())];
    let checkpoint = Checkpoint { position, progress, forgotten: Vec::new(), clock: None };
    held.progress.checkpoint(checkpoint).await?;
    commit(&held, settled(&[FIRST.0 + 7])).await?;
    saved.apply(&settled(&[FIRST.0 + 1, FIRST.0 + 5, FIRST.0 + 7]));
    same("progress", &held.progress.load_one(SUBSCRIPTION, start()).await?, &saved)
}

async fn a_checkpoint_that_contains_later_changes_does_no_harm(held: Held) -> Check {
    let changes = [
        settled(&[FIRST.0, FIRST.0 + 9]),
        ProgressChange::Replaced(Box::new(Progress::starting_at(FIRST.plus(3)))),
        settled(&[FIRST.0 + 4]),
    ];
    let mut reached = start();
    let mut positions = Vec::new();
    for change in changes {
        reached.apply(&change);
        positions.push(commit(&held, change).await?);
    }
    let progress = vec![(SUBSCRIPTION, reached.clone())];
    let checkpoint =
        Checkpoint { position: positions[0], progress, forgotten: Vec::new(), clock: None };
    held.progress.checkpoint(checkpoint).await?;
    same("progress", &held.progress.load_one(SUBSCRIPTION, start()).await?, &reached)
}

async fn a_forgotten_subscription_has_no_progress(held: Held) -> Check {
    commit(&held, settled(&[FIRST.0])).await?;
    let position = held.log.position();
    let progress = vec![(SUBSCRIPTION, Progress::starting_at(FIRST.plus(9)))];
    let saved = Checkpoint { position, progress, forgotten: Vec::new(), clock: None };
    held.progress.checkpoint(saved).await?;
    let forgotten = vec![SUBSCRIPTION];
    let gone = Checkpoint { position, progress: Vec::new(), forgotten, clock: None };
    held.progress.checkpoint(gone).await?;
    same("progress", &held.progress.load_one(SUBSCRIPTION, start()).await?, &start())
}

async fn a_checkpoint_past_the_log_is_refused(held: Held) -> Check {
    commit(&held, settled(&[FIRST.0])).await?;
    let position = Position(held.log.position().0 + 1);
    let progress = vec![(SUBSCRIPTION, Progress::starting_at(FIRST.plus(9)))];
    let answer = held
        .progress
        .checkpoint(Checkpoint { position, progress, forgotten: Vec::new(), clock: None })
        .await;
    refused(&answer, "an error", |_| true)?;
    let progress = held.progress.load_one(SUBSCRIPTION, start()).await?;
    same("cursor", &progress.cursor(), &FIRST.next())
}

async fn the_mark_of_the_clock_is_the_last_that_was_saved(held: Held) -> Check {
    same("mark of a new store", &held.progress.clock_mark().await?, &None)?;
    let uptime = Some(Uptime { boot: u64::MAX, time: Moment(9) });
    for clock in [
        ClockMark { wall: Timestamp(1_800_000_000_000_000), uptime },
        ClockMark { wall: Timestamp(5), uptime: None },
    ] {
        let saved = Checkpoint { clock: Some(clock), ..Checkpoint::default() };
        held.progress.checkpoint(saved).await?;
        held.progress.checkpoint(Checkpoint::default()).await?;
        same("mark", &held.progress.clock_mark().await?, &Some(clock))?;
    }
    Ok(())
}

async fn a_raised_topic_goes_on_there_and_what_lies_between_is_a_gap(held: Held) -> Check {
    let mut topic = Topic::create(&held, "t").await?;
    let raised = FIRST.plus(1_000);
    held.progress.raise(vec![(topic.id, raised)]).await?;
    same("end", &held.log.end(topic.id), &raised)?;
    topic.next = raised;
    topic.publish(&held, &[1, 2]).await?;
    topic.check(&held).await?;
    let answer = held.progress.raise(vec![(topic.id, raised)]).await;
    refused(&answer, "Conflict", |error| matches!(error, Error::Conflict))?;
    let claim = held.log.begin(topic.id, FIRST).await?;
    same("next", &claim.next, &raised.plus(2))
}
