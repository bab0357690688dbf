//! Messages, and what must come of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use testkit::Random;
use tonic::transport::Channel;
use wire::pubsub::publisher_client::PublisherClient;
use wire::pubsub::subscriber_client::SubscriberClient;
use wire::pubsub::{
    AcknowledgeRequest, DeadLetterPolicy, PublishRequest, PubsubMessage, PullRequest, Subscription,
    Topic,
};

pub(crate) const TOPIC: &str = "projects/p/topics/events";
pub(crate) const SUBSCRIPTION: &str = "projects/p/subscriptions/materialize";
const DEAD_TOPIC: &str = "projects/p/topics/dead";
const DEAD_SUBSCRIPTION: &str = "projects/p/subscriptions/dead";

/// Documents that are counted in, and documents that hold a state.
pub(crate) const COUNTERS: u64 = 20;
pub(crate) const SERVICES: u64 = 50;
/// One message in so many is poison.
const POISON_ONE_IN: u64 = 40;
/// Messages in one publish.
const BATCH: usize = 500;

/// What must be so when all is done.
#[derive(Default)]
pub(crate) struct Expected {
    /// What each counter holds: how many messages, and the sum of their sizes.
    pub(crate) counters: BTreeMap<u64, (i64, i64)>,
    /// The newest state of each service.
    pub(crate) services: BTreeMap<u64, i64>,
    /// The ids of messages that take effect, by the collection of their notes.
    pub(crate) noted: BTreeMap<&'static str, BTreeSet<String>>,
    /// The ids of the others.
    pub(crate) poison: BTreeSet<String>,
}

/// What one message says.
#[derive(Clone, Copy)]
enum Event {
    Counted { counter: u64, size: i64 },
    State { service: u64, number: i64 },
    Poison { kind: u64 },
}

impl Event {
    fn draw(random: &mut Random, number: i64) -> Self {
        if random.one_in(POISON_ONE_IN) {
            return Self::Poison { kind: random.below(4) };
        }
        if random.one_in(2) {
            let size = i64::try_from(random.below(1_000)).unwrap();
            return Self::Counted { counter: random.below(COUNTERS), size };
        }
        Self::State { service: random.below(SERVICES), number }
    }

    fn message(self) -> PubsubMessage {
        let data = match self {
            Self::Counted { counter, size } => {
                format!(r#"{{"v":1,"counter":"c{counter}","size":{size}}}"#)
            }
            Self::State { service, number } => {
                // The number is the second of the day, and so the order of the events.
                let (hour, minute, second) = (number / 3_600, number / 60 % 60, number % 60);
                let at = format!("2026-11-15T{hour:02}:{minute:02}:{second:02}Z");
                format!(r#"{{"v":1,"service":"s{service}","state":{number},"at":"{at}"}}"#)
            }
            Self::Poison { kind: 0 } => "{not json".to_owned(),
            Self::Poison { kind: 1 } => r#"{"v":1,"shape":"unknown"}"#.to_owned(),
            Self::Poison { kind: 2 } => r#"{"v":2,"counter":"c1","size":1}"#.to_owned(),
            Self::Poison { .. } => r#"{"v":1,"service":"a/b","state":1,"at":"x"}"#.to_owned(),
        };
        PubsubMessage { data: data.into(), ..PubsubMessage::default() }
    }
}

impl Expected {
    fn note(&mut self, id: &str, event: Event) {
        match event {
            Event::Counted { counter, size } => {
                let (count, sum) = self.counters.entry(counter).or_default();
                *count += 1;
                *sum += size;
                self.noted.entry("counter_dedupe").or_default().insert(id.to_owned());
            }
            Event::State { service, number } => {
                let newest = self.services.entry(service).or_insert(number);
                *newest = number.max(*newest);
                self.noted.entry("service_dedupe").or_default().insert(id.to_owned());
            }
            Event::Poison { .. } => drop(self.poison.insert(id.to_owned())),
        }
    }
}

/// The clients of one server.
pub(crate) struct Clients {
    publisher: PublisherClient<Channel>,
    subscriber: SubscriberClient<Channel>,
}

impl Clients {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let address = format!("http://{address}");
        Self {
            publisher: PublisherClient::connect(address.clone()).await.unwrap(),
            subscriber: SubscriberClient::connect(address).await.unwrap(),
        }
    }

    /// Topics and subscriptions.
    pub(crate) async fn set_up(&mut self) {
        for name in [TOPIC, DEAD_TOPIC] {
            let topic = Topic { name: name.to_owned(), ..Topic::default() };
            self.publisher.create_topic(topic).await.unwrap();
        }
        let policy = DeadLetterPolicy {
            dead_letter_topic: DEAD_TOPIC.to_owned(),
            // What is given back because Firestore or the consumer failed must not end there.
            max_delivery_attempts: 100,
        };
        for (name, topic, policy) in
            [(SUBSCRIPTION, TOPIC, Some(policy)), (DEAD_SUBSCRIPTION, DEAD_TOPIC, None)]
        {
            let subscription = Subscription {
                name: name.to_owned(),
                topic: topic.to_owned(),
                ack_deadline_seconds: 10,
                dead_letter_policy: policy,
                ..Subscription::default()
            };
            self.subscriber.create_subscription(subscription).await.unwrap();
        }
    }

    /// Publishes `count` messages. Three in ten are published a second time, as a replay would.
    pub(crate) async fn publish(&mut self, count: usize, random: &mut Random) -> Expected {
        let originals = count * 7 / 10;
        // Events come in another order than they happened.
        let mut events: Vec<Event> =
            (0..originals).map(|n| Event::draw(random, i64::try_from(n).unwrap())).collect();
        for place in (1..events.len()).rev() {
            events.swap(place, random.index(place + 1));
        }
        let mut expected = Expected::default();
        let mut good: Vec<(String, Event)> = Vec::new();
        let (mut published, mut repeated) = (0, 0);
        while published + repeated < count {
            let fresh = events[published..originals.min(published + BATCH)].to_vec();
            let ids = self.publish_batch(fresh.iter().map(|event| event.message())).await;
            published += fresh.len();
            for (id, event) in ids.into_iter().zip(fresh) {
                expected.note(&id, event);
                if !matches!(event, Event::Poison { .. }) {
                    good.push((id, event));
                }
            }
            let wanted = (published * 3 / 7).min(count - originals);
            let wanted = if published == originals { count - originals } else { wanted };
            let again: Vec<PubsubMessage> =
                (repeated..wanted).map(|_| repeat(&good[random.index(good.len())])).collect();
            repeated = wanted;
            for batch in again.chunks(BATCH) {
                self.publish_batch(batch.iter().cloned()).await;
            }
        }
        expected
    }

    async fn publish_batch(
        &mut self,
        messages: impl Iterator<Item = PubsubMessage>,
    ) -> Vec<String> {
        let messages: Vec<PubsubMessage> = messages.collect();
        if messages.is_empty() {
            return Vec::new();
        }
        let request = PublishRequest { topic: TOPIC.to_owned(), messages };
        self.publisher.publish(request).await.unwrap().into_inner().message_ids
    }

    /// The ids of the messages that dead letters were made from, all there are.
    pub(crate) async fn dead_letters(&mut self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        loop {
            let request = PullRequest {
                subscription: DEAD_SUBSCRIPTION.to_owned(),
                return_immediately: true,
                max_messages: 1_000,
            };
            let got = self.subscriber.pull(request).await.unwrap().into_inner().received_messages;
            if got.is_empty() {
                return found;
            }
            let ack_ids = got.iter().map(|one| one.ack_id.clone()).collect();
            for one in got {
                let message = one.decode_message().unwrap();
                found.insert(message.attributes["original_message_id"].clone());
            }
            let subscription = DEAD_SUBSCRIPTION.to_owned();
            let request = AcknowledgeRequest { subscription, ack_ids };
            self.subscriber.acknowledge(request).await.unwrap();
        }
    }
}

/// A message published again, as one that was dead-lettered and replayed.
fn repeat((id, event): &(String, Event)) -> PubsubMessage {
    let mut message = event.message();
    message.attributes.insert("original_message_id".to_owned(), id.clone());
    message
}
