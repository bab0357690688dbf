//! The command itself: what it says, refuses, shows, and how it ends.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use consumer::effects::Value;
use consumer::firestore::fake::{Call, Fake};
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tonic::Code;

use crate::built::{postrider, run, text};
use crate::program::Running;
use crate::traffic::{Clients, SUBSCRIPTION};

const EXAMPLE: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/materialize/routes.toml"));

/// How long it may take to make what it reads from.
const MADE_WITHIN: Duration = Duration::from_secs(60);

/// The example as a file of this test, with another source.
fn config(folder: &Path, source: &str, more: &str) -> PathBuf {
    let (_, rest) = EXAMPLE.split_once("[firestore]").unwrap();
    let path = folder.join("routes.toml");
    std::fs::write(&path, format!("{more}\n[source]\n{source}\n[firestore]{rest}")).unwrap();
    path
}

fn pull_source(server: &str) -> String {
    format!("way = \"pull\"\nserver = \"http://{server}\"\nsubscription = \"{SUBSCRIPTION}\"")
}

fn push_source() -> String {
    "way = \"push\"\nlisten = \"127.0.0.1:0\"\ndead_letter_policy = true".to_owned()
}

fn event(service: &str, timestamp: &str, status: &str) -> Json {
    json!({"schemaVersion": 1, "service": service, "eventType": "deploy", "status": status,
           "timestamp": timestamp})
}

#[test]
fn a_dry_run_says_of_each_message_of_a_file_what_it_would_write() {
    let folder = TempDir::new().unwrap();
    let config = config(folder.path(), &push_source(), "");
    let messages = folder.path().join("messages.jsonl");
    let good = json!({"messageId": "7", "data": event("api", "2026-11-15T12:00:00Z", "up")});
    let heartbeat = json!({"messageId": "8", "data": {"schemaVersion": 1, "pipelineId": "orders",
        "status": "running", "heartbeatAt": "2026-11-15T12:00:00Z"}});
    let mut newer = good.clone();
    newer["data"]["schemaVersion"] = json!(2);
    let lines = [good, heartbeat, newer, json!({"messageId": "9", "data": "bm8="})];
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(&messages, lines).unwrap();
    let paths = [config, messages].map(|path| path.to_string_lossy().into_owned());
    let [config, messages] = &paths;
    let arguments = ["materialize", "--dry-run", "--config", config, "--messages", messages];
    let output = run(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    let shown: Vec<&str> = shown.lines().collect();
    assert!(shown[0].starts_with("7  system_events  merge ops_services/api  {"), "{shown:?}");
    assert!(shown[0].ends_with("noted in ops_dedupe/7"), "{shown:?}");
    assert!(shown[1].contains("merge ingest_pipelines/orders"), "{shown:?}");
    assert!(shown[1].ends_with("noted in ingest_pipelines_dedupe/8"), "{shown:?}");
    assert!(shown[2].contains("poison: UnknownSchemaVersion: data.schemaVersion"), "{shown:?}");
    assert!(shown[3].starts_with("9  no route  poison: InvalidJson"), "{shown:?}");
    let said = text(&output.stderr);
    assert!(said.contains("4 messages: 2 would be written, 2 are poison"), "{said}");
    let output = run(&[&arguments[..], &["--json", "--max", "1"]].concat());
    let shown: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(shown["fields"]["lastEventAt"], json!("2026-11-15T12:00:00Z"));
    assert_eq!(shown["doc_path"], json!("ops_services/api"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_looks_at_the_backlog_and_changes_nothing() {
    let folder = TempDir::new().unwrap();
    let (_server, address) = Running::server(folder.path());
    let mut clients = Clients::connect(address).await;
    clients.set_up().await;
    publish(&address, &event("api", "2026-11-15T12:00:00Z", "up"));
    let config = config(folder.path(), &pull_source(&address.to_string()), "");
    for _ in 0..2 {
        let config = config.to_string_lossy();
        let output = run(&["materialize", "--dry-run", "--config", &config]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("ops_services/api"), "{}", text(&output.stdout));
    }
}

fn publish(address: &SocketAddr, data: &Json) {
    let server = address.to_string();
    let data = data.to_string();
    let topic = crate::traffic::TOPIC;
    let output = run(&["publish", topic, &data, "--server", &server]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn what_is_wrong_with_the_file_is_said_at_the_start() {
    let folder = TempDir::new().unwrap();
    for (source, more, code, said) in [
        (push_source(), "[colour]", 2, "colour"),
        ("way = \"push\"".to_owned(), "", 2, "listen"),
        (pull_source("127.0.0.1:1"), "", 1, SUBSCRIPTION),
    ] {
        let path = config(folder.path(), &source, more);
        let output = run(&["materialize", "--config", &path.to_string_lossy()]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(said), "{said}: {stderr}");
    }
    let output = run(&["materialize", "--config", "missing.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("missing.toml"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_reads_from_must_exist_or_is_made() {
    let folder = TempDir::new().unwrap();
    let (_server, address) = Running::server(folder.path());
    let server = address.to_string();
    let fake = Fake::start().await.unwrap();
    let source = pull_source(&server);
    let path = config(folder.path(), &source, "");
    let path = path.to_string_lossy();
    let ended = |more: &[&str]| {
        let mut command = postrider(&[&["materialize", "--config", &*path], more].concat());
        command.env("FIRESTORE_EMULATOR_HOST", fake.address()).output().unwrap()
    };
    let missing = ended(&[]);
    assert_eq!(missing.status.code(), Some(3));
    assert!(text(&missing.stderr).contains("--create"), "{}", text(&missing.stderr));
    let unnamed = ended(&["--create"]);
    assert_eq!(unnamed.status.code(), Some(2));
    assert!(text(&unnamed.stderr).contains("source.topic"), "{}", text(&unnamed.stderr));

    let topic = crate::traffic::TOPIC;
    config(folder.path(), &format!("{source}\ntopic = \"{topic}\""), "");
    let mut command = postrider(&["materialize", "--config", &path, "--create"]);
    command.env("FIRESTORE_EMULATOR_HOST", fake.address());
    let mut running = Running::start(command);
    let described = || run(&["subscription", "describe", SUBSCRIPTION, "--server", &server]);
    // It says nothing when it has made what it reads from.
    let made = async {
        while !described().status.success() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(MADE_WITHIN, made).await.expect("the subscription was never made");
    assert!(text(&described().stdout).contains("materialize.dlq"), "poison has a place to go");
    publish(&address, &event("api", "2026-11-15T12:00:00Z", "up"));
    let line: Json = serde_json::from_str(&running.lines().next().unwrap().unwrap()).unwrap();
    assert_eq!(line["outcome"], json!("applied"));
    assert_eq!(running.stop(), Some(0));
    let again = run(&["subscription", "list", "--project", "p", "--server", &server]);
    assert!(text(&again.stdout).contains("materialize.dlq"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_way_to_firestore_it_ends_at_once_and_says_what_to_name() {
    let folder = TempDir::new().unwrap();
    let path = config(folder.path(), &push_source(), "");
    let mut command = postrider(&["materialize", "--config", &path.to_string_lossy()]);
    // Nobody answers there, as on any machine that is not Google's.
    command.env("GCE_METADATA_HOST", "127.0.0.1:1");
    command.env_remove("GOOGLE_APPLICATION_CREDENTIALS");
    let output = command.output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for name in ["127.0.0.1:1", "FIRESTORE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS"] {
        assert!(said.contains(name), "{said}");
    }
}

/// A consumer that is pushed to, and where.
struct Pushed {
    child: Child,
    address: SocketAddr,
}

impl Pushed {
    fn start(config: &Path, firestore: &str) -> Self {
        let mut command: Command = postrider(&["materialize", "--config"]);
        command.arg(config).env("FIRESTORE_EMULATOR_HOST", firestore);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let stderr = child.stderr.as_mut().unwrap();
        while !said.contains("/pubsub/push") {
            let mut byte = [0];
            assert_eq!(stderr.read(&mut byte).unwrap(), 1, "it ended: {said}");
            said.push(char::from(byte[0]));
        }
        let (_, rest) = said.split_once("listening on http://").unwrap();
        let address = rest.split('/').next().unwrap().parse().unwrap();
        Self { child, address }
    }

    /// The status and the body of the answer.
    fn ask(&self, head: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let length = body.len();
        let request = format!(
            "{head} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\
             content-type: application/json\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn push(&self, id: &str, data: &Json) -> u16 {
        use base64::Engine as _;
        let data = base64::engine::general_purpose::STANDARD.encode(data.to_string());
        let body = json!({
            "message": {"messageId": id, "data": data, "publishTime": "2026-11-15T12:00:00Z"},
            "subscription": SUBSCRIPTION, "deliveryAttempt": 1,
        });
        self.ask("POST /pubsub/push", &body.to_string()).0
    }

    /// Asks it to end; its exit code and its lines.
    fn stop(mut self) -> (Option<i32>, Vec<Json>) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let mut lines = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut lines).unwrap();
        let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (self.child.wait().unwrap().code(), lines)
    }
}

impl Drop for Pushed {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pushed_messages_are_written_answered_counted_and_told_of() {
    let folder = TempDir::new().unwrap();
    let fake = Fake::start().await.unwrap();
    let more = "[visibility]\ncollection = \"ops_deliveries\"";
    let config = config(folder.path(), &push_source(), more);
    let pushed = Pushed::start(&config, &fake.address());
    let at = |hour: u32| format!("2026-11-15T{hour}:00:00Z");
    assert_eq!(pushed.push("1", &event("api", &at(12), "up")), 204);
    assert_eq!(pushed.push("1", &event("api", &at(12), "up")), 204);
    assert_eq!(pushed.push("2", &event("api", &at(11), "down")), 204);
    assert_eq!(pushed.push("3", &json!({"shape": "unknown"})), 400);
    fake.refuse(Call::Get, Code::PermissionDenied, 1);
    assert_eq!(pushed.push("4", &event("api", &at(13), "up")), 500);
    fake.refuse(Call::Commit, Code::Unavailable, 12);
    assert_eq!(pushed.push("4", &event("api", &at(13), "up")), 500);

    let service = fake.document("ops_services/api").unwrap();
    assert_eq!(service["status"], Value::Text("up".to_owned()));
    assert_eq!(service["lastMessageId"], Value::Text("1".to_owned()));
    let seen = fake.document("ops_deliveries/materialize").unwrap();
    assert_eq!(seen["deliveriesNotEvents"], Value::Integer(5), "the last was not recorded");
    let (status, metrics) = pushed.ask("GET /metrics", "");
    assert_eq!(status, 200);
    for sample in [
        "postrider_consumer_messages_total{way=\"push\",outcome=\"duplicate\"} 1",
        "postrider_consumer_firestore_errors_total{code=\"PERMISSION_DENIED\"} 1",
        "postrider_consumer_firestore_errors_total{code=\"UNAVAILABLE\"} 6",
    ] {
        assert!(metrics.contains(sample), "{sample}: {metrics}");
    }
    assert_eq!(pushed.ask("GET /health", ""), (200, "ok\n".to_owned()));

    let (code, lines) = pushed.stop();
    assert_eq!(code, Some(0));
    let outcomes: Vec<&str> = lines.iter().map(|line| line["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["applied", "duplicate", "stale_ignored", "poison", "retry", "retry"]);
    assert_eq!(lines[0]["handler"], json!("system_events"));
    assert_eq!(lines[0]["doc_path"], json!("ops_services/api"));
    assert_eq!(lines[0]["idempotency_doc"], json!("ops_dedupe/1"));
    assert_eq!(lines[0]["schemaVersion"], json!("1"));
    assert_eq!(lines[4]["error_code"], json!("PERMISSION_DENIED"));
    assert_eq!(lines[5]["error_code"], json!("UNAVAILABLE"));
}
