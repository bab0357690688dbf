//! A small HTTP client, for key sets and tokens.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Bytes of an answer, at most.
const BODY_BYTES_MAX: usize = 1 << 20;
/// How long a call may take as a whole.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("{0} is no address such as https://host/path")]
    Address(String),
    #[error("no answer within {} s", TIMEOUT.as_secs())]
    Timeout,
    #[error("cannot connect: {0}")]
    Connect(#[from] std::io::Error),
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("the answer is broken or has more than {BODY_BYTES_MAX} bytes")]
    Body,
    #[error("answered {0}")]
    Status(StatusCode),
}

/// The body of a successful answer to `GET url`.
pub(crate) async fn get(url: &str) -> Result<Bytes, FetchError> {
    let uri: Uri = url.parse().map_err(|_| FetchError::Address(url.to_owned()))?;
    let host = uri.host().ok_or_else(|| FetchError::Address(url.to_owned()))?;
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let request = Request::builder()
        .method(Method::GET)
        .uri(target)
        .header(header::HOST, uri.authority().map_or(host, |authority| authority.as_str()))
        .header(header::ACCEPT, "application/json")
        .body(Full::default())
        .map_err(|_| FetchError::Address(url.to_owned()))?;
    tokio::time::timeout(TIMEOUT, send(&uri, host, request))
        .await
        .map_err(|_| FetchError::Timeout)?
}

async fn send(uri: &Uri, host: &str, request: Request<Full<Bytes>>) -> Result<Bytes, FetchError> {
    let is_secure = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(FetchError::Address(uri.to_string())),
    };
    let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
    // An IPv6 address has brackets in an address, but not as a host.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, port)).await?;
    if !is_secure {
        return exchange(stream, request).await;
    }
    let name =
        ServerName::try_from(host.to_owned()).map_err(|_| FetchError::Address(uri.to_string()))?;
    exchange(connector()?.connect(name, stream).await?, request).await
}

fn connector() -> Result<TlsConnector, rustls::Error> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Bytes, FetchError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let answered = async {
        let answer = sender.send_request(request).await?;
        if !answer.status().is_success() {
            return Err(FetchError::Status(answer.status()));
        }
        let body = Limited::new(answer.into_body(), BODY_BYTES_MAX).collect().await;
        Ok(body.map_err(|_| FetchError::Body)?.to_bytes())
    };
    let mut answered = std::pin::pin!(answered);
    tokio::select! {
        answer = &mut answered => answer,
        ended = connection => {
            ended?;
            answered.await
        }
    }
}
