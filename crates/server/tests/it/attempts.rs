//! Attempts over REST, where none was made: lists and bad calls.

use serde_json::json;

use crate::rig::{Rig, each_engine};

const BILLING: &str = "/v1/projects/p/subscriptions/billing";

async fn make(rig: &Rig) {
    rig.put("/v1/projects/p/topics/orders", json!({})).await.ok();
    rig.put(BILLING, json!({"topic": "projects/p/topics/orders"})).await.ok();
}

async fn without_attempts_the_list_is_empty(rig: &Rig) {
    make(rig).await;
    let empty = json!({"attempts": [], "nextPageToken": ""});
    for query in ["", "?pageSize=1", "?class=http_5xx&messageId=17", "?pageSize=99999"] {
        assert_eq!(rig.get(&format!("{BILLING}/attempts{query}")).await.ok(), empty, "{query}");
    }
}

async fn bad_calls_are_refused_by_name(rig: &Rig) {
    make(rig).await;
    for (query, name) in [
        ("class=slow", "class"),
        ("messageId=x", "messageId"),
        ("pageSize=-1", "pageSize"),
        ("pageSize=many", "pageSize"),
        ("pageToken=rubbish", "pageToken"),
        ("klass=ok", "klass"),
    ] {
        let answer = rig.get(&format!("{BILLING}/attempts?{query}")).await;
        let message = answer.refused(400, "INVALID_ARGUMENT");
        assert!(message.starts_with(&format!("{name}: ")), "{message}");
    }
    let message = rig.get(&format!("{BILLING}/attempts?class=slow")).await;
    let message = message.refused(400, "INVALID_ARGUMENT");
    assert!(message.contains("ok, timeout, connect, dns, tls,"), "{message}");
    rig.get("/v1/projects/p/subscriptions/none/attempts").await.refused(404, "NOT_FOUND");
    rig.get("/v1/projects/p/topics/orders/attempts").await.refused(404, "NOT_FOUND");
    rig.post(&format!("{BILLING}/attempts"), json!({})).await.refused(404, "NOT_FOUND");
}

each_engine! {
    without_attempts_the_list_is_empty,
    bad_calls_are_refused_by_name,
}
