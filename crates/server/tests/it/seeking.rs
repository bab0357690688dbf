//! Seeks, snapshots and detaching, over gRPC and REST.

use serde_json::{Value, json};

use crate::rig::{Rig, each_engine};

const TOPIC: &str = "/v1/projects/p/topics/orders";
const BILLING: &str = "/v1/projects/p/subscriptions/billing";
const OTHER: &str = "/v1/projects/p/subscriptions/other";
const BEFORE: &str = "/v1/projects/p/snapshots/before";

/// A topic that keeps its messages for an hour, with `billing` on it.
async fn retained(rig: &Rig) {
    rig.put(TOPIC, json!({"messageRetentionDuration": "3600s"})).await.ok();
    rig.put(BILLING, json!({"topic": "projects/p/topics/orders"})).await.ok();
}

async fn publish(rig: &Rig, data: &[&str]) {
    let messages: Vec<Value> = data.iter().map(|data| json!({"data": data})).collect();
    rig.post(&format!("{TOPIC}:publish"), json!({"messages": messages})).await.ok();
}

async fn pull(rig: &Rig, subscription: &str) -> Vec<Value> {
    let body = json!({"maxMessages": 100, "returnImmediately": true});
    let mut answer = rig.post(&format!("{subscription}:pull"), body).await.ok();
    let received = answer["receivedMessages"].take();
    received.as_array().cloned().unwrap_or_default()
}

async fn ack(rig: &Rig, subscription: &str, received: &[Value]) {
    let ids: Vec<&Value> = received.iter().map(|one| &one["ackId"]).collect();
    rig.post(&format!("{subscription}:acknowledge"), json!({"ackIds": ids})).await.ok();
}

async fn seek(rig: &Rig, subscription: &str, target: Value) {
    assert_eq!(rig.post(&format!("{subscription}:seek"), target).await.ok(), json!({}));
}

fn datas(received: &[Value]) -> Vec<&str> {
    received.iter().map(|one| one["message"]["data"].as_str().unwrap()).collect()
}

async fn a_seek_back_replays_and_a_seek_forward_settles(rig: &Rig) {
    retained(rig).await;
    publish(rig, &["YQ==", "Yg=="]).await;
    let received = pull(rig, BILLING).await;
    ack(rig, BILLING, &received).await;
    seek(rig, BILLING, json!({"time": "2001-01-01T00:00:00Z"})).await;
    let again = pull(rig, BILLING).await;
    assert_eq!(datas(&again), ["YQ==", "Yg=="]);
    seek(rig, BILLING, json!({"time": "2999-01-01T00:00:00Z"})).await;
    assert!(pull(rig, BILLING).await.is_empty());
    publish(rig, &["Yw=="]).await;
    assert_eq!(datas(&pull(rig, BILLING).await), ["Yw=="]);
}

async fn a_snapshot_is_made_shown_changed_listed_and_deleted(rig: &Rig) {
    retained(rig).await;
    let body = json!({"subscription": "projects/p/subscriptions/billing", "labels": {"a": "b"}});
    let made = rig.put(BEFORE, body.clone()).await.ok();
    assert_eq!(made["name"], json!("projects/p/snapshots/before"));
    assert_eq!(made["topic"], json!("projects/p/topics/orders"));
    assert_eq!(made["labels"], json!({"a": "b"}));
    assert!(made["expireTime"].is_string());
    rig.put(BEFORE, body).await.refused(409, "ALREADY_EXISTS");
    assert_eq!(rig.get(BEFORE).await.ok(), made);
    let listed = rig.get("/v1/projects/p/snapshots").await.ok();
    assert_eq!(listed, json!({"snapshots": [made]}));
    let listed = rig.get(&format!("{TOPIC}/snapshots")).await.ok();
    assert_eq!(listed, json!({"snapshots": ["projects/p/snapshots/before"]}));

    let body = json!({"snapshot": {"labels": {"c": "d"}}, "updateMask": "labels"});
    let changed = rig.call("PATCH", BEFORE, Some(body)).await.ok();
    assert_eq!(changed["labels"], json!({"c": "d"}));
    assert_eq!(changed["expireTime"], made["expireTime"]);
    for (mask, name) in [("topic", "topic"), ("nope", "nope"), ("", "updateMask")] {
        let body = json!({"snapshot": {}, "updateMask": mask});
        let answer = rig.call("PATCH", BEFORE, Some(body)).await;
        let message = answer.refused(400, "INVALID_ARGUMENT");
        assert!(message.contains(name), "{message}");
    }
    assert_eq!(rig.call("DELETE", BEFORE, None).await.ok(), json!({}));
    rig.get(BEFORE).await.refused(404, "NOT_FOUND");
    assert_eq!(rig.get("/v1/projects/p/snapshots").await.ok(), json!({}));
}

async fn a_snapshot_brings_back_what_was_unacked_then(rig: &Rig) {
    retained(rig).await;
    publish(rig, &["YQ==", "Yg=="]).await;
    let received = pull(rig, BILLING).await;
    ack(rig, BILLING, &received[..1]).await;
    rig.put(BEFORE, json!({"subscription": "projects/p/subscriptions/billing"})).await.ok();
    ack(rig, BILLING, &received[1..]).await;
    publish(rig, &["Yw=="]).await;
    let later = pull(rig, BILLING).await;
    ack(rig, BILLING, &later).await;
    let target = json!({"snapshot": "projects/p/snapshots/before"});
    seek(rig, BILLING, target.clone()).await;
    assert_eq!(datas(&pull(rig, BILLING).await), ["Yg==", "Yw=="]);

    // Only subscriptions of that very topic can go there.
    rig.put("/v1/projects/p/topics/refunds", json!({})).await.ok();
    rig.put(OTHER, json!({"topic": "projects/p/topics/refunds"})).await.ok();
    let message = rig.post(&format!("{OTHER}:seek"), target).await.refused(400, "INVALID_ARGUMENT");
    assert!(message.contains("orders") && message.contains("refunds"), "{message}");
}

async fn bad_seeks_and_snapshots_are_refused_by_name(rig: &Rig) {
    retained(rig).await;
    for (target, code, status, name) in [
        (json!({}), 400, "INVALID_ARGUMENT", "target"),
        (json!({"time": "yesterday"}), 400, "INVALID_ARGUMENT", "time"),
        (json!({"snapshot": "before"}), 400, "INVALID_ARGUMENT", "snapshot"),
        (json!({"snapshot": "projects/p/snapshots/none"}), 404, "NOT_FOUND", "snapshots/none"),
        (json!({"tiem": "2001-01-01T00:00:00Z"}), 400, "INVALID_ARGUMENT", "tiem"),
    ] {
        let answer = rig.post(&format!("{BILLING}:seek"), target).await;
        let message = answer.refused(code, status);
        assert!(message.contains(name), "{message}");
    }
    for (body, code, status, name) in [
        (json!({}), 400, "INVALID_ARGUMENT", "subscription"),
        (json!({"subscription": "projects/p/subscriptions/none"}), 404, "NOT_FOUND", "none"),
        (
            json!({"subscription": "projects/p/subscriptions/billing", "tags": {"a": "b"}}),
            400,
            "INVALID_ARGUMENT",
            "tags",
        ),
        (
            json!({"subscription": "projects/p/subscriptions/billing", "labels": {"A": "b"}}),
            400,
            "INVALID_ARGUMENT",
            "labels",
        ),
    ] {
        let message = rig.put(BEFORE, body).await.refused(code, status);
        assert!(message.contains(name), "{message}");
    }
    rig.get(BEFORE).await.refused(404, "NOT_FOUND");
}

async fn a_detached_subscription_says_so_and_delivers_nothing(rig: &Rig) {
    retained(rig).await;
    publish(rig, &["YQ=="]).await;
    assert_eq!(rig.post(&format!("{BILLING}:detach"), json!({})).await.ok(), json!({}));
    assert_eq!(rig.get(BILLING).await.ok()["detached"], json!(true));
    let body = json!({"maxMessages": 100, "returnImmediately": true});
    rig.post(&format!("{BILLING}:pull"), body).await.refused(400, "FAILED_PRECONDITION");
    assert_eq!(rig.get(&format!("{TOPIC}/subscriptions")).await.ok(), json!({}));
    rig.call("DELETE", BILLING, None).await.ok();
    rig.post(&format!("{BILLING}:detach"), json!({})).await.refused(404, "NOT_FOUND");
}

each_engine! {
    a_seek_back_replays_and_a_seek_forward_settles,
    a_snapshot_is_made_shown_changed_listed_and_deleted,
    a_snapshot_brings_back_what_was_unacked_then,
    bad_seeks_and_snapshots_are_refused_by_name,
    a_detached_subscription_says_so_and_delivers_nothing,
}
