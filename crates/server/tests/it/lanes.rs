//! Lanes over REST: listed, released, skipped.

use serde_json::{Value, json};

use crate::rig::{Rig, each_engine};

const TOPIC: &str = "/v1/projects/p/topics/orders";
const BILLING: &str = "/v1/projects/p/subscriptions/billing";

/// `billing`, whose lanes halt after one attempt.
async fn halting(rig: &Rig) {
    rig.put(TOPIC, json!({})).await.ok();
    let body = json!({
        "topic": "projects/p/topics/orders",
        "enableMessageOrdering": true,
        "postrider": {"poison": "halt", "maxAttempts": 1},
    });
    rig.put(BILLING, body).await.ok();
}

async fn publish(rig: &Rig, keys: &[&str]) -> Vec<Value> {
    let messages: Vec<Value> =
        keys.iter().map(|key| json!({"data": "eA==", "orderingKey": key})).collect();
    let answer = rig.post(&format!("{TOPIC}:publish"), json!({"messages": messages})).await.ok();
    answer["messageIds"].as_array().unwrap().clone()
}

async fn pull(rig: &Rig) -> Vec<Value> {
    let body = json!({"maxMessages": 100, "returnImmediately": true});
    let mut answer = rig.post(&format!("{BILLING}:pull"), body).await.ok();
    answer["receivedMessages"].take().as_array().cloned().unwrap_or_default()
}

async fn nack(rig: &Rig, received: &[Value]) {
    let ids: Vec<&Value> = received.iter().map(|one| &one["ackId"]).collect();
    let body = json!({"ackIds": ids, "ackDeadlineSeconds": 0});
    rig.post(&format!("{BILLING}:modifyAckDeadline"), body).await.ok();
}

async fn blocked(rig: &Rig) -> Vec<Value> {
    let answer = rig.get(&format!("{BILLING}/lanes?state=blocked")).await.ok();
    answer["lanes"].as_array().unwrap().clone()
}

async fn act(rig: &Rig, what: &str, key: &str) {
    let answer = rig.post(&format!("{BILLING}/lanes:{what}"), json!({"key": key})).await;
    assert_eq!(answer.ok(), json!({}));
}

async fn a_halted_lane_is_released_or_skipped(rig: &Rig) {
    halting(rig).await;
    let ids = publish(rig, &["ann", "bob", "ann", "bob"]).await;
    let received = pull(rig).await;
    assert_eq!(received.len(), 4);
    nack(rig, &received[..1]).await;
    let lanes = blocked(rig).await;
    assert_eq!(lanes.len(), 1);
    assert_eq!(lanes[0]["key"], json!("ann"));
    assert_eq!(lanes[0]["state"], json!("halted"));
    assert_eq!(lanes[0]["messageId"], ids[0]);
    assert_eq!((&lanes[0]["attempt"], &lanes[0]["maxAttempts"]), (&json!(1), &json!(1)));
    assert_eq!(lanes[0]["lastClass"], json!("nack"));
    assert!(pull(rig).await.is_empty());

    act(rig, "release", "ann").await;
    assert!(blocked(rig).await.is_empty());
    let received = pull(rig).await;
    assert_eq!(received[0]["message"]["messageId"], ids[0]);
    nack(rig, &received[..1]).await;
    act(rig, "skip", "ann").await;
    let received = pull(rig).await;
    assert_eq!(received.len(), 1);
    assert_eq!(received[0]["message"]["messageId"], ids[2]);
    let answer = rig.post(&format!("{BILLING}/lanes:skip"), json!({"key": "ann"})).await;
    let message = answer.refused(400, "FAILED_PRECONDITION");
    assert!(message.contains("not blocked"), "{message}");
}

async fn lanes_come_in_pages(rig: &Rig) {
    halting(rig).await;
    publish(rig, &["a", "b", "c"]).await;
    let received = pull(rig).await;
    nack(rig, &received).await;
    let mut keys = Vec::new();
    let mut token = String::new();
    loop {
        let path = format!("{BILLING}/lanes?state=blocked&pageSize=2&pageToken={token}");
        let page = rig.get(&path).await.ok();
        let lanes = page["lanes"].as_array().unwrap();
        keys.extend(lanes.iter().map(|lane| lane["key"].as_str().unwrap().to_owned()));
        match page["nextPageToken"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => break,
        }
    }
    keys.sort_unstable();
    assert_eq!(keys, ["a", "b", "c"]);
}

async fn bad_calls_are_refused_by_name(rig: &Rig) {
    halting(rig).await;
    for (query, name) in
        [("state=stuck", "state"), ("pageSize=-1", "pageSize"), ("stat=blocked", "stat")]
    {
        let answer = rig.get(&format!("{BILLING}/lanes?{query}")).await;
        let message = answer.refused(400, "INVALID_ARGUMENT");
        assert!(message.starts_with(&format!("{name}: ")), "{message}");
    }
    for (body, name) in [(json!({}), "key"), (json!({"key": "a", "force": true}), "force")] {
        let answer = rig.post(&format!("{BILLING}/lanes:release"), body).await;
        let message = answer.refused(400, "INVALID_ARGUMENT");
        assert!(message.starts_with(&format!("{name}: ")), "{message}");
    }
    rig.get("/v1/projects/p/subscriptions/none/lanes").await.refused(404, "NOT_FOUND");
    rig.get(&format!("{TOPIC}/lanes")).await.refused(404, "NOT_FOUND");
}

each_engine! {
    a_halted_lane_is_released_or_skipped,
    lanes_come_in_pages,
    bad_calls_are_refused_by_name,
}
