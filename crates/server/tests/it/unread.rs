//! Clients that do not read their answers, or send what nobody can read: the program keeps within
//! its memory, and those who read go on.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{OptionFuture, join_all};
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use http::Request;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use wire::pubsub::{PublishRequest, PubsubMessage, StreamingPullRequest};

use crate::built::postrider;
use crate::program::Process;
use crate::rig::{call, message, publisher};
use crate::stalled_streams::framed;
use crate::streams::{Stream, first, ids};

const MIB: u64 = 1 << 20;
const CEILING: u64 = 512 * MIB;

/// How long somebody who reads may have to wait.
const WAIT_MAX: Duration = Duration::from_secs(15);

const TOPIC: &str = "projects/p/topics/orders";
const HEALTHY: &str = "projects/p/subscriptions/healthy";

/// Connections that attack, with a subscription each, and streams of each.
const CONNECTIONS: usize = 20;
const STREAMS: usize = 40;

/// What a stream takes before it must be read: bytes, and messages (0 = all there are).
#[derive(Clone, Copy)]
struct Takes {
    window: u32,
    messages_max: i64,
}

const NOTHING: Takes = Takes { window: 1_000, messages_max: 1 };
const ONE: Takes = Takes { window: 1 << 30, messages_max: 1 };

/// A server with default settings, but for the disk that its log takes.
fn start(folder: &TempDir) -> Process {
    let mut command = postrider(&[]);
    command.env("POSTRIDER_STORAGE_WAL_MAX", "256MiB");
    Process::spawn(command, "127.0.0.1:0", folder.path(), &[])
}

fn attacked(index: usize) -> String {
    format!("projects/p/subscriptions/attacked-{index}")
}

async fn put(address: SocketAddr, name: &str, body: serde_json::Value) {
    let made = call(address, "PUT", &format!("/v1/{name}"), body.to_string()).await;
    assert_eq!(made.code.as_u16(), 200, "{made:?}");
}

/// A backlog of so many messages of 1 MB for every subscription.
async fn prepare(address: SocketAddr, messages: usize) {
    put(address, TOPIC, json!({})).await;
    put(address, HEALTHY, json!({"topic": TOPIC})).await;
    for index in 0..CONNECTIONS {
        put(address, &attacked(index), json!({"topic": TOPIC})).await;
    }
    let mut publisher = publisher(address).await;
    for _ in 0..messages.div_ceil(8) {
        let messages = vec![large(); 8];
        let request = PublishRequest { topic: TOPIC.to_owned(), messages };
        publisher.publish(request).await.unwrap();
    }
}

fn large() -> PubsubMessage {
    message(vec![7; 1_000_000])
}

fn below_ceiling(process: &Process) {
    let most = process.memory_max();
    assert!(most < CEILING, "{} MiB", most / MIB);
}

/// One who reads and acks whatever comes.
struct Reader {
    address: SocketAddr,
    count: watch::Receiver<usize>,
    _reading: JoinSet<()>,
}

impl Reader {
    async fn start(address: SocketAddr) -> Self {
        let mut stream = Stream::open_at(address, first(HEALTHY)).await.unwrap();
        let (counter, count) = watch::channel(0);
        let mut reading = JoinSet::new();
        reading.spawn(async move {
            while let Some(response) = stream.responses.message().await.unwrap() {
                let ack_ids = ids(&response.received_messages);
                counter.send_modify(|count| *count += ack_ids.len());
                stream.send(StreamingPullRequest { ack_ids, ..Default::default() }).await;
            }
        });
        Self { address, count, _reading: reading }
    }

    /// It gets everything, one after the other.
    async fn assert_gets(&mut self, count: usize) {
        let mut publisher = publisher(self.address).await;
        let delivering = async {
            for _ in 0..count {
                let before = *self.count.borrow();
                let request = PublishRequest { topic: TOPIC.to_owned(), messages: vec![large()] };
                publisher.publish(request).await.unwrap();
                self.count.wait_for(|count| *count > before).await.expect("its stream ended");
            }
        };
        tokio::time::timeout(WAIT_MAX, delivering).await.expect("who reads gets nothing");
    }

    /// The same until the server takes no more memory.
    async fn assert_gets_until_steady(&mut self, process: &Process) {
        let (mut last, mut rounds) = (0, 0);
        while process.memory_max() > last || rounds < 5 {
            last = process.memory_max();
            rounds += 1;
            self.assert_gets(4).await;
        }
        below_ceiling(process);
    }
}

/// A connection with streams that the test does not read.
struct Attacker {
    sender: SendRequest<Bytes>,
    streams: Vec<(RecvStream, SendStream<Bytes>)>,
    /// `None` = the server has ended it.
    connection: Option<h2::client::Connection<TcpStream>>,
}

impl Attacker {
    /// Opens streams, each of which takes one message at a time.
    async fn open(address: SocketAddr, subscription: &str, streams: usize, takes: Takes) -> Self {
        let Takes { window, .. } = takes;
        let socket = TcpStream::connect(address).await.unwrap();
        let mut client = h2::client::Builder::new();
        client.initial_window_size(window).initial_connection_window_size(window.max(1 << 16));
        client.max_send_buffer_size(16 << 20);
        let (sender, connection) = client.handshake(socket).await.unwrap();
        let mut attacker = Self { sender, streams: Vec::new(), connection: Some(connection) };
        for _ in 0..streams {
            attacker.open_stream(address, subscription, takes.messages_max).await;
        }
        attacker
    }

    /// One more stream, unless the server has ended the connection meanwhile.
    async fn open_stream(&mut self, address: SocketAddr, subscription: &str, messages_max: i64) {
        let Some(connection) = &mut self.connection else { return };
        let uri = format!("http://{address}/google.pubsub.v1.Subscriber/StreamingPull");
        let request = Request::post(uri).header("content-type", "application/grpc");
        let request = request.header("te", "trailers").body(()).unwrap();
        let opening = async {
            let mut sender = self.sender.clone().ready().await.ok()?;
            let (response, mut requests) = sender.send_request(request, false).ok()?;
            let first = StreamingPullRequest {
                max_outstanding_messages: messages_max,
                ..first(subscription)
            };
            requests.send_data(framed(&first), false).ok()?;
            Some((response.await.ok()?.into_body(), requests))
        };
        let opened = tokio::select! {
            opened = opening => opened,
            _ = connection => None,
        };
        match opened {
            Some(opened) => self.streams.push(opened),
            None => self.connection = None,
        }
    }
}

/// All connections at once.
async fn attack(address: SocketAddr, takes: Takes) -> Vec<Attacker> {
    let opening = (0..CONNECTIONS).map(|index| async move {
        Attacker::open(address, &attacked(index), STREAMS, takes).await
    });
    join_all(opening).await
}

/// Streams that nobody reads beside one who does. `drives` says whether the attackers' connections
/// answer pings and settings.
async fn attack_beside_one_who_reads(takes: Takes, drives: bool) {
    let folder = TempDir::new().unwrap();
    let process = start(&folder);
    let address = process.address;
    prepare(address, STREAMS).await;
    let mut reader = Reader::start(address).await;
    reader.assert_gets(4).await;
    let mut attackers = attack(address, takes).await;
    let mut tasks = JoinSet::new();
    if drives {
        for connection in attackers.iter_mut().filter_map(|one| one.connection.take()) {
            tasks.spawn(async move { drop(connection.await) });
        }
    }
    reader.assert_gets_until_steady(&process).await;
    drop(attackers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_that_are_not_read_take_no_memory_from_others() {
    attack_beside_one_who_reads(ONE, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_that_stay_closed_take_no_memory_from_others() {
    attack_beside_one_who_reads(NOTHING, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_have_read_everything_keep_nothing() {
    let folder = TempDir::new().unwrap();
    let process = start(&folder);
    let address = process.address;
    prepare(address, STREAMS).await;
    let mut tasks = JoinSet::new();
    let mut reading = JoinSet::new();
    for attacker in attack(address, ONE).await {
        let Attacker { sender, streams, connection } = attacker;
        tasks.spawn(async move {
            drop(OptionFuture::from(connection).await);
            drop(sender);
        });
        for (mut responses, requests) in streams {
            reading.spawn(async move {
                let mut read = 0;
                while read < 1_000_000 {
                    let data = responses.data().await.expect("the stream ended").unwrap();
                    responses.flow_control().release_capacity(data.len()).unwrap();
                    read += data.len();
                }
                (responses, requests)
            });
        }
    }
    let open = tokio::time::timeout(WAIT_MAX * 2, reading.join_all()).await.expect("all are read");
    assert_eq!(open.len(), CONNECTIONS * STREAMS);
    below_ceiling(&process);
}

/// Sends acks on streams for which the answers are not read, for as long as it is let.
fn flood(attacker: Attacker, tasks: &mut JoinSet<()>) {
    let ack_ids = (0..500).map(|number| format!("{number:0200}")).collect();
    let request = framed(&StreamingPullRequest { ack_ids, ..StreamingPullRequest::default() });
    let Attacker { sender, streams, connection } = attacker;
    let (mut kept, mut sending) = (Vec::new(), Vec::new());
    for (responses, requests) in streams {
        kept.push(responses);
        sending.push(requests);
    }
    for requests in &mut sending {
        for _ in 0..60 {
            // It may have been ended already.
            drop(requests.send_data(request.clone(), false));
        }
    }
    tasks.spawn(async move {
        drop(OptionFuture::from(connection).await);
        drop((sender, kept, sending));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acks_whose_confirmations_are_not_read_are_not_kept() {
    let folder = TempDir::new().unwrap();
    let process = start(&folder);
    let address = process.address;
    put(address, TOPIC, json!({})).await;
    put(address, HEALTHY, json!({"topic": TOPIC})).await;
    let name = attacked(0);
    put(address, &name, json!({"topic": TOPIC, "enableExactlyOnceDelivery": true})).await;
    let opening = (0..60).map(|_| Attacker::open(address, &name, 4, NOTHING));
    let mut tasks = JoinSet::new();
    for attacker in join_all(opening).await {
        flood(attacker, &mut tasks);
    }
    Reader::start(address).await.assert_gets_until_steady(&process).await;
}
