//! Pages that are open in a browser cannot use the server, whichever way they try.

use std::net::SocketAddr;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use wire::pubsub::ListTopicsRequest;
use wire::pubsub::publisher_client::PublisherClient;

use crate::live_rig::{Events, Socket, live_topic, register};
use crate::rig::{Rig, call_with};

const TOPIC: &str = "/v1/projects/p/topics/orders";
const STREAM: &str = "/internal/v1/gateways/g/stream";

/// Sends a request as it stands and gives back the head and the body of the answer.
async fn say(address: SocketAddr, request: &str, headers: &[&str], body: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    let text = format!(
        "{request} HTTP/1.1\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).await.unwrap();
    String::from_utf8(said).unwrap()
}

/// What a page's browser sends besides what the page asks for.
fn browser(origin: &str, site: &str, mode: &str, dest: &str) -> Vec<String> {
    let mut headers = vec![
        "Host: localhost:8085".to_owned(),
        "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0".to_owned(),
        format!("Sec-Fetch-Site: {site}"),
        format!("Sec-Fetch-Mode: {mode}"),
        format!("Sec-Fetch-Dest: {dest}"),
    ];
    if !origin.is_empty() {
        headers.push(format!("Origin: {origin}"));
    }
    headers
}

async fn browse(rig: &Rig, request: &str, page: &[String], more: &[&str], body: &str) -> String {
    let headers: Vec<&str> = page.iter().map(String::as_str).chain(more.iter().copied()).collect();
    say(rig.address, request, &headers, body).await
}

fn assert_refused(said: &str, code: &str, word: &str) {
    assert!(said.starts_with(&format!("HTTP/1.1 {code}")), "{said}");
    assert!(said.contains(word), "{said}");
    assert!(!said.to_ascii_lowercase().contains("access-control-allow"), "{said}");
}

#[tokio::test]
async fn a_page_of_another_site_can_do_nothing() {
    let rig = Rig::start("memory").await;
    rig.put(TOPIC, json!({})).await.ok();
    let publish = format!("POST {TOPIC}:publish");
    let message = r#"{"messages":[{"data":"aGk="}]}"#;
    let evil = browser("https://evil.example", "cross-site", "no-cors", "empty");
    // Forms and plain text need no leave of ours; JSON is asked for first.
    for kind in ["text/plain;charset=UTF-8", "application/x-www-form-urlencoded"] {
        let kind = format!("Content-Type: {kind}");
        let said = browse(&rig, &publish, &evil, &[&kind], message).await;
        assert_refused(&said, "403", "server.hosts");
    }
    let asks =
        ["Access-Control-Request-Method: PUT", "Access-Control-Request-Headers: content-type"];
    let said = browse(&rig, &format!("OPTIONS {TOPIC}"), &evil, &asks, "").await;
    assert_refused(&said, "403", "PERMISSION_DENIED");
    // A form has no fetch metadata in older browsers, but always an origin.
    let old = ["Host: localhost:8085", "Origin: null", "Content-Type: text/plain"];
    let said = say(rig.address, &publish, &old, message).await;
    assert_refused(&said, "403", "null");
    let picture = browser("", "cross-site", "no-cors", "image");
    for path in ["/", "/status", "/metrics", "/healthz", TOPIC, STREAM, "/no/such/path"] {
        let said = browse(&rig, &format!("GET {path}"), &picture, &[], "").await;
        assert_refused(&said, "403", "another site");
    }
    let link = browser("", "cross-site", "navigate", "document");
    let said = browse(&rig, "GET /", &link, &[], "").await;
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    let said = browse(&rig, &format!("GET {STREAM}"), &link, &[], "").await;
    assert_refused(&said, "403", "PERMISSION_DENIED");
    let found = rig.get("/v1/projects/p/topics/orders/messages").await.ok();
    assert_eq!(found["messages"], json!([]), "{found}");
    rig.stop().await;
}

#[tokio::test]
async fn a_name_that_was_made_to_point_here_is_refused_everywhere() {
    let rig = Rig::start("memory").await;
    for path in ["/", "/status", "/metrics", "/readyz", TOPIC, STREAM, "/internal/v1/health"] {
        let said = say(rig.address, &format!("GET {path}"), &["Host: evil.example:8085"], "").await;
        assert_refused(&said, "403", "server.hosts");
    }
    let here = rig.address.port();
    for host in ["localhost", "127.0.0.1", "127.8.9.10", "[::1]", "LOCALHOST"] {
        let host = format!("Host: {host}:{here}");
        let said = say(rig.address, "GET /healthz", &[&host], "").await;
        assert!(said.starts_with("HTTP/1.1 200"), "{host}: {said}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn hosts_that_disagree_are_refused() {
    let rig = Rig::start("memory").await;
    let two = ["Host: localhost", "Host: evil.example"];
    assert_refused(&say(rig.address, "GET /status", &two, "").await, "400", "more than one Host");
    let target = "GET http://evil.example/status";
    let said = say(rig.address, target, &["Host: localhost"], "").await;
    assert_refused(&said, "400", "evil.example");
    rig.stop().await;
}

#[tokio::test]
async fn grpc_is_refused_in_its_own_words() {
    let rig = Rig::with("memory", "[server]\nhosts = [\"mq.example.com\"]").await;
    let list = ListTopicsRequest { project: "projects/p".to_owned(), ..Default::default() };
    for (authority, is_fine) in
        [("evil.example:8085", false), ("localhost:1", true), ("MQ.example.com", true)]
    {
        let endpoint = Endpoint::from_shared(format!("http://{}", rig.address)).unwrap();
        let origin = format!("http://{authority}").parse().unwrap();
        let channel: Channel = endpoint.origin(origin).connect().await.unwrap();
        let listed = PublisherClient::new(channel).list_topics(list.clone()).await;
        match listed {
            Ok(_) => assert!(is_fine, "{authority}"),
            Err(refused) => {
                assert!(!is_fine, "{authority}: {refused}");
                assert_eq!(refused.code(), Code::PermissionDenied);
                assert!(refused.message().contains("server.hosts"), "{refused}");
            }
        }
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_page_that_may_call_sends_json_and_programs_send_what_they_like() {
    let rig = Rig::start("memory").await;
    rig.put(TOPIC, json!({})).await.ok();
    let publish = format!("{TOPIC}:publish");
    let message = r#"{"messages":[{"data":"aGk="}]}"#;
    let form = ("content-type", "application/x-www-form-urlencoded");
    let json = ("content-type", "application/json");
    let origin = ("origin", "http://localhost:3000");
    for (headers, code) in [
        (vec![form], 200),
        (vec![], 200),
        (vec![origin, json], 200),
        (vec![origin, form], 400),
        (vec![origin], 400),
        (vec![("origin", "http://localhost:3000"), origin, json], 403),
        (vec![("origin", "http://evil.example"), json], 403),
    ] {
        let answer = call_with(rig.address, "POST", &publish, message, &headers).await;
        assert_eq!(answer.code.as_u16(), code, "{headers:?}: {answer:?}");
    }
    rig.stop().await;
}

/// What a browser sends for `new WebSocket(…)`.
fn handshake(origin: &str) -> [String; 6] {
    [
        "Host: localhost:8085".to_owned(),
        "Connection: Upgrade".to_owned(),
        "Upgrade: websocket".to_owned(),
        "Sec-WebSocket-Version: 13".to_owned(),
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==".to_owned(),
        format!("Origin: {origin}"),
    ]
}

#[tokio::test]
async fn a_page_gets_no_stream_and_ends_none() {
    let rig = Rig::with("memory", "[live]\nheartbeat = \"100ms\"").await;
    live_topic(&rig, "changes").await;
    register(&rig, "g", "one", json!({})).await;
    let request = format!("GET {STREAM}");
    let mut own = Events::open(&rig, "g", "").await;
    for origin in ["https://evil.example", "null", "http://localhost.evil.example"] {
        let said = browse(&rig, &request, &handshake(origin), &[], "").await;
        assert_refused(&said, "403", "PERMISSION_DENIED");
    }
    let source = browser("https://evil.example", "cross-site", "cors", "empty");
    let said = browse(&rig, &request, &source, &["Accept: text/event-stream"], "").await;
    assert_refused(&said, "403", "PERMISSION_DENIED");
    // A page on this machine may open one, but not in the place of another.
    let source = browser("http://localhost:3000", "same-site", "cors", "empty");
    let said = browse(&rig, &request, &source, &["Accept: text/event-stream"], "").await;
    assert_refused(&said, "400", "cannot replace it");
    let said = browse(&rig, &request, &handshake("http://localhost:3000"), &[], "").await;
    assert_refused(&said, "400", "cannot replace it");
    // The stream is still there.
    assert!(own.next().await.is_some());
    assert!(own.next().await.is_some());
    // Programs do take the place.
    let mut socket = Socket::open(&rig, "g", "").await;
    while own.next().await.is_some() {}
    let mut again = Events::open(&rig, "g", "").await;
    assert_eq!(socket.end().await, 1008);
    assert!(again.next().await.is_some());
    rig.stop().await;
}

#[tokio::test]
async fn the_address_of_keys_does_not_follow_who_asks() {
    let path = "/.well-known/openid-configuration";
    let rig = Rig::start("memory").await;
    let headers = [("x-forwarded-proto", "https"), ("x-forwarded-host", "evil.example")];
    let answer = call_with(rig.address, "GET", path, "", &headers).await.ok();
    assert_eq!(answer["jwks_uri"], json!(format!("http://{}/oauth2/v3/certs", rig.address)));
    rig.stop().await;
    let set = "[server]\nexternal_url = \"https://mq.example.com/\"";
    let rig = Rig::with("memory", set).await;
    let answer = rig.get(path).await.ok();
    assert_eq!(answer["jwks_uri"], "https://mq.example.com/oauth2/v3/certs");
    rig.stop().await;
}
