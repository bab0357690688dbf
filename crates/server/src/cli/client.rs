//! A running server, asked over REST.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use broker::{Clock, SystemClock};
use clap::Args;
use domain::{Moment, Timestamp};
use http::{Method, Request, Response, StatusCode, header, request};
use rustls::crypto::aws_lc_rs;
use serde_json::Value;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, AsSendBody, Body};

use super::Failure;
use super::names::Name;

/// How long the server may take for one answer: longer than it may make a caller wait for news.
const TIMEOUT: Duration = Duration::from_secs(45);

/// Bytes of an answer, at most: the longest message there is, as JSON, and room around it.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// The variable of the official clients that names a server, as `host:port`.
const EMULATOR_VARIABLE: &str = "PUBSUB_EMULATOR_HOST";

const LOCAL: &str = "http://127.0.0.1:8085";
const HTTP: &str = "http://";
const HTTPS: &str = "https://";

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
    /// The server's scheme and its `host:port`.
    fn address(&self) -> Result<(&'static str, String), Failure> {
        let given = self.server.as_deref().filter(|server| !server.is_empty());
        if let Some(server) = given {
            return address(server);
        }
        match std::env::var(EMULATOR_VARIABLE) {
            Ok(server) if !server.is_empty() => address(&server),
            _ => address(LOCAL),
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
    scheme: &'static str,
    host: String,
    agent: Agent,
    clock: SystemClock,
}

impl Client {
    pub(super) fn new(at: &At) -> Result<Self, Failure> {
        let (scheme, host) = at.address()?;
        Ok(Self { scheme, host, agent: agent(RootCerts::WebPki), clock: SystemClock::start() })
    }

    /// The server's `host:port`.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// The server's address, with its scheme.
    pub(super) fn url(&self) -> String {
        format!("{}{}", self.scheme, self.host)
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
        let (code, body) = self.ask(time, verb, path, body)?;
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        if code == StatusCode::OK {
            return Ok(answer);
        }
        let message = answer.pointer("/error/message").and_then(Value::as_str).map(str::to_owned);
        Err(Problem::Refused { code, message })
    }

    fn ask(
        &self,
        time: Duration,
        verb: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Vec<u8>), Problem> {
        let request = Request::builder().method(verb).uri(format!("{}{path}", self.url()));
        let request = request.header(header::CONTENT_TYPE, "application/json");
        let mut answer = match body {
            Some(body) => self.run(time, request, body.to_string()),
            None => self.run(time, request, ()),
        }?;
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec()?;
        Ok((answer.status(), body))
    }

    fn run(
        &self,
        time: Duration,
        request: request::Builder,
        body: impl AsSendBody,
    ) -> Result<Response<Body>, ureq::Error> {
        let request = self.agent.configure_request(request.body(body)?);
        self.agent.run(request.timeout_global(Some(time)).build())
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

    /// The time on the wall clock.
    pub(super) fn wall(&self) -> Timestamp {
        self.clock.wall()
    }

    /// The time since this client was made.
    pub(super) fn now(&self) -> Moment {
        self.clock.now()
    }
}

/// The scheme, and the host and port, of `http://host:port`; the scheme may be left out. With
/// `https://`, the port may.
fn address(server: &str) -> Result<(&'static str, String), Failure> {
    let (scheme, host) = match server.strip_prefix(HTTPS) {
        Some(host) => (HTTPS, host),
        None => (HTTP, server.strip_prefix(HTTP).unwrap_or(server)),
    };
    let host = host.trim_end_matches('/');
    if host.is_empty() || host.contains('/') || !(scheme == HTTPS || host.contains(':')) {
        let problem = format!("{server:?} is not a server such as {LOCAL}");
        return Err(Failure::usage(problem));
    }
    Ok((scheme, host.to_owned()))
}

/// Asks as it is told: by no proxy, following no redirect, with a connection for each call.
fn agent(roots: RootCerts) -> Agent {
    let tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
        .root_certs(roots)
        .build();
    Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_idle_connections(0)
        .proxy(None)
        .user_agent("")
        .build()
        .into()
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

impl From<ureq::Error> for Problem {
    fn from(error: ureq::Error) -> Self {
        use ErrorKind::{
            BrokenPipe, ConnectionAborted, ConnectionReset, InvalidData, UnexpectedEof,
        };
        match error {
            ureq::Error::Timeout(_) => Self::Late,
            ureq::Error::Io(error) => match error.kind() {
                // There was a connection, then.
                BrokenPipe | ConnectionAborted | ConnectionReset | InvalidData | UnexpectedEof => {
                    Self::Broken(error.to_string())
                }
                _ => Self::Unreachable(error.to_string()),
            },
            ureq::Error::Http(error) => Self::Broken(error.to_string()),
            error => Self::Broken(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};

    use rustls::pki_types::{CertificateDer, PrivateKeyDer};

    use super::*;

    #[test]
    fn servers_are_given_with_or_without_scheme() {
        for good in ["http://127.0.0.1:8085", "http://127.0.0.1:8085/", "127.0.0.1:8085"] {
            assert_eq!(address(good).ok(), Some((HTTP, "127.0.0.1:8085".to_owned())), "{good}");
        }
        for (good, host) in [("https://x:1", "x:1"), ("https://x/", "x")] {
            assert_eq!(address(good).ok(), Some((HTTPS, host.to_owned())), "{good}");
        }
        for bad in ["", "http://", "https://", "localhost", "http://x:1/path", "https://x/path"] {
            assert!(address(bad).is_err(), "{bad}");
        }
        let at = At { server: Some("10.0.0.7:1".to_owned()), ..At::default() };
        assert_eq!(at.address().ok(), Some((HTTP, "10.0.0.7:1".to_owned())));
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

    /// A server that answers one request so, over TLS with the certificate returned.
    fn tls_server(answer: &'static str) -> (SocketAddr, CertificateDer<'static>) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let session = rustls::ServerConnection::new(Arc::new(config)).unwrap();
            let mut stream = rustls::StreamOwned::new(session, listener.accept().unwrap().0);
            // A client that does not trust the certificate goes away.
            if stream.read(&mut [0; 1_024]).is_ok() {
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        (address, certificate)
    }

    #[test]
    fn a_server_is_asked_over_tls_if_its_certificate_is_trusted() {
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n{\"a\":1}";
        for is_trusted in [true, false] {
            let (address, certificate) = tls_server(answer);
            let server = Some(format!("https://localhost:{}", address.port()));
            let mut client = Client::new(&At { server, ..At::default() }).ok().unwrap();
            if is_trusted {
                let certificate = ureq::tls::Certificate::from_der(&certificate).to_owned();
                client.agent = agent(RootCerts::from([certificate]));
                assert_eq!(client.get("/").ok(), Some(serde_json::json!({"a": 1})));
            } else {
                let refused = client.get("/").err().unwrap();
                assert_eq!(refused.code, 4);
                assert!(refused.problem.contains("certificate"), "{}", refused.problem);
            }
        }
    }

    #[test]
    fn a_server_that_hangs_up_or_says_nothing_is_told_from_one_that_is_away() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Some(listener.local_addr().unwrap().to_string());
        let client = Client::new(&At { server, ..At::default() }).ok().unwrap();
        let short = Duration::from_millis(50);
        let silent = client.call_within(short, Method::GET, "/", None);
        assert!(matches!(silent, Err(Problem::Late)), "{silent:?}");
        drop(listener.accept().unwrap());
        let hangs_up = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert_ne!(stream.read(&mut [0; 1_024]).unwrap(), 0);
        });
        let broken = client.call(Method::GET, "/", None);
        assert!(matches!(broken, Err(Problem::Broken(_))), "{broken:?}");
        hangs_up.join().unwrap();
    }
}
