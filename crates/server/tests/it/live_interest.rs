//! What producers are told, what operators see, and filters of durable subscriptions.

use domain::filter::{Field, Scalar};
use domain::matching::key_of;
use http::StatusCode;
use serde_json::{Value, json};

use crate::live_rig::{
    Events, SUBSCRIPTIONS, document, fault, live_topic, publish, publish_one, register,
    registration,
};
use crate::rig::{Rig, call_with, each_engine};

const INTEREST: &str = "/internal/v1/interest?tenant=blue&collection=rooms%2F1";

async fn a_summary_has_every_key_and_a_version(rig: &Rig) {
    let none = rig.get(INTEREST).await.ok();
    assert_eq!((&none["kind"], &none["keys"]), (&json!("exact"), &json!([])));
    let answer = register(rig, "g", "a", json!({"filter": "data.kind == 'x'"})).await;
    let one = rig.get(INTEREST).await.ok();
    assert_eq!(one["version"], answer["bloomFilterVersion"], "there before the answer");
    let key = key_of(&Field::Data(vec!["kind".to_owned()]), &Scalar::from("x"));
    assert_eq!(one["keys"], json!([format!("{key:016x}")]));
    assert_eq!(one["matchAll"], false);
    register(rig, "g", "b", json!({"tenant": "red"})).await;
    assert_eq!(rig.get(INTEREST).await.ok(), one, "another tenant's is another's");
    register(rig, "g", "all", json!({})).await;
    assert_eq!(rig.get(INTEREST).await.ok()["matchAll"], true);
    for (query, field) in [
        ("?tenant=a", "collection"),
        ("?collection=a", "tenant"),
        ("?tenant=a&collection=a//b", "collection"),
        ("?tenant=a&collection=b&x=1", "x"),
    ] {
        let refused = rig.get_owned(format!("/internal/v1/interest{query}")).await;
        assert_eq!(fault(&refused), (400, "INVALID_ARGUMENT".to_owned(), field.to_owned()));
    }
}

async fn many_keys_become_a_bloom_filter(rig: &Rig) {
    let items: Vec<Value> = (0..1_001)
        .map(|n| registration("g", &format!("s{n}"), json!({"filter": format!("data.n == {n}")})))
        .collect();
    let batch = json!({"subscriptions": items});
    rig.post("/internal/v1/subscriptions:batch", batch).await.ok();
    let summary = rig.get(INTEREST).await.ok();
    assert_eq!((&summary["kind"], &summary["hashes"]), (&json!("bloom"), &json!(7)));
    assert!(!summary["bits"].as_str().unwrap().is_empty());
}

#[tokio::test]
async fn a_summary_that_the_producer_has_is_not_sent_again() {
    let rig = Rig::start("memory").await;
    register(&rig, "g", "a", json!({"filter": "data.kind == 'x'"})).await;
    let tag = etag(&rig).await;
    let same = call_with(rig.address, "GET", INTEREST, "", &[("if-none-match", &tag)]).await;
    assert_eq!((same.code, same.text.as_str()), (StatusCode::NOT_MODIFIED, ""));
    register(&rig, "g", "b", json!({"filter": "data.kind == 'y'"})).await;
    let other = call_with(rig.address, "GET", INTEREST, "", &[("if-none-match", &tag)]).await;
    assert_eq!(other.ok()["keys"].as_array().unwrap().len(), 2);
    assert_ne!(etag(&rig).await, tag);
    rig.stop().await;
}

async fn etag(rig: &Rig) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut tcp = tokio::net::TcpStream::connect(rig.address).await.unwrap();
    let request = format!("GET {INTEREST} HTTP/1.0\r\nhost: localhost\r\n\r\n");
    tcp.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).await.unwrap();
    let line = answer.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
    line.to_owned()
}

async fn metrics_count_what_happens(rig: &Rig) {
    let topic = live_topic(rig, "changes").await;
    register(rig, "g", "a", json!({})).await;
    register(rig, "g", "b", json!({"tenant": "red", "filter": "data.a == 1"})).await;
    register(rig, "h", "c", json!({})).await;
    rig.post(SUBSCRIPTIONS, json!({})).await;
    rig.call("PUT", &format!("{SUBSCRIPTIONS}/a/heartbeat"), None).await.ok();
    rig.call("PUT", &format!("{SUBSCRIPTIONS}/x/heartbeat"), None).await;
    rig.call("DELETE", &format!("{SUBSCRIPTIONS}/c"), None).await;
    let mut stream = Events::open(rig, "g", "").await;
    let mut unreadable = document(&json!({}));
    unreadable.data = "no JSON".into();
    unreadable.attributes.insert("tenant".to_owned(), "red".to_owned());
    publish(rig, &topic, vec![unreadable]).await;
    publish_one(rig, &topic, &json!({})).await;
    stream.told().await;
    let text = rig.get("/metrics").await.text;
    for line in [
        "postrider_live_subscriptions_total 3",
        "postrider_live_subscriptions_active 2",
        "postrider_live_subscriptions_unregistered_total 1",
        "postrider_live_subscriptions_expired_total 0",
        "postrider_live_subscriptions_by_gateway{gateway=\"g\"} 2",
        "postrider_live_subscriptions_by_tenant{tenant=\"red\"} 1",
        "postrider_live_registration_errors_total 1",
        "postrider_live_registration_duration_seconds_count 4",
        "postrider_live_renewal_errors_total 1",
        "postrider_live_renewal_duration_seconds_count 2",
        "postrider_live_streams 1",
        "postrider_live_frames_total 1",
        "postrider_live_resyncs_total 0",
        "postrider_live_unreadable_messages_total 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

async fn a_durable_subscription_may_look_into_the_data(rig: &Rig) {
    let topic = live_topic(rig, "orders").await;
    let path = "/v1/projects/p/subscriptions/large";
    let body = |filter: &str| json!({"topic": topic, "postrider": {"filter": filter}});
    let text = "data.total >= 100 && attributes.tenant == 'blue'";
    let made = rig.put(path, body(text)).await.ok();
    assert_eq!((&made["postrider"]["filter"], made.get("filter")), (&json!(text), None));
    assert_eq!(rig.get(path).await.ok()["postrider"]["filter"], text);
    let long = format!("{{\"total\": 100, \"x\": \"{}\"}}", "x".repeat(1 << 20));
    let mut messages: Vec<_> =
        [json!({"total": 99}), json!({"total": 100}), json!("100")].iter().map(document).collect();
    messages.push(document(&serde_json::from_str(&long).unwrap()));
    let ids = publish(rig, &topic, messages).await;
    let pulled = rig.post(&format!("{path}:pull"), json!({"maxMessages": 10})).await.ok();
    let pulled = pulled["receivedMessages"].as_array().unwrap().clone();
    assert_eq!(pulled.len(), 1);
    assert_eq!(pulled[0]["message"]["messageId"], json!(ids[1]));

    let change =
        json!({"subscription": {"postrider": {"filter": ""}}, "updateMask": "postrider.filter"});
    let refused = rig.call("PATCH", path, Some(change)).await.refused(400, "INVALID_ARGUMENT");
    assert!(refused.contains("cannot be changed"), "{refused}");
    let other = "/v1/projects/p/subscriptions/other";
    let mut both = body(text);
    both["filter"] = json!("attributes:a");
    for bad in
        [both, body("data.total >"), body(&"data.a == 1 || ".repeat(40)), body(&"x".repeat(4_097))]
    {
        let message = rig.put(other, bad).await.refused(400, "INVALID_ARGUMENT");
        assert!(message.starts_with("postrider.filter: "), "{message}");
    }
}

each_engine! {
    a_summary_has_every_key_and_a_version,
    many_keys_become_a_bloom_filter,
    metrics_count_what_happens,
    a_durable_subscription_may_look_into_the_data,
}
