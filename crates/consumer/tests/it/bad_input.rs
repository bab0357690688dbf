//! Bad input: the right answer each time, never a crash, never an ack without an error.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue};
use postrider_consumer::push::{Form, Keys, Oidc, Options};
use postrider_consumer::{Known, Secret, Settings};
use serde_json::json;

use crate::push::Endpoint;
use crate::rig::{DEAD_TOPIC, SUBSCRIPTION, settings};

const PATH: &str = "/pubsub/push";

async fn endpoint(options: Options) -> Endpoint {
    Endpoint::start(settings(), Known::with_policy(SUBSCRIPTION, DEAD_TOPIC), options).await
}

fn envelope(data: &[u8]) -> String {
    json!({"message": {"messageId": "7", "data": STANDARD.encode(data)}}).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_broken_is_refused_as_poison_and_named() {
    let endpoint = endpoint(Options::default()).await;
    let cases: [(Vec<u8>, &str); 8] = [
        (b"".to_vec(), "InvalidEnvelope: the body is not JSON"),
        (b"\xff\xfe\x00".to_vec(), "InvalidEnvelope: the body is not JSON"),
        (b"[]".to_vec(), "InvalidEnvelope: the body is not a JSON object"),
        (b"{\"message\":null}".to_vec(), "InvalidEnvelope: message: not an object"),
        ([b"[".repeat(5_000), b"]".repeat(5_000)].concat(), "InvalidEnvelope"),
        (br#"{"message":{"messageId":"7","data":"a b"}}"#.to_vec(), "InvalidBase64"),
        (envelope(b"undecodable").into_bytes(), "InvalidJson: undecodable"),
        (envelope(b"\xff").into_bytes(), "InvalidUtf8"),
    ];
    let count = cases.len();
    for (body, problem) in cases {
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let said = endpoint.post(PATH, HeaderMap::new(), body).await;
        assert_eq!(said.status, 400, "{shown}: {said:?}");
        let (class, error) = said.error();
        assert!(class == "permanent" && error.starts_with(problem), "{shown}: {error}");
    }
    assert_eq!(endpoint.kept.field("outcome"), vec![json!("poison"); count]);
    assert_eq!(endpoint.kept.field("severity"), vec![json!("ERROR"); count]);
    assert_eq!(endpoint.post(PATH, HeaderMap::new(), envelope(b"apply")).await.status, 204);
    endpoint.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_broken_is_acked_without_a_policy_and_never_in_silence() {
    let known = Known::without_policy(SUBSCRIPTION);
    let endpoint = Endpoint::start(settings(), known, Options::default()).await;
    for body in ["", "{", r#"{"message":{"messageId":"7","data":"*"}}"#] {
        let said = endpoint.post(PATH, HeaderMap::new(), body).await;
        assert_eq!(said.status, 204, "{body}");
        assert_eq!(said.error().0, "permanent");
    }
    assert_eq!(endpoint.kept.field("severity"), ["ERROR", "ERROR", "ERROR"]);
    assert_eq!(endpoint.kept.field("messageId"), [json!(null), json!(null), json!("7")]);
    endpoint.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_huge_body_is_refused_before_it_is_read_whole() {
    let endpoint = endpoint(Options { body_bytes_max: 1_000, ..Options::default() }).await;
    let said = endpoint.post(PATH, HeaderMap::new(), vec![b'x'; 1_001]).await;
    assert_eq!(said.status, 413);
    assert!(said.error().1.contains("raise body_bytes_max"), "{said:?}");
    assert_eq!(endpoint.kept.field("error_type"), ["BodyTooLarge"]);
    assert_eq!(endpoint.post(PATH, HeaderMap::new(), envelope(b"apply")).await.status, 204);
    endpoint.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_paths_and_verbs_are_not_messages() {
    let endpoint = endpoint(Options { path: "/in".to_owned(), ..Options::default() }).await;
    assert_eq!(endpoint.post(PATH, HeaderMap::new(), envelope(b"apply")).await.status, 404);
    let got = endpoint.call("GET", "/in", HeaderMap::new(), "".into()).await;
    assert_eq!(got.status, 405);
    assert_eq!(endpoint.post("/in", HeaderMap::new(), envelope(b"apply")).await.status, 204);
    assert_eq!(endpoint.kept.all().len(), 1);
    let metrics = endpoint.call("GET", "/metrics", HeaderMap::new(), "".into()).await;
    let wanted = "postrider_consumer_messages_total{way=\"push\",outcome=\"applied\"} 1";
    assert!(metrics.text.contains(wanted), "{}", metrics.text);
    let health = endpoint.call("GET", "/health", HeaderMap::new(), "".into()).await;
    assert_eq!((health.status.as_u16(), health.text.as_str()), (200, "ok\n"));
    endpoint.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_tokens_are_not_let_in() {
    let keys = json!({"keys": [{"kid": "e", "kty": "EC", "crv": "P-256",
        "x": "axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY",
        "y": "T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU"}]});
    let oidc = Oidc {
        audience: "a".to_owned(),
        email: None,
        issuer: None,
        keys: Keys::Set(keys.to_string()),
    };
    let endpoint = endpoint(Options { oidc: Some(oidc), ..Options::default() }).await;
    // {"alg":"none"}, {"alg":"ES256","kid":"e"}, {"alg":"HS256","kid":"e"}
    for token in [
        "",
        "Basic eDp5",
        "Bearer",
        "Bearer x",
        "Bearer a.b.c",
        "Bearer eyJhbGciOiJub25lIn0.e30.",
        "Bearer eyJhbGciOiJFUzI1NiIsImtpZCI6ImUifQ.e30.AAAA",
        "Bearer eyJhbGciOiJIUzI1NiIsImtpZCI6ImUifQ.e30.AAAA",
    ] {
        let mut headers = HeaderMap::new();
        if !token.is_empty() {
            headers.insert("authorization", HeaderValue::from_static(token));
        }
        let said = endpoint.post(PATH, headers, envelope(b"apply")).await;
        assert_eq!((said.status.as_u16(), said.error().0), (401, "config"), "{token}");
    }
    assert!(endpoint.seen.began.lock().is_empty(), "no handler has seen any of them");
    assert_eq!(endpoint.kept.field("error_type"), vec![json!("Unauthenticated"); 8]);
    endpoint.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_signed_wrongly_are_not_let_in() {
    let secret = [7_u8; 32];
    let options = Options { secrets: vec![Secret::new(&secret)], ..Options::default() };
    let endpoint = endpoint(options).await;
    let body = envelope(b"apply");
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let signed = |key: &[u8], time: u64, body: &str| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        let tag = hmac::sign(&key, format!("7.{time}.{body}").as_bytes());
        let mut headers = HeaderMap::new();
        headers.insert("webhook-id", HeaderValue::from_static("7"));
        headers.insert("webhook-timestamp", time.into());
        let signature = format!("v1,{}", STANDARD.encode(tag));
        headers.insert("webhook-signature", signature.parse().unwrap());
        headers
    };
    for (headers, why) in [
        (HeaderMap::new(), "not signed"),
        (signed(&[8; 32], now, &body), "another secret"),
        (signed(&secret, now, "{}"), "another secret"),
        (signed(&secret, now - 400, &body), "five minutes off"),
    ] {
        let said = endpoint.post(PATH, headers, body.clone()).await;
        assert_eq!(said.status, 401, "{why}");
        assert!(said.error().1.contains(why), "{said:?}");
    }
    let said = endpoint.post(PATH, signed(&secret, now, &body), body.clone()).await;
    assert_eq!(said.status, 204);
    // What was signed with an envelope is no other message because of a header.
    let mut added = signed(&secret, now, &body);
    added.insert("x-goog-pubsub-message-id", HeaderValue::from_static("8"));
    let said = endpoint.post(PATH, added, body.clone()).await;
    assert_eq!(said.status, 401);
    assert!(said.error().1.contains("set the form to unwrapped"), "{said:?}");
    assert_eq!(endpoint.seen.effects(), 1);
    endpoint.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_without_an_id_is_never_taken_for_another() {
    let options = Options { form: Form::Unwrapped, ..Options::default() };
    let endpoint = endpoint(options).await;
    let said = endpoint.post(PATH, HeaderMap::new(), "apply").await;
    assert_eq!(said.status, 400);
    assert!(said.error().1.contains("set writeMetadata"), "{said:?}");
    assert_eq!(endpoint.seen.effects(), 0);
    endpoint.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_audit_record_that_cannot_be_written_keeps_the_message() {
    // Writing to /dev/full always fails.
    let settings = Settings { audit: Some("/dev/full".into()), ..settings() };
    let known = Known::without_policy(SUBSCRIPTION);
    let endpoint = Endpoint::start(settings, known, Options::default()).await;
    let said = endpoint.post(PATH, HeaderMap::new(), envelope(b"poison")).await;
    assert_eq!(said.status, 500);
    assert!(said.error().1.contains("audit record could not be written"), "{said:?}");
    endpoint.stop().await;
}
