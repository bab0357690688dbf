//! Whatever clients do, the program keeps within its memory, and goes on for those that behave.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{BufMut, Bytes};
use futures::future::join_all;
use futures::{StreamExt, stream};
use http::Request;
use http_body::Frame;
use http_body_util::StreamBody;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tonic::client::Grpc;
use tonic::codec::{Codec, CompressionEncoding, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_prost::prost::Message;
use tonic_prost::{ProstCodec, ProstDecoder};
use wire::protobuf::Empty;
use wire::pubsub::subscriber_client::SubscriberClient;
use wire::pubsub::{AcknowledgeRequest, PublishRequest, PullRequest, StreamingPullRequest};

use crate::built::postrider;
use crate::program::Process;
use crate::rig::{call, message, publisher, subscriber};

const MIB: u64 = 1 << 20;
const CEILING: u64 = 512 * MIB;

const TOPIC: &str = "projects/p/topics/orders";
const QUIET: &str = "projects/p/topics/quiet";
const PUBLISH: &str = "/v1/projects/p/topics/orders:publish";
const PUBLISH_CALL: &str = "/google.pubsub.v1.Publisher/Publish";
const ACK_CALL: &str = "/google.pubsub.v1.Subscriber/Acknowledge";

/// Sends bytes as they are.
struct Raw<U>(PhantomData<U>);
struct RawEncoder;

impl Encoder for RawEncoder {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl<U: Message + Default + Send + 'static> Codec for Raw<U> {
    type Encode = Bytes;
    type Decode = U;
    type Encoder = RawEncoder;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> RawEncoder {
        RawEncoder
    }

    fn decoder(&mut self) -> ProstDecoder<U> {
        ProstCodec::<U, U>::raw_decoder(Default::default())
    }
}

/// A server with default settings, but for the disk that its log takes.
fn start(folder: &TempDir) -> Process {
    let mut command = postrider(&[]);
    command.env("POSTRIDER_STORAGE_WAL_MAX", "256MiB");
    Process::spawn(command, "127.0.0.1:0", folder.path(), &[])
}

async fn prepare(process: &Process) {
    for (path, body) in [
        (format!("/v1/{TOPIC}"), json!({})),
        (format!("/v1/{QUIET}"), json!({})),
        ("/v1/projects/p/subscriptions/idle".to_owned(), json!({"topic": QUIET})),
    ] {
        let made = call(process.address, "PUT", &path, body.to_string()).await;
        assert_eq!(made.code.as_u16(), 200, "{made:?}");
    }
}

/// A small publish goes through whatever others do.
async fn assert_serves(address: SocketAddr) {
    let body = r#"{"messages":[{"attributes":{"a":"b"}}]}"#;
    let answer = call(address, "POST", PUBLISH, body).await;
    assert_eq!(answer.code.as_u16(), 200, "{answer:?}");
}

fn told(process: &Process, what: &str) {
    let most = process.memory_max();
    assert!(most < CEILING, "{what}: {} MiB", most / MIB);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_bytes_that_stand_for_many_objects_are_not_built() {
    let folder = TempDir::new().unwrap();
    let process = start(&folder);
    prepare(&process).await;
    let before = process.memory_max();
    // Five million of them, each two bytes long before they are packed.
    let bomb = Bytes::from([0x12, 0].repeat(5 << 20));
    for path in [PUBLISH_CALL, ACK_CALL] {
        let calls = (0..8).map(|_| bombed(process.address, path, bomb.clone()));
        for code in join_all(calls).await {
            let is_refused = [Code::InvalidArgument, Code::ResourceExhausted].contains(&code);
            assert!(is_refused, "{path}: {code:?}");
        }
    }
    let json = format!("{{\"messages\":[{}{{}}]}}", "{},".repeat((14 << 20) / 3));
    let json = Bytes::from(json);
    let calls = (0..8).map(|_| call(process.address, "POST", PUBLISH, json.clone()));
    for answer in join_all(calls).await {
        assert!([400, 429].contains(&answer.code.as_u16()), "{:.200}", answer.text);
    }
    assert_serves(process.address).await;
    let more = process.memory_max() - before;
    println!("{} MiB more", more / MIB);
    assert!(more < 256 * MIB, "{} MiB more", more / MIB);
}

async fn bombed(address: SocketAddr, path: &str, body: Bytes) -> Code {
    let channel = Channel::from_shared(format!("http://{address}")).unwrap();
    let mut grpc =
        Grpc::new(channel.connect().await.unwrap()).send_compressed(CompressionEncoding::Gzip);
    grpc.ready().await.unwrap();
    let request = tonic::Request::new(body);
    let answered = grpc.unary(request, path.parse().unwrap(), Raw::<Empty>(PhantomData)).await;
    answered.unwrap_err().code()
}

/// Bytes of a body that is never whole.
const HALF: usize = 14 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_never_end_are_refused_once_there_are_many() {
    let folder = TempDir::new().unwrap();
    let process = start(&folder);
    prepare(&process).await;
    let mut held = JoinSet::new();
    for _ in 0..60 {
        held.spawn(half_send(process.address));
    }
    let mut refused = 0;
    let mut kept = Vec::new();
    while let Some(sent) = held.join_next().await {
        match sent.unwrap() {
            Ok(stream) => kept.push(stream),
            Err(answer) => {
                assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 429"), "{answer}");
                refused += 1;
            }
        }
    }
    println!("{} kept, {refused} refused", kept.len());
    assert!(refused >= 40, "{refused}");
    assert_serves(process.address).await;
    told(&process, "60 connections");
    drop(kept);
    streams_of_one_connection(process.address).await;
    told(&process, "60 streams of one connection");
}

/// Sends all of a body but its end; the connection, or what the server said instead of taking it.
async fn half_send(address: SocketAddr) -> Result<TcpStream, String> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = HALF + 1;
    let head =
        format!("POST {PUBLISH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n");
    let body = [head.as_bytes(), &vec![b' '; HALF]].concat();
    let sent = stream.write_all(&body).await;
    let mut answer = vec![0; 256];
    let answered = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut answer)).await;
    match (sent, answered) {
        (Ok(()), Err(_)) => Ok(stream),
        (_, Ok(Ok(count))) => Err(String::from_utf8_lossy(&answer[..count]).into_owned()),
        // The server hung up in the middle of what it was sent.
        _ => Err(String::new()),
    }
}

async fn streams_of_one_connection(address: SocketAddr) {
    let tcp = TcpStream::connect(address).await.unwrap();
    let handshake =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(tcp)).await;
    let (sender, connection) = handshake.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { drop(connection.await) });
    let calls = (0..60).map(|_| {
        let prefix = [&[0][..], &u32::try_from(9 * MIB).unwrap().to_be_bytes()].concat();
        let parts = std::iter::once(Bytes::from(prefix))
            .chain((0..8).map(|_| Bytes::from(vec![0; 1 << 20])));
        let parts = stream::iter(parts.map(|part| Ok::<_, Infallible>(Frame::data(part))));
        let request = Request::post(format!("http://localhost{PUBLISH_CALL}"))
            .header("content-type", "application/grpc")
            .body(StreamBody::new(parts.chain(stream::pending())))
            .unwrap();
        let mut sender = sender.clone();
        async move {
            let answer = sender.send_request(request).await.unwrap();
            answer.headers().get("grpc-status").map(|status| status.as_bytes().to_vec())
        }
    });
    // Those that are refused are answered; the others never are.
    let mut calls: futures::stream::FuturesUnordered<_> = calls.collect();
    for _ in 0..50 {
        assert_eq!(calls.next().await.unwrap().as_deref(), Some(&b"8"[..]));
    }
    // Others are served meanwhile, and not only with little.
    let request =
        PublishRequest { topic: TOPIC.to_owned(), messages: vec![message(vec![0; 9_000_000])] };
    publisher(address).await.publish(request).await.unwrap();
    assert_serves(address).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_of_all_kinds_stay_below_the_ceiling() {
    let folder = TempDir::new().unwrap();
    let process = start(&folder);
    prepare(&process).await;
    let address = process.address;
    register_many(address).await;
    told(&process, "10,000 live subscriptions");
    let mut streams = Vec::new();
    for _ in 0..5 {
        let client = subscriber(address).await;
        for _ in 0..100 {
            let mut client = client.clone();
            let first = StreamingPullRequest {
                subscription: "projects/p/subscriptions/idle".to_owned(),
                stream_ack_deadline_seconds: 60,
                ..StreamingPullRequest::default()
            };
            let requests = stream::once(async { first }).chain(stream::pending());
            streams.push(client.streaming_pull(requests).await.unwrap());
        }
    }
    told(&process, "500 idle streams");
    let large = Bytes::from(vec![7; 9_900_000]);
    let calls = (0..100).map(|_| {
        let request =
            PublishRequest { topic: TOPIC.to_owned(), messages: vec![message(large.clone())] };
        async move { publisher(address).await.publish(request).await }
    });
    let mut done = 0;
    for answer in join_all(calls).await {
        match answer {
            Ok(_) => done += 1,
            Err(refused) => assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}"),
        }
    }
    println!("{done} of 100 large publishes went through");
    assert!(done > 0);
    assert_serves(address).await;
    told(&process, "100 connections publishing 10 MB");
}

/// Ten gateways with a thousand each.
async fn register_many(address: SocketAddr) {
    for gateway in 0..10 {
        let one = |id: usize| {
            json!({
                "gatewayId": format!("g{gateway}"),
                "subscriptionId": format!("s-{gateway}-{id}"),
                "tenant": "blue",
                "collection": format!("rooms/{id}"),
                "filters": [{"field": "data.kind", "op": "==", "value": id}],
            })
        };
        let all: Vec<_> = (0..1_000).map(one).collect();
        let body = json!({"subscriptions": all}).to_string();
        let answer = call(address, "POST", "/internal/v1/subscriptions:batch", body).await;
        assert_eq!(answer.code.as_u16(), 200, "{answer:?}");
    }
    let health = call(address, "GET", "/internal/v1/health", "").await.ok();
    assert_eq!(health["subscriptions"]["total"], json!(10_000));
}

/// As the default settings have it.
const OUTSTANDING_MAX: usize = 200_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_nobody_acks_are_bounded_and_leave_some_for_others() {
    const GREEDY: usize = 30;
    const MESSAGES: usize = 20_000;
    let folder = TempDir::new().unwrap();
    let process = start(&folder);
    prepare(&process).await;
    let address = process.address;
    let name = |index: usize| format!("projects/p/subscriptions/greedy-{index}");
    for index in 0..GREEDY {
        let body = json!({"topic": TOPIC, "ackDeadlineSeconds": 600}).to_string();
        let made = call(address, "PUT", &format!("/v1/{}", name(index)), body).await;
        assert_eq!(made.code.as_u16(), 200, "{made:?}");
    }
    let messages = vec![message("x"); 1_000];
    for _ in 0..MESSAGES / 1_000 {
        let request = PublishRequest { topic: TOPIC.to_owned(), messages: messages.clone() };
        publisher(address).await.publish(request).await.unwrap();
    }
    let before = process.memory_max();
    let mut taken = 0;
    for index in 0..GREEDY {
        let got = take_all(address, &name(index), MESSAGES).await;
        assert!(got >= 100, "greedy-{index} got {got}");
        taken += got;
    }
    println!("{taken} taken, {} MiB more", (process.memory_max() - before) / MIB);
    // Each may have a hundred, however full the server is.
    assert!(taken <= OUTSTANDING_MAX + 100 * GREEDY, "{taken}");
    assert!(taken > OUTSTANDING_MAX / 2, "{taken}");
    // Someone who acks goes on through all of it.
    let reader = "projects/p/subscriptions/reader";
    let body = json!({"topic": QUIET}).to_string();
    assert_eq!(call(address, "PUT", &format!("/v1/{reader}"), body).await.code.as_u16(), 200);
    for _ in 0..5 {
        let request = PublishRequest { topic: QUIET.to_owned(), messages: messages.clone() };
        publisher(address).await.publish(request).await.unwrap();
    }
    let mut client = subscriber(address).await;
    let mut read = 0;
    while read < 5_000 {
        let got = pull(&mut client, reader).await;
        assert!(!got.is_empty(), "{read} of 5000");
        read += got.len();
        let request = AcknowledgeRequest { subscription: reader.to_owned(), ack_ids: got };
        client.acknowledge(request).await.unwrap();
    }
    told(&process, "30 subscriptions that take and never ack");
}

/// Takes what there is until there is nothing more or `most` were taken; the number.
async fn take_all(address: SocketAddr, subscription: &str, most: usize) -> usize {
    let mut client = subscriber(address).await;
    let mut taken = 0;
    while taken < most {
        let got = pull(&mut client, subscription).await;
        if got.is_empty() {
            break;
        }
        taken += got.len();
    }
    taken
}

async fn pull(client: &mut SubscriberClient<Channel>, subscription: &str) -> Vec<String> {
    let request = PullRequest {
        subscription: subscription.to_owned(),
        max_messages: 1_000,
        return_immediately: true,
    };
    let answer = client.pull(request).await.unwrap().into_inner();
    answer.received_messages.into_iter().map(|received| received.ack_id).collect()
}
