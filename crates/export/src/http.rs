//! The HTTP client for stores: HTTP/1.1 with the TLS that the rest of the program uses.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::BodyExt;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::legacy::{Client as Pooled, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioIo};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector as StoreConnector, HttpError, HttpErrorKind, HttpRequest,
    HttpRequestBody, HttpResponse, HttpResponseBody, HttpService,
};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tower::Service;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a request and its answer may take: a part of 8 MiB over a slow line.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a connection is kept that nothing is sent on.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Makes HTTP clients that share their connections.
#[derive(Clone)]
pub(crate) struct Http {
    client: Pooled<Connector, HttpRequestBody>,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Http")
    }
}

impl Http {
    /// With `more` roots to trust beside the usual ones, in PEM.
    pub(crate) fn new(more: Option<&[u8]>) -> io::Result<Self> {
        let mut plain = HttpConnector::new();
        plain.enforce_http(false);
        plain.set_connect_timeout(Some(CONNECT_TIMEOUT));
        plain.set_nodelay(true);
        let connector = Connector { plain, tls: TlsConnector::from(tls(more)?) };
        let client =
            Pooled::builder(TokioExecutor::new()).pool_idle_timeout(IDLE_TIMEOUT).build(connector);
        Ok(Self { client })
    }
}

fn tls(more: Option<&[u8]>) -> io::Result<Arc<rustls::ClientConfig>> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let wrong = |error: &dyn fmt::Display| io::Error::other(format!("export.ca_file: {error}"));
    let mut roots =
        rustls::RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    for certificate in CertificateDer::pem_slice_iter(more.unwrap_or_default()) {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

impl StoreConnector for Http {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Http {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let exchange = async {
            let (head, body) = self.client.request(request).await.map_err(kind_of)?.into_parts();
            // Answers to what is asked here are short, so they are read whole: the time counts
            // until the end.
            let body = body
                .collect()
                .await
                .map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error))?;
            Ok(HttpResponse::from_parts(head, HttpResponseBody::from(body.to_bytes())))
        };
        match tokio::time::timeout(REQUEST_TIMEOUT, exchange).await {
            Ok(answer) => answer,
            Err(late) => Err(HttpError::new(HttpErrorKind::Timeout, late)),
        }
    }
}

fn kind_of(error: ClientError) -> HttpError {
    let kind = if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Interrupted };
    HttpError::new(kind, error)
}

/// Connects by TCP, and over TLS where the address says https.
#[derive(Clone)]
struct Connector {
    plain: HttpConnector,
    tls: TlsConnector,
}

impl Service<http::Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<Stream>>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.plain.poll_ready(context).map_err(io::Error::other)
    }

    fn call(&mut self, address: http::Uri) -> Self::Future {
        let is_secret = address.scheme() == Some(&http::uri::Scheme::HTTPS);
        let host = address.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let (connect, tls) = (self.plain.call(address), self.tls.clone());
        Box::pin(async move {
            let stream = connect.await.map_err(io::Error::other)?.into_inner();
            if !is_secret {
                return Ok(TokioIo::new(Stream(Box::new(stream))));
            }
            let name = ServerName::try_from(host).map_err(io::Error::other)?;
            let secret = tokio::time::timeout(CONNECT_TIMEOUT, tls.connect(name, stream)).await??;
            Ok(TokioIo::new(Stream(Box::new(secret))))
        })
    }
}

/// What is read from and written to, with TLS or without.
struct Stream(Box<dyn Duplex>);

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
