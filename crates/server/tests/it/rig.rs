//! A server on a free port, and the clients to talk to it.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use server::Server;
use server::config::{Config, Sources, load};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tonic::transport::Channel;
use wire::pubsub::publisher_client::PublisherClient;
use wire::pubsub::subscriber_client::SubscriberClient;
use wire::pubsub::{PubsubMessage, Subscription, Topic};

/// Runs each of these functions against a fresh server of each engine.
macro_rules! each_engine {
    ($($name:ident,)*) => {
        $(mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_disk() {
                let rig = crate::rig::Rig::start("disk").await;
                super::$name(&rig).await;
                rig.stop().await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn in_memory() {
                let rig = crate::rig::Rig::start("memory").await;
                super::$name(&rig).await;
                rig.stop().await;
            }
        })*
    };
}
pub(crate) use each_engine;

/// A running server with a folder of its own.
pub(crate) struct Rig {
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
    _folder: Option<TempDir>,
}

/// Settings for a server on a free port; `more` is TOML with sections.
pub(crate) fn config(folder: &TempDir, engine: &str, more: &str) -> Config {
    let data = folder.path().join("data");
    let file = folder.path().join("postrider.toml");
    let text =
        format!("listen = \"127.0.0.1:0\"\ndata_dir = {data:?}\nengine = \"{engine}\"\n{more}\n");
    std::fs::write(&file, text).unwrap();
    load(Sources { file: Some(file), ..Sources::default() }).unwrap().config
}

impl Rig {
    pub(crate) async fn start(engine: &str) -> Self {
        Self::with(engine, "").await
    }

    pub(crate) async fn with(engine: &str, more: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let server = Server::start(&config(&folder, engine, more)).await.unwrap();
        Self { address: server.address(), server, _folder: Some(folder) }
    }

    /// A server in a folder that the caller keeps.
    pub(crate) fn on(server: Server) -> Self {
        Self { address: server.address(), server, _folder: None }
    }

    pub(crate) async fn stop(self) {
        self.server.stop(std::future::pending()).await.unwrap();
    }

    pub(crate) async fn publisher(&self) -> PublisherClient<Channel> {
        publisher(self.address).await
    }

    pub(crate) async fn subscriber(&self) -> SubscriberClient<Channel> {
        subscriber(self.address).await
    }

    /// A topic and a subscription on it, made over gRPC.
    pub(crate) async fn pair(&self) -> (String, String) {
        let (topic, subscription) = (topic("orders"), subscription("billing"));
        let made = Topic { name: topic.clone(), ..Topic::default() };
        self.publisher().await.create_topic(made).await.unwrap();
        let made = Subscription {
            name: subscription.clone(),
            topic: topic.clone(),
            ..Subscription::default()
        };
        self.subscriber().await.create_subscription(made).await.unwrap();
        (topic, subscription)
    }

    pub(crate) async fn call(&self, verb: &str, path: &str, body: Option<Value>) -> Answer {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        call(self.address, verb, path, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, None).await
    }

    pub(crate) async fn get_owned(&self, path: String) -> Answer {
        self.get(&path).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.call("PUT", path, Some(body)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.call("POST", path, Some(body)).await
    }
}

pub(crate) async fn publisher(address: SocketAddr) -> PublisherClient<Channel> {
    PublisherClient::connect(format!("http://{address}"))
        .await
        .unwrap()
        .max_encoding_message_size(64 << 20)
}

pub(crate) async fn subscriber(address: SocketAddr) -> SubscriberClient<Channel> {
    SubscriberClient::connect(format!("http://{address}"))
        .await
        .unwrap()
        .max_decoding_message_size(64 << 20)
}

pub(crate) fn topic(id: &str) -> String {
    format!("projects/p/topics/{id}")
}

pub(crate) fn subscription(id: &str) -> String {
    format!("projects/p/subscriptions/{id}")
}

pub(crate) fn message(data: impl Into<Bytes>) -> PubsubMessage {
    PubsubMessage { data: data.into(), ..PubsubMessage::default() }
}

/// An answer over REST.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body of a call that must have succeeded.
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.code, StatusCode::OK, "{self:?}");
        self.json()
    }

    /// The message of a call that must have been refused so.
    pub(crate) fn refused(&self, code: u16, status: &str) -> String {
        assert_eq!(self.code.as_u16(), code, "{self:?}");
        let error = &self.json()["error"];
        assert_eq!(error["code"], json!(code), "{self:?}");
        assert_eq!(error["status"], json!(status), "{self:?}");
        error["message"].as_str().unwrap().to_owned()
    }
}

/// One call on a connection of its own.
pub(crate) async fn call(
    address: SocketAddr,
    verb: &str,
    path: &str,
    body: impl Into<Bytes>,
) -> Answer {
    call_with(address, verb, path, body, &[]).await
}

/// The same with headers.
pub(crate) async fn call_with(
    address: SocketAddr,
    verb: &str,
    path: &str,
    body: impl Into<Bytes>,
    headers: &[(&str, &str)],
) -> Answer {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let mut request = Request::builder().method(verb).uri(path).header(header::HOST, "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(body.into())).unwrap();
    let answered = async {
        let response = sender.send_request(request).await.unwrap();
        let code = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        Answer { code, text: String::from_utf8(body.to_vec()).unwrap() }
    };
    let mut answered = std::pin::pin!(answered);
    tokio::select! {
        answer = &mut answered => answer,
        // It may have ended before all was sent: the answer says why.
        _ = connection => answered.await,
    }
}
