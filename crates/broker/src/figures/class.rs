//! What attempts to push come to.

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
