//! Uses plain sockets as receivers, controlled by the test, and a clock that stands still until the
//! test moves it.

mod answers;
mod connects;
mod peer;
mod reuse;
mod secure;

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use parking_lot::Mutex;
use testkit::FakeClock;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Knows the names it is told, and fails on others as the system does.
#[derive(Default)]
struct Names(Mutex<Vec<(&'static str, Vec<IpAddr>)>>);

impl Lookup for Names {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let found = self.0.lock().iter().find(|(known, _)| *known == name).cloned();
        let found = found.map(|(_, addresses)| addresses);
        Box::pin(async move { found.ok_or_else(|| io::Error::other("name not known")) })
    }
}

struct Fixture {
    sender: Arc<Sender>,
    clock: Arc<FakeClock>,
}

fn options() -> SenderOptions {
    SenderOptions {
        connect_timeout: 5 * SECOND,
        connects_max: 16,
        connects_per_host_max: 4,
        idle_timeout: 60 * SECOND,
        idle_max: 16,
        sockets_max: 64,
        guard: Guard { private_networks: true, ..Guard::default() },
        ca_file: None,
    }
}

impl Fixture {
    fn new() -> Self {
        Self::with(options(), &[])
    }

    fn with(options: SenderOptions, names: &[(&'static str, &[&str])]) -> Self {
        let addresses = |texts: &&[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let names = names.iter().map(|(name, texts)| (*name, addresses(texts))).collect();
        let clock = Arc::new(FakeClock::default());
        let lookup = Arc::new(Names(Mutex::new(names)));
        let sender = Sender::with_lookup(options, lookup, Arc::clone(&clock) as _).unwrap();
        Self { sender: Arc::new(sender), clock }
    }

    async fn send(&self, request: Request) -> Result<Answer, NoAnswer> {
        self.sender.send(request).await
    }

    /// Sends in the background.
    fn start(&self, request: Request) -> JoinHandle<Result<Answer, NoAnswer>> {
        let sender = Arc::clone(&self.sender);
        #[expect(clippy::disallowed_methods, reason = "the test joins it")]
        tokio::spawn(async move { sender.send(request).await })
    }
}

fn request(endpoint: &str) -> Request {
    Request {
        endpoint: Arc::new(Endpoint::parse("endpoint", endpoint).unwrap()),
        method: Method::POST,
        headers: Arc::new(HeaderMap::from_iter([(
            HeaderName::from_static("x-test"),
            HeaderValue::from_static("yes"),
        )])),
        lines: Vec::new(),
        body: Bytes::from_static(b"hello"),
        timeout: 30 * SECOND,
    }
}

fn to(address: SocketAddr) -> Request {
    request(&format!("http://{address}/push"))
}

#[track_caller]
fn assert_class(result: Result<Answer, NoAnswer>, class: Class) -> String {
    let no_answer = result.map(|answer| answer.status).unwrap_err();
    assert_eq!(no_answer.class, class, "{}", no_answer.message);
    no_answer.message.to_string()
}
