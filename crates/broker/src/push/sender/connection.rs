//! One kept connection: a request goes out, its answer comes back, then the next.
//!
//! HTTP/1.1 and as little of it as a push needs. Nothing runs besides the request: whoever waits
//! for the answer drives the connection. Never HTTP/2: one request is in flight on a connection, so
//! that receivers see each endpoint's requests in the order they were sent.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use clock::Clock;
use domain::Moment;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWrite};

use super::body::{Body, Reading};
use super::head::{self, BadHead, HEAD_BYTES_MAX, Head};
use super::outgoing::Outgoing;
use super::stream::Stream;
use crate::push::exchange::{Answer, Request};

/// How long to read the body of an answer: the status has already decided.
const BODY_TIME_MAX: Duration = Duration::from_secs(1);

/// Maximum number of interim answers (1xx) to one request: each costs a look at its head, and an
/// endpoint could send them for as long as it has time.
const INTERIM_MAX: u32 = 16;

/// Bytes per read; a connection keeps a buffer of this size. Most answers are smaller.
const READ_BYTES: usize = 1024;
/// Bytes per read for answers that turn out to be large.
const READ_BYTES_MAX: usize = 16 * 1024;

/// An open connection.
pub(super) struct Connection {
    stream: Stream,
    address: SocketAddr,
    host: HeaderValue,
    is_used: bool,
    /// Whether a byte has gone out since the last request was built; see `Socket`.
    has_begun: Arc<AtomicBool>,
    outgoing: Outgoing,
    is_sent: bool,
    /// Why no more of the request can go out. There may be an answer anyway.
    stopped: Option<io::Error>,
    read: BytesMut,
    /// How much of an incomplete head was examined.
    looked_at: usize,
    /// Interim answers to the current request.
    interim: u32,
    phase: Phase,
    /// Kept from one request to the next: it may fire too early, and is only reset then.
    timer: Option<(Moment, BoxFuture<'static, ()>)>,
}

#[expect(
    clippy::large_enum_variant,
    reason = "a connection is boxed as a whole, and each answer is a body"
)]
enum Phase {
    /// Between two requests.
    Ready,
    Head,
    Body(Begun),
    /// Nothing can be sent anymore.
    Over,
}

/// An answer whose body is being read.
struct Begun {
    head: Head,
    body: Body,
    until: Option<Moment>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// Not in time.
    Late,
    /// Not a byte of the request went out, because the endpoint had already closed the connection.
    /// Only for connections that were used before.
    Unsent,
    /// The endpoint closed the connection before its answer.
    Closed,
    /// The connection broke.
    Broken(io::Error),
    /// What came is not an answer.
    BadHead(BadHead),
}

impl Connection {
    pub(super) fn new(stream: Stream, address: SocketAddr, host: HeaderValue) -> Self {
        let has_begun = stream.has_begun();
        Self {
            stream,
            address,
            host,
            is_used: false,
            has_begun,
            outgoing: Outgoing::default(),
            is_sent: true,
            stopped: None,
            read: BytesMut::new(),
            looked_at: 0,
            interim: 0,
            phase: Phase::Ready,
            timer: None,
        }
    }

    /// The address it is connected to.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether the last answer was read whole and another request may follow.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready) && self.read.is_empty()
    }

    /// Whether the endpoint has not closed the connection, as far as the runtime knows. Between two
    /// requests nothing should come in.
    pub(super) fn is_open(&mut self) -> bool {
        self.poll_read(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// Takes a request, which goes out when the answer is polled for.
    pub(super) fn begin(&mut self, request: &Request) {
        if self.is_used {
            self.has_begun.store(false, Ordering::Relaxed);
        }
        self.is_used = true;
        self.outgoing = Outgoing::new(request, &self.host);
        self.is_sent = false;
        self.interim = 0;
        self.phase = Phase::Head;
    }

    /// Sends what is left of the request and reads its answer. The status line decides: a body
    /// that stalls, breaks or does not end is cut off.
    pub(super) fn poll_answer(
        &mut self,
        clock: &dyn Clock,
        deadline: Moment,
        context: &mut Context<'_>,
    ) -> Poll<Result<Answer, Unanswered>> {
        if self.stopped.is_none()
            && let Poll::Ready(Err(error)) = self.poll_write(context)
        {
            if !self.has_begun.load(Ordering::Relaxed) {
                return Poll::Ready(Err(Unanswered::Unsent));
            }
            self.stopped = Some(error);
        }
        loop {
            match self.advance() {
                Ok(Some(answer)) => return Poll::Ready(Ok(answer)),
                Ok(None) => {}
                Err(bad) => return Poll::Ready(Err(Unanswered::BadHead(bad))),
            }
            match self.poll_read(context) {
                Poll::Ready(Ok(0)) => return Poll::Ready(self.ended(None)),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(self.ended(Some(error))),
                Poll::Pending => break,
            }
        }
        let until = match &mut self.phase {
            Phase::Body(Begun { until: Some(until), .. }) => *until,
            Phase::Body(Begun { until, .. }) => {
                self.timer = None;
                *until.insert(deadline.min(clock.now().plus(BODY_TIME_MAX)))
            }
            _ => deadline,
        };
        ready!(self.poll_timer(clock, until, context));
        Poll::Ready(self.cut_off().ok_or(Unanswered::Late))
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_sent {
            return Poll::Ready(Ok(()));
        }
        while !self.outgoing.is_sent() {
            let stream = Pin::new(&mut self.stream);
            let count = ready!(match self.outgoing.left() {
                (left, []) => stream.poll_write(context, left),
                (head, body) => {
                    let slices = [IoSlice::new(head), IoSlice::new(body)];
                    stream.poll_write_vectored(context, &slices)
                }
            })?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.outgoing.advance(count);
        }
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        // Free the memory while waiting for the answer.
        self.outgoing = Outgoing::default();
        self.is_sent = true;
        Poll::Ready(Ok(()))
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.read.capacity() - self.read.len() < READ_BYTES / 2 {
            let is_large = self.read.len() >= READ_BYTES / 2;
            self.read.reserve(if is_large { READ_BYTES_MAX } else { READ_BYTES });
        }
        pin!(self.stream.read_buf(&mut self.read)).poll(context)
    }

    /// Parses what was read. Returns the answer once it is complete.
    fn advance(&mut self) -> Result<Option<Answer>, BadHead> {
        while matches!(self.phase, Phase::Head) && self.has_new_line() {
            let Some(head) = head::parse(&self.read)? else {
                self.looked_at = self.read.len();
                return Ok(None);
            };
            self.read.advance(head.bytes);
            self.looked_at = 0;
            if head.status == StatusCode::PROCESSING {
                // The final answer would still come: the connection cannot be reused.
                self.phase = Phase::Over;
                return Ok(Some(self.answer(head.status, HeaderMap::new(), Bytes::new())));
            }
            if head.status.is_informational() && head.status != StatusCode::SWITCHING_PROTOCOLS {
                self.interim += 1;
                if self.interim > INTERIM_MAX {
                    return Err(BadHead::OnlyInterim);
                }
                continue;
            }
            let body = Body::new(head.framing);
            self.phase = Phase::Body(Begun { head, body, until: None });
        }
        let Phase::Body(begun) = &mut self.phase else { return Ok(None) };
        Ok(match begun.body.take(&mut self.read) {
            Reading::On => None,
            Reading::Over => self.cut_off(),
            Reading::Done => {
                let is_kept = begun.head.is_kept && self.is_sent;
                let answer = self.cut_off();
                if is_kept {
                    self.phase = Phase::Ready;
                }
                if self.read.is_empty() && self.read.capacity() > READ_BYTES {
                    self.read = BytesMut::new();
                }
                answer
            }
        })
    }

    /// Whether parsing the head may be worth it: input that drips in byte by byte is not parsed
    /// each time.
    fn has_new_line(&self) -> bool {
        let new = self.read.get(self.looked_at..).unwrap_or_default();
        let is_first = self.looked_at == 0 && !new.is_empty();
        is_first || self.read.len() >= HEAD_BYTES_MAX || new.contains(&b'\n')
    }

    /// The connection is at its end.
    fn ended(&mut self, error: Option<io::Error>) -> Result<Answer, Unanswered> {
        if let Some(answer) = self.cut_off() {
            return Ok(answer);
        }
        let error = self.stopped.take().or(error);
        Err(error.map_or(Unanswered::Closed, Unanswered::Broken))
    }

    /// The answer with as much of its body as there is; `None` if it has not begun. The connection
    /// is no longer usable.
    fn cut_off(&mut self) -> Option<Answer> {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Body(Begun { head, body, .. }) => {
                Some(self.answer(head.status, head.headers, body.into_bytes()))
            }
            _ => None,
        }
    }

    fn answer(&self, status: StatusCode, headers: HeaderMap, body: Bytes) -> Answer {
        Answer { status, headers, body, address: self.address }
    }

    fn poll_timer(
        &mut self,
        clock: &dyn Clock,
        until: Moment,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        loop {
            match &mut self.timer {
                Some((at, timer)) if *at <= until => {
                    ready!(timer.as_mut().poll(context));
                    let is_over = *at == until;
                    self.timer = None;
                    if is_over {
                        return Poll::Ready(());
                    }
                }
                _ => self.timer = Some((until, clock.sleep_until(until))),
            }
        }
    }
}
