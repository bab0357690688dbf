//! Pulling, acking, coming back, and where a subscription starts.

use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::Offset;
use domain::subscription::Start;

use crate::fixture::{Fixture, ack_ids, keep, subscription_name, texts, until};

#[tokio::test]
async fn what_is_acked_never_comes_again() {
    let mut fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let subscription = fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["a", "b", "c"]).await;
    let leases = fixture.pull("sub", 10).await;
    assert_eq!(texts(&leases), ["a", "b", "c"]);
    // Out of order: b and c first.
    subscription.acknowledge(&ack_ids(&leases[1..])).await.unwrap();
    fixture.reopen().await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["a"]);
}

/// The stop ends a checkpoint half-way and saves one of its own, with a later position.
#[tokio::test]
async fn a_stop_in_the_middle_of_a_checkpoint_forgets_no_ack() {
    let mut fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["a", "b"]).await;
    let leases = fixture.pull("sub", 10).await;
    fixture.ack("sub", &leases[..1]).await;
    fixture.log.holds_barriers.store(true, Ordering::SeqCst);
    until(|| {
        fixture.clock.advance(Duration::from_secs(1));
        fixture.log.held_barriers() > 0
    })
    .await;
    fixture.log.holds_barriers.store(false, Ordering::SeqCst);
    fixture.reopen().await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["b"]);
}

#[tokio::test]
async fn a_late_ack_from_before_a_stop_still_counts() {
    let mut fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["a"]).await;
    let leases = fixture.pull("sub", 10).await;
    fixture.reopen().await;
    let subscription = fixture.broker.subscription(&subscription_name("sub")).unwrap();
    subscription.acknowledge(&ack_ids(&leases)).await.unwrap();
    assert!(fixture.pull("sub", 10).await.is_empty());
}

#[tokio::test]
async fn an_expired_lease_wakes_a_waiting_pull() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["a"]).await;
    assert_eq!(fixture.pull("sub", 10).await.len(), 1);
    let name = subscription_name("sub");
    let waiting = fixture.broker.pull(&name, 10, Duration::from_secs(60));
    let advancing = async {
        tokio::task::yield_now().await;
        fixture.clock.advance(Duration::from_secs(11));
    };
    let (again, ()) = tokio::join!(waiting, advancing);
    let again = again.unwrap();
    assert_eq!((texts(&again), again[0].attempt), (vec!["a".to_owned()], 2));
}

#[tokio::test]
async fn a_nack_gives_the_record_to_the_next_who_asks() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let subscription = fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["a", "b"]).await;
    let leases = fixture.pull("sub", 1).await;
    subscription.modify_ack_deadline(&ack_ids(&leases), Duration::ZERO).await.unwrap();
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["a", "b"]);
}

#[tokio::test]
async fn a_pull_waits_for_a_message_and_no_longer_than_asked() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    let name = subscription_name("sub");
    let publishing = async {
        tokio::task::yield_now().await;
        fixture.publish(&topic, &["a"]).await
    };
    let pulling = fixture.broker.pull(&name, 10, Duration::from_secs(60));
    let (pulled, _) = tokio::join!(pulling, publishing);
    assert_eq!(texts(&pulled.unwrap()), ["a"]);
    let giving_up = async {
        tokio::task::yield_now().await;
        fixture.clock.advance(Duration::from_secs(5));
    };
    let pulling = fixture.broker.pull(&name, 10, Duration::from_secs(5));
    let (pulled, ()) = tokio::join!(pulling, giving_up);
    assert!(pulled.unwrap().is_empty());
}

#[tokio::test]
async fn a_subscription_starts_where_it_was_told() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.broker.update_topic(&topic, keep(Duration::from_secs(600))).await.unwrap();
    let ids = fixture.publish(&topic, &["a", "b"]).await;
    fixture.clock.advance(Duration::from_secs(1));
    let time = broker::Clock::wall(&*fixture.clock);
    fixture.publish(&topic, &["c"]).await;
    let starts = [
        (Start::Latest, vec!["d"]),
        (Start::Earliest, vec!["a", "b", "c", "d"]),
        (Start::Offset(Offset(ids[1])), vec!["b", "c", "d"]),
        (Start::Time(time), vec!["c", "d"]),
    ];
    for (at, (start, _)) in starts.iter().enumerate() {
        let name = subscription_name(&format!("from-{at}"));
        let settings = domain::Subscription {
            start: *start,
            ..domain::Subscription::new(name, topic.clone())
        };
        fixture.broker.create_subscription(settings).await.unwrap();
    }
    fixture.publish(&topic, &["d"]).await;
    for (at, (start, expected)) in starts.iter().enumerate() {
        let pulled = fixture.pull(&format!("from-{at}"), 10).await;
        assert_eq!(&texts(&pulled), expected, "{start:?}");
    }
}

#[tokio::test]
async fn a_start_behind_the_end_is_refused() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let start = Start::Offset(Offset(u64::MAX));
    let settings = domain::Subscription::new(subscription_name("sub"), topic);
    let made = fixture.broker.create_subscription(domain::Subscription { start, ..settings }).await;
    assert!(made.err().unwrap().to_string().starts_with("postrider.start: offset"));
}

#[tokio::test]
async fn the_cursor_shows_what_is_saved() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let subscription = fixture.subscription(&topic, "sub").await;
    let ids = fixture.publish(&topic, &["a", "b", "c"]).await;
    let before = subscription.cursor();
    assert_eq!(before.resume.0, ids[0]);
    let leases = fixture.pull("sub", 10).await;
    subscription.acknowledge(&ack_ids(&leases[..1])).await.unwrap();
    subscription.acknowledge(&ack_ids(&leases[2..])).await.unwrap();
    assert_eq!(subscription.cursor(), before, "not saved yet");
    let saved = async {
        while subscription.cursor() == before {
            fixture.clock.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
        subscription.cursor()
    };
    let cursor = tokio::time::timeout(Duration::from_secs(10), saved).await.unwrap();
    assert_eq!((cursor.resume.0, cursor.acked_above), (ids[1], 1));
}

#[tokio::test]
async fn a_record_past_its_retention_is_not_leased_any_more() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["old"]).await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["old"]);
    fixture.clock.advance(domain::limits::RETENTION_DEFAULT + Duration::from_secs(1));
    fixture.publish(&topic, &["new"]).await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["new"]);
}

#[tokio::test]
async fn an_ack_id_of_another_subscription_is_refused() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "one").await;
    let other = fixture.subscription(&topic, "two").await;
    fixture.publish(&topic, &["a"]).await;
    let leases = fixture.pull("one", 10).await;
    let refused = other.acknowledge(&ack_ids(&leases)).await.err().unwrap();
    assert!(refused.to_string().starts_with("ack_ids[0]: "), "{refused}");
    assert_eq!(texts(&fixture.pull("two", 10).await), ["a"]);
}
