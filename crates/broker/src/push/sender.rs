//! Sending one request and reading its answer, over connections that are kept.
//!
//! ```text
//!   send ─► pool ── a kept connection ──────────────────► line: request, head ─► body ─► pool
//!             └── none ─► connect: name, guard, permit, TCP, TLS ─► line
//! ```
//!
//! A request runs in the future of whoever sends it, its connection too; nothing is spawned for
//! it. Dropping that future closes the connection.

mod connect;
mod line;
mod permits;
mod pool;
mod resolve;
mod stream;
mod trouble;

use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use domain::Moment;
use futures::FutureExt;
use futures::future::{Either, select};
use http::header::{CONTENT_LENGTH, HOST};
use http::{HeaderMap, HeaderValue, Response, StatusCode, Uri};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use rustls::pki_types::pem;

use self::connect::Connector;
use self::line::{Gathered, Line, Reply};
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
        let deadline = self.clock.now().plus(request.timeout);
        let mut stage = Stage::default();
        let asked = {
            let ask = pin!(self.ask(&mut request, &mut stage));
            match select(ask, self.clock.sleep_until(deadline)).await {
                Either::Left((asked, _)) => Some(asked),
                Either::Right(_) => None,
            }
        };
        match asked {
            Some(asked) => {
                let (line, reply) = asked?;
                Ok(self.finish(&request, line, reply, deadline).await)
            }
            None => Err(trouble::timeout(&request.endpoint, stage, request.timeout)),
        }
    }

    /// Closes the connections that no request uses.
    pub(crate) fn close_idle(&self) {
        self.pool.clear();
    }

    /// Over a kept connection first. If the endpoint had closed that one, which is its right at
    /// any time, once more over a fresh one; a fresh one is not followed by another.
    async fn ask(
        &self,
        request: &mut Request,
        stage: &mut Stage,
    ) -> Result<(Box<Line>, Reply), NoAnswer> {
        if let Some(line) = self.pool.take(&request.endpoint) {
            let address = line.address();
            *stage = Stage::Answer(address);
            let outgoing = outgoing(request, request.headers.clone(), &line);
            match line.ask(outgoing).await {
                Ok(asked) => return Ok(asked),
                Err(failed) if failed.is_untouched => {}
                Err(failed) => {
                    let error = failed.error.as_ref();
                    return Err(trouble::protocol(&request.endpoint, address, error));
                }
            }
        }
        let line = self.connector.open(&request.endpoint, stage).await?;
        let address = line.address();
        *stage = Stage::Answer(address);
        let headers = std::mem::take(&mut request.headers);
        let outgoing = outgoing(request, headers, &line);
        let asked = line.ask(outgoing).await;
        asked.map_err(|failed| trouble::protocol(&request.endpoint, address, failed.error.as_ref()))
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
