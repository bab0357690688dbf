//! Seeks: back, forward, with what that does to leases and ack ids.

use std::time::Duration;

use broker::{Error, SeekTarget};
use domain::subscription::Start;
use domain::{Offset, ProgressChange, SnapshotName, Subscription, Timestamp, TopicName};
use storage::Urgency;

use crate::fixture::{DAY, Fixture, keep, settings, subscription_name, texts};

const SECOND: Duration = Duration::from_secs(1);

impl Fixture {
    async fn seek(&self, time: Timestamp) {
        let target = SeekTarget::Time(time);
        self.broker.seek(&subscription_name("sub"), target).await.unwrap();
    }
}

/// A subscription that keeps what it has acked, with a, b, c published a second apart; the times.
async fn with_three(fixture: &Fixture) -> Vec<Timestamp> {
    let topic = fixture.topic().await;
    let retain_acked_messages = true;
    fixture.subscribe(Subscription { retain_acked_messages, ..settings(&topic, "sub") }).await;
    let mut times = Vec::new();
    for text in ["a", "b", "c"] {
        times.push(fixture.now());
        fixture.publish(&topic, &[text]).await;
        fixture.clock.advance(SECOND);
    }
    times
}

#[tokio::test]
async fn a_seek_back_replays_what_was_acked() {
    let mut fixture = Fixture::new().await;
    let times = with_three(&fixture).await;
    let leases = fixture.pull("sub", 10).await;
    fixture.ack("sub", &leases).await;
    fixture.trim().await;
    fixture.seek(times[1]).await;
    let again = fixture.pull("sub", 10).await;
    assert_eq!(texts(&again), ["b", "c"]);
    fixture.ack("sub", &again[..1]).await;
    fixture.reopen().await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["c"]);
    fixture.seek(Timestamp(0)).await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["a", "b", "c"]);
}

#[tokio::test]
async fn a_seek_forward_acks_what_lies_before() {
    let mut fixture = Fixture::new().await;
    let times = with_three(&fixture).await;
    fixture.seek(times[2]).await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["c"]);
    fixture.seek(fixture.now().plus(100 * SECOND)).await;
    assert!(fixture.pull("sub", 10).await.is_empty());
    fixture.reopen().await;
    assert!(fixture.pull("sub", 10).await.is_empty());
    let topic = crate::fixture::topic_name("orders");
    fixture.publish(&topic, &["d"]).await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["d"], "what comes is delivered");
}

#[tokio::test]
async fn a_seek_is_durable_and_names_only_what_is_visible() {
    let fixture = Fixture::new().await;
    let times = with_three(&fixture).await;
    fixture.log.take_commits();
    fixture.seek(times[1]).await;
    let commits = fixture.log.take_commits();
    let (_, change) = &commits[0].progress[0];
    let ProgressChange::Replaced(progress) = change else { panic!("{change:?}") };
    assert_eq!((commits.len(), commits[0].urgency), (1, Urgency::Durable));
    assert_eq!(progress.cursor(), Offset(fixture.pull("sub", 1).await[0].record.offset.0));
}

#[tokio::test]
async fn a_seek_voids_the_ids_given_out_before_also_after_a_restart() {
    let mut fixture = Fixture::new().await;
    let times = with_three(&fixture).await;
    let before = fixture.pull("sub", 10).await;
    fixture.seek(times[0]).await;
    fixture.ack("sub", &before).await;
    let again = fixture.pull("sub", 10).await;
    assert_eq!(texts(&again), ["a", "b", "c"]);
    fixture.reopen().await;
    fixture.ack("sub", &before).await;
    fixture.ack("sub", &again[..1]).await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["b", "c"], "later ids count");
}

#[tokio::test]
async fn a_seek_wakes_who_waits_and_frees_who_was_full() {
    let fixture = Fixture::new().await;
    let times = with_three(&fixture).await;
    let leases = fixture.pull("sub", 10).await;
    fixture.ack("sub", &leases).await;
    let name = subscription_name("sub");
    let waiting = fixture.broker.pull(&name, 10, 60 * SECOND);
    let seeking = async {
        tokio::task::yield_now().await;
        fixture.seek(times[2]).await;
    };
    let (again, ()) = tokio::join!(waiting, seeking);
    assert_eq!(texts(&again.unwrap()), ["c"]);
}

#[tokio::test]
async fn a_seek_forgets_attempts_and_backoffs() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let retry_policy = Some(domain::RetryPolicy { min: 60 * SECOND, max: 60 * SECOND });
    fixture.subscribe(Subscription { retry_policy, ..settings(&topic, "sub") }).await;
    fixture.publish(&topic, &["a"]).await;
    fixture.fail("sub", 1).await;
    assert!(fixture.pull("sub", 10).await.is_empty());
    fixture.seek(Timestamp(0)).await;
    assert_eq!(fixture.pull("sub", 10).await[0].attempt, 1);
}

#[tokio::test]
async fn a_subscription_that_is_not_there_or_detached_cannot_be_sent_anywhere() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let name = subscription_name("sub");
    let seek = || fixture.broker.seek(&name, SeekTarget::Time(Timestamp(0)));
    assert!(matches!(seek().await, Err(Error::NotFound(..))));
    fixture.subscription(&topic, "sub").await;
    fixture.broker.detach_subscription(&name).await.unwrap();
    assert!(matches!(seek().await, Err(Error::FailedPrecondition(_))));
}

/// A subscription made between a and b, which has acked b of b and c. A second one keeps all of
/// them in the log.
async fn with_acked(fixture: &Fixture) -> TopicName {
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "other").await;
    fixture.publish(&topic, &["a"]).await;
    fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["b", "c"]).await;
    let leases = fixture.pull("sub", 10).await;
    fixture.ack("sub", &leases[..1]).await;
    topic
}

#[tokio::test]
async fn what_was_acked_and_is_kept_by_nothing_stays_acked_whether_a_chore_ran_or_not() {
    for trims in [false, true] {
        let mut fixture = Fixture::new().await;
        with_acked(&fixture).await;
        if trims {
            let leases = fixture.pull("other", 10).await;
            fixture.ack("other", &leases).await;
            fixture.trim().await;
        }
        fixture.seek(Timestamp(0)).await;
        assert_eq!(texts(&fixture.pull("sub", 10).await), ["c"], "trimmed: {trims}");
        fixture.seek(fixture.now().plus(SECOND)).await;
        fixture.seek(Timestamp(0)).await;
        assert!(fixture.pull("sub", 10).await.is_empty(), "passed over, trimmed: {trims}");
        fixture.reopen().await;
        assert!(fixture.pull("sub", 10).await.is_empty(), "trimmed: {trims}");
    }
}

#[tokio::test]
async fn what_the_topic_keeps_comes_back_also_from_before_the_subscription() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic_of("orders").await;
    fixture.broker.update_topic(&topic, keep(DAY)).await.unwrap();
    fixture.publish(&topic, &["a"]).await;
    fixture.clock.advance(DAY / 2);
    fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["b"]).await;
    let leases = fixture.pull("sub", 10).await;
    fixture.ack("sub", &leases).await;
    fixture.seek(Timestamp(0)).await;
    let leases = fixture.pull("sub", 10).await;
    assert_eq!(texts(&leases), ["a", "b"]);
    fixture.ack("sub", &leases).await;
    fixture.clock.advance(DAY / 2 + SECOND);
    fixture.seek(Timestamp(0)).await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["b"], "a is too old by now");
}

#[tokio::test]
async fn what_a_snapshot_keeps_comes_back_for_all_and_nothing_between() {
    let mut fixture = Fixture::new().await;
    let topic = with_acked(&fixture).await;
    // Other has acked b: the snapshot leaves a and c unacked, and what comes.
    let leases = fixture.pull("other", 10).await;
    fixture.ack("other", &leases[1..2]).await;
    let name = SnapshotName::parse("name", "projects/p/snapshots/snap").unwrap();
    let of = subscription_name("other");
    fixture
        .broker
        .create_snapshot(name, &of, Default::default(), Default::default())
        .await
        .unwrap();
    fixture.publish(&topic, &["d"]).await;
    fixture.seek(Timestamp(0)).await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["a", "c", "d"]);
    let start = Start::Earliest;
    fixture.subscribe(Subscription { start, ..settings(&topic, "late") }).await;
    assert_eq!(fixture.find("late").backlog(), 3);
    fixture.reopen().await;
    assert_eq!(texts(&fixture.pull("late", 10).await), ["a", "c", "d"]);
}

#[tokio::test]
async fn acked_messages_come_back_from_when_they_were_to_be_kept() {
    let mut fixture = Fixture::new().await;
    let topic = with_acked(&fixture).await;
    let retain = |retain| {
        domain::subscription::Change::of("retain_acked_messages", bool::into(retain)).unwrap()
    };
    let name = subscription_name("sub");
    fixture.broker.update_subscription(&name, retain(true)).await.unwrap();
    fixture.publish(&topic, &["d"]).await;
    fixture.clock.advance(11 * SECOND);
    let leases = fixture.wait("sub").await;
    fixture.ack("sub", &leases).await;
    fixture.reopen().await;
    fixture.seek(Timestamp(0)).await;
    let leases = fixture.pull("sub", 10).await;
    assert_eq!(texts(&leases), ["c", "d"], "b was acked before, a is from before all");
    fixture.ack("sub", &leases).await;
    fixture.broker.update_subscription(&name, retain(false)).await.unwrap();
    fixture.seek(Timestamp(0)).await;
    assert!(fixture.pull("sub", 10).await.is_empty());
}

#[tokio::test]
async fn a_new_subscription_starts_with_what_is_kept_for_it() {
    let fixture = Fixture::new().await;
    let topic = with_acked(&fixture).await;
    let end = fixture.publish(&topic, &["d"]).await[0];
    let starts = [Start::Earliest, Start::Time(Timestamp(0)), Start::Offset(Offset(end))];
    for (number, start) in starts.into_iter().enumerate() {
        let id = format!("late-{number}");
        fixture.subscribe(Subscription { start, ..settings(&topic, &id) }).await;
        assert!(fixture.pull(&id, 10).await.is_empty(), "{start:?}: the topic keeps nothing");
    }
}
