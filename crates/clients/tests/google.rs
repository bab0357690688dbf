//! Google's own client for Rust against the built program: what an application does with it.
//!
//! The program is the one beside this test in the target folder: built with the workspace.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use google_cloud_auth::credentials::anonymous;
use google_cloud_pubsub::client::{
    Publisher, SchemaService, Subscriber, SubscriptionAdmin, TopicAdmin,
};
use google_cloud_pubsub::model::{Encoding, Message, Schema, SchemaSettings, schema};
use google_cloud_pubsub::subscriber::MessageStream;
use google_cloud_pubsub::subscriber::handler::Handler;
use tempfile::TempDir;

const TOPIC: &str = "projects/p/topics/orders";
const SUBSCRIPTION: &str = "projects/p/subscriptions/billing";
/// Long enough for a busy machine.
const WAIT: Duration = Duration::from_secs(30);

/// A running server, killed in the end.
struct Program {
    child: Child,
    address: String,
    _folder: TempDir,
}

impl Program {
    fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let mut child = Command::new(path())
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder.path().join("data"))
            .env_remove("POSTRIDER_CONFIG")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let listens = |line: String| Some(line.strip_prefix("Listening")?.trim().to_owned());
        let address = lines.find_map(|line| listens(line.unwrap())).expect("it says where");
        // What else it prints must not block it.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address, _folder: folder }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The program beside this test.
fn path() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("postrider");
    assert!(program.exists(), "build the workspace first: there is no {}", program.display());
    program
}

/// The client's parts, all of them on one server.
struct Google {
    endpoint: String,
    topics: TopicAdmin,
    subscriptions: SubscriptionAdmin,
}

impl Google {
    async fn new(program: &Program) -> Self {
        let endpoint = format!("http://{}", program.address);
        let credentials = anonymous::Builder::new().build();
        let topics = TopicAdmin::builder()
            .with_endpoint(&endpoint)
            .with_credentials(credentials.clone())
            .build();
        let subscriptions = SubscriptionAdmin::builder()
            .with_endpoint(&endpoint)
            .with_credentials(credentials.clone())
            .build();
        let (topics, subscriptions) = (topics.await.unwrap(), subscriptions.await.unwrap());
        Self { endpoint, topics, subscriptions }
    }

    async fn publisher(&self) -> Publisher {
        let publisher = Publisher::builder(TOPIC)
            .with_endpoint(&self.endpoint)
            .with_credentials(anonymous::Builder::new().build());
        publisher.build().await.unwrap()
    }

    async fn subscriber(&self) -> Subscriber {
        let subscriber = Subscriber::builder()
            .with_endpoint(&self.endpoint)
            .with_credentials(anonymous::Builder::new().build());
        subscriber.build().await.unwrap()
    }

    async fn schemas(&self) -> SchemaService {
        let schemas = SchemaService::builder()
            .with_endpoint(&self.endpoint)
            .with_credentials(anonymous::Builder::new().build());
        schemas.build().await.unwrap()
    }
}

async fn next(stream: &mut MessageStream) -> (Message, Handler) {
    let next = tokio::time::timeout(WAIT, stream.next()).await.expect("a message in time");
    next.expect("the stream goes on").unwrap()
}

fn text(message: &Message) -> String {
    String::from_utf8(message.data.to_vec()).unwrap()
}

#[tokio::test]
async fn messages_come_in_the_order_of_their_keys() {
    let program = Program::start();
    const COUNT: usize = 200;
    let google = Google::new(&program).await;
    google.topics.create_topic().set_name(TOPIC).send().await.unwrap();
    let make = google.subscriptions.create_subscription();
    let make = make.set_name(SUBSCRIPTION).set_topic(TOPIC).set_enable_message_ordering(true);
    make.send().await.unwrap();

    let publisher = google.publisher().await;
    let sent: Vec<_> = (0..COUNT)
        .map(|n| {
            let message = Message::new().set_data(n.to_string());
            publisher.publish(message.set_ordering_key(format!("key {}", n % 4)))
        })
        .collect();
    for sent in sent {
        sent.await.unwrap();
    }
    let mut stream = google.subscriber().await.subscribe(SUBSCRIPTION).build();
    let mut came: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for _ in 0..COUNT {
        let (message, handler) = next(&mut stream).await;
        came.entry(message.ordering_key.clone()).or_default().push(text(&message).parse().unwrap());
        handler.ack();
    }
    let expected = (0..4).map(|key| (format!("key {key}"), (key..COUNT).step_by(4).collect()));
    assert_eq!(came, expected.collect());
}

#[tokio::test]
async fn what_is_nacked_comes_again() {
    let program = Program::start();
    let google = Google::new(&program).await;
    google.topics.create_topic().set_name(TOPIC).send().await.unwrap();
    let make = google.subscriptions.create_subscription();
    make.set_name(SUBSCRIPTION).set_topic(TOPIC).send().await.unwrap();
    google.publisher().await.publish(Message::new().set_data("once more")).await.unwrap();
    let mut stream = google.subscriber().await.subscribe(SUBSCRIPTION).build();
    let (first, handler) = next(&mut stream).await;
    handler.nack();
    let (again, handler) = next(&mut stream).await;
    assert_eq!(again.message_id, first.message_id);
    handler.ack();
}

#[tokio::test]
async fn exactly_once_acks_are_confirmed() {
    let program = Program::start();
    let google = Google::new(&program).await;
    google.topics.create_topic().set_name(TOPIC).send().await.unwrap();
    let make = google.subscriptions.create_subscription();
    let make = make.set_name(SUBSCRIPTION).set_topic(TOPIC).set_enable_exactly_once_delivery(true);
    make.send().await.unwrap();
    let publisher = google.publisher().await;
    for n in 0..20 {
        publisher.publish(Message::new().set_data(n.to_string())).await.unwrap();
    }
    let mut stream = google.subscriber().await.subscribe(SUBSCRIPTION).build();
    for _ in 0..20 {
        let (_, handler) = next(&mut stream).await;
        let Handler::ExactlyOnce(handler) = handler else { panic!("the stream did not say so") };
        handler.confirmed_ack().await.unwrap();
    }
}

#[tokio::test]
async fn a_client_takes_no_more_than_it_wants() {
    let program = Program::start();
    let google = Google::new(&program).await;
    google.topics.create_topic().set_name(TOPIC).send().await.unwrap();
    let make = google.subscriptions.create_subscription();
    make.set_name(SUBSCRIPTION).set_topic(TOPIC).send().await.unwrap();
    let publisher = google.publisher().await;
    for n in 0..50 {
        publisher.publish(Message::new().set_data(n.to_string())).await.unwrap();
    }
    let subscriber = google.subscriber().await;
    let mut stream = subscriber.subscribe(SUBSCRIPTION).set_max_outstanding_messages(5).build();
    let mut held = Vec::new();
    for _ in 0..5 {
        held.push(next(&mut stream).await);
    }
    let another = tokio::time::timeout(Duration::from_millis(300), stream.next()).await;
    assert!(another.is_err(), "a sixth came: {another:?}");
    for _ in 0..45 {
        held.remove(0).1.ack();
        held.push(next(&mut stream).await);
    }
    held.into_iter().for_each(|(_, handler)| handler.ack());
}

#[tokio::test]
async fn a_topic_is_held_to_its_schema() {
    let program = Program::start();
    let google = Google::new(&program).await;
    let definition = r#"{"type": "record", "name": "Order",
                         "fields": [{"name": "n", "type": "long"}]}"#;
    let avro = Schema::new().set_type(schema::Type::Avro).set_definition(definition);
    let make = google.schemas().await.create_schema();
    let made = make.set_parent("projects/p").set_schema_id("order").set_schema(avro);
    let made = made.send().await.unwrap();
    let settings = SchemaSettings::new().set_schema(&made.name).set_encoding(Encoding::Json);
    let make = google.topics.create_topic().set_name(TOPIC).set_schema_settings(settings);
    make.send().await.unwrap();
    let publisher = google.publisher().await;
    publisher.publish(Message::new().set_data(r#"{"n": 1}"#)).await.unwrap();
    let refused = publisher.publish(Message::new().set_data("no order")).await;
    assert!(refused.is_err(), "{refused:?}");
}
