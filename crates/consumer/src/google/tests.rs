//! Tokens, from a server that gives them as Google's do.

use std::path::PathBuf;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::*;

const SCOPE: &str = "https://www.googleapis.com/auth/datastore";

/// Gives the answers in turn, one connection each, and passes on the requests.
struct TokenServer {
    address: String,
    requests: mpsc::UnboundedReceiver<String>,
    _task: JoinSet<()>,
}

async fn token_server(answers: &'static [(&'static str, &'static str)]) -> TokenServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, requests) = mpsc::unbounded_channel();
    let mut task = JoinSet::new();
    task.spawn(async move {
        for (status, body) in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !is_whole(&request) {
                assert!(stream.read_buf(&mut request).await.unwrap() > 0);
            }
            sender.send(String::from_utf8(request).unwrap()).unwrap();
            let length = body.len();
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    TokenServer { address, requests, _task: task }
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).into_owned();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.is_none_or(|length| body.len() >= length.parse::<usize>().unwrap())
}

fn key_file(folder: &tempfile::TempDir, pair: &KeyPair, token_uri: &str) -> PathBuf {
    let der = pair.as_der().unwrap();
    let pem = format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        STANDARD.encode(der.as_ref())
    );
    let text = json!({
        "type": "service_account",
        "project_id": "the-project",
        "private_key_id": "key-1",
        "private_key": pem,
        "client_email": "writer@the-project.iam.gserviceaccount.com",
        "token_uri": token_uri,
    });
    let path = folder.path().join("key.json");
    std::fs::write(&path, text.to_string()).unwrap();
    path
}

fn decoded(part: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

#[tokio::test]
async fn a_service_account_signs_for_its_token_and_keeps_it() {
    let mut server =
        token_server(&[("200 OK", r#"{"access_token":"t1","expires_in":3600,"scope":""}"#)]).await;
    let folder = tempfile::tempdir().unwrap();
    let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let token_uri = format!("http://{}/token", server.address);
    let file = key_file(&folder, &pair, &token_uri);
    let credentials = Credentials::service_account(&file, SCOPE).unwrap();
    assert_eq!(credentials.project(), Some("the-project"));
    let header = credentials.header().await.unwrap();
    assert!(header == "Bearer t1" && header.is_sensitive());
    assert_eq!(credentials.header().await.unwrap(), header, "kept: the server answers once");

    let request = server.requests.recv().await.unwrap();
    assert!(request.starts_with("POST /token HTTP/1.1\r\n"), "{request}");
    let (_, signed) = request.split_once("&assertion=").unwrap();
    let (claimed, signature) = signed.rsplit_once('.').unwrap();
    let public = pair.public_key().as_ref().to_vec();
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public)
        .verify(claimed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap())
        .unwrap();
    let (head, claims) = claimed.split_once('.').unwrap();
    assert_eq!(decoded(head), json!({"alg": "RS256", "kid": "key-1", "typ": "JWT"}));
    let claims = decoded(claims);
    assert_eq!(claims["aud"], json!(token_uri));
    assert_eq!(claims["scope"], json!(SCOPE));
    assert_eq!(claims["iss"], json!("writer@the-project.iam.gserviceaccount.com"));
    assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 3_600);
}

#[tokio::test]
async fn a_token_that_was_forgotten_or_ends_soon_is_fetched_anew() {
    let server = token_server(&[
        ("200 OK", r#"{"access_token":"t1","expires_in":299}"#),
        ("200 OK", r#"{"access_token":"t2","expires_in":3599}"#),
        ("200 OK", r#"{"access_token":"t3","expires_in":3599}"#),
    ])
    .await;
    let folder = tempfile::tempdir().unwrap();
    let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let file = key_file(&folder, &pair, &format!("http://{}/", server.address));
    let credentials = Credentials::service_account(&file, SCOPE).unwrap();
    assert_eq!(credentials.header().await.unwrap(), "Bearer t1");
    assert_eq!(credentials.header().await.unwrap(), "Bearer t2");
    assert_eq!(credentials.header().await.unwrap(), "Bearer t2");
    credentials.forget().await;
    assert_eq!(credentials.header().await.unwrap(), "Bearer t3");
}

#[tokio::test]
async fn refusals_last_and_outages_do_not() {
    let server = token_server(&[
        ("400 Bad Request", r#"{"error":"invalid_grant"}"#),
        ("200 OK", "not json"),
        ("503 Service Unavailable", ""),
    ])
    .await;
    let folder = tempfile::tempdir().unwrap();
    let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let file = key_file(&folder, &pair, &format!("http://{}/", server.address));
    let credentials = Credentials::service_account(&file, SCOPE).unwrap();
    for (is_lasting, said) in [(true, "invalid_grant"), (true, "not a token"), (false, "503")] {
        let error = credentials.header().await.unwrap_err();
        assert_eq!(error.is_lasting(), is_lasting, "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
    drop(server);
    assert!(!credentials.header().await.unwrap_err().is_lasting());
}

#[test]
fn a_key_file_that_is_none_is_named_with_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key.json");
    for (text, said) in [
        ("no json", "expected"),
        (r#"{"type":"authorized_user"}"#, "must be \"service_account\""),
        (r#"{"type":"service_account"}"#, "client_email is missing"),
        (r#"{"type":"service_account","client_email":"a","private_key":"?"}"#, "private_key"),
        (r#"{"type":"service_account","client_email":"a","private_key":"AAAA"}"#, "PKCS"),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = Credentials::service_account(&path, SCOPE).unwrap_err();
        assert!(error.is_lasting());
        let shown = error.to_string();
        assert!(shown.contains("key.json") && shown.contains(said), "{shown}");
    }
    let missing = Credentials::service_account(&folder.path().join("none"), SCOPE).unwrap_err();
    assert!(missing.to_string().contains("none"), "{missing}");
}

#[tokio::test]
async fn an_emulator_takes_the_owner() {
    assert_eq!(Credentials::emulator().header().await.unwrap(), "Bearer owner");
}

#[tokio::test]
async fn the_metadata_server_gives_the_machines_token() {
    let mut server =
        token_server(&[("200 OK", r#"{"access_token":"m1","expires_in":3600}"#)]).await;
    let token = metadata::token(&server.address).await.unwrap();
    assert_eq!(token.access_token, "m1");
    let request = server.requests.recv().await.unwrap();
    let path = "/computeMetadata/v1/instance/service-accounts/default/token";
    assert!(request.starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{request}");
    assert!(request.contains("metadata-flavor: Google\r\n"), "{request}");
}
