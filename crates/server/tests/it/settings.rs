//! The settings of subscriptions: set, shown, changed and warned about, over gRPC and REST.

use serde_json::{Value, json};
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};
use wire::protobuf::{Duration, FieldMask};
use wire::pubsub::{
    DeadLetterPolicy, GetSubscriptionRequest, RetryPolicy, Subscription, UpdateSubscriptionRequest,
};

use crate::rig::{Rig, each_engine, subscription, topic};

const TOPIC: &str = "/v1/projects/p/topics/orders";
const BILLING: &str = "/v1/projects/p/subscriptions/billing";

async fn over_rest(rig: &Rig, id: &str, fields: Value) -> Value {
    let mut body = fields;
    body["topic"] = json!("projects/p/topics/orders");
    rig.put(&format!("/v1/{}", subscription(id)), body).await.ok()
}

async fn patched(rig: &Rig, fields: Value, mask: &str) -> Value {
    let body = json!({"subscription": fields, "updateMask": mask});
    rig.call("PATCH", BILLING, Some(body)).await.ok()
}

async fn got(rig: &Rig, id: &str) -> Subscription {
    let get = GetSubscriptionRequest { subscription: subscription(id) };
    rig.subscriber().await.get_subscription(get).await.unwrap().into_inner()
}

async fn updated(
    rig: &Rig,
    wanted: Subscription,
    paths: &[&str],
) -> Result<tonic::Response<Subscription>, Status> {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    let update = UpdateSubscriptionRequest {
        subscription: Some(wanted),
        update_mask: Some(FieldMask { paths }),
    };
    rig.subscriber().await.update_subscription(update).await
}

fn labelled(pairs: &[(&str, &str)]) -> Subscription {
    Subscription {
        name: subscription("billing"),
        topic: topic("orders"),
        labels: pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        ..Subscription::default()
    }
}

fn warnings(metadata: &MetadataMap) -> Vec<&str> {
    metadata.get_all("postrider-warning").iter().map(|one| one.to_str().unwrap()).collect()
}

async fn what_rest_sets_grpc_shows(rig: &Rig) {
    rig.put(TOPIC, json!({})).await.ok();
    rig.put("/v1/projects/q/topics/dead", json!({})).await.ok();
    let made = over_rest(
        rig,
        "billing",
        json!({
            "enableMessageOrdering": true,
            "filter": "attributes:kind",
            "retryPolicy": {"minimumBackoff": "0.5s"},
            "deadLetterPolicy": {"deadLetterTopic": "projects/q/topics/dead"},
            "enableExactlyOnceDelivery": true,
            "postrider": {"poison": "halt", "paused": true, "maxAttempts": 7},
        }),
    )
    .await;
    assert_eq!(made["retryPolicy"], json!({"minimumBackoff": "0.500s", "maximumBackoff": "600s"}));
    assert_eq!(made["deadLetterPolicy"]["maxDeliveryAttempts"], json!(7));
    let ours = json!({
        "start": "latest", "fifo": false, "paused": true, "poison": "halt", "maxAttempts": 7,
    });
    assert_eq!(made["postrider"], ours);
    assert_eq!(made.get("warnings"), None);
    assert_eq!(rig.get(BILLING).await.ok(), made);
    let shown = got(rig, "billing").await;
    assert!(shown.enable_message_ordering && shown.enable_exactly_once_delivery);
    assert_eq!(shown.filter, "attributes:kind");
    let dead = DeadLetterPolicy {
        dead_letter_topic: "projects/q/topics/dead".to_owned(),
        max_delivery_attempts: 7,
    };
    assert_eq!(shown.dead_letter_policy, Some(dead));
    let retry = RetryPolicy {
        minimum_backoff: Some(Duration { seconds: 0, nanos: 500_000_000 }),
        maximum_backoff: Some(Duration::from_secs(600)),
    };
    assert_eq!(shown.retry_policy, Some(retry));
}

async fn labels_set_what_grpc_has_no_field_for(rig: &Rig) {
    rig.put(TOPIC, json!({})).await.ok();
    let wanted = labelled(&[("postrider-fifo", "true"), ("postrider-paused", "true")]);
    rig.subscriber().await.create_subscription(wanted).await.unwrap();
    let shown = rig.get(BILLING).await.ok();
    assert_eq!(shown["fifo_mode"], json!(true));
    assert_eq!(shown["postrider"]["paused"], json!(true));

    // Labels that are missing clear nothing; labels that are there set.
    updated(rig, labelled(&[("team", "blue")]), &["labels"]).await.unwrap();
    let shown = rig.get(BILLING).await.ok();
    assert_eq!(shown["labels"], json!({"team": "blue"}));
    assert_eq!(shown["postrider"]["fifo"], json!(true));
    updated(rig, labelled(&[("postrider-fifo", "false")]), &["labels"]).await.unwrap();
    assert_eq!(rig.get(BILLING).await.ok()["postrider"]["fifo"], json!(false));

    // The object takes the label along.
    let changed = patched(rig, json!({"postrider": {"fifo": true}}), "postrider.fifo").await;
    assert_eq!(changed["labels"], json!({"postrider-fifo": "true"}));
    let body = json!({
        "subscription": {"labels": {"postrider-fifo": "true"}, "postrider": {"fifo": false}},
        "updateMask": "labels,postrider",
    });
    let torn = rig.call("PATCH", BILLING, Some(body)).await.refused(400, "INVALID_ARGUMENT");
    assert!(torn.contains("postrider-fifo"), "{torn}");
}

async fn every_spelling_of_a_setting_works(rig: &Rig) {
    rig.put(TOPIC, json!({})).await.ok();
    let made = over_rest(rig, "billing", json!({"fifo_mode": true, "is_enabled": false})).await;
    assert_eq!(made["postrider"]["fifo"], json!(true));
    assert_eq!(made["postrider"]["paused"], json!(true));
    let changed = patched(rig, json!({"isEnabled": true}), "isEnabled,fifoMode").await;
    assert_eq!(changed["postrider"]["fifo"], json!(false));
    assert_eq!(changed["postrider"]["paused"], json!(false));
    let laned = patched(rig, json!({"postrider": {"laneBy": "kind"}}), "postrider.laneBy").await;
    assert_eq!(laned["postrider"]["laneBy"], json!("kind"));
    let cleared = patched(rig, json!({"postrider": {"laneBy": ""}}), "postrider").await;
    assert_eq!(cleared["postrider"].get("laneBy"), None);
}

async fn grpc_never_clears_what_it_cannot_express(rig: &Rig) {
    rig.put(TOPIC, json!({})).await.ok();
    over_rest(rig, "billing", json!({"postrider": {"description": "kept", "laneBy": "kind"}}))
        .await;
    let wanted = Subscription { ack_deadline_seconds: 60, ..labelled(&[]) };
    updated(rig, wanted.clone(), &["ack_deadline_seconds", "labels"]).await.unwrap();
    for path in ["postrider", "postrider.description", "postrider.lane_by"] {
        let refused = updated(rig, wanted.clone(), &[path]).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    }
    let shown = rig.get(BILLING).await.ok();
    assert_eq!(shown["postrider"]["description"], json!("kept"));
    assert_eq!(shown["postrider"]["laneBy"], json!("kind"));
    assert_eq!(shown["ackDeadlineSeconds"], json!(60));
}

async fn policies_are_changed_by_their_parts_and_ended(rig: &Rig) {
    rig.put(TOPIC, json!({})).await.ok();
    rig.put("/v1/projects/p/topics/dead", json!({})).await.ok();
    over_rest(rig, "billing", json!({"retryPolicy": {"maximumBackoff": "60s"}})).await;
    let changed = patched(
        rig,
        json!({
            "retryPolicy": {"minimumBackoff": "1s"},
            "deadLetterPolicy": {"deadLetterTopic": "projects/p/topics/dead"},
        }),
        "retryPolicy.minimumBackoff,deadLetterPolicy.deadLetterTopic",
    )
    .await;
    assert_eq!(changed["retryPolicy"], json!({"minimumBackoff": "1s", "maximumBackoff": "60s"}));
    assert_eq!(changed["deadLetterPolicy"]["maxDeliveryAttempts"], json!(5));
    let ended = patched(rig, json!({}), "retryPolicy,deadLetterPolicy").await;
    assert_eq!((ended.get("retryPolicy"), ended.get("deadLetterPolicy")), (None, None));
}

async fn risky_settings_are_answered_with_a_warning(rig: &Rig) {
    rig.put(TOPIC, json!({})).await.ok();
    let made = over_rest(rig, "first", json!({"postrider": {"fifo": true}})).await;
    let first = made["warnings"][0].as_str().unwrap();
    assert!(first.starts_with("FIFO is on"), "{first}");
    let sent_back = json!({"subscription": made, "updateMask": "ackDeadlineSeconds"});
    let path = format!("/v1/{}", subscription("first"));
    let changed = rig.call("PATCH", &path, Some(sent_back)).await.ok();
    assert_eq!(changed.get("warnings"), None);

    let own = DeadLetterPolicy { dead_letter_topic: topic("orders"), max_delivery_attempts: 0 };
    let wanted =
        Subscription { dead_letter_policy: Some(own), ..labelled(&[("postrider-fifo", "true")]) };
    let made = rig.subscriber().await.create_subscription(wanted.clone()).await.unwrap();
    let sent = warnings(made.metadata());
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert!(sent[0].starts_with("FIFO is on") && sent[1].contains("own topic"), "{sent:?}");
    let changed = updated(rig, wanted, &["labels"]).await.unwrap();
    assert!(warnings(changed.metadata()).is_empty());
}

async fn losing_the_order_of_what_is_outstanding_is_warned_about(rig: &Rig) {
    rig.put(TOPIC, json!({})).await.ok();
    over_rest(rig, "billing", json!({"fifoMode": true})).await;
    let messages = json!({"messages": [{"data": "eA=="}]});
    rig.post(&format!("{TOPIC}:publish"), messages).await.ok();
    let pulled = rig.post(&format!("{BILLING}:pull"), json!({"maxMessages": 1})).await.ok();
    assert!(pulled["receivedMessages"].is_array(), "{pulled}");
    let changed = patched(rig, json!({"fifoMode": false}), "fifoMode").await;
    let warning = changed["warnings"][0].as_str().unwrap();
    assert!(warning.contains("outstanding (1)"), "{warning}");
}

each_engine! {
    what_rest_sets_grpc_shows,
    labels_set_what_grpc_has_no_field_for,
    every_spelling_of_a_setting_works,
    grpc_never_clears_what_it_cannot_express,
    policies_are_changed_by_their_parts_and_ended,
    risky_settings_are_answered_with_a_warning,
    losing_the_order_of_what_is_outstanding_is_warned_about,
}
