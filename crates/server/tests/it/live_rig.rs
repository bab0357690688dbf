//! What tests of live subscriptions share: a topic that is matched, registrations, and streams.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};
use wire::pubsub::{PublishRequest, PubsubMessage};

use crate::rig::{Answer, Rig, topic};

pub(crate) const SUBSCRIPTIONS: &str = "/internal/v1/subscriptions";

/// A topic whose messages are matched.
pub(crate) async fn live_topic(rig: &Rig, id: &str) -> String {
    let labels = json!({"labels": {"postrider-live": "true"}});
    rig.put(&format!("/v1/{}", topic(id)), labels).await.ok();
    topic(id)
}

/// A registration without filters, with `more` laid over it.
pub(crate) fn registration(gateway: &str, id: &str, more: Value) -> Value {
    let mut body = json!({
        "gatewayId": gateway,
        "subscriptionId": id,
        "tenant": "blue",
        "collection": "rooms/1",
    });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

pub(crate) async fn register(rig: &Rig, gateway: &str, id: &str, more: Value) -> Value {
    let answer = rig.post(SUBSCRIPTIONS, registration(gateway, id, more)).await;
    assert_eq!(answer.code, StatusCode::CREATED, "{answer:?}");
    answer.json()
}

/// The code and the field of a call that must have been refused so.
pub(crate) fn fault(answer: &Answer) -> (u16, String, String) {
    let error = &answer.json()["error"];
    let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
    assert!(!text("message").is_empty(), "{answer:?}");
    (answer.code.as_u16(), text("code"), text("field"))
}

/// A message for tenant `blue` and collection `rooms/1`.
pub(crate) fn document(data: &Value) -> PubsubMessage {
    let attributes = [("tenant", "blue"), ("collection", "rooms/1")];
    let attributes = attributes.map(|(name, value)| (name.to_owned(), value.to_owned()));
    PubsubMessage {
        data: data.to_string().into(),
        attributes: attributes.into_iter().collect(),
        ..PubsubMessage::default()
    }
}

/// Publishes; the ids.
pub(crate) async fn publish(rig: &Rig, topic: &str, messages: Vec<PubsubMessage>) -> Vec<String> {
    let request = PublishRequest { topic: topic.to_owned(), messages };
    rig.publisher().await.publish(request).await.unwrap().into_inner().message_ids
}

pub(crate) async fn publish_one(rig: &Rig, topic: &str, data: &Value) -> String {
    publish(rig, topic, vec![document(data)]).await.remove(0)
}

/// A stream of Server-Sent Events.
pub(crate) struct Events {
    body: Incoming,
    read: Vec<u8>,
    frames: VecDeque<Value>,
    _connection: JoinSet<()>,
}

impl Events {
    pub(crate) async fn open(rig: &Rig, gateway: &str, query: &str) -> Self {
        Self::open_with(rig.address, gateway, query, None).await.unwrap()
    }

    /// Opens a stream, or gives back how that was refused.
    pub(crate) async fn open_with(
        address: SocketAddr,
        gateway: &str,
        query: &str,
        last: Option<&str>,
    ) -> Result<Self, Answer> {
        let tcp = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(tcp)).await.unwrap();
        let mut task = JoinSet::new();
        task.spawn(async move { drop(connection.await) });
        let mut request = Request::get(format!("/internal/v1/gateways/{gateway}/stream{query}"))
            .header(header::HOST, "localhost");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap());
        let response = response.await.unwrap();
        let code = response.status();
        if code != StatusCode::OK {
            let body = response.into_body().collect().await.unwrap().to_bytes();
            return Err(Answer { code, text: String::from_utf8(body.to_vec()).unwrap() });
        }
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        let body = response.into_body();
        Ok(Self { body, read: Vec::new(), frames: VecDeque::new(), _connection: task })
    }

    /// The next frame; `None` = the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        while self.frames.is_empty() {
            let frame = self.body.frame().await?.ok()?;
            self.read.extend_from_slice(&frame.into_data().unwrap());
            while let Some(end) = self.read.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<u8> = self.read.drain(..end + 2).collect();
                self.frames.push_back(event_frame(std::str::from_utf8(&event).unwrap()));
            }
        }
        self.frames.pop_front()
    }

    /// The next frame that is no heartbeat.
    pub(crate) async fn told(&mut self) -> Value {
        loop {
            let frame = self.next().await.expect("the stream ended");
            if frame["type"] != "heartbeat" {
                return frame;
            }
        }
    }
}

/// The frame of an event, whose id must be its number.
fn event_frame(event: &str) -> Value {
    let mut lines = event.lines();
    let id = lines.next().unwrap().strip_prefix("id: ").unwrap();
    let data = lines.next().unwrap().strip_prefix("data: ").unwrap();
    let frame: Value = serde_json::from_str(data).unwrap();
    assert_eq!(frame["sequence"].to_string(), id);
    frame
}

/// A stream over WebSocket.
pub(crate) struct Socket(pub(crate) WebSocketStream<TcpStream>);

impl Socket {
    pub(crate) async fn open(rig: &Rig, gateway: &str, query: &str) -> Self {
        let tcp = TcpStream::connect(rig.address).await.unwrap();
        let address = format!("ws://localhost/internal/v1/gateways/{gateway}/stream{query}");
        Self(client_async(address, tcp).await.unwrap().0)
    }

    /// The next frame that is no heartbeat.
    pub(crate) async fn told(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.0.next().await.unwrap().unwrap() {
                let frame: Value = serde_json::from_str(&text).unwrap();
                if frame["type"] != "heartbeat" {
                    return frame;
                }
            }
        }
    }

    /// The code with which the server ends it.
    pub(crate) async fn end(&mut self) -> u16 {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Close(frame))) => return frame.unwrap().code.into(),
                Some(Ok(_)) => {}
                Some(Err(Error::ConnectionClosed)) | None => panic!("ended without a word"),
                Some(Err(error)) => panic!("{error}"),
            }
        }
    }
}

/// The ids of the subscriptions a frame is for, sorted.
pub(crate) fn ids(frame: &Value) -> Vec<String> {
    let ids = frame["subscriptionIds"].as_array().unwrap_or_else(|| panic!("{frame}"));
    let mut ids: Vec<_> = ids.iter().map(|id| id.as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}
