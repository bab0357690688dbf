//! REST: whatever is wrong is refused by name, and changes nothing.

use serde_json::{Value, json};

use crate::rig::{Rig, call, each_engine};

const TOPIC: &str = "/v1/projects/p/topics/orders";
const SUBSCRIPTION: &str = "/v1/projects/p/subscriptions/billing";
const OTHER: &str = "/v1/projects/p/subscriptions/other";

async fn make_pair(rig: &Rig) {
    rig.put(TOPIC, json!({})).await.ok();
    rig.put(SUBSCRIPTION, json!({"topic": "projects/p/topics/orders"})).await.ok();
}

/// The call must be refused, and the message must name `name`.
async fn bad(rig: &Rig, verb: &str, path: &str, body: Option<Value>, name: &str) {
    let answer = rig.call(verb, path, body.clone()).await;
    let message = answer.refused(400, "INVALID_ARGUMENT");
    assert!(message.contains(name), "{verb} {path} {body:?}: {message}");
}

async fn bad_messages_are_refused_by_name_and_none_is_published(rig: &Rig) {
    make_pair(rig).await;
    for (messages, name) in [
        (json!([{"data": "eA=="}, {"data": "eA==", "dta": "x"}]), "messages[1].dta"),
        (json!([{"data": 5}]), "messages[0].data"),
        (json!([{"data": "not base64!"}]), "messages[0].data"),
        (json!([{"data": "abcde"}]), "messages[0].data"),
        (json!([{"data": "eA==", "attributes": []}]), "messages[0].attributes"),
        (json!([{"data": "eA==", "attributes": {"k": 1}}]), "messages[0].attributes.k"),
        (json!([{"data": "eA==", "orderingKey": {}}]), "messages[0].orderingKey"),
        (json!([{"data": "eA==", "orderingKey": "k".repeat(1_025)}]), "messages[0].orderingKey"),
        (
            json!([{"data": "eA==", "attributes": {"goog": "x"}}]),
            r#"messages[0].attributes["goog"]"#,
        ),
        (json!(["text"]), "messages[0]"),
        (json!([{}]), "messages[0]"),
        (json!([]), "messages"),
        (json!({}), "messages"),
        (json!("x"), "messages"),
    ] {
        let body = Some(json!({"messages": messages}));
        bad(rig, "POST", &format!("{TOPIC}:publish"), body, name).await;
    }
    let body = json!({"maxMessages": 10, "returnImmediately": true});
    let answer = rig.post(&format!("{SUBSCRIPTION}:pull"), body).await;
    assert_eq!(answer.ok(), json!({}));
}

async fn bad_settings_are_refused_by_name_and_nothing_is_made(rig: &Rig) {
    make_pair(rig).await;
    for (fields, name) in [
        (json!({"ackDeadlin": 10}), "ackDeadlin"),
        (json!({"ackDeadlineSeconds": "soon"}), "ackDeadlineSeconds"),
        (json!({"ackDeadlineSeconds": 1.5}), "ackDeadlineSeconds"),
        (json!({"ackDeadlineSeconds": 9}), "ackDeadlineSeconds"),
        (json!({"ackDeadlineSeconds": 601}), "ackDeadlineSeconds"),
        (json!({"messageRetentionDuration": 600}), "messageRetentionDuration"),
        (json!({"messageRetentionDuration": "ten minutes"}), "messageRetentionDuration"),
        (json!({"messageRetentionDuration": "599s"}), "messageRetentionDuration"),
        (json!({"messageRetentionDuration": "-1s"}), "messageRetentionDuration"),
        (json!({"expirationPolicy": {"ttl": "3600s"}}), "expirationPolicy.ttl"),
        (json!({"retainAckedMessages": "yes"}), "retainAckedMessages"),
        (json!({"labels": {"Team": "x"}}), "labels"),
        (json!({"labels": {"postrider-strat": "x"}}), "postrider-strat"),
        (json!({"labels": {"postrider-start": "soon"}}), "postrider-start"),
        (json!({"labels": {"postrider-fifo": "yes"}}), "postrider-fifo"),
        (json!({"labels": {"postrider-max-attempts": "101"}}), "postrider-max-attempts"),
        (json!({"filter": "attributes.kind = 5"}), "filter: at 19: "),
        (json!({"filter": format!("attributes:{}", "a".repeat(250))}), "filter"),
        (json!({"retryPolicy": {"minimumBackoff": "601s"}}), "retryPolicy.minimumBackoff: 601 s"),
        (json!({"retryPolicy": {"minimumBackoff": "-1s"}}), "retryPolicy.minimumBackoff"),
        (json!({"retryPolicy": {"maximumBackoff": "9s"}}), "retryPolicy.minimumBackoff: 10 s"),
        (
            json!({"deadLetterPolicy": {"deadLetterTopic": "dead"}}),
            "deadLetterPolicy.deadLetterTopic",
        ),
        (
            json!({"deadLetterPolicy": {
                "deadLetterTopic": "projects/p/topics/dead", "maxDeliveryAttempts": 3,
            }}),
            "deadLetterPolicy.maxDeliveryAttempts: 3, 5 to 100 are allowed",
        ),
        (json!({"postrider": 5}), "postrider"),
        (json!({"postrider": {"strat": "latest"}}), "postrider.strat"),
        (json!({"postrider": {"start": "middle"}}), "postrider.start"),
        (json!({"postrider": {"start": {"offset": u64::MAX}}}), "postrider.start"),
        (json!({"postrider": {"description": "x".repeat(5_000)}}), "postrider.description"),
        (json!({"postrider": {"fifo": "yes"}}), "postrider.fifo"),
        (json!({"fifoMode": true, "postrider": {"fifo": false}}), "fifoMode"),
        (json!({"postrider": {"fifo": true, "laneBy": "kind"}}), "postrider.laneBy"),
        (
            json!({"enableMessageOrdering": true, "postrider": {"laneBy": "kind"}}),
            "postrider.laneBy",
        ),
        (json!({"postrider": {"poison": "stop"}}), "postrider.poison"),
        (json!({"postrider": {"poison": "halt"}}), "postrider.poison: halt needs lanes"),
        (
            json!({"postrider": {"poison": "halt", "fifo": true}}),
            "postrider.poison: halt needs a limit on attempts",
        ),
        (json!({"postrider": {"maxAttempts": 0}}), "postrider.maxAttempts"),
        (json!({"name": "projects/p/subscriptions/another"}), "name"),
    ] {
        let mut body = fields;
        body["topic"] = json!("projects/p/topics/orders");
        bad(rig, "PUT", OTHER, Some(body), name).await;
    }
    bad(rig, "PUT", OTHER, Some(json!({"topic": 5})), "topic").await;
    bad(rig, "PUT", OTHER, Some(json!({})), "topic").await;
    rig.get(OTHER).await.refused(404, "NOT_FOUND");
}

async fn bad_updates_and_queries_are_refused_by_name(rig: &Rig) {
    make_pair(rig).await;
    for (body, name) in [
        (json!({"subscription": {"ackDeadlineSeconds": 20}}), "updateMask"),
        (json!({"subscription": {}, "updateMask": ""}), "updateMask"),
        (json!({"subscription": {"topic": "x"}, "updateMask": "topic"}), "updateMask"),
        (json!({"subscription": {}, "updateMask": "noSuchField"}), "updateMask"),
        (
            json!({
                "subscription": {"enableMessageOrdering": true},
                "updateMask": "enableMessageOrdering",
            }),
            "updateMask",
        ),
        (json!({"subscription": {"filter": "attributes:a"}, "updateMask": "filter"}), "updateMask"),
        (json!({"subscription": {}, "updateMask": "retryPolicy.backoff"}), "updateMask"),
        (json!({"subscription": {}, "updateMask": "postrider.start"}), "updateMask"),
        (
            json!({
                "subscription": {"deadLetterPolicy": {"maxDeliveryAttempts": 7}},
                "updateMask": "deadLetterPolicy.maxDeliveryAttempts",
            }),
            "deadLetterPolicy.deadLetterTopic",
        ),
        (
            json!({"subscription": {"ackDeadlineSeconds": 5}, "updateMask": "ackDeadlineSeconds"}),
            "ackDeadlineSeconds",
        ),
        (json!({"subscription": {"labls": {}}, "updateMask": "labels"}), "labls"),
        (
            json!({"subscription": {"postrider": {"x": 1}}, "updateMask": "postrider"}),
            "postrider.x",
        ),
        (
            json!({
                "subscription": {"labels": {"postrider-start": "earliest"}},
                "updateMask": "labels",
            }),
            "postrider-start",
        ),
    ] {
        bad(rig, "PATCH", SUBSCRIPTION, Some(body), name).await;
    }
    for query in ["pageToken=rubbish", "pageSize=x", "pageSize=-1", "pageTocken=x"] {
        let name = query.split('=').next().unwrap();
        bad(rig, "GET", &format!("/v1/projects/p/topics?{query}"), None, name).await;
        bad(rig, "GET", &format!("/v1/projects/p/subscriptions?{query}"), None, name).await;
    }
    let pull = |body| {
        bad(rig, "POST", "/v1/projects/p/subscriptions/billing:pull", Some(body), "axMessages")
    };
    pull(json!({"maxMessages": 0})).await;
    pull(json!({"maxMessages": -1})).await;
    pull(json!({"maxMessages": 99_999_999_999_u64})).await;
}

async fn bodies_that_are_not_json_are_refused(rig: &Rig) {
    make_pair(rig).await;
    let deep = format!("{{\"messages\": {}", "[".repeat(100_000));
    for raw in ["", "{", "{]", "nul", "[]", "\"text\"", "5", r#"{"a": 1e999}"#, &deep] {
        let answer = call(rig.address, "POST", &format!("{TOPIC}:publish"), raw.to_owned()).await;
        answer.refused(400, "INVALID_ARGUMENT");
    }
    let answer = call(rig.address, "POST", &format!("{TOPIC}:publish"), vec![0xff, 0xfe]).await;
    answer.refused(400, "INVALID_ARGUMENT");
}

async fn a_transform_without_code_is_400_and_a_call_that_is_not_built_501(rig: &Rig) {
    make_pair(rig).await;
    let body = json!({"topic": "projects/p/topics/orders", "messageTransforms": [{}]});
    let message = rig.put(OTHER, body).await.refused(400, "INVALID_ARGUMENT");
    assert!(message.contains("messageTransforms[0].javascriptUdf"), "{message}");
    rig.get(&format!("{TOPIC}:getIamPolicy")).await.refused(501, "UNIMPLEMENTED");
    rig.get(OTHER).await.refused(404, "NOT_FOUND");
}

async fn unknown_paths_are_404_with_googles_body(rig: &Rig) {
    for (verb, path) in [
        ("GET", "/v2/x"),
        ("GET", "/v1"),
        ("GET", "/nowhere"),
        ("POST", "/"),
        ("POST", "/v1/projects/p/topics/orders:fly"),
        ("DELETE", "/v1/projects/p/topics"),
    ] {
        rig.call(verb, path, None).await.refused(404, "NOT_FOUND");
    }
    rig.get("/v1/projects/p/topics/%zz").await.refused(400, "INVALID_ARGUMENT");
}

each_engine! {
    bad_messages_are_refused_by_name_and_none_is_published,
    bad_settings_are_refused_by_name_and_nothing_is_made,
    bad_updates_and_queries_are_refused_by_name,
    bodies_that_are_not_json_are_refused,
    a_transform_without_code_is_400_and_a_call_that_is_not_built_501,
    unknown_paths_are_404_with_googles_body,
}
