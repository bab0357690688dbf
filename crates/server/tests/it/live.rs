//! Live subscriptions over HTTP: every call, every status and code, every rule.

use http::StatusCode;
use serde_json::{Value, json};

use crate::live_rig::{SUBSCRIPTIONS, fault, live_topic, publish_one, register, registration};
use crate::rig::{Answer, Rig, call, call_with, each_engine};

/// TTLs of a second, and small quotas.
const SMALL: &str = "
[live]
min_ttl = \"1s\"
[live.quota]
max_per_gateway = 2
max_per_tenant = 3
max_global = 4
";

fn path(id: &str) -> String {
    format!("{SUBSCRIPTIONS}/{id}")
}

async fn of_gateway(rig: &Rig, verb: &str, path: &str, gateway: &str) -> Answer {
    call_with(rig.address, verb, path, "", &[("x-gateway-id", gateway)]).await
}

async fn a_registration_is_answered_renewed_or_refused(rig: &Rig) {
    let topic = live_topic(rig, "changes").await;
    let id = publish_one(rig, &topic, &json!({})).await;
    let filters = json!({"filters": [{"field": "data.status", "op": "==", "value": "active"}]});
    let first = register(rig, "gateway-1", "sub-1", filters.clone()).await;
    assert_eq!(first["subscriptionId"], "sub-1");
    assert_eq!(first["indexed"], true);
    assert!(first["bloomFilterVersion"].is_u64(), "{first}");
    assert!(first["createdAt"].as_str() < first["expiresAt"].as_str(), "{first}");
    let offset = first["effectiveOffset"].as_str().unwrap();
    assert!(offset.parse::<u64>().unwrap() >= id.parse().unwrap(), "{first}");
    assert_eq!(first["effectiveOffsets"], json!({topic: offset}));
    assert_eq!(first.get("warning"), None);

    let again = rig.post(SUBSCRIPTIONS, registration("gateway-1", "sub-1", filters.clone())).await;
    assert_eq!(again.ok()["createdAt"], first["createdAt"]);
    let mut longer = registration("gateway-1", "sub-1", filters.clone());
    longer["ttl"] = json!(3_600);
    let longer = rig.post(SUBSCRIPTIONS, longer).await.ok();
    assert!(longer["expiresAt"].as_str() > first["expiresAt"].as_str(), "the TTL may differ");

    let other = rig.post(SUBSCRIPTIONS, registration("gateway-1", "sub-1", json!({}))).await;
    let expected = |code: &str| (409, code.to_owned(), "subscriptionId".to_owned());
    assert_eq!(fault(&other), expected("SUBSCRIPTION_EXISTS"));
    let theirs = rig.post(SUBSCRIPTIONS, registration("gateway-2", "sub-1", filters)).await;
    assert_eq!(fault(&theirs), expected("NOT_OWNER"));
}

async fn without_a_topic_a_registration_says_what_to_do(rig: &Rig) {
    let answer = register(rig, "g", "s", json!({})).await;
    assert_eq!(answer["effectiveOffset"], "0");
    let warning = answer["warning"].as_str().unwrap();
    for part in ["postrider-live=true", "tenant", "collection"] {
        assert!(warning.contains(part), "{warning}");
    }
    live_topic(rig, "changes").await;
    assert_eq!(register(rig, "g", "t", json!({})).await.get("warning"), None);
}

async fn each_rule_names_its_field(rig: &Rig) {
    let long = "x".repeat(256);
    let clause = |op: &str| json!({"field": "data.a", "op": op, "value": 1});
    for (more, code, field) in [
        (json!({"gatewayId": ""}), "INVALID_ARGUMENT", "gatewayId"),
        (json!({"gatewayId": null}), "INVALID_ARGUMENT", "gatewayId"),
        (json!({"gatewayId": long}), "INVALID_ARGUMENT", "gatewayId"),
        (json!({"gatewayId": "a\u{0}"}), "INVALID_ARGUMENT", "gatewayId"),
        (json!({"subscriptionId": ""}), "INVALID_ARGUMENT", "subscriptionId"),
        (json!({"subscriptionId": "a b"}), "INVALID_ARGUMENT", "subscriptionId"),
        (json!({"subscriptionId": "é"}), "INVALID_ARGUMENT", "subscriptionId"),
        (json!({"subscriptionId": "a/b"}), "INVALID_ARGUMENT", "subscriptionId"),
        (json!({"tenant": ""}), "INVALID_ARGUMENT", "tenant"),
        (json!({"collection": ""}), "INVALID_ARGUMENT", "collection"),
        (json!({"collection": "/a"}), "INVALID_ARGUMENT", "collection"),
        (json!({"collection": "a//b"}), "INVALID_ARGUMENT", "collection"),
        (json!({"collection": "a\nb"}), "INVALID_ARGUMENT", "collection"),
        (json!({"collection": vec!["x"; 17].join("/")}), "INVALID_ARGUMENT", "collection"),
        (json!({"collection": "x".repeat(1_501)}), "INVALID_ARGUMENT", "collection"),
        (json!({"ttl": 59}), "INVALID_ARGUMENT", "ttl"),
        (json!({"ttl": 3_601}), "INVALID_ARGUMENT", "ttl"),
        (json!({"ttl": -1}), "INVALID_ARGUMENT", "ttl"),
        (json!({"ttl": "300"}), "INVALID_ARGUMENT", "ttl"),
        (json!({"ttl": 300.5}), "INVALID_ARGUMENT", "ttl"),
        (json!({"colection": "a"}), "INVALID_ARGUMENT", "colection"),
        (json!({"filter": "true", "filters": [clause("==")]}), "INVALID_ARGUMENT", "filter"),
        (json!({"filters": [clause("=="), clause("=")]}), "INVALID_FILTER", "filters[1].op"),
        (json!({"filters": [clause("in")]}), "INVALID_FILTER", "filters[0].value"),
        (
            json!({"filters": [{"field": "status", "op": "==", "value": 1}]}),
            "INVALID_FILTER",
            "filters[0].field",
        ),
        (json!({"filter": "data.a = 1"}), "CEL_COMPILATION_FAILED", "filter"),
        (json!({"filters": vec![clause("=="); 33]}), "FILTER_TOO_COMPLEX", "filters"),
        (json!({"filter": "data.a == 1 ||".repeat(400)}), "FILTER_TOO_COMPLEX", "filter"),
    ] {
        let answer = rig.post(SUBSCRIPTIONS, registration("g", "s", more.clone())).await;
        assert_eq!(fault(&answer), (400, code.to_owned(), field.to_owned()), "{more}");
    }
    assert_eq!(rig.get(SUBSCRIPTIONS).await.ok(), json!({"subscriptions": []}));
}

async fn bodies_that_are_no_good_json_are_refused(rig: &Rig) {
    let deep = "[".repeat(1_000_000);
    let deep_value = format!(r#"{{"filters":[{{"field":"data.a","op":"==","value":{deep}"#);
    for (body, field) in [
        ("", "body"),
        ("[]", "body"),
        ("{", ""),
        ("{} x", ""),
        (r#"{"tenant":"a","tenant":"b"}"#, "tenant"),
        (r#"{"ttl":1e999}"#, "ttl"),
        (r#"{"filters":[{"field":"data.a","op":"==","value":NaN}]}"#, "filters[0].value"),
        (r#"{"filters":[{"field":"data.a","op":"==","value":1e999}]}"#, "filters[0].value"),
        (&deep, ""),
        (&deep_value, ""),
    ] {
        let shown: String = body.chars().take(60).collect();
        let answer = call(rig.address, "POST", SUBSCRIPTIONS, body.to_owned()).await;
        let (status, code, named) = fault(&answer);
        assert_eq!((status, code.as_str()), (400, "INVALID_ARGUMENT"), "{shown}");
        assert!(field.is_empty() || named == field, "{shown}: {named}");
    }
    for (verb, path) in [("PUT", "/heartbeat"), ("DELETE", ""), ("GET", "")] {
        let path = format!("{SUBSCRIPTIONS}/s{path}");
        let answer = rig.call(verb, &path, Some(json!({"x": 1}))).await;
        assert_eq!(fault(&answer), (400, "INVALID_ARGUMENT".to_owned(), "body".to_owned()));
    }
}

/// Filters that would be dear to read or to run are refused, or kept, and the server goes on.
async fn filter_bombs_do_no_harm(rig: &Rig) {
    for text in [
        "(".repeat(4_000),
        "!".repeat(4_000),
        format!("{}data.a == 1{}", "(".repeat(1_500), ")".repeat(1_500)),
        "data.a == 1 && ".repeat(270),
        format!("data{} == 1", ".a".repeat(2_000)),
        format!("data.a in [{}]", vec!["1"; 2_000].join(",")),
    ] {
        let answer = rig.post(SUBSCRIPTIONS, registration("g", "s", json!({"filter": text}))).await;
        if answer.code != StatusCode::CREATED {
            let (status, code, field) = fault(&answer);
            assert_eq!((status, field.as_str()), (400, "filter"));
            assert!(["CEL_COMPILATION_FAILED", "FILTER_TOO_COMPLEX"].contains(&code.as_str()));
        }
        rig.call("DELETE", &path("s"), None).await;
    }
}

async fn a_subscription_is_seen_renewed_and_removed(rig: &Rig) {
    let filters = json!([{"field": "data.a", "op": "in", "value": [null, 1, "two"]}]);
    register(rig, "g", "listed", json!({"filters": filters, "ttl": 120})).await;
    register(rig, "g", "text", json!({"filter": "data.a > 5 || data.b < 1"})).await;
    let listed = rig.get(&path("listed")).await.ok();
    assert_eq!((&listed["filters"], &listed["ttl"]), (&filters, &json!(120)));
    assert_eq!((&listed["state"], &listed["gatewayId"]), (&json!("registered"), &json!("g")));
    let text = rig.get(&path("text")).await.ok();
    assert!(text["filter"].as_str().unwrap().contains("||"), "{text}");

    let renewed = rig.call("PUT", &path("listed/heartbeat"), None).await.ok();
    assert!(renewed["expiresAt"].as_str() > listed["expiresAt"].as_str(), "{renewed}");
    assert_eq!(rig.get(&path("listed")).await.ok()["state"], "active");
    of_gateway(rig, "PUT", &path("listed/heartbeat"), "g").await.ok();
    let not_owner = (403, "NOT_OWNER".to_owned(), "subscriptionId".to_owned());
    for (verb, path) in [("PUT", path("listed/heartbeat")), ("DELETE", path("listed"))] {
        assert_eq!(fault(&of_gateway(rig, verb, &path, "h").await), not_owner);
    }
    for _ in 0..2 {
        let deleted = of_gateway(rig, "DELETE", &path("listed"), "g").await;
        assert_eq!((deleted.code, deleted.text.as_str()), (StatusCode::NO_CONTENT, ""));
    }
    let not_found = (404, "SUBSCRIPTION_NOT_FOUND".to_owned(), String::new());
    assert_eq!(fault(&rig.get(&path("listed")).await), not_found);
    assert_eq!(fault(&rig.call("PUT", &path("listed/heartbeat"), None).await), not_found);
}

#[tokio::test]
async fn what_has_expired_is_gone() {
    let rig = Rig::with("memory", SMALL).await;
    register(&rig, "g", "s", json!({"ttl": 1})).await;
    // To look does not renew.
    let gone = loop {
        let answer = rig.get(&path("s")).await;
        if answer.code != StatusCode::OK {
            break answer;
        }
    };
    let expired = (410, "SUBSCRIPTION_EXPIRED".to_owned(), String::new());
    assert_eq!(fault(&gone), expired);
    assert_eq!(fault(&rig.call("PUT", &path("s/heartbeat"), None).await), expired);
    register(&rig, "g", "s", json!({})).await;
    rig.stop().await;
}

#[tokio::test]
async fn quotas_are_told_apart() {
    let rig = Rig::with("memory", SMALL).await;
    register(&rig, "g", "a", json!({})).await;
    register(&rig, "g", "b", json!({})).await;
    let refused = |gateway: &'static str, tenant: &'static str| {
        let more = json!({"tenant": tenant});
        let rig = &rig;
        async move { fault(&rig.post(SUBSCRIPTIONS, registration(gateway, "c", more)).await) }
    };
    let quota = |code: &str, field: &str| (429, format!("{code}_QUOTA_EXCEEDED"), field.to_owned());
    assert_eq!(refused("g", "red").await, quota("GATEWAY", "gatewayId"));
    register(&rig, "h", "d", json!({})).await;
    assert_eq!(refused("h", "blue").await, quota("TENANT", "tenant"));
    register(&rig, "h", "e", json!({"tenant": "red"})).await;
    assert_eq!(refused("i", "red").await, quota("GLOBAL", ""));
    rig.stop().await;
}

async fn a_batch_has_a_result_for_each(rig: &Rig) {
    let batch = |items: Value| rig.post("/internal/v1/subscriptions:batch", items);
    let items = json!({"subscriptions": [
        registration("g", "a", json!({})),
        registration("g", "a", json!({})),
        registration("g", "a", json!({"tenant": "red"})),
        registration("g", "b", json!({"ttl": 1})),
        5,
        registration("g", "c", json!({})),
    ]});
    let results = batch(items).await.ok();
    let results = results["results"].as_array().unwrap().clone();
    let statuses: Vec<_> = results.iter().map(|one| one["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [201, 200, 409, 400, 400, 201]);
    assert_eq!(results[0]["subscriptionId"], "a");
    assert_eq!(results[2]["error"]["code"], "SUBSCRIPTION_EXISTS");
    assert_eq!(results[3]["error"]["field"], "ttl");
    let many = json!({"subscriptions": vec![json!({}); 10_001]});
    let refused = batch(many).await;
    assert_eq!(fault(&refused), (400, "INVALID_ARGUMENT".into(), "subscriptions".into()));

    let ids = json!({"subscriptionIds": ["a", "x", "c"]});
    let renewed = rig.put("/internal/v1/subscriptions:heartbeat", ids).await.ok();
    let renewed = renewed["results"].as_array().unwrap().clone();
    assert_eq!(renewed[0]["status"], 200);
    assert!(renewed[0]["expiresAt"].is_string());
    assert_eq!(renewed[1]["error"]["code"], "SUBSCRIPTION_NOT_FOUND");
    assert_eq!((&renewed[1]["status"], &renewed[1]["subscriptionId"]), (&json!(404), &json!("x")));
    assert_eq!(renewed[2]["subscriptionId"], "c");
}

async fn subscriptions_are_listed_in_pages(rig: &Rig) {
    for (gateway, id, tenant) in
        [("g", "a", "blue"), ("h", "b", "blue"), ("g", "c", "red"), ("g", "d", "blue")]
    {
        register(rig, gateway, id, json!({"tenant": tenant})).await;
    }
    let list = |query: String| rig.get_owned(format!("{SUBSCRIPTIONS}?{query}"));
    let ids = |page: &Value| -> Vec<String> {
        let found = page["subscriptions"].as_array().unwrap().iter();
        found.map(|one| one["subscriptionId"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&list("gatewayId=g&tenant=blue".into()).await.ok()), ["a", "d"]);
    assert_eq!(ids(&list("collection=rooms%2F1&tenant=red".into()).await.ok()), ["c"]);
    assert!(ids(&list("collection=rooms".into()).await.ok()).is_empty());
    let (mut found, mut token) = (Vec::new(), String::new());
    loop {
        let page = list(format!("pageSize=3&pageToken={token}")).await.ok();
        found.extend(ids(&page));
        let Some(next) = page["nextPageToken"].as_str() else { break };
        token = next.to_owned();
    }
    assert_eq!(found, ["a", "b", "c", "d"]);
    for (query, field) in
        [("pageSize=-1", "pageSize"), ("pageToken=x", "pageToken"), ("tenants=a", "tenants")]
    {
        let refused = fault(&list(query.into()).await);
        assert_eq!(refused, (400, "INVALID_ARGUMENT".to_owned(), field.to_owned()));
    }
}

async fn a_gateway_is_renewed_and_closed_whole(rig: &Rig) {
    for id in ["a", "b"] {
        register(rig, "edge 1/é", id, json!({})).await;
    }
    register(rig, "other", "c", json!({})).await;
    let of = |rest: &str| format!("/internal/v1/gateways/edge%201%2F%C3%A9/{rest}");
    let renewed = rig.call("PUT", &of("heartbeat"), None).await.ok();
    assert_eq!(renewed, json!({"renewed": 2}));
    assert_eq!(rig.get(&path("a")).await.ok()["state"], "active");
    for removed in [2, 0] {
        let closed = rig.call("DELETE", &of("subscriptions"), None).await.ok();
        assert_eq!(closed, json!({"removed": removed}));
    }
    rig.get(&path("c")).await.ok();
    let nameless = rig.call("PUT", "/internal/v1/gateways//heartbeat", None).await;
    assert_eq!(fault(&nameless), (400, "INVALID_ARGUMENT".into(), "gatewayId".into()));
}

async fn other_paths_and_verbs_are_not_found(rig: &Rig) {
    for (verb, path) in [
        ("GET", "/internal/v1/"),
        ("GET", "/internal/v1/subscriptions/a/b/c"),
        ("PATCH", "/internal/v1/subscriptions"),
        ("GET", "/internal/v1/subscriptions:batch"),
        ("POST", "/internal/v1/gateways/g/stream"),
    ] {
        let answer = fault(&rig.call(verb, path, None).await);
        assert_eq!(answer, (404, "NOT_FOUND".to_owned(), String::new()), "{verb} {path}");
    }
    let answer = rig.get("/internal/v1/subscriptions/%zz").await;
    assert_eq!(fault(&answer), (400, "INVALID_ARGUMENT".into(), "path".into()));
}

async fn health_tells_how_many_there_are(rig: &Rig) {
    live_topic(rig, "changes").await;
    register(rig, "g", "a", json!({})).await;
    register(rig, "g", "b", json!({"collection": "rooms/2"})).await;
    register(rig, "g", "c", json!({})).await;
    rig.call("PUT", &path("a/heartbeat"), None).await.ok();
    let health = rig.get("/internal/v1/health").await.ok();
    assert_eq!(health["status"], "healthy");
    let counts = json!({"total": 3, "active": 1, "expired": 0});
    assert_eq!(health["subscriptions"], counts);
    assert_eq!(rig.get("/status").await.ok()["liveSubscriptions"], counts);
    assert_eq!((&health["indexSize"], &health["heapSize"]), (&json!(2), &json!(3)));
    assert_eq!(health["topics"], json!(["projects/p/topics/changes"]));
    let largest = json!({"tenant": "blue", "collection": "rooms/1", "subscriptions": 2});
    assert_eq!(health["largestCollections"][0], largest);
}

each_engine! {
    a_registration_is_answered_renewed_or_refused,
    without_a_topic_a_registration_says_what_to_do,
    each_rule_names_its_field,
    bodies_that_are_no_good_json_are_refused,
    filter_bombs_do_no_harm,
    a_subscription_is_seen_renewed_and_removed,
    a_batch_has_a_result_for_each,
    subscriptions_are_listed_in_pages,
    a_gateway_is_renewed_and_closed_whole,
    other_paths_and_verbs_are_not_found,
    health_tells_how_many_there_are,
}
