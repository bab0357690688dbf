//! `GET /metrics` over a socket: which there are, that they move, and how much it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use broker::{Clock, SystemClock};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use wire::pubsub::StreamingPullRequest;

use crate::rig::{Rig, each_engine};

const BILLING: &str = "projects/p/subscriptions/billing";

/// Every sample: its name with its labels, and its value.
async fn samples(rig: &Rig) -> BTreeMap<String, f64> {
    let answer = rig.get("/metrics").await;
    assert_eq!(answer.code, 200);
    let lines = answer.text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.map(|line| line.rsplit_once(' ').unwrap());
    pairs.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

pub(crate) async fn value(rig: &Rig, name: &str) -> f64 {
    let samples = samples(rig).await;
    *samples.get(name).unwrap_or_else(|| panic!("no {name} in {samples:#?}"))
}

async fn make(rig: &Rig) {
    rig.put("/v1/projects/p/topics/orders", json!({})).await.ok();
    let body = json!({"topic": "projects/p/topics/orders", "postrider": {"fifo": true}});
    rig.put(&format!("/v1/{BILLING}"), body).await.ok();
}

async fn publish(rig: &Rig, data: &str) {
    let body = json!({"messages": [{"data": data}]});
    rig.post("/v1/projects/p/topics/orders:publish", body).await.ok();
}

async fn what_happens_to_a_message_moves_its_metrics(rig: &Rig) {
    make(rig).await;
    publish(rig, "aGVsbG8=").await;
    let of = |name: &str| format!("postrider_{name}{{subscription=\"{BILLING}\"}}");
    let topic = "{topic=\"projects/p/topics/orders\"}";
    let now = samples(rig).await;
    for (name, expected) in [
        (of("backlog_messages"), 1.0),
        (of("backlog_bytes"), 5.0),
        (of("outstanding_messages"), 0.0),
        (of("deliveries_total"), 0.0),
        (format!("postrider_published_messages_total{topic}"), 1.0),
        (format!("postrider_published_bytes_total{topic}"), 5.0),
        (format!("fifo_subscription_queue_depth{{subscription_id=\"{BILLING}\"}}"), 1.0),
        ("postrider_topics".to_owned(), 1.0),
        ("postrider_subscriptions".to_owned(), 1.0),
    ] {
        assert_eq!(now.get(&name), Some(&expected), "{name} of {now:#?}");
    }
    assert!(now[&of("oldest_unacked_age_seconds")] > 0.0);
    assert!(now["postrider_commit_group_messages_sum"] >= 1.0);
    assert!(now["postrider_commit_latency_seconds_count"] >= 1.0);
    assert!(now["postrider_commit_group_bytes_sum"] > 5.0);
    assert!(now["postrider_log_bytes"] > 0.0);
    assert!(now["postrider_memory_resident_bytes"] > 1e6);
    let pulled = rig.post(&format!("/v1/{BILLING}:pull"), json!({"maxMessages": 1})).await.ok();
    let id = &pulled["receivedMessages"][0]["ackId"];
    let now = samples(rig).await;
    assert_eq!((now[&of("outstanding_messages")], now[&of("deliveries_total")]), (1.0, 1.0));
    let nack = json!({"ackIds": [id], "ackDeadlineSeconds": 0});
    rig.post(&format!("/v1/{BILLING}:modifyAckDeadline"), nack).await.ok();
    let now = samples(rig).await;
    assert_eq!((now[&of("nacks_total")], now[&of("acks_total")]), (1.0, 0.0));
    let fifo =
        |name: &str| now[&format!("fifo_subscription_{name}{{subscription_id=\"{BILLING}\"}}")];
    assert_eq!(fifo("current_retry_count"), 1.0);
    assert!(fifo("blocked_duration_seconds") > 0.0);
    let pulled = rig.post(&format!("/v1/{BILLING}:pull"), json!({"maxMessages": 1})).await.ok();
    let acked = json!({"ackIds": [pulled["receivedMessages"][0]["ackId"]]});
    rig.post(&format!("/v1/{BILLING}:acknowledge"), acked).await.ok();
    let now = samples(rig).await;
    assert_eq!((now[&of("acks_total")], now[&of("backlog_messages")]), (1.0, 0.0));
    assert_eq!(now[&of("oldest_unacked_age_seconds")], 0.0);
}

async fn open_streams_are_counted_while_they_are_open(rig: &Rig) {
    make(rig).await;
    assert_eq!(value(rig, "postrider_open_streams").await, 0.0);
    let first = StreamingPullRequest {
        subscription: BILLING.to_owned(),
        stream_ack_deadline_seconds: 10,
        ..StreamingPullRequest::default()
    };
    let (requests, sent) = mpsc::channel(1);
    requests.send(first).await.unwrap();
    let sent = ReceiverStream::new(sent);
    let stream = rig.subscriber().await.streaming_pull(sent).await.unwrap();
    assert_eq!(value(rig, "postrider_open_streams").await, 1.0);
    drop((requests, stream));
    let ended = async {
        while value(rig, "postrider_open_streams").await > 0.0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), ended).await.expect("it stays open");
}

each_engine! {
    what_happens_to_a_message_moves_its_metrics,
    open_streams_are_counted_while_they_are_open,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_space_start_and_version_are_told() {
    let rig = Rig::start("disk").await;
    let now = samples(&rig).await;
    assert!(now["postrider_disk_used_bytes"] > 0.0);
    assert!(now["postrider_disk_free_bytes"] < now["postrider_disk_total_bytes"]);
    assert!(now["postrider_recovery_seconds"] > 0.0);
    assert_eq!(now["postrider_recovered_messages"], 0.0);
    assert!(now["postrider_start_time_seconds"] > 1.7e9);
    let version = now.keys().find(|name| name.starts_with("postrider_build_info")).unwrap();
    let version = version.split('"').nth(1).unwrap();
    assert!(version.starts_with(concat!(env!("CARGO_PKG_VERSION"), "+")), "{version}");
    rig.stop().await;
}

/// Settings with a topic and so many subscriptions on it.
fn many(count: usize) -> String {
    let mut text = "[[topics]]\nname = \"projects/p/topics/orders\"\n".to_owned();
    for n in 0..count {
        let name = format!("projects/p/subscriptions/many-{n:05}");
        let topic = "projects/p/topics/orders";
        writeln!(text, "[[subscriptions]]\nname = {name:?}\ntopic = {topic:?}").unwrap();
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_subscriptions_are_quick_and_bounded() {
    let rig = Rig::with("memory", &many(10_000)).await;
    publish(&rig, "aGVsbG8=").await;
    samples(&rig).await;
    let clock = SystemClock::start();
    let mut times = Vec::new();
    // The best of some: the tests beside this one want the processors too.
    for _ in 0..5 {
        let started = clock.now();
        let answer = rig.get("/metrics").await;
        times.push(clock.now().since(started));
        assert!(answer.text.len() < 1 << 20, "{} bytes", answer.text.len());
    }
    assert!(times.iter().min().unwrap() < &Duration::from_secs(1), "{times:?}");
    let now = samples(&rig).await;
    let shown = |name: &str| -> BTreeSet<String> {
        let named = now.keys().filter(|key| key.starts_with(&format!("{name}{{")));
        named.map(|key| key.split('"').nth(1).unwrap().to_owned()).collect()
    };
    let backlogs = shown("postrider_backlog_messages");
    assert_eq!(backlogs.len(), 501);
    assert!(backlogs.contains("other"));
    assert_eq!(now["postrider_backlog_messages{subscription=\"other\"}"], 9_500.0);
    assert_eq!(now["postrider_subscriptions"], 10_000.0);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bound_is_a_setting_and_what_others_count_is_added_up() {
    let settings = format!("[metrics]\nsubscriptions_max = 1\n{}", many(3));
    let rig = Rig::with("memory", &settings).await;
    publish(&rig, "aGVsbG8=").await;
    for n in 0..3 {
        let path = format!("/v1/projects/p/subscriptions/many-{n:05}:pull");
        let pulled = rig.post(&path, json!({"maxMessages": 1})).await.ok();
        assert_eq!(pulled["receivedMessages"].as_array().unwrap().len(), 1);
    }
    let now = samples(&rig).await;
    let counted = now.iter().filter(|(name, _)| name.starts_with("postrider_deliveries_total"));
    assert_eq!(counted.map(|(_, value)| *value).collect::<Vec<_>>(), [2.0, 1.0]);
    assert_eq!(now["postrider_deliveries_total{subscription=\"other\"}"], 2.0);
    assert_eq!(now["postrider_outstanding_messages{subscription=\"other\"}"], 2.0);
    rig.stop().await;
}
