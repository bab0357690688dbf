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
    let mut ids = Vec::new();
    for key in keys {
        let messages = json!({"messages": [{"data": "eA==", "orderingKey": key}]});
        let answer = rig.post(&format!("{TOPIC}:publish"), messages).await.ok();
        ids.extend(answer["messageIds"].as_array().unwrap().iter().cloned());
    }
    ids
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

/// Nothing that an operator looks at may stay silent about a lane that stands still.
async fn a_halted_lane_of_a_key_shows_wherever_an_operator_looks(rig: &Rig) {
    halting(rig).await;
    publish(rig, &["ann", "bob", "ann"]).await;
    let received = pull(rig).await;
    nack(rig, &received[..2]).await;
    let status = rig.get("/status").await.ok();
    assert_eq!((&status["lanesBlocked"], &status["lanesHalted"]), (&json!(2), &json!(2)));
    assert_eq!(status["status"], json!("degraded"));
    assert_eq!(status["degraded"][0]["code"], json!("lanes_halted"));
    let figures = rig.get("/v1/projects/p/figures").await.ok();
    let one = &figures["subscriptions"][0];
    assert_eq!(one["delivery"]["lanes"]["halted"], json!(2));
    assert!(one["laneBlockedSeconds"].is_number(), "{one}");
    let metrics = rig.get("/metrics").await.text;
    for line in [
        "postrider_lanes_blocked{subscription=\"projects/p/subscriptions/billing\"} 2",
        "postrider_lanes_halted{subscription=\"projects/p/subscriptions/billing\"} 2",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
}

/// The facts behind "why is nothing delivered?", in every answer that an operator would look at.
async fn what_keeps_a_subscription_from_delivering_is_answered(rig: &Rig) {
    rig.put(TOPIC, json!({})).await.ok();
    let body = json!({
        "topic": "projects/p/topics/orders",
        "enableMessageOrdering": true,
        "retryPolicy": {"minimumBackoff": "600s", "maximumBackoff": "600s"},
    });
    rig.put(BILLING, body).await.ok();
    let nothing = json!({"paused": false, "consumers": 0});
    assert_eq!(rig.get(&format!("{BILLING}/delivery")).await.ok(), nothing);
    publish(rig, &["ann", ""]).await;
    let received = pull(rig).await;
    nack(rig, &received).await;
    let paused = json!({
        "subscription": {"postrider": {"paused": true}}, "updateMask": "postrider.paused",
    });
    rig.call("PATCH", BILLING, Some(paused)).await.ok();
    let delivery = rig.get(&format!("{BILLING}/delivery")).await.ok();
    assert_eq!(delivery["paused"], json!(true));
    assert!(delivery["pausedSince"].is_string(), "{delivery}");
    assert_eq!(delivery["backoff"]["waiting"], json!(2));
    assert_eq!(delivery["lanes"]["blocked"], json!(1));
    let until = delivery["backoff"]["until"].as_str().unwrap().to_owned();
    let figures = rig.get("/v1/projects/p/figures").await.ok();
    for answer in [
        &figures["subscriptions"][0],
        &rig.get(&format!("{BILLING}/lanes")).await.ok(),
        &rig.get(&format!("{BILLING}/messages")).await.ok(),
    ] {
        let shown = &answer["delivery"];
        assert_eq!(shown["pausedSince"], delivery["pausedSince"], "{answer}");
        assert_eq!(shown["backoff"]["waiting"], json!(2), "{answer}");
    }
    let messages = rig.get(&format!("{BILLING}/messages")).await.ok();
    for message in messages["messages"].as_array().unwrap() {
        assert_eq!(message["state"], json!("backing off"));
        // The wall clock and the other one are read one after the other.
        let (shown, first) = (message["nextAttemptAt"].as_str().unwrap(), &until);
        assert!(shown[..16] >= first[..16], "{message} and {until}");
    }
}

each_engine! {
    a_halted_lane_is_released_or_skipped,
    lanes_come_in_pages,
    bad_calls_are_refused_by_name,
    a_halted_lane_of_a_key_shows_wherever_an_operator_looks,
    what_keeps_a_subscription_from_delivering_is_answered,
}
