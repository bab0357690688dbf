//! Opening a connection: name, guard, socket slot, permit, TCP, TLS, in this order.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clock::Clock;
use domain::Moment;
use domain::push::Endpoint;
use futures::future::{Either, select};
use futures::stream::{FuturesUnordered, StreamExt};
use http::HeaderValue;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::allowance::{Allowance, within};
use super::connection::Connection;
use super::permits::Permits;
use super::pool::Pool;
use super::resolve::{Lookup, Resolver};
use super::sockets::{SocketSlot, Sockets, are_used_up};
use super::stream::{Socket, Stream};
use super::trouble::{self, Stage};
use super::{SenderError, SenderOptions};
use crate::push::exchange::NoAnswer;
use crate::push::guard::Guard;

/// Maximum number of addresses of one host that are tried.
const TRIES_MAX: usize = 8;
/// How long a try may take before the next address is tried in parallel.
const TRY_TIME: Duration = Duration::from_millis(250);
/// How often to log, at most, that the system has no more sockets.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Opens connections.
pub(super) struct Connector {
    resolver: Resolver,
    guard: Guard,
    permits: Permits,
    sockets: Arc<Sockets>,
    /// Its connections make room for new ones.
    pool: Arc<Pool>,
    tls: TlsConnector,
    connect_timeout: Duration,
    clock: Arc<dyn Clock>,
    /// When the lack of sockets was last logged, plus 1; 0 = never.
    logged: AtomicU64,
}

/// Why no connection was made.
enum Unconnected {
    /// It is the endpoint's fault, as text.
    Refused(String),
    /// The system gives this process no more sockets.
    NoSocket(io::Error),
}

impl Connector {
    pub(super) fn new(
        options: &SenderOptions,
        lookup: Arc<dyn Lookup>,
        (sockets, pool): (Arc<Sockets>, Arc<Pool>),
        clock: Arc<dyn Clock>,
    ) -> Result<Self, SenderError> {
        Ok(Self {
            resolver: Resolver::new(lookup, Arc::clone(&clock)),
            guard: options.guard.clone(),
            permits: Permits::new(options.connects_max, options.connects_per_host_max),
            sockets,
            pool,
            tls: tls(options.ca_file.as_deref())?,
            connect_timeout: options.connect_timeout,
            clock,
            logged: AtomicU64::new(0),
        })
    }

    /// A fresh connection to the endpoint's host.
    pub(super) async fn open(
        &self,
        endpoint: &Endpoint,
        allowance: &mut Allowance<'_>,
    ) -> Result<Box<Connection>, NoAnswer> {
        let (host, timeout) = (endpoint.host(), allowance.timeout());
        let addresses = self.vetted(endpoint, allowance).await?;
        let place = allowance.wait(self.sockets.take(|| self.pool.make_room())).await.flatten();
        let place = place.ok_or_else(|| trouble::crowded(endpoint))?;
        let permit = allowance.wait(self.permits.acquire(host)).await;
        let permit = permit.ok_or_else(|| trouble::throttled(endpoint))?;
        let opened = allowance.spend(self.connect(endpoint, &addresses, place)).await;
        match &opened {
            // We learned nothing about the host.
            Some(Err(none)) if none.is_ours => drop(permit),
            opened => permit.note(matches!(opened, Some(Ok(_)))),
        }
        opened.unwrap_or_else(|| Err(trouble::timeout(endpoint, Stage::Connect, timeout)))
    }

    /// The addresses of the endpoint's host, if all of them may be connected to.
    pub(super) async fn vetted(
        &self,
        endpoint: &Endpoint,
        allowance: &mut Allowance<'_>,
    ) -> Result<Vec<SocketAddr>, NoAnswer> {
        let (host, timeout) = (endpoint.host(), allowance.timeout());
        let found = self.resolver.addresses(host, allowance).await;
        let found = found.map_err(|why| trouble::no_address(endpoint, &why, timeout))?;
        let addresses: Vec<SocketAddr> =
            found.iter().map(|address| SocketAddr::new(*address, endpoint.port())).collect();
        self.guard.vet(host, &addresses).map_err(trouble::blocked)?;
        Ok(addresses)
    }

    async fn connect(
        &self,
        endpoint: &Endpoint,
        addresses: &[SocketAddr],
        place: SocketSlot,
    ) -> Result<Box<Connection>, NoAnswer> {
        // One limit for TCP and TLS together: that is how long a permit is held.
        let until = self.clock.now().plus(self.connect_timeout);
        let (socket, address) = self.reach(endpoint, addresses, place, until).await?;
        let stream = self.secure(endpoint, socket, address, until).await?;
        let host = host_header(endpoint);
        let host = host.map_err(|problem| trouble::connect(endpoint, addresses, &problem))?;
        Ok(Box::new(Connection::new(stream, address, host)))
    }

    async fn reach(
        &self,
        endpoint: &Endpoint,
        addresses: &[SocketAddr],
        place: SocketSlot,
        until: Moment,
    ) -> Result<(Socket, SocketAddr), NoAnswer> {
        match within(&*self.clock, until, self.connect_any(addresses, place)).await {
            Some(Ok(connected)) => Ok(connected),
            Some(Err(Unconnected::Refused(problem))) => {
                Err(trouble::connect(endpoint, addresses, &problem))
            }
            Some(Err(Unconnected::NoSocket(error))) => {
                self.pool.make_room();
                self.log_no_socket(&error);
                Err(trouble::no_socket(endpoint, &error))
            }
            None => {
                let problem = format!("nothing answered within {:?}", self.connect_timeout);
                Err(trouble::connect(endpoint, addresses, &problem))
            }
        }
    }

    /// Tries one address after the other. One that refuses is skipped at once, one that stays
    /// silent after a moment, and the first connection wins. A parallel try needs its own socket
    /// slot, and is not started if none is free.
    async fn connect_any(
        &self,
        addresses: &[SocketAddr],
        place: SocketSlot,
    ) -> Result<(Socket, SocketAddr), Unconnected> {
        let mut addresses = addresses.iter().copied().take(TRIES_MAX).peekable();
        let mut tries = FuturesUnordered::new();
        let mut problem = "it has no address".to_owned();
        let mut place = Some(place);
        loop {
            if addresses.peek().is_some()
                && let Some(place) = place.take().or_else(|| self.sockets.try_take())
            {
                tries.extend(addresses.next().map(|address| connect(address, place)));
            }
            let pause = match addresses.peek() {
                Some(_) => self.clock.sleep_until(self.clock.now().plus(TRY_TIME)),
                None => Box::pin(std::future::pending()),
            };
            match select(tries.next(), pause).await {
                Either::Left((Some(Ok(connected)), _)) => return Ok(connected),
                Either::Left((Some(Err(failed)), _)) => {
                    if are_used_up(&failed.error) {
                        return Err(Unconnected::NoSocket(failed.error));
                    }
                    problem = format!("{}: {}", failed.address, failed.error);
                    place = Some(failed.place);
                }
                Either::Left((None, _)) => return Err(Unconnected::Refused(problem)),
                Either::Right(_) => {}
            }
        }
    }

    /// Logs it, but not for every connect.
    fn log_no_socket(&self, error: &io::Error) {
        let now = self.clock.now().0;
        let logged = self.logged.load(Ordering::Relaxed);
        let every = u64::try_from(LOG_EVERY.as_micros()).unwrap_or(u64::MAX);
        if logged == 0 || now.saturating_sub(logged - 1) >= every {
            self.logged.store(now + 1, Ordering::Relaxed);
            tracing::warn!(%error, "pushes are waiting: the system is out of sockets");
        }
    }

    async fn secure(
        &self,
        endpoint: &Endpoint,
        socket: Socket,
        address: SocketAddr,
        until: Moment,
    ) -> Result<Stream, NoAnswer> {
        if !endpoint.is_secure() {
            return Ok(Stream::Plain(socket));
        }
        let failed = |problem: &str| trouble::tls(endpoint, address, problem);
        let name = ServerName::try_from(endpoint.host().to_owned());
        let name = name.map_err(|error| failed(&error.to_string()))?;
        match within(&*self.clock, until, self.tls.connect(name, socket)).await {
            Some(Ok(stream)) => Ok(Stream::Secure(Box::new(stream))),
            Some(Err(error)) => Err(failed(&error.to_string())),
            None => {
                let waited = self.connect_timeout;
                Err(failed(&format!("the handshake took longer than {waited:?}")))
            }
        }
    }

    #[cfg(test)]
    pub(super) fn hosts_with_connects(&self) -> usize {
        self.permits.hosts()
    }

    #[cfg(test)]
    pub(super) fn sockets_free(&self) -> usize {
        self.sockets.free()
    }
}

/// A try that failed, with the socket slot for the next one.
struct Failed {
    address: SocketAddr,
    error: io::Error,
    place: SocketSlot,
}

async fn connect(address: SocketAddr, place: SocketSlot) -> Result<(Socket, SocketAddr), Failed> {
    let connected = async {
        let stream = TcpStream::connect(address).await?;
        // A request is written at once, and must not wait for the ack of the previous one.
        stream.set_nodelay(true)?;
        io::Result::Ok(stream)
    };
    match connected.await {
        Ok(stream) => Ok((Socket::new(stream, place), address)),
        Err(error) => Err(Failed { address, error, place }),
    }
}

fn host_header(endpoint: &Endpoint) -> Result<HeaderValue, String> {
    let host = endpoint.uri().host().unwrap_or_default();
    let port = endpoint.port();
    let is_usual = port == if endpoint.is_secure() { 443 } else { 80 };
    let text = if is_usual { host.to_owned() } else { format!("{host}:{port}") };
    HeaderValue::try_from(text).map_err(|error| format!("its host is not a valid header: {error}"))
}

fn tls(ca_file: Option<&Path>) -> Result<TlsConnector, SenderError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = ca_file {
        add_roots(&mut roots, path)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn add_roots(roots: &mut RootCertStore, path: &Path) -> Result<(), SenderError> {
    let shown = || PathBuf::from(path);
    let file = File::open(path).map_err(|source| SenderError::CaFile { path: shown(), source })?;
    let mut count = 0;
    for certificate in CertificateDer::pem_reader_iter(file) {
        let certificate = certificate.map_err(|error| match error {
            pem::Error::Io(source) => SenderError::CaFile { path: shown(), source },
            source => SenderError::CaPem { path: shown(), source },
        })?;
        let added = roots.add(certificate);
        added.map_err(|source| SenderError::CaCertificate { path: shown(), source })?;
        count += 1;
    }
    if count == 0 {
        return Err(SenderError::CaEmpty { path: shown() });
    }
    Ok(())
}
