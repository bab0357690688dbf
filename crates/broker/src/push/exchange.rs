//! What is sent and what comes back: the types that the parts of push share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::push::{Class, Endpoint};
use http::{HeaderMap, Method, StatusCode};

/// Maximum bytes read of an answer's body.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// One request, ready to go.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) method: Method,
    /// All headers except `host` and `content-length`.
    pub(crate) headers: Arc<HeaderMap>,
    /// Further headers, already formatted as lines.
    pub(crate) lines: Vec<u8>,
    pub(crate) body: Bytes,
    /// The endpoint's time: for resolving its name, the connection, the request and the answer's
    /// status line together. Time spent waiting for our own limits does not count; that wait is
    /// limited to the same time, and to five minutes.
    pub(crate) timeout: Duration,
}

/// What the endpoint answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The first `ANSWER_BYTES_MAX` bytes, or as many of them as came in time.
    pub(crate) body: Bytes,
    /// The address it came from.
    pub(crate) address: SocketAddr,
}

/// Why there is no answer.
#[derive(Clone, Debug)]
pub(crate) struct NoAnswer {
    pub(crate) class: Class,
    /// As text, for the owner of the endpoint.
    pub(crate) message: Arc<str>,
    /// The address that was tried, if it got that far.
    pub(crate) address: Option<SocketAddr>,
    /// Whether our own limits are to blame: too many lookups or connects were in progress, and the
    /// endpoint was never contacted. Then it is not an attempt.
    pub(crate) is_ours: bool,
}
