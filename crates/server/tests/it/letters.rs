//! Dead letters over REST: listed, looked at, replayed, deleted; and peeking.

use serde_json::{Value, json};

use crate::rig::{Rig, each_engine};

const TOPIC: &str = "/v1/projects/p/topics/orders";
const DEAD: &str = "/v1/projects/p/topics/dead";
const BILLING: &str = "/v1/projects/p/subscriptions/billing";

/// `billing` on `orders`, whose exhausted messages go to `dead`.
async fn set_up(rig: &Rig) {
    rig.put(TOPIC, json!({})).await.ok();
    rig.put(DEAD, json!({})).await.ok();
    let policy = json!({"deadLetterTopic": "projects/p/topics/dead", "maxDeliveryAttempts": 5});
    let body = json!({"topic": "projects/p/topics/orders", "deadLetterPolicy": policy});
    rig.put(BILLING, body).await.ok();
}

async fn publish(rig: &Rig, count: usize) -> Vec<String> {
    let message = |n: usize| json!({"data": "eA==", "attributes": {"n": n.to_string()}});
    let messages: Vec<Value> = (0..count).map(message).collect();
    let answer = rig.post(&format!("{TOPIC}:publish"), json!({"messages": messages})).await.ok();
    let ids = answer["messageIds"].as_array().unwrap();
    ids.iter().map(|id| id.as_str().unwrap().to_owned()).collect()
}

async fn pull(rig: &Rig) -> Vec<Value> {
    let body = json!({"maxMessages": 100, "returnImmediately": true});
    let mut answer = rig.post(&format!("{BILLING}:pull"), body).await.ok();
    answer["receivedMessages"].take().as_array().cloned().unwrap_or_default()
}

/// Fails what `billing` has until it is dead letters, and waits until they are there.
async fn give_up(rig: &Rig, count: usize) {
    for _ in 0..5 {
        let received = pull(rig).await;
        assert_eq!(received.len(), count);
        let ids: Vec<&Value> = received.iter().map(|one| &one["ackId"]).collect();
        let body = json!({"ackIds": ids, "ackDeadlineSeconds": 0});
        rig.post(&format!("{BILLING}:modifyAckDeadline"), body).await.ok();
    }
    while letters(rig, "").await.len() < count {
        tokio::task::yield_now().await;
    }
}

async fn letters(rig: &Rig, query: &str) -> Vec<Value> {
    let answer = rig.get(&format!("{BILLING}/deadLetters{query}")).await.ok();
    answer["deadLetters"].as_array().unwrap().clone()
}

async fn ended(rig: &Rig, begun: &Value) -> Value {
    loop {
        let now = rig.get(&format!("/v1/{}", begun["name"].as_str().unwrap())).await.ok();
        if now["state"] != json!("running") {
            return now;
        }
    }
}

async fn letters_are_listed_looked_at_and_replayed(rig: &Rig) {
    set_up(rig).await;
    let ids = publish(rig, 3).await;
    give_up(rig, 3).await;
    let listed = letters(rig, "").await;
    let first = &listed[0];
    assert_eq!(first["topic"], json!("projects/p/topics/dead"));
    assert_eq!(first["originalSubscription"], json!("projects/p/subscriptions/billing"));
    assert_eq!(first["originalMessageId"], json!(ids[0]));
    assert_eq!(first["failureReason"], json!("max_delivery_attempts_exceeded"));
    assert_eq!((&first["attempts"], &first["errorClass"]), (&json!(5), &json!("nack")));
    assert_eq!(first["state"], json!("waiting"));
    assert_eq!(first["message"]["attributes"]["n"], json!("0"));
    let id = first["messageId"].as_str().unwrap();
    assert_eq!(rig.get(&format!("{DEAD}/deadLetters/{id}")).await.ok(), *first);
    assert_eq!(rig.get(&format!("{DEAD}/deadLetters")).await.ok()["deadLetters"], json!(listed));
    let found = letters(rig, "?filter=attributes.n%3D%221%22&class=nack").await;
    assert_eq!(found, [listed[1].clone()]);
    assert!(letters(rig, "?class=dns").await.is_empty());
    assert!(letters(rig, "?since=2100-01-01T00:00:00Z").await.is_empty());

    let one = json!({"messageIds": [listed[1]["messageId"]]});
    let begun = rig.post(&format!("{BILLING}/deadLetters:replay"), one).await.ok();
    assert_eq!((&begun["total"], &begun["to"]), (&json!(1), &json!("subscription")));
    let done = ended(rig, &begun).await;
    assert_eq!((&done["state"], &done["replayed"]), (&json!("done"), &json!(1)));
    let received = pull(rig).await;
    let attributes = &received[0]["message"]["attributes"];
    assert_eq!(*attributes, json!({"n": "1", "original_message_id": ids[1]}));
    assert_eq!(letters(rig, "").await.len(), 2);
    assert_eq!(letters(rig, "?state=replayed").await.len(), 1);
    assert_eq!(letters(rig, "?state=all").await.len(), 3);

    let all = json!({"all": true, "perSecond": 1000});
    let begun = rig.post(&format!("{DEAD}/deadLetters:replay"), all).await.ok();
    let done = ended(rig, &begun).await;
    assert_eq!((&done["replayed"], &done["skipped"]), (&json!(2), &json!(1)));
    let all = rig.get("/v1/projects/p/replays").await.ok();
    assert_eq!(all["replays"].as_array().unwrap().len(), 2);
    let name = done["name"].as_str().unwrap();
    let refused = rig.post(&format!("/v1/{name}:cancel"), json!({})).await;
    assert!(refused.refused(400, "FAILED_PRECONDITION").contains("already ended"));
}

async fn letters_are_deleted_by_number(rig: &Rig) {
    set_up(rig).await;
    publish(rig, 2).await;
    give_up(rig, 2).await;
    let path = format!("{BILLING}/deadLetters:delete");
    let message = rig.post(&path, json!({"all": true})).await.refused(400, "FAILED_PRECONDITION");
    assert!(message.contains("confirm 2"), "{message}");
    let deleted = rig.post(&path, json!({"all": true, "confirm": 2})).await.ok();
    assert_eq!(deleted, json!({"deleted": 2}));
    assert!(letters(rig, "?state=all").await.is_empty());
}

async fn bad_calls_are_refused_by_name(rig: &Rig) {
    set_up(rig).await;
    for (query, name) in [
        ("state=lost", "state"),
        ("pageSize=-1", "pageSize"),
        ("pageToken=rubbish", "pageToken"),
        ("since=yesterday", "since"),
        ("filter=nonsense", "filter"),
        ("klass=dns", "klass"),
    ] {
        let answer = rig.get(&format!("{BILLING}/deadLetters?{query}")).await;
        let message = answer.refused(400, "INVALID_ARGUMENT");
        assert!(message.starts_with(&format!("{name}: ")), "{message}");
    }
    for (body, name) in [
        (json!({}), "messageIds"),
        (json!({"all": true, "class": "dns"}), "messageIds"),
        (json!({"messageIds": ["x"]}), "messageIds[0]"),
        (json!({"all": true, "to": "moon"}), "to"),
        (json!({"all": true, "perSecond": -1}), "perSecond"),
        (json!({"everything": true}), "everything"),
    ] {
        let answer = rig.post(&format!("{BILLING}/deadLetters:replay"), body).await;
        let message = answer.refused(400, "INVALID_ARGUMENT");
        assert!(message.starts_with(&format!("{name}: ")), "{message}");
    }
    rig.get(&format!("{DEAD}/deadLetters/7")).await.refused(404, "NOT_FOUND");
    rig.get("/v1/projects/p/replays/7").await.refused(404, "NOT_FOUND");
    rig.get("/v1/projects/p/topics/none/deadLetters").await.refused(404, "NOT_FOUND");
    let plain = "/v1/projects/p/subscriptions/plain";
    rig.put(plain, json!({"topic": "projects/p/topics/orders"})).await.ok();
    let answer = rig.get(&format!("{plain}/deadLetters")).await;
    let message = answer.refused(400, "FAILED_PRECONDITION");
    assert!(message.contains("deadLetterPolicy"), "{message}");
}

async fn messages_are_looked_at_without_being_taken(rig: &Rig) {
    set_up(rig).await;
    let ids = publish(rig, 3).await;
    let held = pull(rig).await;
    rig.post(&format!("{BILLING}:acknowledge"), json!({"ackIds": [held[0]["ackId"]]})).await.ok();
    let before = rig.get(&format!("{BILLING}/cursor")).await.ok();
    let of_topic = rig.get(&format!("{TOPIC}/messages?pageSize=2")).await.ok();
    let seen = of_topic["messages"].as_array().unwrap();
    assert_eq!((seen.len(), &seen[0]["offset"]), (2, &json!(ids[0])));
    assert_eq!(seen[0]["message"]["messageId"], json!(ids[0]));
    let token = of_topic["nextPageToken"].as_str().unwrap();
    let rest = rig.get(&format!("{TOPIC}/messages?pageToken={token}")).await.ok();
    assert_eq!(rest["messages"].as_array().unwrap().len(), 1);
    assert!(rest.get("nextPageToken").is_none());
    let backlog = rig.get(&format!("{BILLING}/messages")).await.ok();
    let backlog = backlog["messages"].as_array().unwrap();
    assert_eq!(backlog.len(), 2);
    assert_eq!((&backlog[0]["state"], &backlog[0]["attempt"]), (&json!("leased"), &json!(1)));
    assert_eq!(rig.get(&format!("{BILLING}/cursor")).await.ok(), before);
    let waiting = rig.get(&format!("{TOPIC}/messages?from=latest&wait=1")).await.ok();
    assert!(waiting["messages"].as_array().unwrap().is_empty());
    assert!(waiting["nextPageToken"].is_string(), "who waits is told where to go on");
    for (query, name) in [("from=soon", "from"), ("wait=31", "wait"), ("time=soon", "time")] {
        let answer = rig.get(&format!("{TOPIC}/messages?{query}")).await;
        let message = answer.refused(400, "INVALID_ARGUMENT");
        assert!(message.starts_with(&format!("{name}: ")), "{message}");
    }
}

async fn the_status_tells_how_it_is_and_what_to_put_right(rig: &Rig) {
    set_up(rig).await;
    publish(rig, 3).await;
    let status = rig.get("/status").await.ok();
    assert_eq!((&status["status"], &status["topics"]), (&json!("healthy"), &json!(2)));
    assert_eq!(status["subscriptions"]["total"], json!(1));
    assert_eq!(status["backlogMessages"], json!(3));
    // The one that asks; those of earlier calls may not have ended yet.
    assert!(status["connections"].as_u64().unwrap() >= 1, "{status}");
    assert_eq!(status["degraded"], json!([]));
    let finding = &status["findings"][0];
    assert_eq!(finding["code"], json!("dead_letter_topic_unread"));
    assert_eq!(finding["resource"], json!("projects/p/topics/dead"));
    let lint = rig.get("/v1/projects/p/lint").await.ok();
    assert_eq!(lint["findings"], status["findings"]);
    assert_eq!(rig.get("/v1/projects/q/lint").await.ok(), json!({"findings": []}));

    rig.call("DELETE", DEAD, None).await.ok();
    let received = pull(rig).await;
    let ids: Vec<&Value> = received.iter().map(|one| &one["ackId"]).collect();
    let nack = json!({"ackIds": ids, "ackDeadlineSeconds": 0});
    rig.post(&format!("{BILLING}:modifyAckDeadline"), nack).await.ok();
    let degraded = loop {
        let received = pull(rig).await;
        let ids: Vec<&Value> = received.iter().map(|one| &one["ackId"]).collect();
        if !ids.is_empty() {
            let nack = json!({"ackIds": ids, "ackDeadlineSeconds": 0});
            rig.post(&format!("{BILLING}:modifyAckDeadline"), nack).await.ok();
        }
        let status = rig.get("/status").await.ok();
        if status["status"] == json!("degraded") {
            break status["degraded"][0].clone();
        }
    };
    assert_eq!(degraded["code"], json!("dead_letters_stuck"));
    assert!(degraded["problem"].as_str().unwrap().contains("topics/dead does not exist"));
}

async fn the_front_page_is_for_people(rig: &Rig) {
    let page = rig.get("/").await.text;
    assert!(page.starts_with("<!doctype html>"), "{page}");
    for part in ["healthy", "topics: 0", "href=\"/status\"", "PUBSUB_EMULATOR_HOST"] {
        assert!(page.contains(part), "{part}");
    }
}

each_engine! {
    letters_are_listed_looked_at_and_replayed,
    letters_are_deleted_by_number,
    bad_calls_are_refused_by_name,
    messages_are_looked_at_without_being_taken,
    the_status_tells_how_it_is_and_what_to_put_right,
    the_front_page_is_for_people,
}
