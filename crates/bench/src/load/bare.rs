//! A bare HTTP client, the limit of push: hyper on kept connections, one request in flight on each,
//! the same bytes again and again, and nothing behind it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustix::time::{ClockId, clock_gettime};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinSet;

use super::publish::filler;

/// Requests with the same head and body, for one address.
#[derive(Clone)]
pub(crate) struct Exchange {
    address: SocketAddr,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
}

impl Exchange {
    /// Posts a body with the headers that a push has.
    pub(crate) fn new(address: SocketAddr, path: &str, body: Bytes) -> Result<Self> {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(&address.to_string())?);
        headers.insert(USER_AGENT, HeaderValue::from_static("postrider-push/0.0.0"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(Self { address, uri: path.parse()?, headers, body })
    }

    /// With the headers of an ordered lane, too.
    pub(crate) fn ordered(mut self) -> Self {
        for name in ["postrider-sequence", "postrider-previous-sequence"] {
            self.headers.insert(name, HeaderValue::from_static(MESSAGE_ID));
        }
        self.headers.insert("postrider-epoch", HeaderValue::from_static("1"));
        self
    }

    /// With so many messages in the body.
    pub(crate) fn batch(mut self, messages: u32) -> Self {
        self.headers.insert("postrider-batch-size", HeaderValue::from(messages));
        self
    }

    fn request(&self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }

    /// Sends so many requests on so many connections, spread over as many threads as there are
    /// cores, and waits for the answers. Returns the processor time that it took.
    pub(crate) async fn send(&self, connections: usize, requests: u64) -> Result<Duration> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.min(connections);
        let begun = Arc::new(AtomicU64::new(0));
        let mut ends = Vec::new();
        for index in 0..threads {
            let (sender, end) = oneshot::channel();
            let share = (index..connections).step_by(threads).count();
            let (exchange, begun) = (self.clone(), Arc::clone(&begun));
            let run = move || {
                // Nobody waits any more if the row has failed by another thread.
                drop(sender.send(exchange.send_here(share, requests, &begun)));
            };
            drop(std::thread::Builder::new().name("bare".to_owned()).spawn(run)?);
            ends.push(end);
        }
        let mut cpu = Duration::ZERO;
        for end in ends {
            cpu += end.await.context("the bare client panicked")??;
        }
        Ok(cpu)
    }

    /// The work of one thread.
    fn send_here(
        &self,
        connections: usize,
        requests: u64,
        begun: &Arc<AtomicU64>,
    ) -> Result<Duration> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut senders = JoinSet::new();
            for _ in 0..connections {
                let (exchange, begun) = (self.clone(), Arc::clone(begun));
                senders.spawn(async move {
                    let mut connection = Connection::open(exchange.address).await?;
                    while begun.fetch_add(1, Ordering::Relaxed) < requests {
                        connection.send(exchange.request()).await?;
                    }
                    anyhow::Ok(())
                });
            }
            while let Some(done) = senders.join_next().await {
                done??;
            }
            anyhow::Ok(())
        })?;
        // The thread has done nothing else.
        Ok(Duration::try_from(clock_gettime(ClockId::ThreadCPUTime))?)
    }
}

/// A kept connection.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    _driver: JoinSet<()>,
}

impl Connection {
    async fn open(address: SocketAddr) -> Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
        let mut driver = JoinSet::new();
        // A broken connection shows as an error of the next request on it.
        driver.spawn(async move { drop(connection.await) });
        Ok(Self { sender, _driver: driver })
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<()> {
        self.sender.ready().await?;
        let status = self.sender.send_request(request).await?.status();
        ensure!(status.is_success(), "the receiver answered {status}");
        Ok(())
    }
}

/// Kept connections that take turns.
pub(crate) struct Pool {
    exchange: Exchange,
    connections: Vec<Mutex<Connection>>,
}

impl Pool {
    /// Connects so many times.
    pub(crate) async fn open(exchange: Exchange, connections: usize) -> Result<Self> {
        let mut open = Vec::new();
        for _ in 0..connections {
            open.push(Mutex::new(Connection::open(exchange.address).await?));
        }
        Ok(Self { exchange, connections: open })
    }

    /// Sends a body of its own on connection `index` modulo their number.
    pub(crate) async fn send(&self, index: usize, body: Bytes) -> Result<()> {
        let mut request = self.exchange.request();
        *request.body_mut() = Full::new(body);
        self.connections[index % self.connections.len()].lock().await.send(request).await
    }
}

const MESSAGE_ID: &str = "1763200000000000";

/// The body of a push: one message of so many bytes without a pattern.
pub(crate) fn envelope(message_bytes: usize) -> Bytes {
    enveloped(&filler(message_bytes))
}

/// The body of a push of a batch.
pub(crate) fn batch_envelope(message_bytes: usize, messages: u32) -> Bytes {
    let one = envelope(message_bytes);
    let mut batch = vec![b'['];
    for index in 0..messages {
        if index > 0 {
            batch.push(b',');
        }
        batch.extend_from_slice(&one);
    }
    batch.push(b']');
    batch.into()
}

/// The body of a push whose data begins with a number.
pub(crate) fn marked_envelope(message_bytes: usize, mark: u64) -> Bytes {
    let mut data = filler(message_bytes).to_vec();
    for (place, byte) in data.iter_mut().zip(mark.to_be_bytes()) {
        *place = byte;
    }
    enveloped(&data)
}

fn enveloped(data: &[u8]) -> Bytes {
    let data = STANDARD.encode(data);
    let time = "2026-01-01T00:00:00.000000Z";
    let envelope = format!(
        "{{\"message\":{{\"data\":\"{data}\",\"messageId\":\"{MESSAGE_ID}\",\
         \"message_id\":\"{MESSAGE_ID}\",\"publishTime\":\"{time}\",\"publish_time\":\"{time}\"}},\
         \"subscription\":\"projects/bench/subscriptions/load\"}}"
    );
    envelope.into()
}
