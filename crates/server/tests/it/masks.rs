//! An update may name what cannot be changed, as long as it leaves it as it is.

use serde_json::{Value, json};

use crate::rig::{Answer, Rig};

const TOPIC: &str = "/v1/projects/p/topics/orders";
const SUBSCRIPTION: &str = "/v1/projects/p/subscriptions/billing";

async fn patch(rig: &Rig, path: &str, of: &str, settings: Value, mask: &str) -> Answer {
    rig.call("PATCH", path, Some(json!({of: settings, "updateMask": mask}))).await
}

#[tokio::test]
async fn what_is_fixed_may_be_named_as_it_is() {
    let rig = Rig::start("memory").await;
    rig.put(TOPIC, json!({})).await.ok();
    let made = json!({
        "topic": "projects/p/topics/orders",
        "filter": "attributes:a",
        "enableMessageOrdering": true,
    });
    let mut wanted = rig.put(SUBSCRIPTION, made).await.ok();
    wanted["ackDeadlineSeconds"] = json!(33);
    let all = "name,topic,filter,enableMessageOrdering,state,detached,ackDeadlineSeconds";
    let updated = patch(&rig, SUBSCRIPTION, "subscription", wanted.clone(), all).await.ok();
    assert_eq!(updated["ackDeadlineSeconds"], json!(33));
    let updated = patch(&rig, SUBSCRIPTION, "subscription", wanted.clone(), "filter").await.ok();
    assert_eq!(updated["filter"], wanted["filter"]);
    let ours = "postrider.start,postrider.filter,ackDeadlineSeconds";
    patch(&rig, SUBSCRIPTION, "subscription", wanted.clone(), ours).await.ok();
    for (field, value, mask) in [
        ("filter", json!("attributes:b"), "filter,ackDeadlineSeconds"),
        ("filter", json!(""), "filter"),
        ("topic", json!("projects/p/topics/other"), "topic"),
        ("enableMessageOrdering", json!(false), "enableMessageOrdering"),
        ("postrider", json!({"start": "earliest"}), "postrider.start"),
    ] {
        let mut other = wanted.clone();
        other[field] = value;
        other["ackDeadlineSeconds"] = json!(44);
        let refused = patch(&rig, SUBSCRIPTION, "subscription", other, mask).await;
        let message = refused.refused(400, "INVALID_ARGUMENT");
        assert!(message.contains("cannot be changed"), "{field}: {message}");
    }
    assert_eq!(rig.get(SUBSCRIPTION).await.ok()["ackDeadlineSeconds"], json!(33));

    let mut topic = rig.get(TOPIC).await.ok();
    topic["labels"] = json!({"a": "1"});
    let updated = patch(&rig, TOPIC, "topic", topic.clone(), "name,state,labels").await.ok();
    assert_eq!(updated["labels"], json!({"a": "1"}));
    patch(&rig, TOPIC, "topic", topic, "name").await.ok();
    let other = json!({"state": "INGESTION_RESOURCE_ERROR"});
    let refused = patch(&rig, TOPIC, "topic", other, "state").await;
    assert!(refused.refused(400, "INVALID_ARGUMENT").contains("cannot be changed"));
    rig.stop().await;
}
