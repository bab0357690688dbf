//! One connection that is kept: a request goes out, its answer comes back, then the next.
//!
//! Nothing runs beside the request: whoever waits for the answer moves the connection along in the
//! same poll. What hyper passes between its two halves is therefore asked for with a waker that
//! does nothing, since a real one would only wake the task that is running already.

use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::stream::Stream;
use crate::push::exchange::ANSWER_BYTES_MAX;

/// Most bytes of an answer's head. hyper itself allows 100 headers at most.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// An open connection.
pub(super) struct Line {
    requests: http1::SendRequest<Full<Bytes>>,
    connection: http1::Connection<TokioIo<Stream>, Full<Bytes>>,
    is_over: bool,
    is_used: bool,
    /// Whether a byte went out since the last request was made; see `Socket`.
    has_begun: Arc<AtomicBool>,
    /// The last informational status that came in, 0 for none.
    informational: Arc<AtomicU16>,
    address: SocketAddr,
    host: HeaderValue,
}

/// What came back, its body not yet read.
pub(super) enum Reply {
    /// A 102: the endpoint has the request, and says no more yet.
    Processing,
    Response(Response<Incoming>),
}

/// Nothing came back.
pub(super) struct Unanswered {
    pub(super) error: Option<hyper::Error>,
    /// Whether not a byte of the request went out, because the endpoint had closed the connection
    /// already. Only told of connections that were used before.
    pub(super) is_unsent: bool,
}

impl Line {
    /// Speaks HTTP/1.1 over `stream`. Never HTTP/2: one request is in flight on a connection, so
    /// that receivers see each endpoint's requests in the order they were sent.
    pub(super) async fn open(
        stream: Stream,
        address: SocketAddr,
        host: HeaderValue,
    ) -> Result<Self, hyper::Error> {
        let mut builder = http1::Builder::new();
        // The buffer alone is no bound: it may take in a head that is a little larger.
        builder.max_buf_size(HEAD_BYTES_MAX).max_header_size(HEAD_BYTES_MAX);
        let has_begun = stream.has_begun();
        let (requests, connection) = builder.handshake(TokioIo::new(stream)).await?;
        Ok(Self {
            requests,
            connection,
            is_over: false,
            is_used: false,
            has_begun,
            informational: Arc::default(),
            address,
            host,
        })
    }

    /// The address it is connected to.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The `host` header of its requests.
    pub(super) fn host(&self) -> &HeaderValue {
        &self.host
    }

    /// Whether another request may be sent: the last answer has been read, and the endpoint has
    /// not closed the connection as far as can be seen without asking it.
    pub(super) fn is_ready(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        !self.is_over && self.requests.is_ready()
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn ask(
        mut self: Box<Self>,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Box<Self>, Reply), Unanswered> {
        if self.is_used {
            self.has_begun.store(false, Ordering::Relaxed);
        }
        self.is_used = true;
        self.informational.store(0, Ordering::Relaxed);
        let informational = Arc::clone(&self.informational);
        hyper::ext::on_informational(&mut request, move |response| {
            informational.store(response.status().as_u16(), Ordering::Relaxed);
        });
        let reply = self.requests.try_send_request(request);
        // Out of the runtime's budget, since a future that has used it up asks to be woken by the
        // waker at hand, which does nothing here.
        let mut reply = pin!(tokio::task::unconstrained(reply));
        let reply = std::future::poll_fn(|context| {
            self.drive(context);
            if self.informational.load(Ordering::Relaxed) == StatusCode::PROCESSING.as_u16() {
                return Poll::Ready(Ok(Reply::Processing));
            }
            match reply.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Ok(response)) => Poll::Ready(Ok(Reply::Response(response))),
                Poll::Ready(Err(error)) => Poll::Ready(Err(Some(error))),
                Poll::Pending if self.is_over => Poll::Ready(Err(None)),
                Poll::Pending => Poll::Pending,
            }
        });
        match reply.await {
            Ok(reply) => Ok((self, reply)),
            Err(Some(error)) => {
                let was_sent = error.message().is_none() && self.has_begun.load(Ordering::Relaxed);
                Err(Unanswered { error: Some(error.into_error()), is_unsent: !was_sent })
            }
            Err(None) => Err(Unanswered { error: None, is_unsent: false }),
        }
    }

    /// Adds to `body` what has come of it. Ready with whether it is complete; if it is not, it
    /// broke off or is too large.
    pub(super) fn poll_body(
        &mut self,
        incoming: &mut Incoming,
        body: &mut Gathered,
        context: &mut Context<'_>,
    ) -> Poll<bool> {
        let mut is_driven = false;
        loop {
            let mut quiet = Context::from_waker(Waker::noop());
            match Pin::new(&mut *incoming).poll_frame(&mut quiet) {
                Poll::Ready(None) => return Poll::Ready(true),
                Poll::Ready(Some(Err(_))) => return Poll::Ready(false),
                Poll::Ready(Some(Ok(frame))) => {
                    // What is no data are trailers, in which nothing is looked for.
                    if frame.into_data().is_ok_and(|bytes| !body.add(bytes)) {
                        return Poll::Ready(false);
                    }
                    is_driven = false;
                }
                Poll::Pending if is_driven && self.is_over => return Poll::Ready(false),
                Poll::Pending if is_driven => return Poll::Pending,
                Poll::Pending => {
                    self.drive(context);
                    is_driven = true;
                }
            }
        }
    }

    fn drive(&mut self, context: &mut Context<'_>) {
        if !self.is_over {
            self.is_over = Pin::new(&mut self.connection).poll(context).is_ready();
        }
    }
}

/// As much of a body as is kept. Most come in one piece, which is not copied.
#[derive(Default)]
pub(super) struct Gathered {
    first: Bytes,
    all: BytesMut,
}

impl Gathered {
    /// Adds bytes; `false` = they were too many, and only the first of them are kept.
    fn add(&mut self, mut bytes: Bytes) -> bool {
        let room = ANSWER_BYTES_MAX - self.first.len().max(self.all.len());
        let fits = bytes.len() <= room;
        bytes.truncate(room);
        if self.first.is_empty() && self.all.is_empty() {
            self.first = bytes;
        } else {
            self.all.extend_from_slice(&std::mem::take(&mut self.first));
            self.all.extend_from_slice(&bytes);
        }
        fits
    }

    /// The bytes.
    pub(super) fn into_bytes(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.freeze() }
    }
}
