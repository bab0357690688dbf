//! Why there is no answer, in words for the owner of the endpoint. Endpoints are named without
//! user, password and query, which are secrets.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use domain::push::Endpoint;

use crate::push::exchange::{Class, NoAnswer};

/// How far a request has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Stage {
    /// The host's addresses are looked up.
    #[default]
    Lookup,
    /// Other connects go first.
    Queue,
    /// A connection is made.
    Connect,
    /// The request goes out, or the answer is waited for.
    Answer(SocketAddr),
}

impl Stage {
    fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Answer(address) => Some(address),
            Self::Lookup | Self::Queue | Self::Connect => None,
        }
    }
}

/// The request's time is over.
pub(super) fn timeout(endpoint: &Endpoint, stage: Stage, timeout: Duration) -> NoAnswer {
    let (shown, host) = (endpoint.shown(), endpoint.host());
    let message = match stage {
        Stage::Lookup => format!("the address of {host} was not found within {timeout:?}"),
        Stage::Queue => {
            format!(
                "{timeout:?} were over before {host} could be connected to: other connects hang"
            )
        }
        Stage::Connect => format!("no connection to {shown} within {timeout:?}"),
        Stage::Answer(_) => format!("no answer from {shown} within {timeout:?}"),
    };
    no_answer(Class::Timeout, message, stage.address())
}

/// The host's name leads nowhere.
pub(super) fn dns(endpoint: &Endpoint, problem: &str) -> NoAnswer {
    let host = endpoint.host();
    no_answer(Class::Dns, format!("no address found for the host {host}: {problem}"), None)
}

/// The guard says no.
pub(super) fn blocked(problem: String) -> NoAnswer {
    no_answer(Class::Blocked, problem, None)
}

/// No connection came about, to none of `addresses`.
pub(super) fn connect(endpoint: &Endpoint, addresses: &[SocketAddr], problem: &str) -> NoAnswer {
    let message = format!("cannot connect to {}: {problem}", endpoint.shown());
    no_answer(Class::Connect, message, addresses.first().copied())
}

/// No TLS session came about.
pub(super) fn tls(endpoint: &Endpoint, address: SocketAddr, problem: &str) -> NoAnswer {
    let message = format!("no TLS session with {}: {problem}", endpoint.shown());
    no_answer(Class::Tls, message, Some(address))
}

/// The connection ended before an answer, or what came is no HTTP.
pub(super) fn protocol(
    endpoint: &Endpoint,
    address: SocketAddr,
    error: Option<&hyper::Error>,
) -> NoAnswer {
    let shown = endpoint.shown();
    let message = match error {
        Some(error) if error.is_parse_too_large() => {
            format!(
                "the head of the answer of {shown} is too large: 64 KiB and 100 headers are allowed"
            )
        }
        Some(error) if error.is_parse() => {
            format!("what {shown} answered is not HTTP/1.1: {}", in_words(error))
        }
        Some(error) if !error.is_incomplete_message() => {
            format!("the connection to {shown} broke before an answer: {}", in_words(error))
        }
        Some(_) | None => format!("{shown} closed the connection before it answered"),
    };
    no_answer(Class::Protocol, message, Some(address))
}

fn no_answer(class: Class, message: String, address: Option<SocketAddr>) -> NoAnswer {
    NoAnswer { class, message: message.into(), address }
}

/// The error and what caused it, in one line.
fn in_words(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        words.push_str(": ");
        words.push_str(&error.to_string());
        source = error.source();
    }
    words
}

/// The system's error at the root of an error of hyper's.
pub(super) fn io_error(error: &hyper::Error) -> Option<&io::Error> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error);
        }
        source = error.source();
    }
    None
}
