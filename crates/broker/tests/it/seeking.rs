//! Seeks: back, forward, with what that does to leases and ack ids.

use std::time::Duration;

use broker::{Error, SeekTarget};
use domain::{Offset, ProgressChange, Subscription, Timestamp};
use storage::Urgency;

use crate::fixture::{Fixture, settings, subscription_name, texts};

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
