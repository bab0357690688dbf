//! Pulling: what is acked, forwarded, retried and logged.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use postrider_consumer::rules::Poison;
use postrider_consumer::{Consumer, Settings, StartError, pull};
use serde_json::json;
use wire::pubsub::DeleteTopicRequest;

use crate::rig::{
    DEAD_SUBSCRIPTION, DEAD_TOPIC, Pulling, Rig, SUBSCRIPTION, Script, Seen, TOPIC, settings, soon,
};

async fn pulling(rig: &Rig, settings: Settings) -> Pulling {
    Pulling::start(rig.connection(), settings, pull::Options::default()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_applied_acked_and_told_of_in_full() {
    let rig = Rig::start().await;
    let mut peer = rig.peer().await;
    peer.create_with_policy(|_| ()).await;
    let id = peer.publish("apply").await;
    let pulling = pulling(&rig, settings()).await;
    let line = pulling.kept.wait_for(1).await.remove(0);
    for (field, value) in [
        ("service", json!("billing")),
        ("env", json!("test")),
        ("version", json!("1.2.3")),
        ("subscription", json!(SUBSCRIPTION)),
        ("topic", json!(TOPIC)),
        ("messageId", json!(id)),
        ("deliveryAttempt", json!(1)),
        ("handler", json!("script")),
        ("event_type", json!("test")),
        ("schemaVersion", json!("1")),
        ("outcome", json!("applied")),
        ("ack_action", json!("ack")),
        ("http_status", json!(null)),
        ("write_kind", json!("increment")),
        ("doc_path", json!("effects/count")),
        ("idempotency_doc", json!(format!("dedupe/{id}"))),
        ("error", json!(null)),
        ("retryable", json!(false)),
    ] {
        assert_eq!(line[field], value, "{field}");
    }
    assert!(line["publishTime"].as_str().unwrap().starts_with("20"));
    let (seen, metrics) = (Arc::clone(&pulling.seen), Arc::clone(pulling.consumer.metrics()));
    pulling.stop().await.unwrap();
    assert!(peer.pull(SUBSCRIPTION, false).await.is_empty(), "it was acked");
    assert_eq!(seen.effects(), 1);
    assert_eq!(metrics.messages("pull", "applied"), 1);
    let text = metrics.text();
    assert!(text.contains("postrider_consumer_messages_total{way=\"pull\",outcome=\"applied\"} 1"));
    assert!(text.contains("postrider_consumer_handle_seconds_count 1"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poison_is_forwarded_with_its_context_and_then_acked() {
    let rig = Rig::start().await;
    let mut peer = rig.peer().await;
    peer.create_with_policy(|_| ()).await;
    let ids = peer.publish_all(&[("", "undecodable"), ("", "poison")]).await;
    let pulling = pulling(&rig, settings()).await;
    for line in pulling.kept.wait_for(2).await {
        assert_eq!((&line["outcome"], &line["ack_action"]), (&json!("poison"), &json!("ack")));
        assert_eq!((&line["severity"], &line["retryable"]), (&json!("ERROR"), &json!(false)));
    }
    pulling.stop().await.unwrap();
    let mut letters = peer.pull(DEAD_SUBSCRIPTION, true).await;
    while letters.len() < 2 {
        letters.extend(peer.pull(DEAD_SUBSCRIPTION, true).await);
    }
    let mut originals = Vec::new();
    for letter in &letters {
        let letter = letter.decode_message().unwrap();
        let said = &letter.attributes;
        originals.push(said["original_message_id"].clone());
        assert_eq!(said["original_subscription"], SUBSCRIPTION);
        assert_eq!(said["CloudPubSubDeadLetterSourceSubscription"], "billing");
        assert_eq!(said["CloudPubSubDeadLetterSourceDeliveryCount"], "1");
        assert_eq!(said["failure_reason"], "poison");
        assert_eq!(said["error_class"], "permanent");
        assert_eq!(said["color"], "red", "its own attributes are kept");
        let is_undecodable = letter.data.starts_with(b"undecodable");
        let error = if is_undecodable { "InvalidJson: undecodable" } else { "Poison: on purpose" };
        assert_eq!(said["last_error"], error);
    }
    originals.sort();
    assert_eq!(originals, ids);
    assert!(peer.pull(SUBSCRIPTION, false).await.is_empty(), "they were acked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poison_that_cannot_be_forwarded_is_given_back() {
    let rig = Rig::start().await;
    let mut peer = rig.peer().await;
    peer.create_with_policy(|_| ()).await;
    let pulling = pulling(&rig, settings()).await;
    let delete = DeleteTopicRequest { topic: DEAD_TOPIC.to_owned() };
    peer.publisher.delete_topic(delete).await.unwrap();
    peer.publish("poison").await;
    let line = pulling.kept.wait_for(1).await.remove(0);
    assert_eq!((&line["outcome"], &line["ack_action"]), (&json!("poison"), &json!("nack")));
    let error = line["error"].as_str().unwrap();
    assert!(error.contains("could not be published to projects/p/topics/dead"), "{error}");
    pulling.stop().await.unwrap();
    assert_eq!(peer.pull(SUBSCRIPTION, true).await.len(), 1, "it is still there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poison_without_a_policy_is_acked_with_an_error_and_an_audit_record() {
    let rig = Rig::start().await;
    let mut peer = rig.peer().await;
    peer.create(|_| ()).await;
    let id = peer.publish("poison").await;
    let folder = tempfile::TempDir::new().unwrap();
    let audit = folder.path().join("audit.jsonl");
    let pulling = pulling(&rig, Settings { audit: Some(audit.clone()), ..settings() }).await;
    let line = pulling.kept.wait_for(1).await.remove(0);
    assert_eq!((&line["severity"], &line["ack_action"]), (&json!("ERROR"), &json!("ack")));
    pulling.stop().await.unwrap();
    let text = std::fs::read_to_string(audit).unwrap();
    let record: serde_json::Value = serde_json::from_str(text.trim_end()).unwrap();
    assert_eq!((&record["messageId"], &record["data"]), (&json!(id), &json!("cG9pc29u")));
    assert_eq!(record["attributes"], json!({"color": "red"}));
    assert!(peer.pull(SUBSCRIPTION, false).await.is_empty(), "it was acked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poison_is_dead_lettered_by_the_server_where_it_is_nacked() {
    let rig = Rig::start().await;
    let mut peer = rig.peer().await;
    peer.create_with_policy(|_| ()).await;
    let id = peer.publish("poison").await;
    let pulling = pulling(&rig, Settings { poison: Poison::Nack, ..settings() }).await;
    let letters = soon("a dead letter", peer.pull(DEAD_SUBSCRIPTION, true)).await;
    let letter = letters[0].decode_message().unwrap();
    assert_eq!(letter.attributes["original_message_id"], id);
    assert_eq!(letter.attributes["failure_reason"], "max_delivery_attempts_exceeded");
    let lines = pulling.kept.all();
    let attempts: Vec<_> = lines.iter().map(|line| line["deliveryAttempt"].clone()).collect();
    assert_eq!(attempts, [1, 2, 3, 4, 5]);
    pulling.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_transient_comes_again_and_takes_effect_once() {
    let rig = Rig::start().await;
    let mut peer = rig.peer().await;
    peer.create(|_| ()).await;
    peer.publish_all(&[("", "transient-once"), ("", "panic"), ("", "hang"), ("", "apply")]).await;
    let settings = Settings { handle_timeout: Duration::from_millis(300), ..settings() };
    let pulling = pulling(&rig, settings).await;
    let lines = pulling.kept.wait_for(7).await;
    let of = |outcome: &str| lines.iter().filter(|line| line["outcome"] == outcome).count();
    assert_eq!((of("retry"), of("applied")), (3, 4));
    for kind in ["Transient", "Panic", "Timeout"] {
        let line = lines.iter().find(|line| line["error_type"] == kind).expect(kind);
        assert_eq!((&line["ack_action"], &line["retryable"]), (&json!("nack"), &json!(true)));
    }
    let seen = Arc::clone(&pulling.seen);
    pulling.stop().await.unwrap();
    assert_eq!(seen.effects(), 4);
    assert!(peer.pull(SUBSCRIPTION, false).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_is_handled_at_a_time_than_is_allowed() {
    let rig = Rig::start().await;
    let mut peer = rig.peer().await;
    peer.create(|_| ()).await;
    let messages: Vec<String> = (0..40).map(|number| format!("wait {number}")).collect();
    let messages: Vec<_> = messages.iter().map(|data| ("", data.as_str())).collect();
    peer.publish_all(&messages).await;
    let options =
        pull::Options { handlers_max: 4, outstanding_messages_max: 10, ..pull::Options::default() };
    let pulling = Pulling::start(rig.connection(), settings(), options).await;
    for ended in 0..40 {
        pulling.seen.wait_for_begun((ended + 4).min(40)).await;
        pulling.seen.release();
    }
    pulling.kept.wait_for(40).await;
    assert_eq!(pulling.seen.at_once_max.load(Ordering::SeqCst), 4);
    pulling.stop().await.unwrap();
    assert!(peer.pull(SUBSCRIPTION, false).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_extended_while_its_message_is_handled() {
    let rig = Rig::start().await;
    let mut peer = rig.peer().await;
    peer.create(|_| ()).await;
    let options =
        pull::Options { ack_deadline: Duration::from_secs(10), ..pull::Options::default() };
    let pulling = Pulling::start(rig.connection(), settings(), options).await;
    peer.publish("wait").await;
    pulling.seen.wait_for_begun(1).await;
    // The third extension is later than the deadline that the lease began with.
    let extended = || {
        let text = pulling.consumer.metrics().text();
        !text.contains("leases_extended_total 0")
            && !text.contains("leases_extended_total 1\n")
            && !text.contains("leases_extended_total 2\n")
    };
    soon("three extensions", async {
        while !extended() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert!(peer.pull(SUBSCRIPTION, false).await.is_empty(), "nobody else gets it");
    pulling.seen.release();
    assert_eq!(pulling.kept.wait_for(1).await[0]["outcome"], "applied");
    let (seen, kept) = (Arc::clone(&pulling.seen), Arc::clone(&pulling.kept));
    pulling.stop().await.unwrap();
    assert_eq!((seen.began.lock().len(), kept.all().len()), (1, 1), "it was delivered once");
    assert!(peer.pull(SUBSCRIPTION, false).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exactly_once_subscription_confirms_every_ack() {
    let rig = Rig::start().await;
    let mut peer = rig.peer().await;
    peer.create(|subscription| subscription.enable_exactly_once_delivery = true).await;
    let messages: Vec<String> = (0..200).map(|number| format!("apply {number}")).collect();
    let messages: Vec<_> = messages.iter().map(|data| ("", data.as_str())).collect();
    peer.publish_all(&messages).await;
    let pulling = pulling(&rig, settings()).await;
    let lines = pulling.kept.wait_for(200).await;
    assert!(lines.iter().all(|line| line["outcome"] == "applied"), "each came once");
    let metrics = Arc::clone(pulling.consumer.metrics());
    pulling.stop().await.unwrap();
    assert!(metrics.text().contains("postrider_consumer_acks_refused_total 0"));
    assert!(peer.pull(SUBSCRIPTION, false).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_stream_is_opened_again() {
    let mut rig = Rig::start().await;
    let mut peer = rig.peer().await;
    peer.create(|_| ()).await;
    let pulling = pulling(&rig, settings()).await;
    peer.publish("apply 1").await;
    pulling.kept.wait_for(1).await;
    rig.restart().await;
    let mut peer = rig.peer().await;
    let id = peer.publish("apply 2").await;
    pulling.kept.wait_for_field("messageId", &json!(id)).await;
    assert!(pulling.consumer.metrics().is_healthy());
    let seen = Arc::clone(&pulling.seen);
    pulling.stop().await.unwrap();
    assert_eq!(seen.effects(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_would_refuse_again_ends_with_the_reason() {
    let rig = Rig::start().await;
    let missing = rig.connection().ask(SUBSCRIPTION).await.unwrap_err().to_string();
    assert!(missing.contains(SUBSCRIPTION) && missing.contains("set what you know"), "{missing}");
    let known = postrider_consumer::Known::without_policy(SUBSCRIPTION);
    let pulling =
        Pulling::start_with(rig.connection(), settings(), pull::Options::default(), known);
    let error = pulling.end().await.unwrap_err().to_string();
    assert!(error.contains(SUBSCRIPTION) && error.contains("not found"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nack_on_any_error_without_a_policy_does_not_start() {
    let rig = Rig::start().await;
    let mut peer = rig.peer().await;
    peer.create(|_| ()).await;
    let known = rig.connection().ask(SUBSCRIPTION).await.unwrap();
    assert!(!known.has_dead_letter_policy);
    let settings = Settings { nack_on_any_error: true, ..settings() };
    let refused = Consumer::new(Script(Seen::default().into()), settings, known).err();
    assert!(matches!(refused, Some(StartError::Endless(_))), "{refused:?}");
}
