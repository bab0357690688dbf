//! A small HTTP server that takes pushes and answers as a test says.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use broker::tasks;
use domain::push::{Endpoint, PushConfig};
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// How long anything may take that a test waits for.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Push {
    pub(crate) path: String,
    /// At least one; more only in a batch.
    pub(crate) messages: Vec<Pushed>,
}

/// A message of a request.
#[derive(Clone, Debug)]
pub(crate) struct Pushed {
    pub(crate) id: u64,
    pub(crate) key: String,
    pub(crate) text: String,
    /// Only told with a dead letter policy.
    pub(crate) attempt: Option<u64>,
}

/// An answer: status and body.
pub(crate) type Answer = (u16, String);

/// Decides what is answered, and when. It is dropped when the other side goes away first.
type Script = Arc<dyn Fn(Push) -> BoxFuture<'static, Answer> + Send + Sync>;

/// What has come so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// All requests in the order in which they came.
    pub(crate) pushes: Vec<Push>,
    /// Requests that were answered.
    pub(crate) answered: usize,
    /// Requests whose connection was closed before their answer.
    pub(crate) cut_off: usize,
    /// Requests without an answer now, by path.
    open: HashMap<String, usize>,
    /// Most of them at a time, by path.
    open_max: HashMap<String, usize>,
    accepted: usize,
    connections: usize,
}

impl Seen {
    /// The texts that came to a path.
    pub(crate) fn texts(&self, path: &str) -> Vec<&str> {
        let pushes = self.pushes.iter().filter(|push| push.path == path);
        pushes.flat_map(|push| &push.messages).map(|message| message.text.as_str()).collect()
    }

    /// Requests to a path without an answer now.
    pub(crate) fn open(&self, path: &str) -> usize {
        self.open.get(path).copied().unwrap_or_default()
    }

    /// Most requests to a path that were without an answer at a time.
    pub(crate) fn open_max(&self, path: &str) -> usize {
        self.open_max.get(path).copied().unwrap_or_default()
    }
}

pub(crate) struct Receiver {
    address: SocketAddr,
    seen: Arc<watch::Sender<Seen>>,
    accepting: tasks::Task,
}

impl Receiver {
    /// Listens on a free port of this machine.
    pub(crate) async fn start<F>(script: F) -> Self
    where
        F: Fn(Push) -> BoxFuture<'static, Answer> + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(watch::Sender::new(Seen::default()));
        let accepting = accept(listener, Arc::new(script), Arc::clone(&seen));
        Self { address, seen, accepting: tasks::spawn("receiver", accepting) }
    }

    /// A push config for a path of it.
    pub(crate) fn push_to(&self, path: &str) -> Option<PushConfig> {
        Some(PushConfig::new(self.endpoint(path)))
    }

    pub(crate) fn endpoint(&self, path: &str) -> Endpoint {
        Endpoint::parse("endpoint", &format!("http://{}{path}", self.address)).unwrap()
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Waits for something to have come, or to have ended.
    pub(crate) async fn until(&self, holds: impl FnMut(&Seen) -> bool) -> Seen {
        let mut watch = self.seen.subscribe();
        let waiting = tokio::time::timeout(WAIT_MAX, watch.wait_for(holds)).await;
        let Ok(found) = waiting else { panic!("it never came to hold: {:?}", self.seen()) };
        found.unwrap().clone()
    }

    /// Waits until all is dealt with that was sent by somebody who has gone.
    pub(crate) async fn quiet(&self) {
        // What was connected last may not be accepted yet. Connections are accepted in order.
        let before = self.seen.borrow().accepted;
        drop(TcpStream::connect(self.address).await.unwrap());
        self.until(|seen| seen.accepted > before && seen.connections == 0).await;
    }

    /// Forgets the requests so far.
    pub(crate) fn forget(&self) {
        self.seen.send_modify(|seen| seen.pushes.clear());
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, script: Script, seen: Arc<watch::Sender<Seen>>) {
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).unwrap();
        seen.send_modify(|seen| {
            seen.accepted += 1;
            seen.connections += 1;
        });
        let connection = Connection {
            stream,
            unread: Vec::new(),
            script: Arc::clone(&script),
            seen: Arc::clone(&seen),
        };
        drop(tasks::spawn("connection", connection.serve()));
    }
}

/// One connection, kept for as many requests as the other side likes.
struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
    script: Script,
    seen: Arc<watch::Sender<Seen>>,
}

impl Connection {
    async fn serve(mut self) {
        while let Some(push) = self.request().await {
            let path = push.path.clone();
            self.seen.send_modify(|seen| seen.begin(push.clone()));
            let answer = (self.script)(push);
            let answered = tokio::select! {
                biased;
                answer = answer => Some(answer),
                () = ended(&mut self.stream) => None,
            };
            // Before it is sent: then no next request can be here already.
            self.seen.send_modify(|seen| seen.end(&path, answered.is_some()));
            let Some(answer) = answered else { return };
            if !self.answer(answer).await {
                return;
            }
        }
    }

    /// The next request; `None` = the connection was closed.
    async fn request(&mut self) -> Option<Push> {
        loop {
            if let Some((push, length)) = read_request(&self.unread) {
                self.unread.drain(..length);
                return Some(push);
            }
            if self.stream.read_buf(&mut self.unread).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    async fn answer(&mut self, (status, body): Answer) -> bool {
        let length = body.len();
        let text = format!("HTTP/1.1 {status} Said\r\ncontent-length: {length}\r\n\r\n{body}");
        self.stream.write_all(text.as_bytes()).await.is_ok()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.seen.send_modify(|seen| seen.connections -= 1);
    }
}

impl Seen {
    fn begin(&mut self, push: Push) {
        let open = self.open.entry(push.path.clone()).or_default();
        *open += 1;
        let most = self.open_max.entry(push.path.clone()).or_default();
        *most = (*most).max(*open);
        self.pushes.push(push);
    }

    fn end(&mut self, path: &str, is_answered: bool) {
        *self.open.get_mut(path).unwrap() -= 1;
        *(if is_answered { &mut self.answered } else { &mut self.cut_off }) += 1;
    }
}

/// Resolves when the other side has closed the connection. It sends nothing before its answer.
async fn ended(stream: &mut TcpStream) {
    let mut byte = [0];
    let read = stream.read(&mut byte).await;
    assert_eq!(read.unwrap_or(0), 0, "a request before the answer to the last one");
}

/// The request at the beginning of `bytes` and its length, if it is complete.
fn read_request(bytes: &[u8]) -> Option<(Push, usize)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let length = end + content_length(head);
    let body = bytes.get(end..length)?;
    let path = head.split(' ').nth(1).unwrap().to_owned();
    let messages = match serde_json::from_slice(body).unwrap() {
        Value::Array(envelopes) => envelopes.iter().map(pushed).collect(),
        envelope => vec![pushed(&envelope)],
    };
    Some((Push { path, messages }, length))
}

fn content_length(head: &str) -> usize {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    let mut lengths = lines.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    lengths.next().unwrap().1.parse().unwrap()
}

fn pushed(envelope: &Value) -> Pushed {
    let message = &envelope["message"];
    let data = STANDARD.decode(message["data"].as_str().unwrap_or_default()).unwrap();
    Pushed {
        id: message["messageId"].as_str().unwrap().parse().unwrap(),
        key: message["orderingKey"].as_str().unwrap_or_default().to_owned(),
        text: String::from_utf8(data).unwrap(),
        attempt: envelope["deliveryAttempt"].as_u64(),
    }
}
