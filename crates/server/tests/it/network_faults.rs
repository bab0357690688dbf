//! Clients and a server with a network in between that delays, loses, resets and parts. Whatever
//! was answered arrives (D1), as it was sent (D2), whole requests or nothing of them (D3), under
//! ids that grow (D4), each key in order (O1), and when the faults stop all of it (L1).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use testkit::{Random, seed};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use wire::pubsub::publisher_client::PublisherClient;
use wire::pubsub::subscriber_client::SubscriberClient;
use wire::pubsub::{
    PublishRequest, PubsubMessage, ReceivedMessage, StreamingPullRequest, Subscription, Topic,
};

use crate::proxy::{Proxy, STORMS, Weather};
use crate::rig::{Rig, subscription, topic};

/// Seeds tried, all at the same time. `NETWORK_SEEDS` for more.
const SEEDS: u64 = 60;
/// Changes of the weather in each, and how long each lasts at most.
const CHANGES: usize = 12;
const CHANGE_MS_MAX: u64 = 150;
/// After so long without an answer a client gives its connection up.
const PATIENCE: Duration = Duration::from_millis(500);
/// Far more than the ack deadline of 10 s, after which what was lost on its way comes again.
const DRAINED_WITHIN: Duration = Duration::from_secs(240);
const KEYS: [&str; 3] = ["a", "b", ""];

/// What was sent, by request; and the ids of those that were answered.
#[derive(Default)]
struct Sent {
    requests: Vec<Vec<String>>,
    answered: Vec<(usize, Vec<u64>)>,
}

/// What was received, in order.
#[derive(Default)]
struct Received(Vec<PubsubMessage>);

struct Client {
    proxy: SocketAddr,
    topic: String,
    subscription: String,
}

impl Client {
    async fn connect(&self) -> Option<Channel> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.proxy)).unwrap();
        endpoint.connect_timeout(PATIENCE).connect().await.ok()
    }

    /// Publishes until told to stop, each request with messages of one key.
    async fn publish(&self, mut random: Random, stop: tokio::sync::watch::Receiver<bool>) -> Sent {
        let mut sent = Sent::default();
        while !*stop.borrow() {
            let Some(channel) = self.connect().await else { continue };
            let mut client = PublisherClient::new(channel);
            while !*stop.borrow() {
                let number = sent.requests.len();
                let key = KEYS[random.index(KEYS.len())];
                let texts: Vec<_> =
                    (0..=random.below(3)).map(|part| format!("{key}/{number}/{part}")).collect();
                sent.requests.push(texts.clone());
                let message = |text: String| PubsubMessage {
                    data: text.into(),
                    ordering_key: key.to_owned(),
                    ..PubsubMessage::default()
                };
                let messages = texts.into_iter().map(message).collect();
                let request = PublishRequest { topic: self.topic.clone(), messages };
                match tokio::time::timeout(PATIENCE, client.publish(request)).await {
                    Ok(Ok(answer)) => {
                        let ids = answer.into_inner().message_ids;
                        let ids = ids.iter().map(|id| id.parse().unwrap()).collect();
                        sent.answered.push((number, ids));
                    }
                    // Never sent again: it may have been stored.
                    _ => break,
                }
                // Paced, so that there is always something under way while the weather changes.
                tokio::time::sleep(Duration::from_millis(random.below(5))).await;
            }
        }
        sent
    }

    /// Receives and acks, connecting again and again, until told that it has enough.
    async fn receive(&self, received: &mut Received, is_enough: impl Fn(&Received) -> bool) {
        while !is_enough(received) {
            let Some(channel) = self.connect().await else { continue };
            let (requests, outgoing) = mpsc::channel(64);
            let first = StreamingPullRequest {
                subscription: self.subscription.clone(),
                stream_ack_deadline_seconds: 10,
                ..StreamingPullRequest::default()
            };
            requests.send(first).await.unwrap();
            let opening = SubscriberClient::new(channel);
            let opening = open(opening, ReceiverStream::new(outgoing));
            let Ok(Some(mut responses)) = tokio::time::timeout(PATIENCE, opening).await else {
                continue;
            };
            // Silence may mean that nobody is there any more.
            while let Ok(Ok(Some(response))) =
                tokio::time::timeout(PATIENCE, responses.message()).await
            {
                received.0.extend(response.received_messages.iter().map(to_message));
                if requests.try_send(acks(&response.received_messages)).is_err() {
                    break;
                }
                if is_enough(received) {
                    return;
                }
            }
        }
    }
}

async fn open(
    mut client: SubscriberClient<Channel>,
    requests: ReceiverStream<StreamingPullRequest>,
) -> Option<tonic::Streaming<wire::pubsub::StreamingPullResponse>> {
    client.streaming_pull(requests).await.ok().map(tonic::Response::into_inner)
}

fn acks(received: &[ReceivedMessage]) -> StreamingPullRequest {
    let ack_ids = received.iter().map(|one| one.ack_id.clone()).collect();
    StreamingPullRequest { ack_ids, ..StreamingPullRequest::default() }
}

fn to_message(received: &ReceivedMessage) -> PubsubMessage {
    received.decode_message().unwrap()
}

/// What the promises say of one history.
fn check(seed: u64, sent: &Sent, received: &Received) {
    let mut ids = BTreeMap::new();
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for message in &received.0 {
        let text = std::str::from_utf8(&message.data).unwrap();
        let id: u64 = message.message_id.parse().unwrap();
        let number: usize = text.split('/').nth(1).unwrap().parse().unwrap();
        assert!(
            sent.requests[number].iter().any(|sent| sent == text),
            "D2, TEST_SEED={seed}: {text}"
        );
        let is_first = ids.insert(text, id).is_none_or(|before| {
            assert_eq!(before, id, "D4, TEST_SEED={seed}: {text} has two ids");
            false
        });
        let key = message.ordering_key.as_str();
        if is_first && !key.is_empty() {
            let before = last.insert(key, id);
            assert!(before < Some(id), "O1, TEST_SEED={seed}: {id} of {key} after {before:?}");
        }
    }
    let different: BTreeSet<_> = ids.values().collect();
    assert_eq!(different.len(), ids.len(), "D4, TEST_SEED={seed}: an id was given twice");
    let answered = sent.answered.iter().flat_map(|(_, ids)| ids);
    assert!(answered.is_sorted_by(|a, b| a < b), "D4, TEST_SEED={seed}: ids do not grow");
    for (number, answered) in &sent.answered {
        for (text, id) in sent.requests[*number].iter().zip(answered) {
            assert_eq!(ids.get(text.as_str()), Some(id), "D1, TEST_SEED={seed}: {text}");
        }
    }
    for request in &sent.requests {
        let came = request.iter().filter(|text| ids.contains_key(text.as_str())).count();
        assert!(came == 0 || came == request.len(), "D3, TEST_SEED={seed}: {came} of {request:?}");
    }
}

/// Whether everything answered came.
fn has_all(sent: &Sent, received: &Received) -> bool {
    let answered: BTreeSet<_> = sent.answered.iter().flat_map(|(_, ids)| ids).copied().collect();
    let came: BTreeSet<_> =
        received.0.iter().filter_map(|message| message.message_id.parse().ok()).collect();
    answered.is_subset(&came)
}

/// One history; returns how often the network broke something.
async fn run(server: SocketAddr, seed: u64) -> u64 {
    let mut random = Random::seeded(seed);
    let proxy = Proxy::to(server, random.draw()).await;
    let id = format!("seed-{seed}");
    let client =
        Client { proxy: proxy.address, topic: topic(&id), subscription: subscription(&id) };
    let (stop, stopping) = tokio::sync::watch::channel(false);
    let publishing = client.publish(Random::seeded(random.draw()), stopping);
    let storms = async {
        for _ in 0..CHANGES {
            proxy.set(STORMS[random.index(STORMS.len())]);
            let lasts = Duration::from_millis(1 + random.below(CHANGE_MS_MAX));
            // The weather lasts so long: nothing is waited for.
            tokio::time::sleep(lasts).await;
        }
        proxy.set(Weather::Fair);
        stop.send_replace(true);
    };
    let mut received = Received::default();
    let (sent, ()) = tokio::select! {
        both = async { tokio::join!(publishing, storms) } => both,
        () = client.receive(&mut received, |_| false) => unreachable!("it never has enough"),
    };
    let draining = client.receive(&mut received, |received| has_all(&sent, received));
    let drained = tokio::time::timeout(DRAINED_WITHIN, draining).await;
    assert!(drained.is_ok(), "L1, TEST_SEED={seed}: not everything came");
    // What was not answered and stored all the same comes too, and whole.
    let settled = client.receive(&mut received, |_| false);
    drop(tokio::time::timeout(Duration::from_secs(1), settled).await);
    check(seed, &sent, &received);
    proxy.cuts()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_fault_of_the_network_breaks_a_promise() {
    let seeds = seed::seeds(0..seed::number("NETWORK_SEEDS").unwrap_or(SEEDS));
    let rig = Rig::start("disk").await;
    for seed in seeds.clone() {
        let id = format!("seed-{seed}");
        let made = Topic { name: topic(&id), ..Topic::default() };
        rig.publisher().await.create_topic(made).await.unwrap();
        let made = Subscription {
            name: subscription(&id),
            topic: topic(&id),
            enable_message_ordering: true,
            ..Subscription::default()
        };
        rig.subscriber().await.create_subscription(made).await.unwrap();
    }
    let mut histories = JoinSet::new();
    for seed in seeds {
        histories.spawn(run(rig.address, seed));
    }
    let mut cuts = 0;
    while let Some(history) = histories.join_next().await {
        cuts += history.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    }
    assert!(cuts > 0, "the network broke nothing");
    rig.stop().await;
}
