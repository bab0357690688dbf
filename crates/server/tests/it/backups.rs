//! Backups of a server that goes on meanwhile.

use serde_json::{Value, json};
use server::Server;
use server::config::{Sources, load};
use tempfile::TempDir;

use crate::rig::{Rig, call};

const TOPIC: &str = "/v1/projects/p/topics/orders";
const BILLING: &str = "/v1/projects/p/subscriptions/billing";

async fn publish(rig: &Rig, data: &str) {
    let body = json!({"messages": [{"data": data}]});
    rig.post(&format!("{TOPIC}:publish"), body).await.ok();
}

async fn rig(folder: &TempDir) -> Rig {
    let more = format!("[storage]\nbackup_dir = {:?}\n", folder.path());
    let rig = Rig::with("disk", &more).await;
    rig.put(TOPIC, json!({})).await.ok();
    rig.put(BILLING, json!({"topic": "projects/p/topics/orders"})).await.ok();
    rig
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_a_data_folder_with_what_was_answered_before() {
    let folder = TempDir::new().unwrap();
    let rig = rig(&folder).await;
    publish(&rig, "b25l").await;
    let made = rig.put("/v1/backups/one", json!({})).await.ok();
    assert_eq!(made["name"], "one");
    assert!(made["files"].as_u64().unwrap() >= 3, "{made}");
    publish(&rig, "dHdv").await;
    rig.stop().await;

    let text = format!(
        "listen = \"127.0.0.1:0\"\ndata_dir = {:?}\n",
        folder.path().join("one").display().to_string()
    );
    let file = folder.path().join("postrider.toml");
    std::fs::write(&file, text).unwrap();
    let config = load(Sources { file: Some(file), ..Sources::default() }).unwrap().config;
    let restored = Server::start(&config).await.unwrap();
    let body = json!({"maxMessages": 10, "returnImmediately": true});
    let answer =
        call(restored.address(), "POST", &format!("{BILLING}:pull"), body.to_string()).await.ok();
    let received: Vec<&Value> = answer["receivedMessages"].as_array().unwrap().iter().collect();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0]["message"]["data"], "b25l");
    restored.stop(std::future::pending()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_that_cannot_be_made_says_why() {
    let folder = TempDir::new().unwrap();
    let rig = rig(&folder).await;
    rig.put("/v1/backups/one", json!({})).await.ok();
    rig.put("/v1/backups/one", json!({})).await.refused(409, "ALREADY_EXISTS");
    for bad in ["..", "%2e%2e", ".x", "a/b", "x.unfinished", ""] {
        let answer = rig.put(&format!("/v1/backups/{bad}"), json!({})).await;
        assert!(answer.refused(400, "INVALID_ARGUMENT").starts_with("name: "), "{bad} {answer:?}");
    }
    rig.stop().await;
    let rig = Rig::start("memory").await;
    let answer = rig.put("/v1/backups/one", json!({})).await;
    assert!(answer.refused(400, "FAILED_PRECONDITION").contains("engine"), "{answer:?}");
    rig.stop().await;
}
