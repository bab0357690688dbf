//! The settings of push subscriptions: set, shown, changed, refused, over gRPC and REST.

use serde_json::{Value, json};
use tonic::Code;
use wire::protobuf::FieldMask;
use wire::pubsub::{
    GetSubscriptionRequest, ModifyPushConfigRequest, PullRequest, PushConfig, Subscription,
    UpdateSubscriptionRequest,
};

use crate::rig::{Answer, Rig, each_engine, subscription};
use crate::streams::{Stream, first};

const TOPIC: &str = "/v1/projects/p/topics/orders";
const BILLING: &str = "/v1/projects/p/subscriptions/billing";
/// Nobody listens there, and nothing is published to be sent there.
const ENDPOINT: &str = "http://127.0.0.1:9/push";
const SECRET: &str = "whsec_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

async fn put(rig: &Rig, fields: Value) -> Answer {
    let mut body = fields;
    body["topic"] = json!("projects/p/topics/orders");
    rig.put(BILLING, body).await
}

async fn made(rig: &Rig, fields: Value) -> Value {
    rig.put(TOPIC, json!({})).await.ok();
    put(rig, fields).await.ok()
}

async fn patch(rig: &Rig, fields: Value, mask: &str) -> Answer {
    let body = json!({"subscription": fields, "updateMask": mask});
    rig.call("PATCH", BILLING, Some(body)).await
}

async fn over_grpc(rig: &Rig) -> Subscription {
    let get = GetSubscriptionRequest { subscription: subscription("billing") };
    rig.subscriber().await.get_subscription(get).await.unwrap().into_inner()
}

fn to(endpoint: &str) -> PushConfig {
    let attributes = [("x-goog-version".to_owned(), "v1".to_owned())].into();
    PushConfig { push_endpoint: endpoint.to_owned(), attributes, ..PushConfig::default() }
}

/// The push config as it is shown: always with a version.
fn with_version(mut config: Value) -> Value {
    config["attributes"] = json!({"x-goog-version": "v1"});
    config
}

async fn what_a_push_subscription_is_given_is_shown(rig: &Rig) {
    let given = json!({
        "pushConfig": {
            "pushEndpoint": ENDPOINT, "timeoutSeconds": 7,
            "attributes": {"x-goog-version": "v1"},
            "oidcToken": {"serviceAccountEmail": "push@example.com", "audience": "me"},
        },
        "postrider": {
            "backoff": ["5s", "5m", "30m", "2h"], "headers": {"X-Tenant": "blue"},
            "method": "PUT", "batch": {"messages": 7}, "rateLimit": 50,
        },
    });
    let shown = made(rig, given.clone()).await;
    assert_eq!(shown["pushConfig"], given["pushConfig"]);
    let ours = json!({
        "start": "latest", "fifo": false, "paused": false, "poison": "skip",
        "backoff": ["5s", "5m", "30m", "2h"], "headers": {"X-Tenant": "blue"}, "method": "PUT",
        "batch": {"messages": 7, "bytes": 1_048_576, "linger": "0s"}, "rateLimit": 50,
    });
    assert_eq!(shown["postrider"], ours);
    assert_eq!(rig.get(BILLING).await.ok(), shown);
    let config = over_grpc(rig).await.push_config.unwrap();
    assert_eq!(config.push_endpoint, ENDPOINT);
    assert!(config.authentication_method.is_some());
    // What is shown can be sent back.
    let mask = "pushConfig,postrider";
    assert_eq!(patch(rig, shown.clone(), mask).await.ok(), shown);
}

async fn push_settings_wait_for_an_endpoint(rig: &Rig) {
    let shown = made(rig, json!({
        "postrider": {
            "headers": {"x-a": "1"}, "method": "PATCH", "batch": {}, "rateLimit": 1, "signing": {},
        },
        "labels": {"postrider-timeout-seconds": "40"},
    }))
    .await;
    assert_eq!(shown["pushConfig"], json!({}));
    assert_eq!(shown["postrider"]["method"], json!("PATCH"));
    let modify = json!({"pushConfig": {"pushEndpoint": ENDPOINT}});
    let answer = rig.post(&format!("{BILLING}:modifyPushConfig"), modify).await.ok();
    assert_eq!(answer, json!({}));
    let shown = rig.get(BILLING).await.ok();
    let config = json!({"pushEndpoint": ENDPOINT, "timeoutSeconds": 40});
    assert_eq!(shown["pushConfig"], with_version(config));
    let pull = json!({"pushConfig": {}});
    rig.post(&format!("{BILLING}:modifyPushConfig"), pull).await.ok();
    let shown = rig.get(BILLING).await.ok();
    assert_eq!(shown["pushConfig"], json!({}));
    assert_eq!(shown["postrider"]["headers"], json!({"x-a": "1"}));
}

async fn each_mask_changes_what_it_names(rig: &Rig) {
    made(
        rig,
        json!({
            "pushConfig": {
                "pushEndpoint": ENDPOINT, "timeoutSeconds": 7, "noWrapper": {"writeMetadata": true},
            },
            "postrider": {"headers": {"x-a": "1"}, "method": "PUT", "rateLimit": 50},
        }),
    )
    .await;
    let other = "https://example.com/other";
    for (fields, mask, place, value) in [
        (
            json!({"pushConfig": {"pushEndpoint": other}}),
            "pushConfig.pushEndpoint",
            "/pushConfig/pushEndpoint",
            json!(other),
        ),
        (
            json!({"pushConfig": {"timeoutSeconds": 9}}),
            "pushConfig.timeoutSeconds",
            "/pushConfig/timeoutSeconds",
            json!(9),
        ),
        (
            json!({"pushConfig": {"oidcToken": {"serviceAccountEmail": "e@x"}}}),
            "pushConfig.oidcToken",
            "/pushConfig/oidcToken",
            json!({"serviceAccountEmail": "e@x"}),
        ),
        (json!({}), "pushConfig.noWrapper", "/pushConfig/noWrapper", Value::Null),
        (
            json!({"postrider": {"backoff": ["1s"]}}),
            "postrider.backoff",
            "/postrider/backoff",
            json!(["1s"]),
        ),
        (
            json!({"postrider": {"headers": {"x-b": "2"}}}),
            "postrider.headers",
            "/postrider/headers",
            json!({"x-b": "2"}),
        ),
        (json!({}), "postrider.method", "/postrider/method", json!("POST")),
        (
            json!({"postrider": {"batch": {}}}),
            "postrider.batch",
            "/postrider/batch",
            json!({"messages": 100, "bytes": 1_048_576, "linger": "0s"}),
        ),
        (json!({"postrider": {"batch": null}}), "postrider", "/postrider/batch", Value::Null),
        (json!({}), "postrider.rateLimit", "/postrider/rateLimit", Value::Null),
        (json!({}), "pushConfig.timeoutSeconds", "/pushConfig/timeoutSeconds", Value::Null),
    ] {
        check_change(rig, fields, mask, place, value).await;
    }
    let shown = patch(rig, json!({}), "pushConfig").await.ok();
    assert_eq!(shown["pushConfig"], json!({}));
    assert_eq!(shown["postrider"]["headers"], json!({"x-b": "2"}));
}

/// An update sets what is at `place` to `value`, and leaves all else as it was.
async fn check_change(rig: &Rig, fields: Value, mask: &str, place: &str, value: Value) {
    let before = rig.get(BILLING).await.ok();
    let mut shown = patch(rig, fields, mask).await.ok();
    assert_eq!(shown.pointer(place).cloned().unwrap_or_default(), value, "{mask}");
    let (parent, name) = place.rsplit_once('/').unwrap();
    let fields = shown.pointer_mut(parent).and_then(Value::as_object_mut).unwrap();
    match before.pointer(place) {
        Some(was) => fields.insert(name.to_owned(), was.clone()),
        None => fields.remove(name),
    };
    assert_eq!(shown, before, "{mask}");
}

async fn the_source_spellings_set_the_same_settings(rig: &Rig) {
    let shown = made(
        rig,
        json!({"push_config": {
            "push_endpoint": ENDPOINT, "timeout_seconds": 5,
            "retry_policy": {"min_backoff_seconds": 1, "max_backoff_seconds": 60},
        }}),
    )
    .await;
    let config = json!({"pushEndpoint": ENDPOINT, "timeoutSeconds": 5});
    assert_eq!(shown["pushConfig"], with_version(config));
    assert_eq!(shown["retryPolicy"], json!({"minimumBackoff": "1s", "maximumBackoff": "60s"}));
    assert_eq!(shown["postrider"]["maxAttempts"], json!(5));
    let fields = json!({"pushConfig": {"retryPolicy": {"maxAttempts": 3}}});
    let shown = patch(rig, fields, "pushConfig.retryPolicy").await.ok();
    assert_eq!(shown["retryPolicy"], json!({"minimumBackoff": "10s", "maximumBackoff": "600s"}));
    assert_eq!(shown["postrider"]["maxAttempts"], json!(3));
    assert_eq!(shown["pushConfig"]["timeoutSeconds"], json!(5));
}

async fn refused_by_name(rig: &Rig, fields: Value, name: &str) {
    let refused = put(rig, fields).await.refused(400, "INVALID_ARGUMENT");
    let names = [format!("{name}: "), format!("labels[{name:?}]: ")];
    assert!(names.iter().any(|name| refused.starts_with(name.as_str())), "{name}: {refused}");
    assert!(!refused.contains("hush") && !refused.contains("aHVz"), "{refused}");
    rig.get(BILLING).await.refused(404, "NOT_FOUND");
}

async fn bad_push_configs_are_refused_by_name(rig: &Rig) {
    rig.put(TOPIC, json!({})).await.ok();
    let push = |more: Value| {
        let mut config = json!({"pushEndpoint": ENDPOINT});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"pushConfig": config})
    };
    for (fields, name) in [
        (json!({"pushConfig": {"pushEndpoint": "localhost:80"}}), "pushConfig.pushEndpoint"),
        (json!({"pushConfig": {"pushEndpoint": "file:///etc"}}), "pushConfig.pushEndpoint"),
        (json!({"pushConfig": {"pushEndpoint": "http://h/\r\nx: y"}}), "pushConfig.pushEndpoint"),
        (json!({"pushConfig": {"timeoutSeconds": 5}}), "pushConfig.pushEndpoint"),
        (json!({"pushConfig": {"noWrapper": {}}}), "pushConfig.pushEndpoint"),
        (push(json!({"timeoutSeconds": 0})), "pushConfig.timeoutSeconds"),
        (push(json!({"timeoutSeconds": 601})), "pushConfig.timeoutSeconds"),
        (push(json!({"timeoutSeconds": 5.5})), "pushConfig.timeoutSeconds"),
        (push(json!({"oidcToken": {}})), "pushConfig.oidcToken.serviceAccountEmail"),
        (push(json!({"endpoint": ENDPOINT})), "pushConfig.endpoint"),
        (push(json!({"retryPolicy": {"maxAttempts": 101}})), "pushConfig.retryPolicy.maxAttempts"),
        (
            push(json!({"retryPolicy": {"maximumBackoff": "2h"}})),
            "pushConfig.retryPolicy.maximumBackoff",
        ),
        (json!({"pushConfig": {"retryPolicy": {}}, "retryPolicy": {}}), "pushConfig.retryPolicy"),
        (
            json!({"pushConfig": {"pushEndpoint": ENDPOINT}, "enableExactlyOnceDelivery": true}),
            "enableExactlyOnceDelivery",
        ),
        (
            json!({"pushConfig": {"pushEndpoint": ENDPOINT, "noWrapper": {}},
                   "postrider": {"batch": {}}}),
            "postrider.batch",
        ),
        (
            json!({"pushConfig": {"pushEndpoint": ENDPOINT, "timeoutSeconds": 5},
                   "labels": {"postrider-timeout-seconds": "6"}}),
            "postrider-timeout-seconds",
        ),
        (json!({"labels": {"postrider-timeout-seconds": "601"}}), "postrider-timeout-seconds"),
        (json!({"retryPolicy": {}, "postrider": {"backoff": ["5s"]}}), "postrider.backoff"),
    ] {
        refused_by_name(rig, fields, name).await;
    }
}

async fn bad_settings_of_ours_are_refused_by_name(rig: &Rig) {
    rig.put(TOPIC, json!({})).await.ok();
    let ours = |more: Value| json!({"pushConfig": {"pushEndpoint": ENDPOINT}, "postrider": more});
    let phases = json!({
        "fast": {"min": "5s", "max": "5m", "retries": 30},
        "slow": {"every": "1h", "retries": 30},
    });
    for (fields, name) in [
        (ours(json!({"backoff": []})), "postrider.backoff"),
        (ours(json!({"backoff": ["soon"]})), "postrider.backoff[0]"),
        (ours(json!({"backoff": ["25h"]})), "postrider.backoff[0]"),
        (ours(json!({"backoff": phases, "maxAttempts": 5})), "postrider.backoff"),
        (ours(json!({"headers": {"x-a": "1\r\nhost: evil"}})), r#"postrider.headers["x-a"]"#),
        (ours(json!({"headers": {"x\r\ny": "1"}})), r#"postrider.headers["x\r\ny"]"#),
        (ours(json!({"headers": {"Host": "evil"}})), r#"postrider.headers["Host"]"#),
        (ours(json!({"headers": {"webhook-id": "1"}})), r#"postrider.headers["webhook-id"]"#),
        (ours(json!({"headers": ["x-a"]})), "postrider.headers"),
        (ours(json!({"method": "GET"})), "postrider.method"),
        (ours(json!({"signing": {"secret": "hush"}})), "postrider.signing.secret"),
        (ours(json!({"signing": {"secret": "whsec_aHVzaA=="}})), "postrider.signing.secret"),
        (ours(json!({"batch": {"messages": 0}})), "postrider.batch.messages"),
        (ours(json!({"batch": {"bytes": 1}})), "postrider.batch.bytes"),
        (ours(json!({"batch": {"linger": "11s"}})), "postrider.batch.linger"),
        (ours(json!({"rateLimit": 0})), "postrider.rateLimit"),
        (ours(json!({"rateLimit": 100_001})), "postrider.rateLimit"),
    ] {
        refused_by_name(rig, fields, name).await;
    }
}

async fn a_secret_is_shown_once(rig: &Rig) {
    let shown = made(rig, json!({"postrider": {"signing": {}}})).await;
    let secret = shown["postrider"]["signing"]["secret"].as_str().unwrap().to_owned();
    assert!(secret.starts_with("whsec_") && secret.len() == 50, "{secret}");
    let plain = rig.get(BILLING).await.ok();
    assert_eq!(plain["postrider"]["signing"], json!({}));
    // Turned on again it stays; other updates do not show it either.
    for (fields, mask) in [
        (json!({"postrider": {"signing": {}}}), "postrider.signing"),
        (json!({"postrider": {"description": "d"}}), "postrider"),
    ] {
        let shown = patch(rig, fields, mask).await.ok();
        assert_eq!(shown["postrider"]["signing"], json!({}), "{mask}");
    }
    let given = json!({"postrider": {"signing": {"secret": SECRET}}});
    let shown = patch(rig, given, "postrider.signing").await.ok();
    assert_eq!(shown["postrider"]["signing"], json!({"secret": SECRET}));
    let listed = rig.get("/v1/projects/p/subscriptions").await;
    assert!(!listed.text.contains("whsec_"), "{listed:?}");
    assert!(!format!("{:?}", over_grpc(rig).await).contains("whsec_"));
    let off = patch(rig, json!({"postrider": {"signing": null}}), "postrider").await.ok();
    assert_eq!(off["postrider"].get("signing"), None);
}

async fn a_secret_can_be_rotated(rig: &Rig) {
    made(rig, json!({"postrider": {"description": "d"}})).await;
    let rotate = format!("{BILLING}:rotateSecret");
    let refused = rig.post(&rotate, json!({})).await.refused(400, "FAILED_PRECONDITION");
    assert!(refused.contains("postrider.signing"), "{refused}");
    patch(rig, json!({"postrider": {"signing": {"secret": SECRET}}}), "postrider").await.ok();
    let rotated = rig.post(&rotate, json!({})).await.ok();
    assert_ne!(rotated["secret"], json!(SECRET));
    assert!(rotated["secret"].as_str().unwrap().starts_with("whsec_"));
    let until = rotated["previousValidUntil"].clone();
    assert!(until.as_str().unwrap().ends_with('Z'), "{until}");
    let shown = rig.get(BILLING).await.ok();
    assert_eq!(shown["postrider"]["signing"], json!({"previousValidUntil": until}));
    assert_eq!(shown["postrider"]["description"], json!("d"));
    let given = rig.post(&rotate, json!({"secret": SECRET})).await.ok();
    assert_eq!(given["secret"], json!(SECRET));
    for (body, name) in [(json!({"secret": "hush"}), "secret"), (json!({"x": 1}), "x")] {
        let refused = rig.post(&rotate, body).await.refused(400, "INVALID_ARGUMENT");
        assert!(
            refused.starts_with(&format!("{name}: ")) && !refused.contains("hush"),
            "{refused}"
        );
    }
    let nobody = "/v1/projects/p/subscriptions/nobody:rotateSecret";
    rig.post(nobody, json!({})).await.refused(404, "NOT_FOUND");
    rig.get(&rotate).await.refused(404, "NOT_FOUND");
}

async fn grpc_sets_an_endpoint_and_clears_nothing_else(rig: &Rig) {
    rig.put("/v1/projects/p/topics/dead", json!({})).await.ok();
    made(
        rig,
        json!({
            "pushConfig": {"pushEndpoint": ENDPOINT, "timeoutSeconds": 7},
            "deadLetterPolicy": {"deadLetterTopic": "projects/p/topics/dead"},
            "postrider": {"headers": {"x-a": "1"}, "signing": {}, "backoff": ["5s"]},
        }),
    )
    .await;
    let other = "http://127.0.0.1:9/other";
    let modify = ModifyPushConfigRequest {
        subscription: subscription("billing"),
        push_config: Some(to(other)),
    };
    rig.subscriber().await.modify_push_config(modify).await.unwrap();
    let shown = rig.get(BILLING).await.ok();
    let config = json!({"pushEndpoint": other, "timeoutSeconds": 7});
    assert_eq!(shown["pushConfig"], with_version(config));
    assert_eq!(shown["postrider"]["headers"], json!({"x-a": "1"}));
    assert_eq!(shown["postrider"]["signing"], json!({}));
    let update = |path: &str| UpdateSubscriptionRequest {
        subscription: Some(Subscription {
            name: subscription("billing"),
            push_config: Some(to(ENDPOINT)),
            ..Subscription::default()
        }),
        update_mask: Some(FieldMask { paths: vec![path.to_owned()] }),
    };
    let mut subscriber = rig.subscriber().await;
    let updated = subscriber.update_subscription(update("push_config.push_endpoint")).await;
    assert_eq!(updated.unwrap().into_inner().push_config, Some(to(ENDPOINT)));
    for path in ["push_config.timeout_seconds", "push_config.retry_policy", "postrider.signing"] {
        let refused = subscriber.update_subscription(update(path)).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    }
    let nobody = ModifyPushConfigRequest {
        subscription: subscription("nobody"),
        push_config: Some(to(ENDPOINT)),
    };
    let refused = subscriber.modify_push_config(nobody).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
}

async fn dead_letters_without_waits_are_warned_about(rig: &Rig) {
    rig.put("/v1/projects/p/topics/dead", json!({})).await.ok();
    let shown = made(
        rig,
        json!({
            "deadLetterPolicy": {"deadLetterTopic": "projects/p/topics/dead"},
        }),
    )
    .await;
    assert_eq!(shown.get("warnings"), None);
    let config = json!({"pushConfig": {"pushEndpoint": ENDPOINT}});
    let answer = rig.post(&format!("{BILLING}:modifyPushConfig"), config).await.ok();
    let warning = answer["warnings"][0].as_str().unwrap();
    assert!(warning.contains("retry policy"), "{warning}");
    patch(rig, json!({}), "pushConfig").await.ok();
    let modify = ModifyPushConfigRequest {
        subscription: subscription("billing"),
        push_config: Some(to(ENDPOINT)),
    };
    let answer = rig.subscriber().await.modify_push_config(modify).await.unwrap();
    let sent = answer.metadata().get("postrider-warning").unwrap().to_str().unwrap();
    assert_eq!(sent, warning);
}

async fn what_is_pushed_cannot_be_pulled(rig: &Rig) {
    let (topic, name) = rig.pair().await;
    let messages = json!({"messages": [{"data": "eA=="}]});
    rig.post(&format!("/v1/{topic}:publish"), messages).await.ok();
    let pull = format!("{BILLING}:pull");
    let pulled = rig.post(&pull, json!({"maxMessages": 1})).await.ok();
    let ack_id = pulled["receivedMessages"][0]["ackId"].clone();
    let mut stream = Stream::open_at(rig.address, first(&name)).await.unwrap();

    patch(rig, json!({"pushConfig": {"pushEndpoint": ENDPOINT}}), "pushConfig").await.ok();
    let ended = stream.responses.message().await.unwrap_err();
    assert_eq!(ended.code(), Code::FailedPrecondition, "{ended}");
    assert!(ended.message().contains("push endpoint"), "{ended}");
    let refused = rig.post(&pull, json!({"maxMessages": 1})).await;
    let refused = refused.refused(400, "FAILED_PRECONDITION");
    assert!(refused.contains("push endpoint") && refused.contains("push_config"), "{refused}");
    let request =
        PullRequest { subscription: name.clone(), max_messages: 1, ..PullRequest::default() };
    let refused = rig.subscriber().await.pull(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let reopened = Stream::open_at(rig.address, first(&name)).await;
    let refused = match reopened {
        Ok(mut stream) => stream.responses.message().await.unwrap_err(),
        Err(refused) => refused,
    };
    assert_eq!(refused.code(), Code::FailedPrecondition);

    // Ids given out before still count, and it can be pulled again afterwards.
    rig.post(&format!("{BILLING}:acknowledge"), json!({"ackIds": [ack_id]})).await.ok();
    patch(rig, json!({}), "pushConfig").await.ok();
    let body = json!({"maxMessages": 1, "returnImmediately": true});
    assert_eq!(rig.post(&pull, body).await.ok(), json!({}));
}

each_engine! {
    what_a_push_subscription_is_given_is_shown,
    push_settings_wait_for_an_endpoint,
    each_mask_changes_what_it_names,
    the_source_spellings_set_the_same_settings,
    bad_push_configs_are_refused_by_name,
    bad_settings_of_ours_are_refused_by_name,
    a_secret_is_shown_once,
    a_secret_can_be_rotated,
    grpc_sets_an_endpoint_and_clears_nothing_else,
    dead_letters_without_waits_are_warned_about,
    what_is_pushed_cannot_be_pulled,
}
