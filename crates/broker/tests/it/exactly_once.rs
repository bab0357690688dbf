//! Exactly-once: only the current id counts, and an answered ack is durable.

use std::sync::atomic::Ordering;
use std::time::Duration;

use broker::Error;
use domain::Subscription;
use storage::Urgency;

use crate::fixture::{Fixture, ack_ids, settings, texts};

async fn with_exactly_once(fixture: &Fixture) -> domain::TopicName {
    let topic = fixture.topic().await;
    fixture.subscribe(Subscription { exactly_once: true, ..settings(&topic, "sub") }).await;
    topic
}

#[tokio::test]
async fn an_ack_that_is_answered_is_durable() {
    let fixture = Fixture::new().await;
    let topic = with_exactly_once(&fixture).await;
    fixture.publish(&topic, &["a"]).await;
    let leases = fixture.pull("sub", 10).await;
    fixture.log.take_commits();
    let report = fixture.find("sub").acknowledge(&ack_ids(&leases)).await.unwrap();
    assert!(report.stale.is_empty());
    let urgencies: Vec<_> =
        fixture.log.take_commits().iter().map(|commit| commit.urgency).collect();
    assert_eq!(urgencies, [Urgency::Durable]);
    // Repeated, it is good again, after a barrier.
    let report = fixture.find("sub").acknowledge(&ack_ids(&leases)).await.unwrap();
    assert!(report.stale.is_empty());
    assert_eq!(fixture.log.take_commits().len(), 1);
}

#[tokio::test]
async fn without_exactly_once_an_ack_rides() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["a"]).await;
    let leases = fixture.pull("sub", 10).await;
    fixture.log.take_commits();
    fixture.ack("sub", &leases).await;
    assert!(fixture.log.take_commits().iter().all(|commit| commit.urgency == Urgency::Ride));
}

#[tokio::test]
async fn ids_that_count_no_more_are_reported_by_their_place() {
    let mut fixture = Fixture::new().await;
    let topic = with_exactly_once(&fixture).await;
    fixture.publish(&topic, &["a", "b"]).await;
    let expired = fixture.pull("sub", 1).await;
    fixture.clock.advance(Duration::from_secs(11));
    let current = fixture.pull("sub", 10).await;
    assert_eq!(texts(&current), ["a", "b"]);
    let mut ids = ack_ids(&current[1..]);
    ids.extend(ack_ids(&expired));
    let subscription = fixture.find("sub");
    let report = subscription.modify_ack_deadline(&ids, Duration::from_secs(20)).await.unwrap();
    assert_eq!(report.stale, [1]);
    let report = subscription.acknowledge(&ids).await.unwrap();
    assert_eq!(report.stale, [1]);
    fixture.reopen().await;
    let report = fixture.find("sub").acknowledge(&ack_ids(&current[..1])).await.unwrap();
    assert_eq!(report.stale, [0], "leases end with the server");
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["a"]);
}

#[tokio::test]
async fn an_id_of_another_subscription_is_reported_too() {
    let fixture = Fixture::new().await;
    let topic = with_exactly_once(&fixture).await;
    fixture.subscription(&topic, "other").await;
    fixture.publish(&topic, &["a"]).await;
    let foreign = fixture.pull("other", 1).await;
    let report = fixture.find("sub").acknowledge(&ack_ids(&foreign)).await.unwrap();
    assert_eq!(report.stale, [0]);
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["a"]);
}

#[tokio::test]
async fn an_ack_that_cannot_be_kept_is_an_error() {
    let fixture = Fixture::new().await;
    let topic = with_exactly_once(&fixture).await;
    fixture.publish(&topic, &["a"]).await;
    let leases = fixture.pull("sub", 10).await;
    fixture.log.is_broken.store(true, Ordering::SeqCst);
    let failed = fixture.find("sub").acknowledge(&ack_ids(&leases)).await;
    assert!(matches!(failed, Err(Error::Storage(storage::Error::Unavailable(_)))));
}
