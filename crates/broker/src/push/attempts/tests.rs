use std::time::Duration;

use bytes::Bytes;
use domain::{Message, SubscriptionName, TopicName};
use std::sync::atomic::{AtomicBool, Ordering};
use storage::{Error, FAILURES_MAX, Future, RECENT_MAX};

use super::*;
use crate::{Broker, Options, SystemClock};

fn attempt(subscription: SubscriptionId, offset: u64, class: Class) -> Attempt {
    Attempt {
        subscription,
        offset: Offset(offset),
        attempt: 1,
        at: Timestamp(1),
        duration: Duration::from_millis(3),
        address: None,
        status: None,
        class: class.as_str().into(),
        error: None,
        response: Bytes::new(),
    }
}

/// A broker on `engine`, and its subscription `sub`.
async fn open(engine: &storage::Engine) -> (Arc<Broker>, Arc<Subscription>) {
    let clock = Arc::new(SystemClock::start());
    let broker = Broker::open(engine.clone(), clock, Options::default()).await.unwrap();
    let topic = TopicName::parse("name", "projects/p/topics/orders").unwrap();
    let name = SubscriptionName::parse("name", "projects/p/subscriptions/sub").unwrap();
    if broker.topic(&topic).is_err() {
        broker.create_topic(domain::Topic::new(topic.clone())).await.unwrap();
        let settings = domain::Subscription::new(name.clone(), topic);
        broker.create_subscription(settings).await.unwrap();
    }
    let subscription = broker.subscription(&name).unwrap();
    (broker, subscription)
}

fn query(limit: usize) -> AttemptQuery {
    AttemptQuery { limit, ..AttemptQuery::default() }
}

fn offsets(page: &AttemptPage) -> Vec<u64> {
    page.attempts.iter().map(|numbered| numbered.attempt.offset.0).collect()
}

async fn listed(broker: &Broker, subscription: &Subscription) -> Vec<u64> {
    offsets(&broker.attempts(subscription.name(), query(100_000)).await.unwrap())
}

#[tokio::test]
async fn what_is_recorded_is_listed_at_once_and_after_a_restart() {
    let engine = storage::memory::open();
    let (broker, subscription) = open(&engine).await;
    let id = subscription.id();
    broker.recorded_attempts().record(attempt(id, 1, Class::Dns));
    broker.recorded_attempts().record(attempt(id, 2, Class::Ok));
    assert_eq!(listed(&broker, &subscription).await, [2, 1]);
    broker.recorded_attempts().record(attempt(id, 3, Class::Ok));
    broker.close(std::time::Duration::ZERO).await.unwrap();
    let (broker, subscription) = open(&engine).await;
    broker.recorded_attempts().record(attempt(id, 4, Class::Ok));
    assert_eq!(listed(&broker, &subscription).await, [4, 3, 2, 1]);
}

#[tokio::test]
async fn pages_stay_where_they_are_while_more_is_recorded() {
    let (broker, subscription) = open(&storage::memory::open()).await;
    let (id, name) = (subscription.id(), subscription.name());
    for offset in 1..=5 {
        broker.recorded_attempts().record(attempt(id, offset, Class::Ok));
    }
    let first = broker.attempts(name, query(2)).await.unwrap();
    assert_eq!(offsets(&first), [5, 4]);
    broker.recorded_attempts().record(attempt(id, 6, Class::Ok));
    let next = AttemptQuery { before: first.next, ..query(2) };
    assert_eq!(offsets(&broker.attempts(name, next).await.unwrap()), [3, 2]);
}

#[tokio::test]
async fn a_class_that_does_not_exist_is_refused_with_those_that_do() {
    let (broker, subscription) = open(&storage::memory::open()).await;
    broker.recorded_attempts().record(attempt(subscription.id(), 1, Class::Http5xx));
    let of = |class: &str| AttemptQuery { class: Some(class.to_owned()), ..query(10) };
    for class in Class::ALL {
        let page = broker.attempts(subscription.name(), of(class.as_str())).await.unwrap();
        assert_eq!(page.attempts.len(), usize::from(class == Class::Http5xx), "{class:?}");
    }
    let refused = broker.attempts(subscription.name(), of("http_6xx")).await.unwrap_err();
    let message = refused.to_string();
    assert!(message.starts_with("class: \"http_6xx\" is not one of ok, timeout, "), "{message}");
    assert_eq!(Class::Ok.as_str(), storage::CLASS_OK);
}

#[tokio::test]
async fn failures_of_settled_messages_go_once_they_are_not_among_the_last() {
    let (broker, subscription) = open(&storage::memory::open()).await;
    let topic = subscription.topic().name().clone();
    let sent = broker.publish(&topic, vec![Message::default(); 2]).await.unwrap().offsets;
    let leases = broker.pull(subscription.name(), 1, Duration::ZERO).await.unwrap();
    subscription.acknowledge(&[leases[0].ack_id]).await.unwrap();
    let attempts = broker.recorded_attempts();
    for offset in sent.from.0..sent.to.0 {
        attempts.record(attempt(subscription.id(), offset, Class::Dns));
    }
    for offset in 1..=RECENT_MAX as u64 {
        attempts.record(attempt(subscription.id(), offset, Class::Ok));
    }
    let listed = listed(&broker, &subscription).await;
    assert_eq!(listed.len(), RECENT_MAX + 1);
    assert_eq!(listed.last(), Some(&(sent.to.0 - 1)), "the one that is not acked");
}

#[tokio::test]
async fn attempts_of_a_deleted_subscription_are_forgotten() {
    let engine = storage::memory::open();
    let (broker, subscription) = open(&engine).await;
    let id = subscription.id();
    broker.recorded_attempts().record(attempt(id, 1, Class::Dns));
    broker.flush_attempts().await;
    broker.recorded_attempts().record(attempt(id, 2, Class::Dns));
    broker.delete_subscription(subscription.name()).await.unwrap();
    // A request in flight ends now.
    broker.recorded_attempts().record(attempt(id, 3, Class::Dns));
    broker.flush_attempts().await;
    assert_eq!(engine.attempts.last(vec![id]).await.unwrap(), [0]);
}

#[tokio::test]
async fn numbers_go_on_above_those_in_the_history() {
    let engine = storage::memory::open();
    let (broker, subscription) = open(&engine).await;
    broker.close(std::time::Duration::ZERO).await.unwrap();
    let (id, number) = (subscription.id(), 1 << 60);
    let before = NumberedAttempt { number, attempt: attempt(id, 1, Class::Ok) };
    engine.attempts.append(vec![before], Arc::new(Living(BTreeMap::new()))).await.unwrap();
    let (broker, _) = open(&engine).await;
    broker.recorded_attempts().record(attempt(id, 2, Class::Ok));
    broker.close(std::time::Duration::ZERO).await.unwrap();
    assert!(engine.attempts.last(vec![id]).await.unwrap()[0] > number);
}

#[tokio::test]
async fn a_recorded_attempt_wakes_the_flush() {
    let history = storage::memory::open().attempts;
    let attempts = Attempts::new(history, Timestamp(1));
    attempts.record(attempt(SubscriptionId(1), 1, Class::Ok));
    tokio::time::timeout(Duration::from_secs(10), attempts.wake.notified()).await.unwrap();
}

/// A history that cannot be written while told to refuse.
struct Refusing {
    history: Arc<dyn AttemptHistory>,
    refuses: AtomicBool,
}

impl AttemptHistory for Refusing {
    fn last(&self, subscriptions: Vec<SubscriptionId>) -> Future<Result<Vec<u64>, Error>> {
        self.history.last(subscriptions)
    }

    fn append(
        &self,
        attempts: Vec<NumberedAttempt>,
        unsettled: Arc<dyn Unsettled>,
    ) -> Future<Result<(), Error>> {
        if self.refuses.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(Error::Full)));
        }
        self.history.append(attempts, unsettled)
    }

    fn list(
        &self,
        subscription: SubscriptionId,
        query: AttemptQuery,
    ) -> Future<Result<AttemptPage, Error>> {
        self.history.list(subscription, query)
    }

    fn forget(&self, subscriptions: Vec<SubscriptionId>) -> Future<Result<(), Error>> {
        self.history.forget(subscriptions)
    }
}

#[tokio::test]
async fn what_cannot_be_saved_is_kept_for_the_next_time() {
    let memory = storage::memory::open();
    let history = Arc::new(Refusing {
        history: Arc::clone(&memory.attempts),
        refuses: AtomicBool::new(true),
    });
    let engine = storage::Engine { attempts: Arc::clone(&history) as _, ..memory };
    let (broker, subscription) = open(&engine).await;
    broker.recorded_attempts().record(attempt(subscription.id(), 1, Class::Ok));
    broker.flush_attempts().await;
    broker.recorded_attempts().record(attempt(subscription.id(), 2, Class::Ok));
    assert!(broker.attempts(subscription.name(), query(10)).await.is_err());
    broker.recorded_attempts().record(attempt(subscription.id(), 3, Class::Ok));
    history.refuses.store(false, Ordering::SeqCst);
    assert_eq!(listed(&broker, &subscription).await, [3, 2, 1]);
}

/// The unsaved attempts of a subscription, oldest first.
fn unsaved(attempts: &Attempts, id: SubscriptionId) -> Vec<Attempt> {
    attempts.take(id).into_iter().map(|numbered| numbered.attempt).collect()
}

#[test]
fn of_what_is_unsaved_the_last_and_the_failures_before_are_kept() {
    let attempts = Attempts::new(storage::memory::open().attempts, Timestamp(1));
    let id = SubscriptionId(5);
    attempts.record(attempt(id, 1, Class::Ok));
    let count = (FAILURES_MAX + 2) as u64;
    for offset in 2..2 + count {
        attempts.record(attempt(id, offset, Class::Timeout));
    }
    for offset in 0..RECENT_MAX as u64 {
        attempts.record(attempt(id, 100_000 + offset, Class::Ok));
    }
    let kept = unsaved(&attempts, id);
    assert_eq!(kept.len(), FAILURES_MAX + RECENT_MAX);
    assert_eq!(kept[0].offset, Offset(4), "the oldest failures went");
    assert_eq!(attempts.bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn whoever_makes_many_attempts_loses_the_oldest_when_memory_is_short() {
    let attempts = Attempts::new(storage::memory::open().attempts, Timestamp(1));
    let (quiet, busy) = (SubscriptionId(1), SubscriptionId(2));
    attempts.record(attempt(quiet, 1, Class::Ok));
    let body = Bytes::from(vec![b'x'; 100_000]);
    for offset in 0..20_000 {
        let failed = attempt(busy, offset, Class::Http5xx);
        let error = Some("€".repeat(1_000).into());
        attempts.record(Attempt { response: body.clone(), error, ..failed });
    }
    let bytes = attempts.bytes.load(Ordering::Relaxed);
    assert!((UNSAVED_BYTES_MAX / 2..=UNSAVED_BYTES_MAX).contains(&bytes), "{bytes} bytes");
    assert_eq!(unsaved(&attempts, quiet).len(), 1);
    let kept = unsaved(&attempts, busy);
    let last = kept.last().unwrap();
    assert_eq!(last.offset, Offset(19_999));
    assert_eq!(last.response.len(), TEXT_BYTES_MAX);
    assert_eq!(last.error.as_ref().unwrap().chars().count(), TEXT_BYTES_MAX / 3);
    assert_eq!(attempts.bytes.load(Ordering::Relaxed), 0);
}
