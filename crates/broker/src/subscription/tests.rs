//! What cannot be seen from outside: a server that knows too many records.

use std::sync::Arc;
use std::time::Duration;

use domain::{Message, RetryPolicy, SubscriptionName, TopicName};
use futures::FutureExt;

use crate::index::{ROOM_TOLD, SERVER_MAX};
use crate::{Broker, Options, Subscription, SystemClock};

const BACKOFF: Duration = Duration::from_secs(600);

/// A broker with the topic `orders` and a subscription `sub` on it whose failures wait long.
async fn open() -> (Arc<Broker>, TopicName, Arc<Subscription>) {
    let clock = Arc::new(SystemClock::start());
    let broker = Broker::open(storage::memory::open(), clock, Options::default()).await.unwrap();
    let topic = TopicName::parse("name", "projects/p/topics/orders").unwrap();
    let name = SubscriptionName::parse("name", "projects/p/subscriptions/sub").unwrap();
    broker.create_topic(domain::Topic::new(topic.clone())).await.unwrap();
    let settings = domain::Subscription {
        retry_policy: Some(RetryPolicy { min: BACKOFF, max: BACKOFF }),
        ..domain::Subscription::new(name, topic.clone())
    };
    let subscription = broker.create_subscription(settings).await.unwrap();
    (broker, topic, subscription)
}

#[tokio::test]
async fn one_that_the_whole_server_held_back_goes_on_when_there_is_room() {
    let (broker, topic, subscription) = open().await;
    let name = subscription.name();
    subscription.notes.index.grow(SERVER_MAX);
    broker.publish(&topic, vec![Message::default(); 1_001]).await.unwrap();
    let leases = broker.pull(name, 1_000, Duration::ZERO).await.unwrap();
    let ids: Vec<_> = leases.iter().map(|lease| lease.ack_id).collect();
    subscription.modify_ack_deadline(&ids, Duration::ZERO).await.unwrap();
    let mut waiting = Box::pin(broker.pull(name, 10, BACKOFF));
    assert!(waiting.as_mut().now_or_never().is_none(), "it knows as many as it may");
    subscription.give_index_back(SERVER_MAX);
    let leases = tokio::time::timeout(Duration::from_secs(10), waiting).await.unwrap().unwrap();
    assert_eq!(leases.len(), 1);
}

#[tokio::test]
async fn one_that_is_deleted_counts_no_more() {
    let (broker, topic, subscription) = open().await;
    let name = subscription.name();
    let index = &subscription.notes.index;
    index.grow(SERVER_MAX - ROOM_TOLD);
    broker.publish(&topic, vec![Message::default()]).await.unwrap();
    let leases = broker.pull(name, 1, Duration::ZERO).await.unwrap();
    subscription.modify_ack_deadline(&[leases[0].ack_id], Duration::ZERO).await.unwrap();
    assert!(!index.has_room());
    broker.delete_subscription(name).await.unwrap();
    subscription.tick();
    assert!(index.has_room());
}
