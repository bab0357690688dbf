//! The consumer against Google's own emulator, where it is installed.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use postrider_consumer::push::Options;
use postrider_consumer::{Connection, Known, pull};
use serde_json::json;
use wire::pubsub::PushConfig;

use crate::push::Endpoint;
use crate::rig::{DEAD_SUBSCRIPTION, DEAD_TOPIC, Peer, Pulling, SUBSCRIPTION, settings, soon};

const PROGRAM: &str = "platform/pubsub-emulator/bin/cloud-pubsub-emulator";

/// An emulator of its own. It ends with the test.
struct Emulator {
    child: Child,
    url: String,
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let ended = (self.child.kill(), self.child.wait());
        drop(ended);
    }
}

/// Where the emulator is: beside `gcloud`, or where Google's packages put it.
fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let beside =
        std::env::split_paths(&path).filter_map(|folder| Some(folder.parent()?.to_owned()));
    let mut homes: Vec<PathBuf> = beside.collect();
    homes.push("/usr/lib/google-cloud-sdk".into());
    homes.into_iter().map(|home| home.join(PROGRAM)).find(|program| program.exists())
}

impl Emulator {
    /// `None`, and a word about it, where it is not installed.
    async fn start(test: &str) -> Option<Self> {
        let Some(program) = installed() else {
            println!("{test}: skipped, Google's Pub/Sub emulator is not installed");
            return None;
        };
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(program)
            .args(["--host=127.0.0.1".to_owned(), format!("--port={port}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            println!("{test}: skipped, the emulator does not start (is Java installed?)");
            return None;
        };
        let emulator = Self { child, url: format!("http://127.0.0.1:{port}") };
        soon("the emulator ready", async {
            while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
        .await;
        Some(emulator)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_the_emulator_are_pulled_and_poison_is_forwarded() {
    let test = "messages_of_the_emulator_are_pulled_and_poison_is_forwarded";
    let Some(emulator) = Emulator::start(test).await else { return };
    let mut peer = Peer::connect(emulator.url.clone()).await;
    peer.create_with_policy(|_| ()).await;
    let ids = peer.publish_all(&[("", "apply"), ("", "transient-once"), ("", "undecodable")]).await;
    let connection = Connection::open(&emulator.url).unwrap();
    let pulling = Pulling::start(connection, settings(), pull::Options::default()).await;
    assert_eq!(pulling.consumer.known().dead_letter_topic.as_deref(), Some(DEAD_TOPIC));
    let lines = pulling.kept.wait_for(4).await;
    let of = |outcome: &str| lines.iter().filter(|line| line["outcome"] == outcome).count();
    assert_eq!((of("applied"), of("retry"), of("poison")), (2, 1, 1), "{lines:#?}");
    let seen = pulling.seen.clone();
    pulling.stop().await.unwrap();
    assert_eq!(seen.effects(), 2);
    let letters = soon("a dead letter", peer.pull(DEAD_SUBSCRIPTION, true)).await;
    let letter = letters[0].decode_message().unwrap();
    assert_eq!(letter.attributes["original_message_id"], ids[2]);
    assert_eq!(letter.attributes["error_class"], "permanent");
    assert!(peer.pull(SUBSCRIPTION, false).await.is_empty(), "all were acked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushes_of_the_emulator_are_taken() {
    let Some(emulator) = Emulator::start("pushes_of_the_emulator_are_taken").await else { return };
    let known = Known::without_policy(SUBSCRIPTION);
    let endpoint = Endpoint::start(settings(), known, Options::default()).await;
    let mut peer = Peer::connect(emulator.url.clone()).await;
    let push_endpoint = format!("http://{}/pubsub/push", endpoint.address);
    peer.create(|subscription| {
        subscription.push_config = Some(PushConfig { push_endpoint, ..PushConfig::default() });
    })
    .await;
    peer.publish_all(&[("", "apply"), ("", "transient-once"), ("", "undecodable")]).await;
    let lines = endpoint.kept.wait_for(4).await;
    let of = |outcome: &str, status: u64| {
        let is = |line: &&serde_json::Value| {
            line["outcome"] == outcome && line["http_status"] == json!(status)
        };
        lines.iter().filter(is).count()
    };
    assert_eq!((of("applied", 204), of("retry", 500), of("poison", 204)), (2, 1, 1));
    assert_eq!(endpoint.seen.effects(), 2);
    assert!(lines.iter().all(|line| line["subscription"] == SUBSCRIPTION));
    endpoint.stop().await;
}
