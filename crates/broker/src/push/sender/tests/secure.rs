use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

use super::peer::{Call, Peer};
use super::*;

/// A certificate authority, and a server with a certificate for `localhost` from it.
struct Secure {
    ca_file: NamedTempFile,
    acceptor: TlsAcceptor,
}

impl Secure {
    fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &ca).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let ca_file = NamedTempFile::new().unwrap();
        std::fs::write(ca_file.path(), ca.pem()).unwrap();
        Self { ca_file, acceptor: TlsAcceptor::from(Arc::new(config)) }
    }

    /// Answers each request with the negotiated protocol.
    async fn peer(&self) -> Peer {
        let acceptor = self.acceptor.clone();
        Peer::start(move |call: Call| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(mut stream) = acceptor.accept(call.stream).await else { return };
                let agreed = stream.get_ref().1.alpn_protocol().unwrap_or_default().to_vec();
                let mut bytes = Vec::new();
                while stream.read_buf(&mut bytes).await.is_ok_and(|count| count > 0) {
                    if bytes.ends_with(b"hello") {
                        let length = agreed.len();
                        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
                        let answer = [head.as_bytes(), &agreed].concat();
                        stream.write_all(&answer).await.unwrap();
                        bytes.clear();
                    }
                }
            }
        })
        .await
    }

    fn trusting(&self) -> SenderOptions {
        SenderOptions { ca_file: Some(self.ca_file.path().into()), ..options() }
    }
}

const NAMES: [(&str, &[&str]); 2] = [("localhost", &["127.0.0.1"]), ("other", &["127.0.0.1"])];

fn over_tls(host: &str, peer: &Peer) -> Request {
    request(&format!("https://{host}:{}/push", peer.address.port()))
}

#[tokio::test]
async fn a_trusted_endpoint_is_spoken_to_in_http_1_1_over_one_connection() {
    let secure = Secure::new();
    let peer = secure.peer().await;
    let fixture = Fixture::with(secure.trusting(), &NAMES);
    for _ in 0..3 {
        let answer = fixture.send(over_tls("localhost", &peer)).await.unwrap();
        assert_eq!((answer.status, &answer.body[..]), (StatusCode::OK, &b"http/1.1"[..]));
    }
    assert_eq!(peer.accepts(), 1);
}

#[tokio::test]
async fn a_certificate_that_cannot_be_trusted_is_refused_in_the_words_of_tls() {
    let secure = Secure::new();
    let peer = secure.peer().await;
    let fixture = Fixture::with(options(), &NAMES);
    let no_answer = fixture.send(over_tls("localhost", &peer)).await.unwrap_err();
    assert_eq!((no_answer.class, no_answer.address), (Class::Tls, Some(peer.address)));
    assert!(no_answer.message.contains("UnknownIssuer"), "{}", no_answer.message);

    let fixture = Fixture::with(secure.trusting(), &NAMES);
    let message = assert_class(fixture.send(over_tls("other", &peer)).await, Class::Tls);
    assert!(message.contains("not valid for name"), "{message}");
}

#[tokio::test]
async fn an_endpoint_that_speaks_no_tls_is_said_so() {
    let peer = Peer::start(|mut call: Call| async move {
        call.write("HTTP/1.1 400 Bad Request\r\n\r\n").await;
        call.closed().await;
    })
    .await;
    let fixture = Fixture::with(options(), &NAMES);
    let message = assert_class(fixture.send(over_tls("localhost", &peer)).await, Class::Tls);
    assert!(message.contains("localhost"), "{message}");
}

#[tokio::test]
async fn a_handshake_that_hangs_ends_with_the_connect_timeout() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let peer = Peer::start(move |mut call: Call| {
        let tell = tell.clone();
        async move {
            call.stream.read_u8().await.unwrap();
            tell.send(()).unwrap();
            call.closed().await;
        }
    })
    .await;
    let fixture = Fixture::with(options(), &NAMES);
    let sending = fixture.start(over_tls("localhost", &peer));
    told.recv().await.unwrap();
    fixture.clock.advance(5 * SECOND);
    let message = assert_class(sending.await.unwrap(), Class::Tls);
    assert!(message.contains("5s"), "{message}");
    assert_eq!(fixture.sender.connector.hosts_with_connects(), 0);
}

#[tokio::test]
async fn a_closed_idle_connection_over_tls_is_no_error() {
    let secure = Secure::new();
    let acceptor = secure.acceptor.clone();
    let peer = Peer::start(move |call: Call| {
        let acceptor = acceptor.clone();
        async move {
            let mut stream = acceptor.accept(call.stream).await.unwrap();
            let mut bytes = Vec::new();
            while !bytes.ends_with(b"hello") {
                stream.read_buf(&mut bytes).await.unwrap();
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        }
    })
    .await;
    let fixture = Fixture::with(secure.trusting(), &NAMES);
    for count in 1..=4 {
        fixture.send(over_tls("localhost", &peer)).await.unwrap();
        assert_eq!(peer.accepts(), count);
    }
}

#[test]
fn a_ca_file_that_is_of_no_use_is_named() {
    let file = NamedTempFile::new().unwrap();
    let begin = "-----BEGIN CERTIFICATE-----\n";
    let end = "-----END CERTIFICATE-----\n";
    let cases = [
        (String::new(), "no certificate"),
        ("not a certificate".to_owned(), "no certificate"),
        (format!("{begin}!!!!\n{end}"), "not PEM"),
        (format!("{begin}aGVsbG8=\n{end}"), "cannot be trusted"),
    ];
    for (text, problem) in cases {
        std::fs::write(file.path(), &text).unwrap();
        let options = SenderOptions { ca_file: Some(file.path().into()), ..options() };
        let error = Sender::new(options, Arc::new(FakeClock::default())).err().unwrap().to_string();
        assert!(error.contains(problem), "{text}: {error}");
        assert!(error.contains(file.path().to_str().unwrap()), "{error}");
    }
    let path = file.path().with_extension("gone");
    let options = SenderOptions { ca_file: Some(path), ..options() };
    let error = Sender::new(options, Arc::new(FakeClock::default())).err().unwrap().to_string();
    assert!(error.contains("cannot be read"), "{error}");
}
