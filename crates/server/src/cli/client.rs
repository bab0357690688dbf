//! A running server, asked over REST.

use std::time::Duration;

use broker::{Clock, SystemClock};
use bytes::Bytes;
use clap::Args;
use domain::{Moment, Timestamp};
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use super::Failure;
use super::names::Name;

/// How long the server may take for one answer: longer than it may make a caller wait for news.
const TIMEOUT: Duration = Duration::from_secs(45);

/// Bytes of an answer, at most: the longest message there is, as JSON, and room around it.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The variable of the official clients that names a server, as `host:port`.
const EMULATOR_VARIABLE: &str = "PUBSUB_EMULATOR_HOST";

const LOCAL: &str = "http://127.0.0.1:8085";

/// Which server to ask, about which project, and how to show the answer.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct At {
    /// The server [default: PUBSUB_EMULATOR_HOST, else http://127.0.0.1:8085]
    #[arg(
        long,
        value_name = "URL",
        env = "POSTRIDER_SERVER",
        hide_env_values = true,
        global = true
    )]
    pub(super) server: Option<String>,
    /// The project for names given without one
    #[arg(long, env = "POSTRIDER_PROJECT", hide_env_values = true, global = true)]
    pub(super) project: Option<String>,
    /// Print JSON; errors, warnings and notes are then lines of JSON on standard error
    #[arg(long, global = true)]
    pub(super) json: bool,
}

impl At {
    /// The server's `host:port`.
    fn host(&self) -> Result<String, Failure> {
        let given = self.server.as_deref().filter(|server| !server.is_empty());
        if let Some(server) = given {
            return host(server).map(str::to_owned);
        }
        match std::env::var(EMULATOR_VARIABLE) {
            Ok(server) if !server.is_empty() => host(&server).map(str::to_owned),
            _ => host(LOCAL).map(str::to_owned),
        }
    }
}

/// Why a call failed.
#[derive(Debug)]
pub(super) enum Problem {
    /// The server said no.
    Refused {
        code: StatusCode,
        /// What it said; `None` if it was nothing in the form of Google's errors.
        message: Option<String>,
    },
    /// There was no connection.
    Unreachable(String),
    /// The connection broke, or the answer ended early.
    Broken(String),
    /// There was no answer in time.
    Late,
}

/// What a path that is not Google's belongs to, which tells how to read that it is not found.
#[derive(Clone, Copy)]
pub(super) enum Ours<'name> {
    /// A resource: if that exists, the server does not know the path.
    Of(&'name Name),
    /// The whole server: only a server that does not know the path does not find it.
    Whole,
    /// One thing among several, which may well be missing.
    Item,
}

/// Calls on one server, each on its own connection.
pub(super) struct Client {
    host: String,
    runtime: Runtime,
    clock: SystemClock,
}

impl Client {
    pub(super) fn new(at: &At) -> Result<Self, Failure> {
        let host = at.host()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
        Ok(Self { host, runtime, clock: SystemClock::start() })
    }

    /// Runs something of the caller's own beside its calls.
    pub(super) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// The server's `host:port`.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn get(&self, path: &str) -> Result<Value, Failure> {
        self.call(Method::GET, path, None).map_err(|problem| self.failure(problem))
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.call(Method::POST, path, Some(body)).map_err(|problem| self.failure(problem))
    }

    pub(super) fn put(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.call(Method::PUT, path, Some(body)).map_err(|problem| self.failure(problem))
    }

    pub(super) fn patch(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.call(Method::PATCH, path, Some(body)).map_err(|problem| self.failure(problem))
    }

    pub(super) fn delete(&self, path: &str) -> Result<Value, Failure> {
        self.call(Method::DELETE, path, None).map_err(|problem| self.failure(problem))
    }

    /// Reads a path that only Postrider has; `what` names what it is about.
    pub(super) fn get_ours(&self, what: &str, of: Ours<'_>, path: &str) -> Result<Value, Failure> {
        let answer = self.call(Method::GET, path, None);
        answer.map_err(|problem| self.explain(what, of, problem))
    }

    /// Does something that only Postrider can; `what` names what it is about.
    pub(super) fn post_ours(
        &self,
        what: &str,
        of: Ours<'_>,
        path: &str,
        body: &Value,
    ) -> Result<Value, Failure> {
        let answer = self.call(Method::POST, path, Some(body));
        answer.map_err(|problem| self.explain(what, of, problem))
    }

    /// The things under `field` of all pages, up to `limit`. `page` gives the path of a page that
    /// has so many things at most and is behind a token; the first token is empty.
    pub(super) fn pages(
        &self,
        field: &str,
        limit: usize,
        page: impl Fn(&Self, usize, &str) -> Result<Value, Failure>,
    ) -> Result<Vec<Value>, Failure> {
        let mut found: Vec<Value> = Vec::new();
        let mut token = String::new();
        while found.len() < limit {
            let page = page(self, limit - found.len(), &token)?;
            found.extend(page[field].as_array().cloned().unwrap_or_default());
            match page["nextPageToken"].as_str() {
                Some(next) if !next.is_empty() => next.clone_into(&mut token),
                _ => break,
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// One call; what went wrong can be told apart.
    pub(super) fn call(
        &self,
        verb: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Problem> {
        self.call_within(TIMEOUT, verb, path, body)
    }

    /// One call that may take longer than others, or not so long.
    pub(super) fn call_within(
        &self,
        time: Duration,
        verb: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Problem> {
        let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let asked = self.runtime.block_on(async {
            tokio::time::timeout(time, request(&self.host, verb, path, body)).await
        });
        let (code, body) = asked.map_err(|_| Problem::Late)??;
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        if code == StatusCode::OK {
            return Ok(answer);
        }
        let message = answer.pointer("/error/message").and_then(Value::as_str).map(str::to_owned);
        Err(Problem::Refused { code, message })
    }

    /// What to tell about a call that went wrong.
    pub(super) fn failure(&self, problem: Problem) -> Failure {
        let host = &self.host;
        match problem {
            Problem::Refused { code, message } => {
                let said = message.unwrap_or_else(|| format!("answered {code}"));
                let failure = format!("{host}: {said}");
                if code == StatusCode::NOT_FOUND {
                    Failure::not_found(failure)
                } else {
                    Failure::failed(failure)
                }
            }
            Problem::Unreachable(error) => Failure::unreachable(format!(
                "cannot reach {host}: {error}; is it running there (postrider serve), or somewhere \
                 else (--server)?"
            )),
            Problem::Broken(error) => Failure::unreachable(format!("{host}: {error}")),
            Problem::Late => Failure::unreachable(format!("{host}: did not answer in time")),
        }
    }

    fn explain(&self, what: &str, of: Ours<'_>, problem: Problem) -> Failure {
        let is_unknown = match &problem {
            Problem::Refused { code: StatusCode::NOT_FOUND, message } => match of {
                Ours::Of(name) => self.call(Method::GET, &name.path(), None).is_ok(),
                Ours::Whole => true,
                Ours::Item => message.is_none(),
            },
            _ => false,
        };
        if !is_unknown {
            return self.failure(problem);
        }
        Failure::failed(format!(
            "{}: this server does not know {what}; is it Postrider?",
            self.host
        ))
    }

    /// Waits.
    pub(super) fn sleep(&self, time: Duration) {
        // The sleep must be made where the runtime is.
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }

    /// The time on the wall clock.
    pub(super) fn wall(&self) -> Timestamp {
        self.clock.wall()
    }

    /// The time since this client was made.
    pub(super) fn now(&self) -> Moment {
        self.clock.now()
    }
}

/// The host and port of `http://host:port`; the scheme may be left out.
fn host(server: &str) -> Result<&str, Failure> {
    if server.starts_with("https://") {
        let problem = format!("{server:?}: only http:// is supported; use a proxy for TLS");
        return Err(Failure::usage(problem));
    }
    let host = server.strip_prefix("http://").unwrap_or(server).trim_end_matches('/');
    if host.is_empty() || host.contains('/') || !host.contains(':') {
        let problem = format!("{server:?} is not a server such as {LOCAL}");
        return Err(Failure::usage(problem));
    }
    Ok(host)
}

/// Text as it stands in the query of an address.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// A query of those parameters that are not empty, with its question mark.
pub(super) fn query(parameters: &[(&str, &str)]) -> String {
    let mut query = String::new();
    for (name, value) in parameters.iter().filter(|(_, value)| !value.is_empty()) {
        query.push(if query.is_empty() { '?' } else { '&' });
        query.push_str(&format!("{name}={}", encode(value)));
    }
    query
}

fn broken(error: impl std::fmt::Display) -> Problem {
    Problem::Broken(error.to_string())
}

async fn request(
    host: &str,
    verb: Method,
    path: &str,
    body: Bytes,
) -> Result<(StatusCode, Bytes), Problem> {
    let stream = TcpStream::connect(host).await;
    let stream = stream.map_err(|error| Problem::Unreachable(error.to_string()))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let request = Request::builder().method(verb).uri(path).header(header::HOST, host);
    let request = request.header(header::CONTENT_TYPE, "application/json");
    let request = request.body(Full::new(body)).map_err(broken)?;
    let answered = async {
        let response = sender.send_request(request).await.map_err(broken)?;
        let code = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        Ok((code, body.map_err(broken)?.to_bytes()))
    };
    let mut connection = std::pin::pin!(connection);
    let mut answered = std::pin::pin!(answered);
    tokio::select! {
        answer = &mut answered => answer,
        // The whole answer may have come with the end of the connection.
        ended = &mut connection => match ended {
            Ok(()) => answered.await,
            Err(error) => Err(broken(error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_given_with_or_without_scheme() {
        for good in ["http://127.0.0.1:8085", "http://127.0.0.1:8085/", "127.0.0.1:8085"] {
            assert_eq!(host(good).ok(), Some("127.0.0.1:8085"), "{good}");
        }
        for bad in ["", "http://", "https://x:1", "localhost", "http://x:1/path"] {
            assert!(host(bad).is_err(), "{bad}");
        }
        let at = At { server: Some("10.0.0.7:1".to_owned()), ..At::default() };
        assert_eq!(at.host().ok().as_deref(), Some("10.0.0.7:1"));
    }

    #[test]
    fn queries_hold_what_is_given_and_nothing_else() {
        assert_eq!(query(&[("a", ""), ("b", "")]), "");
        assert_eq!(query(&[("a", ""), ("b", "1"), ("c", "x y&z=ä")]), "?b=1&c=x%20y%26z%3D%C3%A4");
    }

    #[test]
    fn failures_tell_what_kind_they_are() {
        let at = At { server: Some("127.0.0.1:1".to_owned()), ..At::default() };
        let client = Client::new(&at).ok().unwrap();
        let refused = |code, message: Option<&str>| {
            client.failure(Problem::Refused { code, message: message.map(str::to_owned) })
        };
        let missing = refused(StatusCode::NOT_FOUND, Some("topic t not found"));
        assert_eq!((missing.code, &*missing.problem), (3, "127.0.0.1:1: topic t not found"));
        let refused = refused(StatusCode::BAD_REQUEST, None);
        assert_eq!((refused.code, &*refused.problem), (1, "127.0.0.1:1: answered 400 Bad Request"));
        let away = client.get("/").err().unwrap();
        assert_eq!(away.code, 4);
        assert!(away.problem.contains("postrider serve"), "{}", away.problem);
    }
}
