//! How an attempt to push ended, as one word, and what that says about the endpoint.

/// How an attempt to push ended, as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
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
    /// Connecting to the address is not allowed.
    Blocked,
    /// The connection ended before an answer, or the answer is not HTTP.
    Protocol,
    /// A status below 200 or of 300 to 399.
    Http3xx,
    /// A status of 400 to 499.
    Http4xx,
    /// A status of 500 and above.
    Http5xx,
    /// The endpoint itself said that retrying is useless.
    Permanent,
    /// The endpoint itself said that it may work later.
    Transient,
    /// The endpoint itself said that it is misconfigured.
    Config,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 13] = [
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

    /// The class with this name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == word)
    }

    /// The word users see.
    pub fn as_str(self) -> &'static str {
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

    /// The class of an answer that acks nothing and has nothing but its status.
    pub fn of_status(status: u16) -> Self {
        match status {
            400..=499 => Self::Http4xx,
            500.. => Self::Http5xx,
            _ => Self::Http3xx,
        }
    }

    /// The class that the endpoint itself gave in its answer, case-insensitive.
    pub fn said(word: &[u8]) -> Option<Self> {
        let word = word.trim_ascii();
        [Self::Permanent, Self::Config, Self::Transient]
            .into_iter()
            .find(|class| word.eq_ignore_ascii_case(class.as_str().as_bytes()))
    }

    /// What a failure of this class says about the endpoint; `status` is that of its answer, if
    /// any.
    pub fn health(self, status: Option<u16>) -> Health {
        match self {
            Self::Connect | Self::Dns | Self::Tls | Self::Blocked => Health::Unreachable,
            Self::Timeout | Self::Protocol | Self::Http5xx | Self::Transient => Health::Down,
            Self::Http4xx if status == Some(429) => Health::Down,
            Self::Http3xx | Self::Http4xx | Self::Permanent | Self::Config | Self::Ok => {
                Health::Working
            }
        }
    }
}

/// What a failure says about the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It cannot be reached: no connection, no address, no TLS, or connecting to it is not allowed.
    Unreachable,
    /// It is there but not working: no answer in time, a 5xx, 429, or something that is not HTTP.
    Down,
    /// It works but did not take this message: the message may be bad.
    Working,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_read_as_it_is_shown() {
        for class in Class::ALL {
            assert_eq!(Class::parse(class.as_str()), Some(class));
        }
        for other in ["", "OK", "http_6xx", "nack"] {
            assert_eq!(Class::parse(other), None, "{other:?}");
        }
    }

    #[test]
    fn statuses_have_classes() {
        for (status, class, health) in [
            (100, Class::Http3xx, Health::Working),
            (203, Class::Http3xx, Health::Working),
            (301, Class::Http3xx, Health::Working),
            (399, Class::Http3xx, Health::Working),
            (400, Class::Http4xx, Health::Working),
            (410, Class::Http4xx, Health::Working),
            (429, Class::Http4xx, Health::Down),
            (499, Class::Http4xx, Health::Working),
            (500, Class::Http5xx, Health::Down),
            (503, Class::Http5xx, Health::Down),
            (999, Class::Http5xx, Health::Down),
        ] {
            let found = Class::of_status(status);
            assert_eq!((found, found.health(Some(status))), (class, health), "{status}");
        }
    }

    #[test]
    fn an_endpoint_says_one_of_three_words_or_nothing() {
        for (word, class) in [
            (&b"permanent"[..], Some(Class::Permanent)),
            (b" Config ", Some(Class::Config)),
            (b"TRANSIENT\t", Some(Class::Transient)),
            (b"timeout", None),
            (b"ok", None),
            (b"", None),
            (b"\xff", None),
        ] {
            assert_eq!(Class::said(word), class, "{}", word.escape_ascii());
        }
    }

    #[test]
    fn what_the_endpoint_says_itself_counts_more_than_its_status() {
        for (class, health) in [
            (Class::Permanent, Health::Working),
            (Class::Config, Health::Working),
            (Class::Transient, Health::Down),
        ] {
            for status in [203, 400, 429, 503] {
                assert_eq!(class.health(Some(status)), health, "{class:?} {status}");
            }
        }
    }

    #[test]
    fn without_an_answer_an_endpoint_is_down_or_cannot_be_reached() {
        for (class, health) in [
            (Class::Timeout, Health::Down),
            (Class::Protocol, Health::Down),
            (Class::Connect, Health::Unreachable),
            (Class::Dns, Health::Unreachable),
            (Class::Tls, Health::Unreachable),
            (Class::Blocked, Health::Unreachable),
        ] {
            assert_eq!(class.health(None), health, "{class:?}");
        }
    }
}
