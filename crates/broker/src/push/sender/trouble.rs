//! Why there is no answer, worded for the owner of the endpoint. Endpoints are named without user,
//! password and query, which are secrets.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use domain::push::{Class, Endpoint};

use super::connection::Unanswered;
use super::head::BadHead;
use super::resolve::NoAddress;
use crate::push::exchange::NoAnswer;

/// What an endpoint was too slow with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    /// Connecting.
    Connect,
    /// Receiving the request, or answering it.
    Answer(SocketAddr),
}

/// The endpoint's time is over.
pub(super) fn timeout(endpoint: &Endpoint, stage: Stage, timeout: Duration) -> NoAnswer {
    let shown = endpoint.shown();
    let (message, address) = match stage {
        Stage::Connect => (format!("no connection to {shown} within {timeout:?}"), None),
        Stage::Answer(address) => {
            (format!("no answer from {shown} within {timeout:?}"), Some(address))
        }
    };
    no_answer(Class::Timeout, message, address)
}

/// The host's name cannot be resolved.
pub(super) fn no_address(endpoint: &Endpoint, why: &NoAddress, timeout: Duration) -> NoAnswer {
    let host = endpoint.host();
    match why {
        NoAddress::Unknown(problem) => {
            let message = format!("no address found for the host {host}: {problem}");
            no_answer(Class::Dns, message, None)
        }
        NoAddress::Late => {
            let message = format!("the address of {host} was not found within {timeout:?}");
            no_answer(Class::Timeout, message, None)
        }
        NoAddress::Throttled => {
            ours(format!("did not look up {host}: too many lookups are in progress"))
        }
    }
}

/// Other connects used up the limit the whole time.
pub(super) fn throttled(endpoint: &Endpoint) -> NoAnswer {
    let host = endpoint.host();
    ours(format!("did not connect to {host}: too many other connection attempts are stuck"))
}

/// All sockets were in use the whole time.
pub(super) fn crowded(endpoint: &Endpoint) -> NoAnswer {
    let host = endpoint.host();
    ours(format!("did not connect to {host}: all sockets for pushing are in use"))
}

/// The system gives no socket.
pub(super) fn no_socket(endpoint: &Endpoint, error: &io::Error) -> NoAnswer {
    ours(format!("did not connect to {}: {error}", endpoint.host()))
}

/// The guard refuses.
pub(super) fn blocked(problem: String) -> NoAnswer {
    no_answer(Class::Blocked, problem, None)
}

/// No connection could be made to any of `addresses`.
pub(super) fn connect(endpoint: &Endpoint, addresses: &[SocketAddr], problem: &str) -> NoAnswer {
    let message = format!("cannot connect to {}: {problem}", endpoint.shown());
    no_answer(Class::Connect, message, addresses.first().copied())
}

/// No TLS session could be established.
pub(super) fn tls(endpoint: &Endpoint, address: SocketAddr, problem: &str) -> NoAnswer {
    let message = format!("no TLS session with {}: {problem}", endpoint.shown());
    no_answer(Class::Tls, message, Some(address))
}

/// The connection ended before an answer, or what came is not HTTP.
pub(super) fn protocol(endpoint: &Endpoint, address: SocketAddr, why: &Unanswered) -> NoAnswer {
    let shown = endpoint.shown();
    let message = match why {
        Unanswered::BadHead(BadHead::TooLarge) => {
            format!(
                "the response head of {shown} is too large: at most 64 KiB and 100 headers are \
                 allowed"
            )
        }
        Unanswered::BadHead(BadHead::OnlyInterim) => {
            format!("{shown} kept sending interim responses (1xx) and no final one")
        }
        Unanswered::BadHead(BadHead::NotHttp(problem)) => {
            format!("the response of {shown} is not HTTP/1.1: {problem}")
        }
        Unanswered::Broken(error) => {
            format!("the connection to {shown} broke before an answer: {error}")
        }
        Unanswered::Closed | Unanswered::Unsent | Unanswered::Late => {
            format!("{shown} closed the connection before it answered")
        }
    };
    no_answer(Class::Protocol, message, Some(address))
}

fn no_answer(class: Class, message: String, address: Option<SocketAddr>) -> NoAnswer {
    NoAnswer { class, message: message.into(), address, is_ours: false }
}

/// Our limits are to blame.
fn ours(message: String) -> NoAnswer {
    NoAnswer { is_ours: true, ..no_answer(Class::Connect, message, None) }
}
