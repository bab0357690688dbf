//! Subscriptions that deliver nothing: paused for a while, or detached for good.

use std::future::poll_fn;
use std::time::Duration;

use broker::Error;
use domain::delivery::Flow;
use domain::subscription::Change;

use crate::fixture::{Fixture, ack_ids, subscription_name, texts};

#[tokio::test]
async fn a_paused_subscription_keeps_its_backlog() {
    let mut fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["a"]).await;
    let name = subscription_name("sub");
    let pause = |paused| Change::of("postrider.paused", bool::into(paused)).unwrap();
    fixture.broker.update_subscription(&name, pause(true)).await.unwrap();
    assert!(fixture.pull("sub", 10).await.is_empty());
    fixture.reopen().await;
    assert!(fixture.pull("sub", 10).await.is_empty());
    let waiting = fixture.broker.pull(&name, 10, Duration::from_secs(60));
    let resuming = async {
        tokio::task::yield_now().await;
        fixture.broker.update_subscription(&name, pause(false)).await.unwrap();
    };
    let (resumed, ()) = tokio::join!(waiting, resuming);
    assert_eq!(texts(&resumed.unwrap()), ["a"]);
}

#[tokio::test]
async fn a_detached_subscription_has_no_messages_and_refuses_consumers() {
    let mut fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let subscription = fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["a", "b"]).await;
    let held = fixture.pull("sub", 1).await;
    let name = subscription_name("sub");
    let mut stream =
        fixture.broker.stream(&name, Flow::default(), Duration::from_secs(10)).unwrap();
    poll_fn(|context| stream.poll_lease(context)).await.unwrap();
    let (ended, ()) = tokio::join!(poll_fn(|context| stream.poll_lease(context)), async {
        tokio::task::yield_now().await;
        fixture.broker.detach_subscription(&name).await.unwrap();
    });
    assert!(matches!(ended, Err(Error::FailedPrecondition(_))));
    subscription.acknowledge(&ack_ids(&held)).await.unwrap();
    let read = fixture.broker.topic(&topic).unwrap();
    assert!(fixture.broker.list_topic_subscriptions(&read, None, 10).0.is_empty());
    for _ in 0..2 {
        let pulled = fixture.broker.pull(&name, 10, Duration::ZERO).await;
        assert!(matches!(pulled, Err(Error::FailedPrecondition(_))));
        assert!(fixture.find("sub").settings().detached);
        fixture.reopen().await;
    }
    fixture.broker.detach_subscription(&name).await.unwrap();
    fixture.broker.delete_subscription(&name).await.unwrap();
}

#[tokio::test]
async fn what_only_a_detached_subscription_needed_is_dropped() {
    let mut fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["a"]).await;
    fixture.broker.detach_subscription(&subscription_name("sub")).await.unwrap();
    fixture.trim().await;
    let start = domain::subscription::Start::Earliest;
    let settings = crate::fixture::settings(&topic, "late");
    fixture.subscribe(domain::Subscription { start, ..settings }).await;
    assert!(fixture.pull("late", 10).await.is_empty());
    fixture.broker.delete_topic(&topic).await.unwrap();
    fixture.broker.delete_subscription(&subscription_name("late")).await.unwrap();
    fixture.reopen().await;
    assert!(fixture.find("sub").topic().is_deleted());
}
