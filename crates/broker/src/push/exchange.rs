//! What is sent and what comes back: the words that the parts of pushing share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::push::Endpoint;
use http::{HeaderMap, Method, StatusCode};

pub(crate) use crate::figures::Class;

/// Bytes of an answer's body that are read, at most.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// One request, ready to go.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) method: Method,
    /// All headers but `host` and `content-length`.
    pub(crate) headers: Arc<HeaderMap>,
    /// Further headers, as the lines they are sent as.
    pub(crate) lines: Vec<u8>,
    pub(crate) body: Bytes,
    /// The endpoint's time: for the lookup of its name, the connection, the request and the
    /// answer's status line together. What the request waits for because of our own limits does
    /// not count; that wait is bounded by the same time, and by five minutes.
    pub(crate) timeout: Duration,
}

/// What the endpoint answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The first `ANSWER_BYTES_MAX` bytes, or as much of them as came in time.
    pub(crate) body: Bytes,
    /// The address it came from.
    pub(crate) address: SocketAddr,
}

/// Why there is no answer.
#[derive(Clone, Debug)]
pub(crate) struct NoAnswer {
    pub(crate) class: Class,
    /// In words, for the owner of the endpoint.
    pub(crate) message: Arc<str>,
    /// The address that was tried, if it came so far.
    pub(crate) address: Option<SocketAddr>,
    /// Whether our own limits are to blame: too many lookups or connects were under way, and the
    /// endpoint was never asked. It is no attempt then.
    pub(crate) is_ours: bool,
}
