//! REST: Google's paths and shapes, and what is ours.

use http::StatusCode;
use serde_json::{Value, json};

use crate::rig::{Rig, each_engine};

const TOPIC: &str = "/v1/projects/p/topics/orders";
const SUBSCRIPTION: &str = "/v1/projects/p/subscriptions/billing";

async fn make_pair(rig: &Rig) {
    rig.put(TOPIC, json!({})).await.ok();
    rig.put(SUBSCRIPTION, json!({"topic": "projects/p/topics/orders"})).await.ok();
}

async fn publish(rig: &Rig, data: &[&str]) -> Vec<u64> {
    let messages: Vec<Value> = data.iter().map(|data| json!({"data": data})).collect();
    let answer = rig.post(&format!("{TOPIC}:publish"), json!({"messages": messages})).await.ok();
    let ids = answer["messageIds"].as_array().unwrap();
    ids.iter().map(|id| id.as_str().unwrap().parse().unwrap()).collect()
}

async fn pull(rig: &Rig, subscription: &str) -> Vec<Value> {
    let body = json!({"maxMessages": 100, "returnImmediately": true});
    let answer = rig.post(&format!("{subscription}:pull"), body).await.ok();
    answer.get("receivedMessages").map(|all| all.as_array().unwrap().clone()).unwrap_or_default()
}

fn ids_of(received: &[Value]) -> Vec<u64> {
    received
        .iter()
        .map(|one| one["message"]["messageId"].as_str().unwrap().parse().unwrap())
        .collect()
}

async fn every_call_works_by_googles_path_and_verb(rig: &Rig) {
    let made =
        rig.put(TOPIC, json!({"labels": {"a": "b"}, "messageRetentionDuration": "600s"})).await;
    assert_eq!(
        made.ok(),
        json!({
            "name": "projects/p/topics/orders",
            "labels": {"a": "b"},
            "messageRetentionDuration": "600s",
            "state": "ACTIVE",
        })
    );
    let body = json!({"topic": "projects/p/topics/orders", "ackDeadlineSeconds": 20});
    let made = rig.put(SUBSCRIPTION, body).await.ok();
    assert_eq!(made["ackDeadlineSeconds"], json!(20));
    assert_eq!(made["messageRetentionDuration"], json!("604800s"));
    assert_eq!(made["topicMessageRetentionDuration"], json!("600s"));
    assert_eq!(made["expirationPolicy"], json!({"ttl": "2678400s"}));
    assert_eq!(made["pushConfig"], json!({}));

    assert_eq!(rig.get(TOPIC).await.ok()["name"], json!("projects/p/topics/orders"));
    let listed = rig.get("/v1/projects/p/topics?pageSize=10&alt=json&key=x").await.ok();
    assert_eq!(listed["topics"].as_array().unwrap().len(), 1);
    assert_eq!(listed.get("nextPageToken"), None);
    let listed = rig.get(&format!("{TOPIC}/subscriptions")).await.ok();
    assert_eq!(listed, json!({"subscriptions": ["projects/p/subscriptions/billing"]}));
    let listed = rig.get("/v1/projects/p/subscriptions").await.ok();
    assert_eq!(listed["subscriptions"][0], rig.get(SUBSCRIPTION).await.ok());

    let body = json!({"topic": {"labels": {}}, "updateMask": "labels"});
    assert_eq!(rig.call("PATCH", TOPIC, Some(body)).await.ok().get("labels"), None);
    let body =
        json!({"subscription": {"ackDeadlineSeconds": 30}, "updateMask": "ackDeadlineSeconds"});
    let changed = rig.call("PATCH", SUBSCRIPTION, Some(body)).await.ok();
    assert_eq!(changed["ackDeadlineSeconds"], json!(30));

    publish(rig, &["aGk="]).await;
    let received = pull(rig, SUBSCRIPTION).await;
    assert_eq!(received[0]["message"]["data"], json!("aGk="));
    let ack_ids = json!([received[0]["ackId"]]);
    let body = json!({"ackIds": ack_ids, "ackDeadlineSeconds": 0});
    assert_eq!(rig.post(&format!("{SUBSCRIPTION}:modifyAckDeadline"), body).await.ok(), json!({}));
    let again = pull(rig, SUBSCRIPTION).await;
    assert_eq!(ids_of(&again), ids_of(&received));
    let body = json!({"ackIds": [again[0]["ackId"]]});
    assert_eq!(rig.post(&format!("{SUBSCRIPTION}:acknowledge"), body).await.ok(), json!({}));
    let body = json!({"pushConfig": {}});
    assert_eq!(rig.post(&format!("{SUBSCRIPTION}:modifyPushConfig"), body).await.ok(), json!({}));

    assert_eq!(rig.call("DELETE", SUBSCRIPTION, None).await.ok(), json!({}));
    assert_eq!(rig.call("DELETE", TOPIC, None).await.ok(), json!({}));
    let message = rig.get(TOPIC).await.refused(404, "NOT_FOUND");
    assert_eq!(message, "topic projects/p/topics/orders not found");
}

async fn what_is_shown_can_be_sent_back(rig: &Rig) {
    make_pair(rig).await;
    let mut shown = rig.get(SUBSCRIPTION).await.ok();
    shown["postrider"]["description"] = json!("said twice");
    shown["postrider"]["metadata"] = json!({"Owner": "Ann"});
    let body = json!({"subscription": shown, "updateMask": "labels,postrider"});
    let changed = rig.call("PATCH", SUBSCRIPTION, Some(body)).await.ok();
    assert_eq!(changed["postrider"]["description"], json!("said twice"));
    assert_eq!(changed["postrider"]["metadata"], json!({"Owner": "Ann"}));
    assert_eq!(changed, rig.get(SUBSCRIPTION).await.ok());
    let cleared = json!({"subscription": {}, "updateMask": "postrider.description"});
    let cleared = rig.call("PATCH", SUBSCRIPTION, Some(cleared)).await.ok();
    assert_eq!(cleared["postrider"].get("description"), None);
    assert_eq!(cleared["postrider"]["metadata"], json!({"Owner": "Ann"}));
}

async fn the_effective_postrider_object_is_always_shown(rig: &Rig) {
    make_pair(rig).await;
    let shown = rig.get(SUBSCRIPTION).await.ok();
    assert_eq!(
        shown["postrider"],
        json!({"start": "latest", "fifo": false, "paused": false, "poison": "skip"})
    );
    assert_eq!(shown["fifo_mode"], json!(false));
}

async fn a_subscription_starts_where_it_is_told(rig: &Rig) {
    rig.put(TOPIC, json!({"messageRetentionDuration": "600s"})).await.ok();
    let published = publish(rig, &["YQ==", "Yg==", "Yw=="]).await;
    for (id, extra, wanted) in [
        ("start-latest", json!({"postrider": {"start": "latest"}}), &published[3..]),
        ("start-earliest", json!({"postrider": {"start": "earliest"}}), &published[..]),
        (
            "start-offset",
            json!({"postrider": {"start": {"offset": published[1]}}}),
            &published[1..],
        ),
        (
            "start-time",
            json!({"postrider": {"start": {"time": "2001-01-01T00:00:00Z"}}}),
            &published[..],
        ),
        ("label-earliest", json!({"labels": {"postrider-start": "earliest"}}), &published[..]),
        (
            "label-offset",
            json!({"labels": {"postrider-start": published[2].to_string()}}),
            &published[2..],
        ),
        ("label-time", json!({"labels": {"postrider-start": "time-1000000000"}}), &published[..]),
    ] {
        let path = format!("/v1/projects/p/subscriptions/{id}");
        let mut body = extra;
        body["topic"] = json!("projects/p/topics/orders");
        rig.put(&path, body).await.ok();
        assert_eq!(ids_of(&pull(rig, &path).await), wanted, "{id}");
    }
}

async fn a_label_and_the_object_that_disagree_are_refused(rig: &Rig) {
    rig.put(TOPIC, json!({})).await.ok();
    let body = json!({
        "topic": "projects/p/topics/orders",
        "labels": {"postrider-start": "latest"},
        "postrider": {"start": "earliest"},
    });
    let message = rig.put(SUBSCRIPTION, body).await.refused(400, "INVALID_ARGUMENT");
    assert!(message.contains("postrider-start"), "{message}");
    rig.get(SUBSCRIPTION).await.refused(404, "NOT_FOUND");
    let body = json!({
        "topic": "projects/p/topics/orders",
        "labels": {"postrider-start": "earliest"},
        "postrider": {"start": "earliest"},
    });
    rig.put(SUBSCRIPTION, body).await.ok();
}

async fn the_cursor_of_a_new_subscription_is_saved_with_it(rig: &Rig) {
    rig.put(TOPIC, json!({"messageRetentionDuration": "600s"})).await.ok();
    let published = publish(rig, &["YQ==", "Yg=="]).await;
    let body = json!({
        "topic": "projects/p/topics/orders",
        "postrider": {"start": {"offset": published[1]}},
    });
    rig.put(SUBSCRIPTION, body).await.ok();
    let cursor = rig.get(&format!("{SUBSCRIPTION}/cursor")).await.ok();
    assert_eq!(cursor["offset"], json!(published[0]));
    assert_eq!(cursor["ackedAbove"], json!(0));
    assert!(cursor["updated_at"].as_u64().unwrap() > 1_700_000_000);
    let missing = rig.get("/v1/projects/p/subscriptions/missing/cursor").await;
    missing.refused(404, "NOT_FOUND");
    rig.get(&format!("{TOPIC}/cursor")).await.refused(404, "NOT_FOUND");
}

async fn pages_for_people_and_probes(rig: &Rig) {
    assert!(rig.get("/").await.text.contains("PUBSUB_EMULATOR_HOST"));
    for path in ["/healthz", "/readyz"] {
        assert_eq!(rig.get(path).await.code, StatusCode::OK, "{path}");
    }
}

each_engine! {
    every_call_works_by_googles_path_and_verb,
    what_is_shown_can_be_sent_back,
    the_effective_postrider_object_is_always_shown,
    a_subscription_starts_where_it_is_told,
    a_label_and_the_object_that_disagree_are_refused,
    the_cursor_of_a_new_subscription_is_saved_with_it,
    pages_for_people_and_probes,
}
