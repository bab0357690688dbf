//! Promise C1: each effect once, the newest state wins, dead letters are exactly the poison, and
//! nothing is lost, though messages come twice and out of order, consumers are killed and commits
//! fail.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use consumer::effects::{Path as Document, Value};
use consumer::firestore::fake::{Fake, Faults};
use consumer::firestore::{Client, Options, from_api};
use tempfile::TempDir;
use testkit::{FirestoreEmulator, Random, seed};

use crate::built::run;
use crate::program::Running;
use crate::traffic::{Clients, Expected, SUBSCRIPTION};

/// Messages against the fake, duplicates among them.
const MESSAGES: usize = 10_000;
/// Against the emulator, which is slower.
const EMULATOR_MESSAGES: usize = 10_000;
/// Consumers at the same time.
const CONSUMERS: u64 = 2;
/// How often each of them is killed.
const KILLS: u32 = 8;
/// Documents read at a time.
const READ: usize = 200;
/// How often it is looked whether all is done, and for how long.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const LOOKS_MAX: u32 = 5 * 240;

const ROUTES: &str = r#"
[[route]]
name = "counters"
match = 'has(data.counter)'
schema_version = { from = "data.v", known = [1] }
collection = "counters"
document = "{data.counter}"
kind = "increment"
dedupe = { collection = "counter_dedupe" }
fields = { count = { constant = 1 }, size = { from = "data.size", type = "integer" } }

[[route]]
name = "services"
match = 'has(data.service)'
schema_version = { from = "data.v", known = [1] }
collection = "services"
document = "{data.service}"
kind = "merge"
event_time = { from = "data.at", field = "at" }
dedupe = { collection = "service_dedupe" }
fields = { state = { from = "data.state", type = "integer" } }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn each_effect_happens_once_though_all_goes_wrong() {
    let seed = seed::seed_or(7);
    let fake = Fake::start().await.unwrap();
    fake.set_faults(Faults::by_chance(seed, 10, 5));
    let expected = exercise(&fake.address(), MESSAGES, seed).await;
    let counts = fake.counts();
    println!("{counts:?}");
    assert!(counts.aborted > 100 && counts.lost > 50, "{counts:?}");
    for (collection, ids) in &expected.noted {
        assert_eq!(fake.count(collection), ids.len(), "no more notes than messages");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_effect_happens_once_in_googles_emulator() {
    let Some(emulator) = FirestoreEmulator::start() else { return };
    println!("{EMULATOR_MESSAGES} messages against Google's Firestore emulator");
    exercise(emulator.address(), EMULATOR_MESSAGES, 11).await;
}

/// Publishes, consumes and checks; what was expected.
async fn exercise(firestore: &str, count: usize, seed: u64) -> Expected {
    let folder = TempDir::new().unwrap();
    let (_server, address) = Running::server(folder.path());
    let mut clients = Clients::connect(address).await;
    clients.set_up().await;
    let config = folder.path().join("routes.toml");
    let text = format!(
        "[source]\nway = \"pull\"\nserver = \"http://{address}\"\nsubscription = \
         \"{SUBSCRIPTION}\"\nack_deadline = \"10s\"\noutstanding = 100\nhandlers = 20\n\
         [firestore]\nproject = \"p\"\nemulator = \"{firestore}\"\ncall_timeout = \"20s\"\n{ROUTES}"
    );
    std::fs::write(&config, text).unwrap();
    // Kills are spread over the messages, so that they come while there is something to do.
    let lines_max = (count as u64) / (CONSUMERS * u64::from(KILLS));
    let consumers: Vec<Consumer> = (0..CONSUMERS)
        .map(|number| Consumer::start(&config, Random::seeded(seed + 1 + number), lines_max))
        .collect();
    let expected = clients.publish(count, &mut Random::seeded(seed)).await;
    wait_until_settled(&address.to_string()).await;
    for consumer in consumers {
        consumer.stop();
    }
    check_documents(&client(firestore), &expected).await;
    assert_eq!(clients.dead_letters().await, expected.poison, "dead letters are the poison");
    assert!(!expected.poison.is_empty());
    expected
}

/// A consumer that is killed now and then, and started again.
struct Consumer {
    current: Arc<Mutex<Option<Running>>>,
    thread: JoinHandle<u32>,
}

impl Consumer {
    /// It is killed after a random number of lines, up to `lines_max`, `KILLS` times.
    fn start(config: &Path, random: Random, lines_max: u64) -> Self {
        let config = PathBuf::from(config);
        let current = Arc::new(Mutex::new(Some(Running::consumer(&config))));
        let shared = Arc::clone(&current);
        let thread = std::thread::spawn(move || consume(&shared, &config, random, lines_max));
        Self { current, thread }
    }

    /// Lets it finish: it must end well.
    fn stop(self) {
        let running = self.current.lock().unwrap().take().unwrap();
        assert_eq!(running.stop(), Some(0), "it ends well when it is asked to");
        assert_eq!(self.thread.join().unwrap(), KILLS, "kills");
    }
}

/// How often it was killed.
fn consume(
    current: &Mutex<Option<Running>>,
    config: &Path,
    mut random: Random,
    lines_max: u64,
) -> u32 {
    for kill in 0..KILLS {
        let mut lines = current.lock().unwrap().as_mut().unwrap().lines();
        let count = usize::try_from(1 + random.below(lines_max)).unwrap();
        if lines.by_ref().take(count).filter(Result::is_ok).count() < count {
            return kill;
        }
        let Some(running) = current.lock().unwrap().take() else { return kill };
        running.kill();
        drop(running);
        *current.lock().unwrap() = Some(Running::consumer(config));
    }
    let lines = current.lock().unwrap().as_mut().unwrap().lines();
    lines.for_each(drop);
    KILLS
}

/// Waits until the subscription has nothing left to deliver.
async fn wait_until_settled(server: &str) {
    for _ in 0..LOOKS_MAX {
        let server = ["--server", server, "--max", "1", "--json"];
        let arguments = [&["tail", "--subscription", SUBSCRIPTION][..], &server[..]].concat();
        let output = run(&arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let page: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        if page["messages"].as_array().is_some_and(Vec::is_empty) {
            return;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    panic!("the backlog did not drain");
}

fn client(firestore: &str) -> Client {
    let options = Options {
        project: Some("p".to_owned()),
        emulator: Some(firestore.to_owned()),
        ..Options::default()
    };
    Client::new(&options).unwrap()
}

async fn check_documents(client: &Client, expected: &Expected) {
    for (counter, (count, size)) in &expected.counters {
        let found = [
            field(client, "counters", &format!("c{counter}"), "count").await,
            field(client, "counters", &format!("c{counter}"), "size").await,
        ];
        let wanted = [*count, *size].map(|number| Some(Value::Integer(number)));
        assert_eq!(found, wanted, "counter {counter}: each effect once");
    }
    for (service, newest) in &expected.services {
        let found = field(client, "services", &format!("s{service}"), "state").await;
        assert_eq!(found, Some(Value::Integer(*newest)), "service {service}: the newest wins");
    }
    for (collection, ids) in &expected.noted {
        let names: Vec<String> = ids.iter().map(|id| client.name(&at(collection, id))).collect();
        for some in names.chunks(READ) {
            let found = client.get(some, None).await.unwrap();
            assert!(found.iter().all(Option::is_some), "{collection}: nothing is lost");
        }
    }
}

fn at(collection: &str, id: &str) -> Document {
    Document { collection: collection.to_owned(), id: id.to_owned() }
}

async fn field(client: &Client, collection: &str, id: &str, name: &str) -> Option<Value> {
    let found = client.get(&[client.name(&at(collection, id))], None).await.unwrap();
    from_api(found[0].as_ref()?.fields.get(name)?)
}
