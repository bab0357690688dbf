//! Connections, plain or with TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

/// How long opening a connection may take, name and TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a connection without traffic is asked whether it is still there, and how long it may
/// take to say so: a peer that vanished is noticed, and the next call opens another.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// A host, and whether TLS is spoken to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    /// `host:port`.
    pub authority: String,
    /// Whether with TLS, checked against the roots that browsers trust.
    pub is_secure: bool,
}

impl Connect {
    /// Without TLS, as emulators speak.
    pub fn plain(authority: &str) -> Self {
        Self { authority: authority.to_owned(), is_secure: false }
    }

    /// With TLS.
    pub fn secure(host: &str) -> Self {
        Self { authority: format!("{host}:443"), is_secure: true }
    }

    /// Of an address such as `https://oauth2.googleapis.com/token`; `None` = it is none.
    pub(crate) fn of(uri: &Uri) -> Option<Self> {
        let is_secure = match uri.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        Some(Self { authority: format!("{}:{port}", uri.host()?), is_secure })
    }

    fn host(&self) -> &str {
        let host = self.authority.rsplit_once(':').map_or(&*self.authority, |(host, _)| host);
        // An IPv6 address has brackets in an address, but not as a name.
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Opens a connection that speaks `protocol`.
    pub(crate) async fn open(&self, protocol: &'static [u8]) -> io::Result<Stream> {
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, self.open_slowly(protocol)).await;
        opened.unwrap_or_else(|_| {
            let problem = format!("{}: no connection within {CONNECT_TIMEOUT:?}", self.authority);
            Err(io::Error::new(io::ErrorKind::TimedOut, problem))
        })
    }

    async fn open_slowly(&self, protocol: &'static [u8]) -> io::Result<Stream> {
        let about =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", self.authority));
        let stream = TcpStream::connect(&self.authority).await.map_err(about)?;
        stream.set_nodelay(true)?;
        if !self.is_secure {
            return Ok(Stream::Plain(stream));
        }
        let name = ServerName::try_from(self.host().to_owned()).map_err(io::Error::other)?;
        let stream = tls(protocol)?.connect(name, stream).await.map_err(about)?;
        Ok(Stream::Secure(Box::new(stream)))
    }
}

fn tls(protocol: &'static [u8]) -> io::Result<TlsConnector> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// A gRPC channel that connects when it is first used, and again whenever that is needed. An
/// error says that the authority is none.
pub fn channel(connect: &Connect) -> Result<Channel, tonic::transport::Error> {
    let authority = &connect.authority;
    let scheme = if connect.is_secure { "https" } else { "http" };
    // The transport opens what it takes for a plain connection; TLS is inside of it.
    let endpoint = Endpoint::from_shared(format!("http://{authority}"))?
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEP_ALIVE_EVERY)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(false);
    let origin = Endpoint::from_shared(format!("{scheme}://{authority}"))?.uri().clone();
    let connect = connect.clone();
    let connector = service_fn(move |_: Uri| {
        let connect = connect.clone();
        async move { connect.open(b"h2").await.map(TokioIo::new) }
    });
    Ok(endpoint.origin(origin).connect_with_connector_lazy(connector))
}

/// A connection.
pub(crate) enum Stream {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, into),
            Self::Secure(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Secure(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Secure(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Secure(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_say_where_to_connect_and_whether_with_tls() {
        for (address, authority, is_secure) in [
            ("https://oauth2.googleapis.com/token", "oauth2.googleapis.com:443", true),
            ("http://metadata/x", "metadata:80", false),
            ("http://127.0.0.1:9/x", "127.0.0.1:9", false),
        ] {
            let expected = Connect { authority: authority.to_owned(), is_secure };
            assert_eq!(Connect::of(&address.parse().unwrap()), Some(expected));
        }
        assert_eq!(Connect::of(&"ftp://x/".parse().unwrap()), None);
        assert_eq!(Connect::secure("firestore.googleapis.com").host(), "firestore.googleapis.com");
        let six = Connect::of(&"https://[::1]/x".parse().unwrap()).unwrap();
        assert_eq!((six.authority.as_str(), six.host()), ("[::1]:443", "::1"));
    }
}
