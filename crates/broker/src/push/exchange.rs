//! What is sent and what comes back: the words that the parts of pushing share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::push::Endpoint;
use http::{HeaderMap, Method, StatusCode};

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

/// What became of an attempt, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    /// It was acked.
    Ok,
    /// No answer in time.
    Timeout,
    /// No connection.
    Connect,
    /// The host's name has no address.
    Dns,
    /// No TLS session.
    Tls,
    /// The address may not be connected to.
    Blocked,
    /// The connection ended before an answer, or what came is no HTTP.
    Protocol,
    /// A status below 200 or of 300 to 399.
    Http3xx,
    /// A status of 400 to 499.
    Http4xx,
    /// A status of 500 and above.
    Http5xx,
    /// The endpoint said itself that trying again is of no use.
    Permanent,
    /// The endpoint said itself that it may work later.
    Transient,
    /// The endpoint said itself that it is not set up rightly.
    Config,
}

impl Class {
    /// Every class.
    pub(crate) const ALL: [Self; 13] = [
        Self::Ok,
        Self::Timeout,
        Self::Connect,
        Self::Dns,
        Self::Tls,
        Self::Blocked,
        Self::Protocol,
        Self::Http3xx,
        Self::Http4xx,
        Self::Http5xx,
        Self::Permanent,
        Self::Transient,
        Self::Config,
    ];

    /// The class of that word.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == word)
    }

    /// The word users see.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Timeout => "timeout",
            Self::Connect => "connect",
            Self::Dns => "dns",
            Self::Tls => "tls",
            Self::Blocked => "blocked",
            Self::Protocol => "protocol",
            Self::Http3xx => "http_3xx",
            Self::Http4xx => "http_4xx",
            Self::Http5xx => "http_5xx",
            Self::Permanent => "permanent",
            Self::Transient => "transient",
            Self::Config => "config",
        }
    }
}
