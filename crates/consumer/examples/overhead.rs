//! What the runtime costs over a bare streaming pull: processor time for each message.
//!
//! Start a server, and then
//! `cargo run --release -p postrider-consumer --example overhead -- http://localhost:8085 200000`.
//! Two subscriptions get the same messages of 1 KiB; five rounds in turn, the median counts.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use postrider_consumer::effects::{Effects, Memory, Path, Value, Write, WriteKind};
use postrider_consumer::log::Lines;
use postrider_consumer::rules::Level;
use postrider_consumer::{
    Connection, Consumer, Failure, Handled, Handler, Message, Outcome, Settings, Timestamp, pull,
};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use wire::pubsub::publisher_client::PublisherClient;
use wire::pubsub::subscriber_client::SubscriberClient;
use wire::pubsub::{PublishRequest, PubsubMessage, StreamingPullRequest, Subscription, Topic};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const ROUNDS: usize = 5;
const BATCH: usize = 500;

/// Counts in memory.
struct Count {
    store: Memory,
    left: AtomicU64,
    done: Arc<Notify>,
}

impl Handler for Count {
    type Event = ();

    fn decode(&self, _message: &Message) -> std::result::Result<(), Failure> {
        Ok(())
    }

    async fn handle(&self, (): (), message: &Message) -> Handled {
        let path = |collection: &str, id: &str| Path {
            collection: collection.to_owned(),
            id: id.to_owned(),
        };
        let write = Write {
            document: path("counts", "all"),
            dedupe: path("dedupe", message.dedupe_id()),
            dedupe_until: Timestamp(u64::MAX),
            kind: WriteKind::Increment,
            fields: BTreeMap::from([("count".to_owned(), Value::Integer(1))]),
            event_time: None,
        };
        let applied = self.store.apply(&write).await;
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.done.notify_one();
        }
        Outcome::from(applied).into()
    }
}

/// Lines are made, and go nowhere.
struct Nowhere;

impl Lines for Nowhere {
    fn write(&self, _level: Level, line: &str) {
        std::hint::black_box(line);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).ok_or("name a server, such as http://localhost:8085")?;
    let count: u64 = std::env::args().nth(2).unwrap_or_else(|| "100000".to_owned()).parse()?;
    let (mut bare, mut runtime) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let [first, second] = prepare(&url, round, count).await?;
        bare.push(per_message(count, pull_bare(&url, &first, count)).await?);
        runtime.push(per_message(count, pull_runtime(&url, &second, count)).await?);
    }
    let (bare, runtime) = (median(bare), median(runtime));
    let more = (runtime / bare - 1.0) * 100.0;
    let mut out = std::io::stdout();
    writeln!(out, "bare {bare:.2} µs, runtime {runtime:.2} µs a message: {more:+.1} %")?;
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Processor time of this process, in microseconds for each message.
async fn per_message(count: u64, work: impl Future<Output = Result<()>>) -> Result<f64> {
    let time = || Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default();
    let before = time();
    work.await?;
    Ok((time() - before).as_secs_f64() * 1e6 / count as f64)
}

/// A topic with `count` messages and two subscriptions.
async fn prepare(url: &str, round: usize, count: u64) -> Result<[String; 2]> {
    let name = format!("overhead-{}-{round}", std::process::id());
    let topic = format!("projects/bench/topics/{name}");
    let mut publisher = PublisherClient::connect(url.to_owned()).await?;
    publisher.create_topic(Topic { name: topic.clone(), ..Topic::default() }).await?;
    let names = ["bare", "runtime"].map(|way| format!("projects/bench/subscriptions/{name}-{way}"));
    let mut subscriber = SubscriberClient::connect(url.to_owned()).await?;
    for name in &names {
        let made =
            Subscription { name: name.clone(), topic: topic.clone(), ..Subscription::default() };
        subscriber.create_subscription(made).await?;
    }
    let message = PubsubMessage { data: vec![b'x'; 1_024].into(), ..PubsubMessage::default() };
    for _ in 0..count / BATCH as u64 {
        let messages = vec![message.clone(); BATCH];
        publisher.publish(PublishRequest { topic: topic.clone(), messages }).await?;
    }
    Ok(names)
}

/// Decodes each message, and acks it.
async fn pull_bare(url: &str, subscription: &str, count: u64) -> Result<()> {
    let mut client: SubscriberClient<Channel> =
        SubscriberClient::connect(url.to_owned()).await?.max_decoding_message_size(64 << 20);
    let (sender, receiver) = mpsc::channel(16);
    sender
        .send(StreamingPullRequest {
            subscription: subscription.to_owned(),
            stream_ack_deadline_seconds: 60,
            max_outstanding_messages: 1_000,
            max_outstanding_bytes: 100 << 20,
            ..StreamingPullRequest::default()
        })
        .await?;
    let mut stream = client.streaming_pull(ReceiverStream::new(receiver)).await?.into_inner();
    let mut left = count;
    while left > 0 {
        let response = stream.message().await?.ok_or("the stream ended")?;
        let mut ack_ids = Vec::with_capacity(response.received_messages.len());
        for received in response.received_messages {
            std::hint::black_box(received.decode_message()?);
            ack_ids.push(received.ack_id);
            left -= 1;
        }
        sender.send(StreamingPullRequest { ack_ids, ..StreamingPullRequest::default() }).await?;
    }
    Ok(())
}

async fn pull_runtime(url: &str, subscription: &str, count: u64) -> Result<()> {
    let connection = Connection::open(url)?;
    let known = connection.ask(subscription).await?;
    let done = Arc::new(Notify::new());
    let store = Memory::default();
    let handler = Count { store, left: AtomicU64::new(count), done: Arc::clone(&done) };
    let settings = Settings::new("overhead", "1");
    let consumer = Consumer::with_lines(handler, settings, known, Arc::new(Nowhere))?;
    let stop = async move { done.notified().await };
    Ok(pull::run(connection, consumer, pull::Options::default(), stop).await?)
}
