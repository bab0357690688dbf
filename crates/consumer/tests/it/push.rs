//! Pushing: a real server pushes to a real endpoint.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use postrider_consumer::push::{Keys, Oidc, Options, Server};
use postrider_consumer::{Known, Metrics, Secret, Settings};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use wire::pubsub::push_config::{AuthenticationMethod, NoWrapper, OidcToken, Wrapper};
use wire::pubsub::{PushConfig, Subscription};

use crate::rig::{
    CheckedLines, DEAD_SUBSCRIPTION, DEAD_TOPIC, Rig, SUBSCRIPTION, Seen, consumer, settings, soon,
};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const EMAIL: &str = "pusher@p.iam.gserviceaccount.com";
const AUDIENCE: &str = "https://billing.example/push";

/// A push consumer on a port of its own.
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Seen>,
    pub(crate) kept: Arc<CheckedLines>,
    pub(crate) metrics: Arc<Metrics>,
    stop: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Endpoint {
    #[expect(clippy::disallowed_methods, reason = "a panic shows when the test stops it")]
    pub(crate) async fn start(settings: Settings, known: Known, options: Options) -> Self {
        let (consumer, seen, kept) = consumer(settings, known);
        let metrics = Arc::clone(consumer.metrics());
        let server = Server::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (server.address(), Arc::new(Notify::new()));
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let stop = async move { stopped.notified().await };
            server.serve(consumer, options, stop).await.unwrap();
        });
        Self { address, seen, kept, metrics, stop, task }
    }

    pub(crate) async fn stop(self) {
        self.stop.notify_one();
        soon("the end of the endpoint", self.task).await.unwrap();
    }

    fn config(&self) -> PushConfig {
        let push_endpoint = format!("http://{}/pubsub/push", self.address);
        PushConfig { push_endpoint, ..PushConfig::default() }
    }

    /// Sends a request of its own.
    pub(crate) async fn post(
        &self,
        path: &str,
        headers: HeaderMap,
        body: impl Into<Bytes>,
    ) -> Said {
        self.call("POST", path, headers, body.into()).await
    }

    pub(crate) async fn call(
        &self,
        verb: &str,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Said {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let mut request =
            Request::builder().method(verb).uri(path).header(header::HOST, "localhost");
        request.headers_mut().unwrap().extend(headers);
        let answered = async {
            let answer = sender.send_request(request.body(Full::new(body)).unwrap()).await.unwrap();
            let (parts, body) = answer.into_parts();
            let text = body.collect().await.unwrap().to_bytes().to_vec();
            let text = String::from_utf8(text).unwrap();
            Said { status: parts.status, headers: parts.headers, text }
        };
        let mut answered = std::pin::pin!(answered);
        tokio::select! {
            said = &mut answered => said,
            ended = connection => {
                drop(ended);
                answered.await
            }
        }
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Said {
    /// The class and the words of the failure.
    pub(crate) fn error(&self) -> (&str, &str) {
        let text = |name: &str| self.headers.get(name).map_or("", |value| value.to_str().unwrap());
        (text("postrider-error-class"), text("postrider-error"))
    }
}

fn with_policy() -> Known {
    Known::with_policy(SUBSCRIPTION, DEAD_TOPIC)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushed_messages_take_effect_and_poison_is_dead_lettered_with_its_reason() {
    let rig = Rig::start().await;
    let mut peer = rig.peer().await;
    let endpoint = Endpoint::start(settings(), with_policy(), Options::default()).await;
    let config = endpoint.config();
    peer.create_with_policy(|subscription: &mut Subscription| {
        subscription.push_config = Some(config);
    })
    .await;
    let ids = peer.publish_all(&[("", "apply"), ("", "transient-once"), ("", "undecodable")]).await;
    let letters = soon("a dead letter", peer.pull(DEAD_SUBSCRIPTION, true)).await;
    let letter = letters[0].decode_message().unwrap();
    assert_eq!(letter.attributes["original_message_id"], ids[2]);
    assert_eq!(letter.attributes["failure_reason"], "max_push_attempts_exceeded");
    assert_eq!(letter.attributes["error_class"], "permanent");
    assert_eq!(letter.attributes["last_error"], "InvalidJson: undecodable");
    assert_eq!(letter.attributes["last_status"], "400");
    let lines = endpoint.kept.wait_for(8).await;
    let of = |outcome: &str, status: u64| {
        let is = |line: &&serde_json::Value| {
            line["outcome"] == outcome && line["http_status"] == json!(status)
        };
        lines.iter().filter(is).count()
    };
    assert_eq!((of("applied", 204), of("retry", 500), of("poison", 400)), (2, 1, 5));
    assert!(lines.iter().all(|line| line["subscription"] == SUBSCRIPTION));
    assert_eq!(endpoint.seen.effects(), 2);
    assert_eq!(endpoint.metrics.messages("push", "poison"), 5);
    endpoint.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poison_without_a_policy_is_answered_well_with_an_error_in_the_log() {
    let rig = Rig::start().await;
    let mut peer = rig.peer().await;
    let folder = tempfile::TempDir::new().unwrap();
    let audit = folder.path().join("audit.jsonl");
    let settings = Settings { audit: Some(audit.clone()), ..settings() };
    let known = Known::without_policy(SUBSCRIPTION);
    let endpoint = Endpoint::start(settings, known, Options::default()).await;
    let config = endpoint.config();
    peer.create(|subscription| subscription.push_config = Some(config)).await;
    let id = peer.publish("poison").await;
    let line = endpoint.kept.wait_for(1).await.remove(0);
    assert_eq!((&line["http_status"], &line["severity"]), (&json!(204), &json!("ERROR")));
    assert_eq!((&line["outcome"], &line["messageId"]), (&json!("poison"), &json!(id)));
    assert!(std::fs::read_to_string(audit).unwrap().contains(&id));
    endpoint.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushes_without_an_envelope_are_read() {
    let rig = Rig::start().await;
    let mut peer = rig.peer().await;
    let known = Known::without_policy(SUBSCRIPTION);
    let endpoint = Endpoint::start(settings(), known, Options::default()).await;
    let mut config = endpoint.config();
    config.wrapper = Some(Wrapper::NoWrapper(NoWrapper { write_metadata: true }));
    peer.create(|subscription| subscription.push_config = Some(config)).await;
    let id = peer.publish("apply unwrapped").await;
    let line = endpoint.kept.wait_for(1).await.remove(0);
    assert_eq!((&line["outcome"], &line["messageId"]), (&json!("applied"), &json!(id)));
    assert_eq!(line["subscription"], SUBSCRIPTION);
    assert_eq!(*endpoint.seen.began.lock(), ["apply unwrapped"]);
    endpoint.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postriders_tokens_and_signatures_are_let_in() {
    let rig = Rig::start().await;
    let mut peer = rig.peer().await;
    let options = Options {
        oidc: Some(Oidc {
            audience: AUDIENCE.to_owned(),
            email: Some(EMAIL.to_owned()),
            issuer: None,
            keys: Keys::Url(format!("{}/oauth2/v3/certs", rig.url())),
        }),
        secrets: vec![Secret::parse("secret", SECRET).unwrap()],
        ..Options::default()
    };
    let known = Known::without_policy(SUBSCRIPTION);
    let endpoint = Endpoint::start(settings(), known, options).await;
    let mut config = endpoint.config();
    config.authentication_method = Some(AuthenticationMethod::OidcToken(OidcToken {
        service_account_email: EMAIL.to_owned(),
        audience: AUDIENCE.to_owned(),
    }));
    peer.create(|subscription| subscription.push_config = Some(config)).await;
    peer.publish("apply unsigned").await;
    let line = endpoint.kept.wait_for(1).await.remove(0);
    assert_eq!(line["error"], "the request is not signed", "the token alone is not enough");
    sign(&rig).await;
    endpoint.kept.wait_for_field("outcome", &json!("applied")).await;
    assert_eq!(endpoint.seen.effects(), 1);
    endpoint.stop().await;
}

/// Has the server sign its pushes.
async fn sign(rig: &Rig) {
    let update = json!({
        "subscription": {"postrider": {"signing": {"secret": SECRET}}},
        "updateMask": "postrider.signing",
    });
    let stream = TcpStream::connect(rig.address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let request = Request::builder()
        .method("PATCH")
        .uri(format!("/v1/{SUBSCRIPTION}"))
        .header(header::HOST, "localhost")
        .body(Full::new(Bytes::from(update.to_string())))
        .unwrap();
    tokio::select! {
        answer = sender.send_request(request) => assert_eq!(answer.unwrap().status(), 200),
        ended = connection => panic!("{ended:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_requests_at_a_time_are_asked_to_wait() {
    let options = Options { requests_max: 1, ..Options::default() };
    let endpoint = Endpoint::start(settings(), with_policy(), options).await;
    let body = |data: &str| {
        use base64::Engine;
        let data = base64::engine::general_purpose::STANDARD.encode(data);
        json!({"message": {"messageId": data, "data": data}}).to_string()
    };
    let first = endpoint.post("/pubsub/push", HeaderMap::new(), body("wait"));
    let second = async {
        endpoint.seen.wait_for_begun(1).await;
        let said = endpoint.post("/pubsub/push", HeaderMap::new(), body("apply")).await;
        endpoint.seen.release();
        said
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.status, 204);
    assert_eq!(
        (second.status.as_u16(), second.headers["retry-after"].as_bytes()),
        (503, &b"1"[..])
    );
    assert_eq!(second.error(), ("transient", "Overloaded: too many requests at a time"));
    let third = endpoint.post("/pubsub/push", HeaderMap::new(), body("apply")).await;
    assert_eq!(third.status, 204, "the place is free again");
    endpoint.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_endpoint_finishes_its_requests() {
    let endpoint = Endpoint::start(settings(), with_policy(), Options::default()).await;
    let body = json!({"message": {"messageId": "1", "data": "d2FpdA=="}}).to_string();
    let request = endpoint.post("/pubsub/push", HeaderMap::new(), body);
    let stopping = async {
        endpoint.seen.wait_for_begun(1).await;
        endpoint.stop.notify_one();
        // Once nobody is let in any more, the one inside is let go.
        soon("a closed port", async {
            while TcpStream::connect(endpoint.address).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        endpoint.seen.release();
    };
    let (said, ()) = tokio::join!(request, stopping);
    assert_eq!(said.status, 204);
    assert_eq!(endpoint.kept.field("outcome"), ["applied"]);
    soon("the end", endpoint.task).await.unwrap();
}
