//! Clients that are slow, endless or senseless are cut off, and the server goes on.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;
use tonic::client::Grpc;
use tonic::transport::Channel;
use wire::pubsub::{ListTopicsRequest, PublishRequest, PublishResponse, StreamingPullRequest};

use crate::live_rig::Events;
use crate::rig::{Rig, call, message};

/// Short times, so that tests need not wait for long ones.
const IMPATIENT: &str = "
[limits]
first_byte_timeout = \"100ms\"
header_timeout = \"100ms\"
body_timeout = \"100ms\"
keepalive_interval = \"100ms\"
keepalive_timeout = \"100ms\"
";

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Sends `bytes` and then nothing; returns what the server said until it hung up.
async fn send_and_stall(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may hang up in the middle of what it is sent.
    drop(stream.write_all(bytes).await);
    let mut said = Vec::new();
    drop(stream.read_to_end(&mut said).await);
    said
}

async fn assert_serves(rig: &Rig) {
    let answer = call(rig.address, "GET", "/healthz", "").await;
    assert_eq!(answer.code.as_u16(), 200);
}

#[tokio::test]
async fn slow_clients_are_cut_off_at_every_stage() {
    let rig = Rig::with("memory", IMPATIENT).await;
    let long_body = "POST /v1/projects/p/topics/orders:publish HTTP/1.1\r\nhost: localhost\r\n\
                     content-length: 100\r\n\r\n{";
    for (stage, bytes) in [
        ("nothing", &b""[..]),
        ("one byte", b"G"),
        ("half an HTTP/2 preface", &PREFACE[..12]),
        ("half a request line", b"GET /healthz HT"),
        ("half a header", b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-a"),
        ("half a body", long_body.as_bytes()),
        ("a preface and no more", PREFACE),
        ("half an HTTP/2 frame", &[PREFACE, &[0, 0, 10, 1, 4][..]].concat()),
        ("a request and no more", b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ] {
        // Reading to the end only returns once the server has hung up.
        send_and_stall(rig.address, bytes).await;
        println!("{stage}: cut off");
    }
    assert_serves(&rig).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_stalled_body_is_answered_before_it_is_cut_off() {
    let rig = Rig::with("memory", IMPATIENT).await;
    let half = b"POST /v1/projects/p/topics/orders:publish HTTP/1.1\r\nhost: localhost\r\n\
                 content-length: 100\r\n\r\n{";
    let said = String::from_utf8(send_and_stall(rig.address, half).await).unwrap();
    assert!(said.starts_with("HTTP/1.1 504"), "{said}");
    assert!(said.contains("DEADLINE_EXCEEDED"), "{said}");
    rig.stop().await;
}

#[tokio::test]
async fn one_that_is_refused_while_it_sends_gets_to_read_why() {
    let rig = Rig::start("memory").await;
    let mut stream = TcpStream::connect(rig.address).await.unwrap();
    let head = "POST /v1/projects/p/topics/orders:publish HTTP/1.1\r\nhost: elsewhere.example\r\n\
                content-length: 8388608\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    // More than fits into the buffers of both sides, and read by nobody.
    stream.write_all(&vec![b' '; 8 << 20]).await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    assert!(said.starts_with("HTTP/1.1 403"), "{said}");
    rig.stop().await;
}

#[tokio::test]
async fn a_body_that_drips_must_end_some_day() {
    let drips = "[limits]\nbody_timeout = \"60s\"\nbody_deadline = \"300ms\"\n";
    let rig = Rig::with("memory", drips).await;
    let mut stream = TcpStream::connect(rig.address).await.unwrap();
    let head = "POST /v1/projects/p/topics/orders:publish HTTP/1.1\r\nhost: localhost\r\n\
                content-length: 1000000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 1024];
    // No pause is long, and yet it ends.
    let dripping = async {
        loop {
            drop(stream.write_all(b" ").await);
            let read = stream.read(&mut answer);
            if let Ok(count) = tokio::time::timeout(Duration::from_millis(20), read).await {
                return count.unwrap();
            }
        }
    };
    let count = tokio::time::timeout(Duration::from_secs(60), dripping).await.unwrap();
    let said = String::from_utf8_lossy(&answer[..count]).into_owned();
    assert!(said.starts_with("HTTP/1.1 504"), "{said}");
    assert!(said.contains("limits.body_deadline"), "{said}");
    rig.stop().await;
}

#[tokio::test]
async fn calls_and_streams_beyond_the_limit_are_refused_until_one_ends() {
    let rig = Rig::with("memory", "[limits]\ncalls_max = 2\n").await;
    let (_, subscription) = rig.pair().await;
    let events = Events::open(&rig, "g", "").await;
    let first = StreamingPullRequest {
        subscription,
        stream_ack_deadline_seconds: 10,
        ..StreamingPullRequest::default()
    };
    let (say, requests) = tokio::sync::mpsc::channel(1);
    say.send(first).await.unwrap();
    let requests = ReceiverStream::new(requests);
    let pull = rig.subscriber().await.streaming_pull(requests).await.unwrap();
    let get = || call(rig.address, "GET", "/healthz", "");
    let refused = get().await.refused(429, "RESOURCE_EXHAUSTED");
    assert!(refused.contains("limits.calls_max"), "{refused}");
    let request = ListTopicsRequest { project: "projects/p".to_owned(), ..Default::default() };
    let refused = rig.publisher().await.list_topics(request.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    // Either has held a place, which is free as soon as the server has noticed.
    drop(events);
    while get().await.code.as_u16() != 200 {}
    let events = Events::open(&rig, "g", "").await;
    drop((say, pull));
    while rig.publisher().await.list_topics(request.clone()).await.is_err() {}
    drop(events);
    rig.stop().await;
}

#[tokio::test]
async fn garbage_is_cut_off() {
    let rig = Rig::with("memory", IMPATIENT).await;
    for garbage in [
        &[0_u8; 100][..],
        &[0xff; 5_000],
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"SSH-2.0-x\r\n\r\n",
        &[PREFACE, &[0xff; 100]].concat(),
        &[PREFACE, &[0, 0, 0, 4, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff]].concat(),
    ] {
        send_and_stall(rig.address, garbage).await;
    }
    assert_serves(&rig).await;
    rig.stop().await;
}

#[tokio::test]
async fn overlong_headers_and_bodies_are_refused() {
    let rig = Rig::start("memory").await;
    let long = "y".repeat(20_000);
    let header = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {long}\r\n\r\n");
    let said = String::from_utf8(send_and_stall(rig.address, header.as_bytes()).await).unwrap();
    assert!(said.starts_with("HTTP/1.1 431"), "{said}");
    // Refused by its length alone, before the body is sent.
    let body = "POST /v1/projects/p/topics/orders:publish HTTP/1.1\r\nhost: localhost\r\n\
                connection: close\r\ncontent-length: 99999999\r\n\r\n{";
    let said = String::from_utf8(send_and_stall(rig.address, body.as_bytes()).await).unwrap();
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
    assert!(said.contains("INVALID_ARGUMENT"), "{said}");
    rig.stop().await;
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed_at_once() {
    let rig = Rig::with("memory", "[limits]\nconnections_max = 2\n").await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(rig.address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        held.push(stream);
    }
    assert!(send_and_stall(rig.address, b"").await.is_empty());
    drop(held.pop());
    // Its place is free as soon as the server has noticed; until then new ones are closed.
    loop {
        let said = send_and_stall(rig.address, b"GET /healthz HTTP/1.0\r\n\r\n").await;
        if said.starts_with(b"HTTP/1.0 200") {
            break;
        }
    }
    rig.stop().await;
}

#[tokio::test]
async fn grpc_calls_that_mean_nothing_are_unimplemented() {
    let rig = Rig::start("memory").await;
    let channel = Channel::from_shared(format!("http://{}", rig.address)).unwrap();
    let mut grpc = Grpc::new(channel.connect().await.unwrap());
    for path in ["/google.pubsub.v1.Publisher/Fly", "/no.such.Service/Call", "/"] {
        grpc.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<PublishRequest, PublishResponse>::default();
        let request = tonic::Request::new(PublishRequest::default());
        let refused = grpc.unary(request, path.parse().unwrap(), codec).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unimplemented, "{path}: {refused}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_grpc_request_that_is_too_long_is_invalid() {
    let rig = Rig::start("memory").await;
    let (topic, _) = rig.pair().await;
    let request = PublishRequest { topic, messages: vec![message(vec![0; 8_000_000]); 2] };
    let refused = rig.publisher().await.publish(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    rig.stop().await;
}
