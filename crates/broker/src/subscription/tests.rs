//! What cannot be seen from outside: a server that remembers too many records.

use std::sync::Arc;
use std::time::Duration;

use domain::{Message, RetryPolicy, SubscriptionName, TopicName};
use futures::FutureExt;

use crate::remembered::INDEXED_EACH_MIN;
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

/// Others take all the room there is; ends with what gives it back.
fn crowd(subscription: &Arc<Subscription>) -> impl FnOnce() + use<> {
    let others = Options::default().outstanding_max;
    drop(subscription.notes.remembered.report(&mut 0, others));
    let subscription = Arc::clone(subscription);
    move || subscription.tell_of_room(subscription.notes.remembered.give_back(others))
}

/// Waits for what is to come at once.
async fn soon<T>(coming: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), coming).await.unwrap()
}

#[tokio::test]
async fn one_that_the_whole_server_held_back_goes_on_when_there_is_room() {
    let (broker, topic, subscription) = open().await;
    let name = subscription.name();
    let make_room = crowd(&subscription);
    broker.publish(&topic, vec![Message::default(); 101]).await.unwrap();
    let leases = broker.pull(name, 1_000, Duration::ZERO).await.unwrap();
    assert_eq!(leases.len(), 100, "what each may have");
    let mut waiting = Box::pin(broker.pull(name, 10, BACKOFF));
    assert!(waiting.as_mut().now_or_never().is_none(), "it has as many as it may");
    make_room();
    assert_eq!(soon(waiting).await.unwrap().len(), 1);
}

#[tokio::test]
async fn one_that_was_held_back_goes_on_with_its_own_acks() {
    let (broker, topic, subscription) = open().await;
    let name = subscription.name();
    let _crowd = crowd(&subscription);
    broker.publish(&topic, vec![Message::default(); 101]).await.unwrap();
    let leases = broker.pull(name, 1_000, Duration::ZERO).await.unwrap();
    let mut waiting = Box::pin(broker.pull(name, 10, BACKOFF));
    assert!(waiting.as_mut().now_or_never().is_none(), "it has as many as it may");
    subscription.acknowledge(&[leases[0].ack_id]).await.unwrap();
    assert_eq!(soon(waiting).await.unwrap().len(), 1);
}

#[tokio::test]
async fn whoever_waits_behind_one_that_never_asks_again_is_told_of_room() {
    let (broker, topic, subscription) = open().await;
    let name = subscription.name();
    let make_room = crowd(&subscription);
    let mut first = Box::pin(broker.pull(name, 100, BACKOFF));
    let mut second = Box::pin(broker.pull(name, 100, BACKOFF));
    assert!(first.as_mut().now_or_never().is_none());
    assert!(second.as_mut().now_or_never().is_none());
    broker.publish(&topic, vec![Message::default(); 201]).await.unwrap();
    let leases = soon(first).await.unwrap();
    assert!(leases.len() <= 100, "{}", leases.len());
    make_room();
    assert!(!soon(second).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_waits_for_its_backoff_counts_too() {
    let (broker, topic, subscription) = open().await;
    let name = subscription.name();
    broker.publish(&topic, vec![Message::default(); 1_001]).await.unwrap();
    let leases = broker.pull(name, 1_000, Duration::ZERO).await.unwrap();
    let ids: Vec<_> = leases.iter().map(|lease| lease.ack_id).collect();
    subscription.modify_ack_deadline(&ids, Duration::ZERO).await.unwrap();
    let make_room = crowd(&subscription);
    assert_eq!(subscription.indexed(), INDEXED_EACH_MIN);
    let mut waiting = Box::pin(broker.pull(name, 10, BACKOFF));
    assert!(waiting.as_mut().now_or_never().is_none(), "it knows as many as it may");
    make_room();
    assert_eq!(soon(waiting).await.unwrap().len(), 1);
}

#[tokio::test]
async fn one_that_is_deleted_counts_no_more() {
    let (broker, topic, subscription) = open().await;
    broker.publish(&topic, vec![Message::default(); 1_000]).await.unwrap();
    let leases = broker.pull(subscription.name(), 1_000, Duration::ZERO).await.unwrap();
    assert_eq!(broker.outstanding_used(), 5_000);
    let ids: Vec<_> = leases.iter().map(|lease| lease.ack_id).collect();
    subscription.modify_ack_deadline(&ids, Duration::ZERO).await.unwrap();
    assert_eq!(broker.outstanding_used(), 5_000, "leased or waiting is the same");
    broker.delete_subscription(subscription.name()).await.unwrap();
    subscription.tick();
    assert_eq!(broker.outstanding_used(), 0);
}
