//! A broker, a clock in the test's hand, and short words for what tests do.

use std::sync::Arc;
use std::time::Duration;

use broker::{Broker, Clock, Options, Subscription};
use bytes::Bytes;
use domain::delivery::{AckId, Lease};
use domain::{Message, Moment, SubscriptionName, Timestamp, TopicName};
use futures::future::BoxFuture;
use storage::Engine;
use tokio::sync::watch;

/// A clock that stands still until `advance`.
pub(crate) struct FakeClock(watch::Sender<u64>);

const WALL_START: u64 = 1_800_000_000_000_000;

impl FakeClock {
    pub(crate) fn advance(&self, by: Duration) {
        self.0.send_modify(|now| *now += u64::try_from(by.as_micros()).unwrap());
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Moment {
        Moment(*self.0.borrow())
    }

    fn wall(&self) -> Timestamp {
        Timestamp(WALL_START + *self.0.borrow())
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let mut watch = self.0.subscribe();
        Box::pin(async move {
            watch.wait_for(|now| *now >= moment.0).await.map(drop).unwrap_or_default();
        })
    }
}

pub(crate) struct Fixture {
    pub(crate) engine: Engine,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) broker: Arc<Broker>,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        let engine = storage::memory::open();
        let clock = Arc::new(FakeClock(watch::Sender::new(0)));
        let broker = open(&engine, &clock).await;
        Self { engine, clock, broker }
    }

    /// Opens the same store again, as after a stop.
    pub(crate) async fn reopen(&mut self) {
        self.broker.close().await.unwrap();
        self.broker = open(&self.engine, &self.clock).await;
    }

    pub(crate) async fn topic(&self) -> TopicName {
        let name = topic_name("orders");
        self.broker.create_topic(domain::Topic::new(name.clone())).await.unwrap();
        name
    }

    pub(crate) async fn subscription(&self, topic: &TopicName, id: &str) -> Arc<Subscription> {
        let settings = domain::Subscription::new(subscription_name(id), topic.clone());
        self.broker.create_subscription(settings).await.unwrap()
    }

    pub(crate) async fn publish(&self, topic: &TopicName, texts: &[&str]) -> Vec<u64> {
        let messages = texts.iter().map(|text| message(text)).collect();
        let range = self.broker.publish(topic, messages).await.unwrap();
        (range.from.0..range.to.0).collect()
    }

    /// What is there now, without waiting.
    pub(crate) async fn pull(&self, id: &str, max: usize) -> Vec<Lease> {
        self.broker.pull(&subscription_name(id), max, Duration::ZERO).await.unwrap()
    }
}

async fn open(engine: &Engine, clock: &Arc<FakeClock>) -> Arc<Broker> {
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    Broker::open(engine.clone(), clock, Options::default()).await.unwrap()
}

pub(crate) fn topic_name(id: &str) -> TopicName {
    TopicName::parse("name", &format!("projects/p/topics/{id}")).unwrap()
}

pub(crate) fn subscription_name(id: &str) -> SubscriptionName {
    SubscriptionName::parse("name", &format!("projects/p/subscriptions/{id}")).unwrap()
}

pub(crate) fn message(text: &str) -> Message {
    Message { data: Bytes::copy_from_slice(text.as_bytes()), ..Message::default() }
}

pub(crate) fn texts(leases: &[Lease]) -> Vec<String> {
    let text = |lease: &Lease| {
        let message = domain::message::decode(&lease.record.body).unwrap();
        String::from_utf8(message.data.to_vec()).unwrap()
    };
    leases.iter().map(text).collect()
}

pub(crate) fn ack_ids(leases: &[Lease]) -> Vec<AckId> {
    leases.iter().map(|lease| lease.ack_id).collect()
}
