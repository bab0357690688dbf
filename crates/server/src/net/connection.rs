//! One connection, from its first byte to its end.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::header::UPGRADE;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::futures::TaskLocalFuture;

use super::admission::ConnectionSlot;
use super::answered::Answered;
use super::answers::Outlet;
use super::budget::Share;
use super::stream::{Version, detect};
use super::windows::Windows;
use super::{Open, Phase};
use crate::config::Limits;

/// What answers requests. Every connection gets a clone.
pub(crate) trait Front: Clone + Send + Sync + 'static {
    /// The answer in the making.
    type Answer: Future<Output = Result<Response<Answered>, Infallible>> + Send + 'static;

    /// Answers a request, which takes its memory from `share`; the answer goes through `outlet`.
    fn answer(
        &self,
        request: Request<Incoming>,
        share: &Arc<Share>,
        outlet: &Arc<Outlet>,
    ) -> Self::Answer;
}

/// A connection's place among those open. It is kept until the last clone is gone.
#[derive(Clone)]
pub(crate) struct Held {
    _place: Arc<(ConnectionSlot, Open)>,
    outlet: Arc<Outlet>,
}

impl Held {
    pub(super) fn new(place: ConnectionSlot, open: Open, outlet: Arc<Outlet>) -> Self {
        Self { _place: Arc::new((place, open)), outlet }
    }

    /// What the connection's answers go through.
    pub(crate) fn outlet(&self) -> &Arc<Outlet> {
        &self.outlet
    }
}

/// What a connection's requests are given to. Its place is handed on to what it may be upgraded to,
/// which outlives it.
#[derive(Clone)]
struct Served<F> {
    front: F,
    held: Held,
    share: Arc<Share>,
}

impl<F: Front> Service<Request<Incoming>> for Served<F> {
    type Response = Response<Answered>;
    type Error = Infallible;
    type Future = F::Answer;

    fn call(&self, mut request: Request<Incoming>) -> F::Answer {
        if request.headers().contains_key(UPGRADE) {
            request.extensions_mut().insert(self.held.clone());
        }
        self.front.answer(request, &self.share, &self.held.outlet)
    }
}

/// Says who asks, to whoever keeps the record of acts.
#[derive(Clone)]
pub(super) struct Asked<F> {
    pub(super) front: F,
    pub(super) peer: SocketAddr,
}

impl<F: Front> Front for Asked<F> {
    type Answer = TaskLocalFuture<Option<SocketAddr>, F::Answer>;

    fn answer(
        &self,
        request: Request<Incoming>,
        share: &Arc<Share>,
        outlet: &Arc<Outlet>,
    ) -> Self::Answer {
        broker::asked_by(Some(self.peer), self.front.answer(request, share, outlet))
    }
}

/// Bytes of the headers of one request, at most.
const HEADER_BYTES_MAX: usize = 16 * 1024;

/// Bytes of one call's body that may be on their way unread. Large enough that a publish of many
/// messages does not wait for window updates.
const STREAM_WINDOW: u32 = 1 << 20;

/// Bytes of answers of one stream that wait for the socket.
const SEND_BUFFER: usize = 1 << 20;

/// How connections are served.
pub(super) struct Settings {
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    windows: Arc<Windows>,
    first_byte_timeout: Duration,
    write_timeout: Duration,
}

impl Settings {
    pub(super) fn new(limits: &Limits) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_timeout)
            .max_header_size(HEADER_BYTES_MAX);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .keep_alive_interval(limits.keepalive_interval)
            .keep_alive_timeout(limits.keepalive_timeout)
            .max_concurrent_streams(limits.streams_per_connection_max)
            .max_header_list_size(u32::try_from(HEADER_BYTES_MAX).unwrap_or(u32::MAX))
            .initial_stream_window_size(STREAM_WINDOW)
            .max_send_buf_size(SEND_BUFFER);
        Self {
            http1,
            http2,
            windows: Windows::new(limits.receive_memory),
            first_byte_timeout: limits.first_byte_timeout,
            write_timeout: limits.body_timeout,
        }
    }
}

/// Serves one connection until it ends, is too slow, or `phase` says so.
pub(super) async fn run<F: Front>(
    tcp: TcpStream,
    front: F,
    settings: &Settings,
    held: Held,
    share: Arc<Share>,
    phase: watch::Receiver<Phase>,
) {
    // Answers are written whole, so waiting for more to send only costs time. A socket that
    // cannot be set so still works.
    if let Err(error) = tcp.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let detected = detect(tcp, settings.write_timeout);
    let Ok(Ok(Some((version, stream)))) =
        tokio::time::timeout(settings.first_byte_timeout, detected).await
    else {
        return;
    };
    let io = TokioIo::new(stream);
    let outlet = Arc::clone(held.outlet());
    let served = Served { front, held, share };
    match version {
        Version::Http1 => {
            let connection = settings.http1.serve_connection(io, served);
            let connection = connection.with_upgrades();
            drive(connection, |connection| connection.graceful_shutdown(), &outlet, phase).await;
        }
        Version::Http2 => {
            let window = settings.windows.open();
            let mut http2 = settings.http2.clone();
            http2.initial_connection_window_size(window.bytes());
            let connection = http2.serve_connection(io, served);
            drive(connection, |connection| connection.graceful_shutdown(), &outlet, phase).await;
            drop(window);
        }
    }
}

async fn drive<C: Future<Output = hyper::Result<()>>>(
    connection: C,
    shut_down: impl Fn(Pin<&mut C>),
    outlet: &Outlet,
    mut phase: watch::Receiver<Phase>,
) {
    let mut connection = pin!(connection);
    loop {
        match *phase.borrow_and_update() {
            Phase::Serving => {}
            Phase::Draining => shut_down(connection.as_mut()),
            Phase::Closed => return,
        }
        tokio::select! {
            biased;
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection ended early");
                }
                return;
            }
            () = outlet.ended() => return,
            changed = phase.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}
