//! Bodies packed with gzip, and verbs in a header: what Google's Java client sends over REST.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use crate::rig::{Rig, call_with};

const TOPIC: &str = "/v1/projects/p/topics/orders";

fn pack(text: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(text).unwrap();
    packed.finish().unwrap()
}

#[tokio::test]
async fn packed_bodies_are_understood_everywhere_and_patches_come_as_posts() {
    let rig = Rig::start("memory").await;
    let gzip = ("content-encoding", "gzip");
    let send = |verb: &'static str, path: &str, body: serde_json::Value, more| {
        let (path, body) = (path.to_owned(), pack(body.to_string().as_bytes()));
        let headers = [gzip, more];
        let address = rig.address;
        async move { call_with(address, verb, &path, body, &headers).await }
    };
    let plain = ("x-other", "1");
    send("PUT", TOPIC, json!({"labels": {"a": "1"}}), plain).await.ok();
    let messages = json!({"messages": [{"data": "aGk="}]});
    let published = send("POST", &format!("{TOPIC}:publish"), messages, plain).await.ok();
    assert_eq!(published["messageIds"].as_array().unwrap().len(), 1);
    let patch = json!({"topic": {"labels": {"a": "2"}}, "updateMask": "labels"});
    let override_ = ("x-http-method-override", "PATCH");
    let patched = send("POST", TOPIC, patch.clone(), override_).await.ok();
    assert_eq!(patched["labels"], json!({"a": "2"}));
    // Without it the path has no POST, and it means nothing on another verb.
    assert_eq!(send("POST", TOPIC, patch, plain).await.code.as_u16(), 404);
    let other = [("x-http-method-override", "DELETE")];
    assert_eq!(call_with(rig.address, "GET", TOPIC, "", &other).await.code.as_u16(), 200);
    let registration = json!({
        "gatewayId": "g", "subscriptionId": "s", "tenant": "t", "collection": "c",
    });
    let registered = send("POST", "/internal/v1/subscriptions", registration, plain).await;
    assert_eq!(registered.code.as_u16(), 201, "{registered:?}");
    rig.stop().await;
}

#[tokio::test]
async fn packed_bodies_are_bounded_and_must_be_whole() {
    let rig = Rig::start("memory").await;
    rig.put(TOPIC, json!({})).await.ok();
    let publish = format!("{TOPIC}:publish");
    let packed = pack(br#"{"messages": []}"#);
    let bomb = pack(&vec![b' '; 64 << 20]);
    assert!(bomb.len() < 100_000);
    for (body, encoding, word) in [
        (bomb, "gzip", "longer than"),
        (packed[..packed.len() - 9].to_vec(), "gzip", "gzip"),
        (b"{}".to_vec(), "gzip", "gzip"),
        (packed.clone(), "br", "content-encoding"),
        (packed, "identity", ""),
    ] {
        let headers = [("content-encoding", encoding)];
        let refused = call_with(rig.address, "POST", &publish, body, &headers).await;
        let message = refused.refused(400, "INVALID_ARGUMENT");
        assert!(message.contains(word), "{message}");
    }
    rig.stop().await;
}
