//! Subscriptions that nobody uses expire; those that somebody uses do not.

use std::time::Duration;

use domain::Subscription;
use domain::delivery::Flow;

use crate::fixture::{DAY, Fixture, HOUR, settings, settle, subscription_name, until};

async fn with_expiry(fixture: &Fixture, id: &str, expiration: Option<Duration>) {
    let topic = crate::fixture::topic_name("orders");
    let (message_retention, settings) = (DAY, settings(&topic, id));
    fixture.subscribe(Subscription { expiration, message_retention, ..settings }).await;
}

impl Fixture {
    fn is_there(&self, id: &str) -> bool {
        self.broker.subscription(&subscription_name(id)).is_ok()
    }

    /// Lets time pass in steps, so that whatever is due in between comes in its turn.
    async fn pass(&self, time: Duration) {
        for _ in 0..24 {
            self.clock.advance(time / 24);
            settle().await;
        }
    }
}

#[tokio::test]
async fn an_unused_subscription_expires_and_others_stay() {
    let mut fixture = Fixture::new().await;
    fixture.topic().await;
    with_expiry(&fixture, "sub", Some(2 * DAY)).await;
    with_expiry(&fixture, "never", None).await;
    fixture.pass(2 * DAY - HOUR).await;
    assert!(fixture.is_there("sub"));
    fixture.clock.advance(HOUR);
    until(|| !fixture.is_there("sub")).await;
    fixture.pass(40 * DAY).await;
    assert!(fixture.is_there("never"));
    fixture.reopen().await;
    assert!(!fixture.is_there("sub"));
}

#[tokio::test]
async fn use_renews_it_and_an_open_stream_is_use() {
    let fixture = Fixture::new().await;
    fixture.topic().await;
    with_expiry(&fixture, "pulled", Some(2 * DAY)).await;
    with_expiry(&fixture, "streamed", Some(2 * DAY)).await;
    let name = subscription_name("streamed");
    let stream = fixture.broker.stream(&name, Flow::default(), Duration::from_secs(10)).unwrap();
    for _ in 0..4 {
        fixture.pass(DAY).await;
        assert!(fixture.pull("pulled", 1).await.is_empty());
    }
    assert!(fixture.is_there("streamed"));
    drop(stream);
    fixture.pass(DAY).await;
    assert!(fixture.is_there("pulled") && fixture.is_there("streamed"));
    fixture.pass(DAY + HOUR).await;
    until(|| !fixture.is_there("pulled") && !fixture.is_there("streamed")).await;
}

#[tokio::test]
async fn a_shorter_time_counts_at_once() {
    let fixture = Fixture::new().await;
    fixture.topic().await;
    with_expiry(&fixture, "sub", None).await;
    let change =
        domain::subscription::Change::of("expiration_policy", serde_json::json!({"ttl": "86400s"}))
            .unwrap();
    fixture.broker.update_subscription(&subscription_name("sub"), change).await.unwrap();
    fixture.pass(DAY + HOUR).await;
    until(|| !fixture.is_there("sub")).await;
}

#[tokio::test]
async fn a_restart_does_not_renew_it() {
    let mut fixture = Fixture::new().await;
    fixture.topic().await;
    with_expiry(&fixture, "sub", Some(2 * DAY)).await;
    for _ in 0..3 {
        fixture.pass(12 * HOUR).await;
        fixture.reopen().await;
    }
    assert!(fixture.is_there("sub"));
    fixture.pass(13 * HOUR).await;
    until(|| !fixture.is_there("sub")).await;
}

#[tokio::test]
async fn a_crash_forgets_at_most_the_last_hour_of_use() {
    let mut fixture = Fixture::new().await;
    fixture.topic().await;
    with_expiry(&fixture, "sub", Some(2 * DAY)).await;
    fixture.pass(DAY).await;
    fixture.pull("sub", 1).await;
    fixture.pass(2 * HOUR).await;
    // What is in the store now is what a crash would leave.
    let saved = fixture.engine.catalogue.get(storage::Kind::Bookkeeping, "subscriptions-used");
    let saved = String::from_utf8(saved.await.unwrap().value.to_vec()).unwrap();
    let used_at = fixture.now().minus(2 * HOUR).0.to_string();
    assert!(saved.contains(&used_at), "{used_at} not in {saved}");
    fixture.reopen().await;
}
