//! A broker, a clock in the test's hand, and short words for what tests do.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use broker::{Audit, AuditAct, Broker, Clock, Consumer, Options, Subscription};
use bytes::Bytes;
use domain::delivery::{AckId, Lease};
use domain::setting::read::show_google_time;
use domain::topic::Change;
use domain::{DeadLetterPolicy, Message, SubscriptionName, Timestamp, TopicName};
use parking_lot::Mutex;
use storage::{Engine, disk};
use testkit::FakeClock;
use testkit::disk::{Effect, Fault};

use crate::spy::SpyLog;

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
pub(crate) const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Keeps what operators did.
#[derive(Default)]
pub(crate) struct Acts(pub(crate) Mutex<Vec<AuditAct>>);

impl Audit for Acts {
    fn record(&self, act: &AuditAct) {
        self.0.lock().push(act.clone());
    }
}

pub(crate) struct Fixture {
    /// What is there without the spy.
    pub(crate) store: Engine,
    pub(crate) engine: Engine,
    pub(crate) log: Arc<SpyLog>,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) acts: Arc<Acts>,
    /// What the broker is told when it is opened the next time.
    pub(crate) options: Options,
    pub(crate) broker: Arc<Broker>,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        Self::with(Options::default()).await
    }

    /// A broker that is told something else than usual.
    pub(crate) async fn with(options: Options) -> Self {
        let log = SpyLog::new();
        let store = storage::memory::open();
        let engine = log.watch(store.clone());
        let clock = Arc::new(FakeClock::new());
        let acts = Arc::new(Acts::default());
        let options = Options { audit: Arc::clone(&acts) as _, ..options };
        let broker = open(&engine, &clock, &options).await;
        Self { store, engine, log, clock, acts, options, broker }
    }

    /// Opens the same store again, as after a stop.
    pub(crate) async fn reopen(&mut self) {
        self.broker.close(Duration::ZERO).await.unwrap();
        self.open_again().await;
    }

    /// Opens the same store again after its broker was closed.
    pub(crate) async fn open_again(&mut self) {
        self.broker = open(&self.engine, &self.clock, &self.options).await;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.wall()
    }

    pub(crate) async fn topic(&self) -> TopicName {
        self.topic_of("orders").await
    }

    pub(crate) async fn topic_of(&self, id: &str) -> TopicName {
        let name = topic_name(id);
        self.broker.create_topic(domain::Topic::new(name.clone())).await.unwrap();
        name
    }

    pub(crate) async fn subscription(&self, topic: &TopicName, id: &str) -> Arc<Subscription> {
        self.subscribe(settings(topic, id)).await
    }

    pub(crate) async fn subscribe(&self, settings: domain::Subscription) -> Arc<Subscription> {
        self.broker.create_subscription(settings).await.unwrap()
    }

    /// The subscription as the broker has it now.
    pub(crate) fn find(&self, id: &str) -> Arc<Subscription> {
        self.broker.subscription(&subscription_name(id)).unwrap()
    }

    pub(crate) async fn publish(&self, topic: &TopicName, texts: &[&str]) -> Vec<u64> {
        self.send(topic, texts.iter().map(|text| message(text)).collect()).await
    }

    /// Publishes texts with their ordering keys.
    pub(crate) async fn publish_keyed(
        &self,
        topic: &TopicName,
        texts: &[(&str, &str)],
    ) -> Vec<u64> {
        let keyed =
            |&(key, text): &(&str, &str)| Message { ordering_key: key.to_owned(), ..message(text) };
        self.send(topic, texts.iter().map(keyed).collect()).await
    }

    async fn send(&self, topic: &TopicName, messages: Vec<Message>) -> Vec<u64> {
        let range = self.broker.publish(topic, messages).await.unwrap().offsets;
        // Who waits is woken after the answer: tests begin when that is done too.
        until(|| self.log.has_told_all()).await;
        (range.from.0..range.to.0).collect()
    }

    /// What is there now, without waiting.
    pub(crate) async fn pull(&self, id: &str, max: usize) -> Vec<Lease> {
        self.broker.pull(&subscription_name(id), max, Duration::ZERO).await.unwrap()
    }

    /// What comes next, waiting for it.
    pub(crate) async fn wait(&self, id: &str) -> Vec<Lease> {
        let name = subscription_name(id);
        let pulled = self.broker.pull(&name, 100, HOUR);
        tokio::time::timeout(Duration::from_secs(10), pulled).await.unwrap().unwrap()
    }

    pub(crate) async fn ack(&self, id: &str, leases: &[Lease]) {
        self.find(id).acknowledge(&ack_ids(leases)).await.unwrap();
    }

    pub(crate) async fn nack(&self, id: &str, leases: &[Lease]) {
        let ids = ack_ids(leases);
        self.find(id).modify_ack_deadline(&ids, Duration::ZERO).await.unwrap();
    }

    /// Pulls and nacks what is there, `times` times.
    pub(crate) async fn fail(&self, id: &str, times: usize) {
        for _ in 0..times {
            let leases = self.pull(id, 100).await;
            assert!(!leases.is_empty(), "nothing to fail");
            self.nack(id, &leases).await;
        }
    }

    /// Has progress saved and the log trimmed, as when it asks for room.
    pub(crate) async fn trim(&self) {
        self.log.take_trims();
        self.log.press();
        until(|| self.log.take_trims() > 0).await;
    }
}

async fn open(engine: &Engine, clock: &Arc<FakeClock>, options: &Options) -> Arc<Broker> {
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    Broker::open(engine.clone(), clock, options.clone()).await.unwrap()
}

/// Lets everything else run until `holds`.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("it never came to hold");
}

/// A consumer that has nothing is asked so often, while the broker reads.
const TRIES: usize = 40;

/// The next leases of a stream, if there are any.
pub(crate) async fn leases_now(stream: &mut Consumer) -> broker::Result<Vec<Lease>> {
    for _ in 0..TRIES {
        let next = poll_fn(|context| stream.poll_lease(context));
        if let Poll::Ready(leases) = futures::poll!(next) {
            return leases;
        }
        tokio::task::yield_now().await;
    }
    Ok(Vec::new())
}

/// Lets every task run that can, so that what must not happen has had its chance.
pub(crate) async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

pub(crate) fn settings(topic: &TopicName, id: &str) -> domain::Subscription {
    domain::Subscription::new(subscription_name(id), topic.clone())
}

/// A policy that lets five attempts fail.
pub(crate) fn dead_letters_to(topic: &str) -> Option<DeadLetterPolicy> {
    Some(DeadLetterPolicy::new(topic_name(topic), Some(5), None))
}

/// The subscription `sub` of the topic `orders`, whose dead letters go to the topic `dead`.
pub(crate) async fn set_up_letters(broker: &Broker) {
    for id in ["orders", "dead"] {
        broker.create_topic(domain::Topic::new(topic_name(id))).await.unwrap();
    }
    let dead_letter_policy = dead_letters_to("dead");
    let subscription =
        domain::Subscription { dead_letter_policy, ..settings(&topic_name("orders"), "sub") };
    broker.create_subscription(subscription).await.unwrap();
}

/// Everything so small that the log is used again and again.
pub(crate) fn small_log() -> disk::Options {
    disk::Options {
        wal_segment_bytes: 64 << 10,
        wal_max_bytes: 512 << 10,
        tail_memory_bytes: 32 << 10,
        topic_segment_bytes: 48 << 10,
        reserve_bytes: 64 << 10,
        ..disk::Options::default()
    }
}

/// The power goes at the n-th call from now.
pub(crate) fn power_off(nth: u64) -> Fault {
    Fault { on: None, nth, effect: Effect::PowerOff }
}

/// A topic is to keep every message that long.
pub(crate) fn keep(time: Duration) -> Change {
    Change::of("message_retention_duration", show_google_time(time)).unwrap()
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

pub(crate) fn decoded(lease: &Lease) -> Message {
    domain::message::decode(&lease.record.body).unwrap()
}

pub(crate) fn texts(leases: &[Lease]) -> Vec<String> {
    let text = |lease: &Lease| String::from_utf8(decoded(lease).data.to_vec()).unwrap();
    leases.iter().map(text).collect()
}

pub(crate) fn ack_ids(leases: &[Lease]) -> Vec<AckId> {
    leases.iter().map(|lease| lease.ack_id).collect()
}
