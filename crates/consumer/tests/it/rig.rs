//! A server on a free port, a handler that does what messages say, and lines that are kept.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use postrider_consumer::effects::{Effects, Memory, Path, Value as Field, Write, WriteKind};
use postrider_consumer::log::Lines;
use postrider_consumer::rules::Level;
use postrider_consumer::{
    About, Connection, Consumer, Failure, Handled, Handler, Known, Message, Outcome, Settings,
    Timestamp, pull,
};
use serde_json::Value;
use server::Server;
use server::config::{Config, Sources, load};
use tempfile::TempDir;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinHandle;
use tonic::transport::Channel;
use wire::ReceivedMessage;
use wire::pubsub::publisher_client::PublisherClient;
use wire::pubsub::subscriber_client::SubscriberClient;
use wire::pubsub::{
    DeadLetterPolicy, PublishRequest, PubsubMessage, PullRequest, Subscription, Topic,
};

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for what must happen.
pub(crate) async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, work).await;
    waited.unwrap_or_else(|_| panic!("not within {PATIENCE:?}: {what}"))
}

/// A running Postrider.
pub(crate) struct Rig {
    server: Option<Server>,
    folder: TempDir,
    pub(crate) address: SocketAddr,
}

fn config(folder: &TempDir, listen: &str) -> Config {
    let data = folder.path().join("data");
    let file = folder.path().join("postrider.toml");
    let text = format!("listen = \"{listen}\"\ndata_dir = {data:?}\n");
    std::fs::write(&file, text).unwrap();
    load(Sources { file: Some(file), ..Sources::default() }).unwrap().config
}

impl Rig {
    pub(crate) async fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let server = Server::start(&config(&folder, "127.0.0.1:0")).await.unwrap();
        Self { address: server.address(), server: Some(server), folder }
    }

    /// Stops the server, and starts it again on the same port and folder.
    pub(crate) async fn restart(&mut self) {
        self.server.take().unwrap().stop(std::future::ready(())).await.unwrap();
        let config = config(&self.folder, &self.address.to_string());
        self.server = Some(Server::start(&config).await.unwrap());
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn connection(&self) -> Connection {
        Connection::open(&self.url()).unwrap()
    }

    pub(crate) async fn peer(&self) -> Peer {
        Peer::connect(self.url()).await
    }
}

pub(crate) const TOPIC: &str = "projects/p/topics/orders";
pub(crate) const SUBSCRIPTION: &str = "projects/p/subscriptions/billing";
pub(crate) const DEAD_TOPIC: &str = "projects/p/topics/dead";
pub(crate) const DEAD_SUBSCRIPTION: &str = "projects/p/subscriptions/dead";

/// The other side of a server: whoever publishes, and looks at what is left.
pub(crate) struct Peer {
    pub(crate) publisher: PublisherClient<Channel>,
    pub(crate) subscriber: SubscriberClient<Channel>,
}

impl Peer {
    pub(crate) async fn connect(url: String) -> Self {
        let publisher = PublisherClient::connect(url.clone()).await.unwrap();
        Self { publisher, subscriber: SubscriberClient::connect(url).await.unwrap() }
    }

    /// The topic and the subscription, as `change` makes it.
    pub(crate) async fn create(&mut self, change: impl FnOnce(&mut Subscription)) {
        let mut subscription = Subscription {
            name: SUBSCRIPTION.to_owned(),
            topic: TOPIC.to_owned(),
            ..Subscription::default()
        };
        change(&mut subscription);
        self.create_topic(TOPIC).await;
        self.subscriber.create_subscription(subscription).await.unwrap();
    }

    /// The same with a dead letter policy of five attempts.
    pub(crate) async fn create_with_policy(&mut self, change: impl FnOnce(&mut Subscription)) {
        self.create_topic(DEAD_TOPIC).await;
        let dead = Subscription {
            name: DEAD_SUBSCRIPTION.to_owned(),
            topic: DEAD_TOPIC.to_owned(),
            ..Subscription::default()
        };
        self.subscriber.create_subscription(dead).await.unwrap();
        self.create(|subscription| {
            subscription.dead_letter_policy = Some(DeadLetterPolicy {
                dead_letter_topic: DEAD_TOPIC.to_owned(),
                max_delivery_attempts: 5,
            });
            change(subscription);
        })
        .await;
    }

    async fn create_topic(&mut self, name: &str) {
        let topic = Topic { name: name.to_owned(), ..Topic::default() };
        self.publisher.create_topic(topic).await.unwrap();
    }

    pub(crate) async fn publish(&mut self, data: &str) -> String {
        self.publish_all(&[("", data)]).await.remove(0)
    }

    /// Publishes messages with their ordering keys, and returns their ids.
    pub(crate) async fn publish_all(&mut self, messages: &[(&str, &str)]) -> Vec<String> {
        let message = |(key, data): &(&str, &str)| PubsubMessage {
            data: data.as_bytes().to_vec().into(),
            attributes: BTreeMap::from([("color".to_owned(), "red".to_owned())]),
            ordering_key: (*key).to_owned(),
            ..PubsubMessage::default()
        };
        let mut ids = Vec::new();
        // A call takes one ordering key.
        for messages in messages.chunk_by(|one, next| one.0 == next.0) {
            let messages = messages.iter().map(message).collect();
            let request = PublishRequest { topic: TOPIC.to_owned(), messages };
            ids.extend(self.publisher.publish(request).await.unwrap().into_inner().message_ids);
        }
        ids
    }

    /// Pulls once; waits for a message if `waits`.
    pub(crate) async fn pull(&mut self, subscription: &str, waits: bool) -> Vec<ReceivedMessage> {
        let request = PullRequest {
            subscription: subscription.to_owned(),
            return_immediately: !waits,
            max_messages: 100,
        };
        self.subscriber.pull(request).await.unwrap().into_inner().received_messages
    }
}

/// Keeps lines, each of which must be as the schema says.
#[derive(Default)]
pub(crate) struct CheckedLines {
    lines: watch::Sender<Vec<Value>>,
}

impl Lines for CheckedLines {
    fn write(&self, level: Level, line: &str) {
        let line: Value = serde_json::from_str(line).unwrap();
        crate::schema::check_line(&line);
        let severity = if level == Level::Error { "ERROR" } else { "INFO" };
        assert_eq!(line["severity"], severity);
        let comes_again = line["ack_action"] == "nack"
            || line["http_status"].as_u64().is_some_and(|status| !(200..300).contains(&status));
        assert!(!comes_again || severity == "ERROR", "what comes again is an error: {line}");
        self.lines.send_modify(|lines| lines.push(line));
    }
}

impl CheckedLines {
    pub(crate) fn all(&self) -> Vec<Value> {
        self.lines.borrow().clone()
    }

    /// The lines once there are so many.
    pub(crate) async fn wait_for(&self, count: usize) -> Vec<Value> {
        let mut lines = self.lines.subscribe();
        soon(&format!("{count} lines, of which there are {:#?}", self.all()), async {
            lines.wait_for(|lines| lines.len() >= count).await.unwrap().clone()
        })
        .await
    }

    /// Waits for a line whose field is this.
    pub(crate) async fn wait_for_field(&self, name: &str, value: &Value) {
        let mut lines = self.lines.subscribe();
        let has = |lines: &Vec<Value>| lines.iter().any(|line| line[name] == *value);
        soon(&format!("a line with {name} {value}"), async {
            lines.wait_for(has).await.unwrap();
        })
        .await;
    }

    /// The values of one field, line by line.
    pub(crate) fn field(&self, name: &str) -> Vec<Value> {
        self.all().iter().map(|line| line[name].clone()).collect()
    }
}

/// What a test sees of the handler.
pub(crate) struct Seen {
    /// The data of messages, as handling began.
    pub(crate) began: Mutex<Vec<String>>,
    pub(crate) began_one: Notify,
    /// Each permit lets go of one message that says `wait`.
    release: Semaphore,
    pub(crate) at_once: AtomicUsize,
    pub(crate) at_once_max: AtomicUsize,
    pub(crate) store: Memory,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            began: Mutex::default(),
            began_one: Notify::new(),
            release: Semaphore::new(0),
            at_once: AtomicUsize::new(0),
            at_once_max: AtomicUsize::new(0),
            store: Memory::default(),
        }
    }
}

impl Seen {
    /// Lets go of one message that says `wait`.
    pub(crate) fn release(&self) {
        self.release.add_permits(1);
    }

    /// Waits until handling has begun so often.
    pub(crate) async fn wait_for_begun(&self, count: usize) {
        soon(&format!("{count} messages begun"), async {
            loop {
                let notified = self.began_one.notified();
                if self.began.lock().len() >= count {
                    return;
                }
                notified.await;
            }
        })
        .await;
    }

    /// How often the effect of `apply` was made.
    pub(crate) fn effects(&self) -> i64 {
        match self.store.document(&path("effects", "count")).and_then(|mut f| f.remove("n")) {
            Some(Field::Integer(count)) => count,
            _ => 0,
        }
    }
}

pub(crate) fn path(collection: &str, id: &str) -> Path {
    Path { collection: collection.to_owned(), id: id.to_owned() }
}

/// Does what the first word of a message's data says.
pub(crate) struct Script(pub(crate) Arc<Seen>);

impl Handler for Script {
    type Event = String;

    fn decode(&self, message: &Message) -> Result<String, Failure> {
        let text = str::from_utf8(&message.data)
            .map_err(|error| Failure::new("InvalidUtf8", error.to_string()))?;
        match text {
            text if text.starts_with("undecodable") => Err(Failure::new("InvalidJson", text)),
            text => Ok(text.to_owned()),
        }
    }

    async fn handle(&self, event: String, message: &Message) -> Handled {
        let seen = &*self.0;
        let times = {
            let mut began = seen.began.lock();
            began.push(event.clone());
            began.iter().filter(|text| **text == event).count()
        };
        let at_once = seen.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        seen.at_once_max.fetch_max(at_once, Ordering::SeqCst);
        seen.began_one.notify_waiters();
        let outcome = self.outcome(event.split(' ').next().unwrap(), times, message).await;
        seen.at_once.fetch_sub(1, Ordering::SeqCst);
        let about = About {
            handler: Some("script".to_owned()),
            event_type: Some("test".to_owned()),
            schema_version: Some("1".to_owned()),
            write_kind: Some("increment".to_owned()),
            doc_path: Some("effects/count".to_owned()),
            idempotency_doc: Some(format!("dedupe/{}", message.dedupe_id())),
        };
        Handled { outcome, about }
    }
}

impl Script {
    async fn outcome(&self, word: &str, times: usize, message: &Message) -> Outcome {
        let failure = |kind: &str| Failure {
            kind: kind.to_owned(),
            code: Some("UNAVAILABLE".to_owned()),
            message: "on purpose".to_owned(),
        };
        match word {
            "apply" => self.apply(message).await,
            "poison" => Outcome::Poison(failure("Poison")),
            "transient" => Outcome::Transient(failure("Transient")),
            "config" => Outcome::Config(failure("Config")),
            "panic" if times == 1 => panic!("on purpose"),
            "transient-once" if times == 1 => Outcome::Transient(failure("Transient")),
            "hang" if times == 1 => std::future::pending().await,
            "wait" => {
                self.0.release.acquire().await.unwrap().forget();
                self.apply(message).await
            }
            _ => self.apply(message).await,
        }
    }

    async fn apply(&self, message: &Message) -> Outcome {
        let write = Write {
            document: path("effects", "count"),
            dedupe: path("dedupe", message.dedupe_id()),
            dedupe_until: Timestamp(u64::MAX),
            kind: WriteKind::Increment,
            fields: BTreeMap::from([("n".to_owned(), Field::Integer(1))]),
            event_time: None,
        };
        self.0.store.apply(&write).await.into()
    }
}

pub(crate) fn settings() -> Settings {
    Settings { environment: "test".to_owned(), ..Settings::new("billing", "1.2.3") }
}

/// A consumer of `Script` with its lines.
pub(crate) fn consumer(
    settings: Settings,
    known: Known,
) -> (Consumer<Script>, Arc<Seen>, Arc<CheckedLines>) {
    let (seen, kept) = (Arc::new(Seen::default()), Arc::new(CheckedLines::default()));
    let lines: Arc<dyn Lines> = Arc::<CheckedLines>::clone(&kept);
    let consumer = Consumer::with_lines(Script(Arc::clone(&seen)), settings, known, lines).unwrap();
    (consumer, seen, kept)
}

/// A pull consumer that runs in the background.
pub(crate) struct Pulling {
    pub(crate) consumer: Consumer<Script>,
    pub(crate) seen: Arc<Seen>,
    pub(crate) kept: Arc<CheckedLines>,
    stop: Arc<Notify>,
    task: JoinHandle<Result<(), pull::Error>>,
}

impl Pulling {
    /// Asks the server what is known, and pulls.
    pub(crate) async fn start(
        connection: Connection,
        settings: Settings,
        options: pull::Options,
    ) -> Self {
        let known = connection.ask(SUBSCRIPTION).await.unwrap();
        Self::start_with(connection, settings, options, known)
    }

    #[expect(clippy::disallowed_methods, reason = "a panic shows when the test stops it")]
    pub(crate) fn start_with(
        connection: Connection,
        settings: Settings,
        options: pull::Options,
        known: Known,
    ) -> Self {
        let (consumer, seen, kept) = consumer(settings, known);
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let running = consumer.clone();
        let task = tokio::spawn(async move {
            let stop = async move { stopped.notified().await };
            pull::run(connection, running, options, stop).await
        });
        Self { consumer, seen, kept, stop, task }
    }

    pub(crate) fn tell_to_stop(&self) {
        self.stop.notify_one();
    }

    /// Stops it and waits for its end.
    pub(crate) async fn stop(self) -> Result<(), pull::Error> {
        self.tell_to_stop();
        self.end().await
    }

    /// Waits for its end.
    pub(crate) async fn end(self) -> Result<(), pull::Error> {
        soon("the end of pulling", self.task).await.unwrap()
    }
}
