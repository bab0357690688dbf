//! gRPC straight on HTTP/2, without a client library in between: the less the load costs, the more
//! of the two cores is left to the server being measured. The same for every server.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bytes::{Bytes, BytesMut};
use h2::client::{Builder, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, Version};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::lean::{Deframer, PREFIX};
use crate::rest::Rest;

/// Room for responses on one stream and on one connection, so that the load never holds a server
/// back while it works on what it has received.
pub(crate) const STREAM_WINDOW: u32 = 4 << 20;
pub(crate) const CONNECTION_WINDOW: u32 = 16 << 20;

const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// Connections to one server.
pub(crate) struct Channel {
    connections: Vec<SendRequest<Bytes>>,
    authority: String,
    _drivers: JoinSet<()>,
}

impl Channel {
    /// Connects so many times to a server.
    pub(crate) async fn connect(address: SocketAddr, connections: usize) -> Result<Self> {
        let mut drivers = JoinSet::new();
        let mut senders = Vec::new();
        for _ in 0..connections {
            let socket = timeout(CONNECT_TIME_MAX, TcpStream::connect(address)).await??;
            socket.set_nodelay(true)?;
            let (sender, connection) = Builder::new()
                .initial_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .handshake(socket)
                .await
                .context("HTTP/2 handshake")?;
            // A broken connection shows as an error of every call on it.
            drivers.spawn(async move { drop(connection.await) });
            senders.push(sender);
        }
        Ok(Self { connections: senders, authority: address.to_string(), _drivers: drivers })
    }

    /// A caller of one method, on connection `index` modulo their number.
    pub(crate) fn caller(&self, index: usize, method: &str) -> Result<Caller> {
        let uri = Uri::builder()
            .scheme("http")
            .authority(self.authority.as_str())
            .path_and_query(format!("/google.pubsub.v1.{method}"))
            .build()?;
        let sender = self.connections[index % self.connections.len()].clone();
        Ok(Caller { sender, uri })
    }

    /// A caller of the REST API, on the first connection.
    pub(crate) fn rest(&self) -> Rest {
        Rest::new(self.connections[0].clone(), self.authority.clone())
    }

    /// One call outside the measured load.
    pub(crate) async fn call(&self, method: &str, request: Bytes) -> Result<Bytes> {
        self.caller(0, method)?.unary(request).await.with_context(|| method.to_owned())
    }
}

/// Makes calls of one method, one at a time.
#[derive(Clone)]
pub(crate) struct Caller {
    sender: SendRequest<Bytes>,
    uri: Uri,
}

impl Caller {
    /// Sends a framed request and waits for the one response.
    pub(crate) async fn unary(&mut self, request: Bytes) -> Result<Bytes> {
        let (response, mut body) = self.send().await?;
        body.send_data(request, true)?;
        let response = response.await?;
        check_head(response.status(), response.headers())?;
        let body = read_unary(response.into_body()).await?;
        if body.len() < PREFIX {
            bail!("the server answered with half a message");
        }
        Ok(body.slice(PREFIX..))
    }

    /// Opens a stream with its first framed request.
    pub(crate) async fn stream(&mut self, request: Bytes) -> Result<(Sender, Receiver)> {
        let (response, mut body) = self.send().await?;
        body.send_data(request, false)?;
        let response = response.await?;
        check_head(response.status(), response.headers())?;
        let receiver = Receiver { body: response.into_body(), deframer: Deframer::default() };
        Ok((Sender { body }, receiver))
    }

    async fn send(&mut self) -> Result<(h2::client::ResponseFuture, SendStream<Bytes>)> {
        poll_fn(|context| self.sender.poll_ready(context)).await?;
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.version_mut() = Version::HTTP_2;
        let headers = request.headers_mut();
        headers.insert("te", HeaderValue::from_static("trailers"));
        headers.insert("content-type", HeaderValue::from_static("application/grpc"));
        Ok(self.sender.send_request(request, false)?)
    }
}

/// The sending half of a stream.
pub(crate) struct Sender {
    body: SendStream<Bytes>,
}

impl Sender {
    /// Queues a framed request on the stream.
    pub(crate) fn send(&mut self, request: Bytes) -> Result<()> {
        Ok(self.body.send_data(request, false)?)
    }

    /// Says that nothing more comes.
    pub(crate) fn end(&mut self) -> Result<()> {
        Ok(self.body.send_data(Bytes::new(), true)?)
    }
}

/// The receiving half of a stream.
pub(crate) struct Receiver {
    body: RecvStream,
    deframer: Deframer,
}

impl Receiver {
    /// The next message of the stream, or none at its end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(message) = self.deframer.next()? {
                return Ok(Some(message));
            }
            let Some(data) = self.body.data().await else {
                check_status(self.body.trailers().await?.as_ref())?;
                return Ok(None);
            };
            let data = data?;
            self.body.flow_control().release_capacity(data.len())?;
            self.deframer.push(&data);
        }
    }
}

async fn read_unary(mut body: RecvStream) -> Result<Bytes> {
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        // A small response is one frame, which needs no copy.
        if first.is_empty() {
            first = data;
            continue;
        }
        if whole.is_empty() {
            whole.extend_from_slice(&first);
        }
        whole.extend_from_slice(&data);
    }
    check_status(body.trailers().await?.as_ref())?;
    Ok(if whole.is_empty() { first } else { whole.freeze() })
}

fn check_head(status: StatusCode, headers: &HeaderMap) -> Result<()> {
    if status != StatusCode::OK {
        bail!("the server answered HTTP {status}");
    }
    // A call that failed at once has its status among the first headers.
    match headers.get("grpc-status") {
        Some(_) => check_status(Some(headers)),
        None => Ok(()),
    }
}

fn check_status(trailers: Option<&HeaderMap>) -> Result<()> {
    let trailers = trailers.ok_or_else(|| anyhow!("the server answered without a status"))?;
    let text = |name| trailers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    match text("grpc-status") {
        "0" => Ok(()),
        code => bail!("gRPC status {code}: {}", text("grpc-message")),
    }
}
