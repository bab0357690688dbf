//! Sending one request and reading its answer, over connections that are kept.
//!
//! ```text
//!   send ─► pool ── a kept connection ──────────────────► line: request, head ─► body ─► pool
//!             └── none ─► connect: name, guard, permit, TCP, TLS ─► line
//! ```
//!
//! A request runs in the future of whoever sends it, its connection too; nothing is spawned for
//! it. Dropping that future closes the connection.

mod allowance;
mod connect;
mod line;
mod permits;
mod pool;
mod resolve;
mod stream;
mod trouble;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use domain::Moment;
use domain::push::Endpoint;
use futures::FutureExt;
use http::header::{CONTENT_LENGTH, HOST};
use http::{HeaderMap, HeaderValue, Response, StatusCode, Uri};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use rustls::pki_types::pem;

use self::allowance::Allowance;
use self::connect::Connector;
use self::line::{Gathered, Line, Reply, Unanswered};
use self::pool::Pool;
use self::resolve::Lookup;
use self::trouble::Stage;
use super::exchange::{Answer, NoAnswer, Request};
use super::guard::Guard;
use crate::clock::Clock;

/// How long the body of an answer is read: the status has decided already.
const BODY_TIME_MAX: Duration = Duration::from_secs(1);

/// What a sender may do.
#[derive(Clone, Debug)]
pub(crate) struct SenderOptions {
    /// For TCP and TLS together.
    pub(crate) connect_timeout: Duration,
    /// Connects under way at a time, at least one.
    pub(crate) connects_max: usize,
    /// Connects under way to one host at a time, at least one.
    pub(crate) connects_per_host_max: usize,
    /// A connection that was not used for so long is closed.
    pub(crate) idle_timeout: Duration,
    /// Connections that are kept between requests, in total; 0 = none.
    pub(crate) idle_max: usize,
    /// Which addresses may be connected to.
    pub(crate) guard: Guard,
    /// Further certificates that are trusted, as PEM.
    pub(crate) ca_file: Option<PathBuf>,
}

/// Why there is no sender.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SenderError {
    #[error("push.ca_file {} cannot be read", path.display())]
    CaFile { path: PathBuf, source: io::Error },
    #[error("push.ca_file {} is not PEM: {source}", path.display())]
    CaPem { path: PathBuf, source: pem::Error },
    #[error("push.ca_file {} holds a certificate that cannot be trusted", path.display())]
    CaCertificate { path: PathBuf, source: rustls::Error },
    #[error("push.ca_file {} holds no certificate", path.display())]
    CaEmpty { path: PathBuf },
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
}

/// Sends requests. Made once, shared by all who send.
pub(crate) struct Sender {
    pool: Arc<Pool>,
    connector: Connector,
    clock: Arc<dyn Clock>,
}

impl Sender {
    pub(crate) fn new(options: SenderOptions, clock: Arc<dyn Clock>) -> Result<Self, SenderError> {
        Self::with_lookup(options, Arc::new(resolve::System), clock)
    }

    fn with_lookup(
        options: SenderOptions,
        lookup: Arc<dyn Lookup>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, SenderError> {
        let connector = Connector::new(&options, lookup, Arc::clone(&clock))?;
        let pool = Pool::new(options.idle_max, options.idle_timeout, Arc::clone(&clock));
        Ok(Self { pool: Arc::new(pool), connector, clock })
    }

    /// Sends a request and reads its answer. The status line decides: a body that stalls, breaks
    /// or does not end is cut off. Redirects are not followed. Dropping the future cuts the
    /// request off and closes its connection.
    pub(crate) async fn send(&self, mut request: Request) -> Result<Answer, NoAnswer> {
        let mut allowance = Allowance::new(&*self.clock, request.timeout);
        let (line, reply) = self.ask(&mut request, &mut allowance).await?;
        Ok(self.finish(&request, line, reply, allowance.deadline()).await)
    }

    /// Closes the connections that no request uses.
    pub(crate) fn close_idle(&self) {
        self.pool.clear();
    }

    /// Over a kept connection first. If the endpoint had closed that one before a byte of the
    /// request went out, over a fresh one. Whatever may have reached the endpoint is not sent
    /// again: that would be a second request in one attempt.
    async fn ask(
        &self,
        request: &mut Request,
        allowance: &mut Allowance<'_>,
    ) -> Result<(Box<Line>, Reply), NoAnswer> {
        let timeout = allowance.timeout();
        if let Some(line) = self.pool.take(&request.endpoint) {
            let address = line.address();
            let outgoing = outgoing(request, request.headers.clone(), &line);
            match allowance.spend(line.ask(outgoing)).await {
                Some(Ok(asked)) => return Ok(asked),
                Some(Err(failed)) if failed.is_unsent => {}
                Some(Err(failed)) => return Err(broken(&request.endpoint, address, &failed)),
                None => return Err(late(&request.endpoint, address, timeout)),
            }
        }
        let line = self.connector.open(&request.endpoint, allowance).await?;
        let address = line.address();
        let headers = std::mem::take(&mut request.headers);
        let outgoing = outgoing(request, headers, &line);
        match allowance.spend(line.ask(outgoing)).await {
            Some(Ok(asked)) => Ok(asked),
            Some(Err(failed)) => Err(broken(&request.endpoint, address, &failed)),
            None => Err(late(&request.endpoint, address, timeout)),
        }
    }

    async fn finish(
        &self,
        request: &Request,
        mut line: Box<Line>,
        reply: Reply,
        deadline: Moment,
    ) -> Answer {
        let address = line.address();
        let Reply::Response(response) = reply else {
            // The final answer would still come over this connection: it cannot be used again.
            let (status, headers) = (StatusCode::PROCESSING, HeaderMap::new());
            return Answer { status, headers, body: bytes::Bytes::new(), address };
        };
        let (head, mut incoming) = Response::into_parts(response);
        let mut body = Gathered::default();
        if self.read(&mut line, &mut incoming, &mut body, deadline).await {
            self.pool.put(&request.endpoint, line);
        }
        Answer { status: head.status, headers: head.headers, body: body.into_bytes(), address }
    }

    /// Reads the body; `false` = it was cut off.
    async fn read(
        &self,
        line: &mut Line,
        incoming: &mut Incoming,
        body: &mut Gathered,
        deadline: Moment,
    ) -> bool {
        if incoming.is_end_stream() {
            return true;
        }
        // Most bodies come with the head: no timer is needed then.
        let mut timer = None;
        std::future::poll_fn(|context| {
            if let Poll::Ready(is_complete) = line.poll_body(incoming, body, context) {
                return Poll::Ready(is_complete);
            }
            let timer = timer.get_or_insert_with(|| {
                let until = deadline.min(self.clock.now().plus(BODY_TIME_MAX));
                self.clock.sleep_until(until)
            });
            timer.poll_unpin(context).map(|()| false)
        })
        .await
    }
}

fn broken(endpoint: &Endpoint, address: SocketAddr, failed: &Unanswered) -> NoAnswer {
    trouble::protocol(endpoint, address, failed.error.as_ref())
}

fn late(endpoint: &Endpoint, address: SocketAddr, timeout: Duration) -> NoAnswer {
    trouble::timeout(endpoint, Stage::Answer(address), timeout)
}

fn outgoing(
    request: &Request,
    mut headers: HeaderMap,
    line: &Line,
) -> http::Request<Full<bytes::Bytes>> {
    headers.insert(HOST, line.host().clone());
    if request.body.is_empty() {
        // hyper says nothing about a body that is empty, and some receivers want to know.
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    let mut outgoing = http::Request::new(Full::new(request.body.clone()));
    *outgoing.method_mut() = request.method.clone();
    *outgoing.uri_mut() = target(request.endpoint.uri());
    *outgoing.headers_mut() = headers;
    outgoing
}

/// The path and the query.
fn target(uri: &Uri) -> Uri {
    uri.path_and_query().cloned().map_or_else(Uri::default, Uri::from)
}

#[cfg(test)]
mod tests;
