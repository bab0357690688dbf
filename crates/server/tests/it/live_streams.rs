//! Streams of gateways: Server-Sent Events and WebSocket.

use futures::{SinkExt, StreamExt};
use http::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio_tungstenite::tungstenite::Message;
use wire::pubsub::PubsubMessage;

use crate::live_rig::{
    Events, SUBSCRIPTIONS, Socket, document, fault, ids, live_topic, publish, publish_one, register,
};
use crate::rig::{Rig, call_with, config, each_engine};

fn with(mut message: PubsubMessage, name: &str, value: &str) -> PubsubMessage {
    message.attributes.insert(name.to_owned(), value.to_owned());
    message
}

async fn a_message_comes_once_with_all_ids_it_is_for(rig: &Rig) {
    let topic = live_topic(rig, "changes").await;
    let active = json!({"filters": [{"field": "data.status", "op": "==", "value": "active"}]});
    register(rig, "g", "all", json!({})).await;
    register(rig, "g", "active", active.clone()).await;
    register(rig, "g", "urgent", json!({"filter": "data.priority > 5"})).await;
    register(rig, "g", "elsewhere", json!({"collection": "rooms/2"})).await;
    register(rig, "h", "theirs", active).await;
    let mut stream = Events::open(rig, "g", "").await;
    let mut other = Events::open(rig, "h", "").await;
    let data = json!({"status": "active", "priority": 9});
    let id = publish_one(rig, &topic, &data).await;
    let frame = stream.told().await;
    assert_eq!(frame["type"], "message");
    assert_eq!((&frame["offset"], &frame["topic"]), (&json!(id), &json!(topic)));
    assert_eq!(ids(&frame), ["active", "all", "urgent"]);
    assert_eq!(frame.get("changes"), None);
    let message = &frame["message"];
    assert_eq!(
        (&message["messageId"], &message["attributes"]["tenant"]),
        (&json!(id), &json!("blue"))
    );
    let expected = base64(&data.to_string());
    assert_eq!(message["data"], json!(expected));
    assert!(message["publishTime"].is_string());
    assert_eq!(ids(&other.told().await), ["theirs"]);

    publish_one(rig, &topic, &json!({"status": "done", "priority": 1})).await;
    let next = stream.told().await;
    assert_eq!(ids(&next), ["all"]);
    let number = |frame: &Value| frame["sequence"].as_u64().unwrap();
    assert_eq!(number(&next), number(&frame) + 1, "without a hole");
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

async fn tenants_never_cross(rig: &Rig) {
    let topic = live_topic(rig, "changes").await;
    register(rig, "g", "blue", json!({})).await;
    register(rig, "g", "red", json!({"tenant": "red"})).await;
    // The topic's project is the tenant of a message that names none.
    register(rig, "g", "project", json!({"tenant": "p"})).await;
    let mut stream = Events::open(rig, "g", "").await;
    let plain = document(&json!({}));
    let mut nameless = plain.clone();
    nameless.attributes.remove("tenant");
    let messages = vec![
        with(plain.clone(), "tenant", "red"),
        with(plain.clone(), "tenant", "Blue"),
        nameless,
        plain,
    ];
    publish(rig, &topic, messages).await;
    for expected in ["red", "project", "blue"] {
        assert_eq!(ids(&stream.told().await), [expected]);
    }
}

async fn changes_say_what_enters_and_leaves(rig: &Rig) {
    let topic = live_topic(rig, "changes").await;
    for (id, status) in [("to", "done"), ("from", "open")] {
        register(rig, "g", id, json!({"filter": format!("data.status == '{status}'")})).await;
    }
    register(rig, "g", "all", json!({})).await;
    let mut stream = Socket::open(rig, "g", "").await;
    let old = json!({"status": "open"}).to_string();
    publish(rig, &topic, vec![with(document(&json!({"status": "done"})), "old", &old)]).await;
    let frame = stream.told().await;
    let expected = json!({"to": "enter", "from": "leave", "all": "update"});
    assert_eq!(frame["changes"], expected, "{frame}");
    assert_eq!(ids(&frame), ["all", "from", "to"]);
}

/// Data that is not JSON, however deep, is for those who do not look into it.
async fn a_million_deep_body_matches_only_those_without_filters(rig: &Rig) {
    let topic = live_topic(rig, "changes").await;
    register(rig, "g", "all", json!({})).await;
    register(rig, "g", "filtered", json!({"filter": "data.a == 1"})).await;
    let mut stream = Events::open(rig, "g", "").await;
    let message = PubsubMessage { data: "[".repeat(1_000_000).into(), ..document(&json!({})) };
    publish(rig, &topic, vec![message]).await;
    assert_eq!(ids(&stream.told().await), ["all"]);
    publish_one(rig, &topic, &json!({"a": 1})).await;
    assert_eq!(ids(&stream.told().await), ["all", "filtered"]);
}

async fn a_stream_resumes_where_it_is_told_to(rig: &Rig) {
    let topic = live_topic(rig, "changes").await;
    register(rig, "g", "s", json!({})).await;
    let mut stream = Events::open(rig, "g", "").await;
    let messages = (0..3).map(|n| document(&json!({"n": n}))).collect();
    let offsets = publish(rig, &topic, messages).await;
    let mut frames = Vec::new();
    for _ in 0..3 {
        frames.push(stream.told().await);
    }
    drop(stream);
    let first = frames[0]["sequence"].to_string();
    let mut by_sequence = Events::open(rig, "g", &format!("?sequence={first}")).await;
    assert_eq!([by_sequence.told().await, by_sequence.told().await], frames[1..]);
    let mut by_event =
        Events::open_with(rig.address, "g", "?sequence=1", Some(&first)).await.unwrap();
    assert_eq!([by_event.told().await, by_event.told().await], frames[1..]);
    let mut by_socket = Socket::open(rig, "g", &format!("?sequence={first}")).await;
    assert_eq!(by_socket.told().await, frames[1]);
    for query in
        [format!("?offset={}", offsets[0]), format!("?offset={}&topic={topic}", offsets[0])]
    {
        let mut by_offset = Events::open(rig, "g", &query).await;
        for frame in &frames[1..] {
            assert_eq!(by_offset.told().await["offset"], frame["offset"], "{query}");
        }
    }
    // A number that was never given out is not taken for another.
    let mut unknown = Events::open(rig, "g", "?sequence=1").await;
    let frame = unknown.told().await;
    assert_eq!((&frame["type"], &frame["reason"]), (&json!("resync"), &json!("unknown_sequence")));
}

async fn bad_beginnings_are_refused_before_the_stream(rig: &Rig) {
    live_topic(rig, "one").await;
    live_topic(rig, "two").await;
    for (query, last, field) in [
        ("?sequence=x", None, "sequence"),
        ("?offset=-1", None, "offset"),
        ("?offset=1&sequence=1", None, "offset"),
        ("?topic=projects/p/topics/one", None, "offset"),
        ("?topic=one&offset=1", None, "topic"),
        ("?topic=projects/p/topics/none&offset=1", None, "topic"),
        ("?offset=1", None, "topic"),
        ("?since=1", None, "since"),
        ("", Some("soon"), "Last-Event-ID"),
    ] {
        let refused = Events::open_with(rig.address, "g", query, last).await.err().unwrap();
        assert_eq!(fault(&refused), (400, "INVALID_ARGUMENT".to_owned(), field.to_owned()));
    }
    let long = "x".repeat(256);
    let refused = Events::open_with(rig.address, &long, "", None).await.err().unwrap();
    assert_eq!(fault(&refused), (400, "INVALID_ARGUMENT".to_owned(), "gatewayId".to_owned()));
    let path = "/internal/v1/gateways/g/stream";
    for (headers, field) in [
        (&[("upgrade", "h2c")][..], "upgrade"),
        (&[("upgrade", "websocket")], "connection"),
        (&[("upgrade", "WebSocket"), ("connection", "a, Upgrade")], "sec-websocket-version"),
        (
            &[("upgrade", "websocket"), ("connection", "upgrade"), ("sec-websocket-version", "13")],
            "sec-websocket-key",
        ),
    ] {
        let refused = call_with(rig.address, "GET", path, "", headers).await;
        assert_eq!(fault(&refused), (400, "INVALID_ARGUMENT".to_owned(), field.to_owned()));
    }
}

async fn a_later_stream_takes_the_place_of_an_earlier(rig: &Rig) {
    let topic = live_topic(rig, "changes").await;
    register(rig, "g", "s", json!({})).await;
    let mut first = Events::open(rig, "g", "").await;
    let mut second = Socket::open(rig, "g", "").await;
    assert_eq!(first.next().await, None);
    let mut third = Events::open(rig, "g", "").await;
    assert_eq!(second.end().await, 1008);
    publish_one(rig, &topic, &json!({})).await;
    assert_eq!(ids(&third.told().await), ["s"]);
}

/// What an open stream holds does not expire, and what it does not know it asks for.
async fn a_gateway_without_subscriptions_is_told_to_register(rig: &Rig) {
    let topic = live_topic(rig, "changes").await;
    let mut stream = Socket::open(rig, "g", "").await;
    assert_eq!(stream.told().await["type"], "register");
    register(rig, "g", "s", json!({})).await;
    assert_eq!(rig.get(&format!("{SUBSCRIPTIONS}/s")).await.ok()["state"], "active");
    publish_one(rig, &topic, &json!({})).await;
    assert_eq!(ids(&stream.told().await), ["s"]);
}

each_engine! {
    a_message_comes_once_with_all_ids_it_is_for,
    tenants_never_cross,
    changes_say_what_enters_and_leaves,
    a_million_deep_body_matches_only_those_without_filters,
    a_stream_resumes_where_it_is_told_to,
    bad_beginnings_are_refused_before_the_stream,
    a_later_stream_takes_the_place_of_an_earlier,
    a_gateway_without_subscriptions_is_told_to_register,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_the_stream_asks_to_register_again() {
    let folder = TempDir::new().unwrap();
    let settings = config(&folder, "disk", "");
    let start = async || Rig::on(server::Server::start(&settings).await.unwrap());
    let rig = start().await;
    let topic = live_topic(&rig, "changes").await;
    register(&rig, "g", "s", json!({})).await;
    let mut stream = Events::open(&rig, "g", "").await;
    publish_one(&rig, &topic, &json!({})).await;
    let last = stream.told().await["sequence"].to_string();
    rig.stop().await;
    assert_eq!(stream.next().await, None, "the end of the server ends the stream");

    let rig = start().await;
    let mut stream = Events::open_with(rig.address, "g", "", Some(&last)).await.unwrap();
    let kinds = [stream.told().await["type"].clone(), stream.told().await["type"].clone()];
    assert_eq!(kinds, ["register", "resync"]);
    register(&rig, "g", "s", json!({})).await;
    publish_one(&rig, &topic, &json!({"n": 2})).await;
    assert_eq!(ids(&stream.told().await), ["s"]);
    drop(stream);
    rig.stop().await;
}

const IMPATIENT: &str = "
[limits]
body_timeout = \"200ms\"
[live]
heartbeat = \"100ms\"
buffer_frames = 10
min_ttl = \"1s\"
notify_on_expiry = true
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_never_reads_is_cut_off_and_slows_nobody() {
    one_that_never_reads_is_cut_off("").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_is_never_read_is_cut_off_and_slows_nobody() {
    one_that_never_reads_is_cut_off(
        "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n",
    )
    .await;
}

/// A gateway that never reads asks for its stream with `headers`; another, which reads, is told of
/// everything at once.
async fn one_that_never_reads_is_cut_off(headers: &str) {
    // Longer than a busy machine keeps the quick one from reading.
    let rig = Rig::with("memory", &IMPATIENT.replace("200ms", "2s")).await;
    let topic = live_topic(&rig, "changes").await;
    register(&rig, "slow", "slow", json!({})).await;
    register(&rig, "quick", "quick", json!({})).await;
    let mut quick = Events::open(&rig, "quick", "").await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut slow = socket.connect(rig.address).await.unwrap();
    let request = "GET /internal/v1/gateways/slow/stream HTTP/1.1\r\nhost: localhost\r\n";
    slow.write_all(format!("{request}{headers}\r\n").as_bytes()).await.unwrap();
    let mut head = [0; 15];
    slow.read_exact(&mut head).await.unwrap();
    let small = json!({});
    let mut publish = async |data: &Value| {
        publish_one(&rig, &topic, data).await;
        assert_eq!(ids(&quick.told().await), ["quick"]);
    };
    // More than the sockets between them hold, however much is dropped on the way: on a busy
    // machine the slow one's frames may overflow before its sockets are full.
    let large = json!({"text": "x".repeat(500_000)});
    for sent in 0.. {
        publish(if sent < 100 { &large } else { &small }).await;
        if rig.get("/internal/v1/health").await.ok()["streams"] == 1 {
            break;
        }
    }
    // What it misses from now on, more than is kept, nobody takes: it is told of that.
    for _ in 0..11 {
        publish(&small).await;
    }
    let mut again = Events::open(&rig, "slow", "").await;
    assert_eq!(again.told().await["reason"], "overflow");
    drop((slow, again, quick));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_is_filled_with_heartbeats_and_silent_sockets_end() {
    let rig = Rig::with("memory", IMPATIENT).await;
    register(&rig, "g", "s", json!({"ttl": 1})).await;
    let mut stream = Events::open(&rig, "g", "").await;
    for _ in 0..20 {
        assert_eq!(stream.next().await.unwrap()["type"], "heartbeat");
    }
    rig.get(&format!("{SUBSCRIPTIONS}/s")).await.ok();

    // A client answers pings only while it is read from.
    let mut answering = Socket::open(&rig, "answering", "").await;
    let silent = Socket::open(&rig, "silent", "").await;
    let mut pings = 0;
    while pings < 10 {
        match answering.0.next().await.unwrap().unwrap() {
            Message::Ping(_) => pings += 1,
            Message::Close(frame) => panic!("{frame:?}"),
            _ => {}
        }
    }
    while rig.get("/internal/v1/health").await.ok()["streams"] != 2 {}
    drop((stream, answering, silent));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_expired_without_a_stream_is_told_of() {
    let rig = Rig::with("memory", IMPATIENT).await;
    register(&rig, "g", "short", json!({"ttl": 1})).await;
    register(&rig, "g", "long", json!({})).await;
    while rig.get(&format!("{SUBSCRIPTIONS}/short")).await.code == StatusCode::OK {}
    let mut stream = Events::open(&rig, "g", "").await;
    let frame = stream.told().await;
    assert_eq!((&frame["type"], &frame["reason"]), (&json!("expired"), &json!("ttl_expired")));
    assert_eq!(ids(&frame), ["short"]);
    drop(stream);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_are_told_that_the_server_stops() {
    let rig = Rig::start("memory").await;
    let mut socket = Socket::open(&rig, "g", "").await;
    let mut noisy = Socket::open(&rig, "h", "").await;
    assert_eq!(noisy.told().await["type"], "register");
    // More than a gateway has to say ends it.
    noisy.0.send(Message::Binary(vec![0; 5_000].into())).await.unwrap();
    let connections = rig.get("/status").await.ok()["connections"].as_u64().unwrap();
    assert!(connections >= 2, "a WebSocket is a connection too");
    let (code, ()) = tokio::join!(socket.end(), rig.stop());
    assert_eq!(code, 1001);
}
