//! A gateway's stream over WebSocket: one text message for each frame.

use std::pin::pin;
use std::time::Duration;

use broker::{LiveFrame, LiveStream};
use futures::{SinkExt, StreamExt};
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error, Utf8Bytes};
use tonic::body::Body;

use super::fault::Fault;
use super::{Result, show};
use crate::net::{Held, Kind, Phase, Room};

/// Bytes of a message from a gateway, at most: it has nothing to say here.
const INCOMING_BYTES_MAX: usize = 4 << 10;
/// Bytes that are read at a time.
const READ_BYTES: usize = 4 << 10;
/// Bytes that are gathered before they are written.
const WRITE_BYTES: usize = 16 << 10;
/// Bytes of one part of a message. A socket never frees what the longest part took.
const PART_BYTES: usize = 16 << 10;
/// A gateway that was not heard of for so many heartbeats is gone.
const SILENT_HEARTBEATS_MAX: u32 = 3;

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// The key of a request for a WebSocket; `None` = it is for Server-Sent Events.
pub(super) fn key(request: &Request<Incoming>) -> Result<Option<HeaderValue>> {
    let headers = request.headers();
    let Some(upgrade) = headers.get(UPGRADE) else { return Ok(None) };
    let is = |value: Option<&HeaderValue>, word: &str| {
        value.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(word.as_bytes()))
    };
    if !is(Some(upgrade), "websocket") {
        return Err(Fault::argument("upgrade", "only websocket is known"));
    }
    let mut connection = headers.get_all(CONNECTION).iter().filter_map(|it| it.to_str().ok());
    let names_it =
        |list: &str| list.split(',').any(|one| one.trim().eq_ignore_ascii_case("upgrade"));
    if !connection.any(names_it) {
        return Err(Fault::argument("connection", "expected upgrade"));
    }
    if !is(headers.get(SEC_WEBSOCKET_VERSION), "13") {
        return Err(Fault::argument("sec-websocket-version", "only 13 is known"));
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|key| key.len() == 24);
    let key =
        key.ok_or_else(|| Fault::argument("sec-websocket-key", "expected 16 bytes in base64"));
    key.map(|key| Some(key.clone()))
}

/// Answers that the connection becomes a WebSocket, and begins to send once it is one.
pub(super) fn upgrade(
    key: &HeaderValue,
    request: &mut Request<Incoming>,
    stream: LiveStream,
    heartbeat: Duration,
    phase: watch::Receiver<Phase>,
) -> Response<Body> {
    // Every connection that asks for something else has one.
    let Some(held) = request.extensions_mut().remove::<Held>() else {
        return Fault::argument("upgrade", "the connection cannot be upgraded").response();
    };
    let upgrading = hyper::upgrade::on(request);
    // It ends with its connection, its stream, or the server.
    drop(broker::tasks::spawn("live socket", async move {
        match upgrading.await {
            Ok(upgraded) => run(upgraded, stream, heartbeat, &held, phase).await,
            Err(error) => tracing::debug!(%error, "connection did not become a WebSocket"),
        }
        drop(held);
    }));
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::try_from(derive_accept_key(key.as_bytes())) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}

async fn run(
    upgraded: Upgraded,
    stream: LiveStream,
    heartbeat: Duration,
    held: &Held,
    phase: watch::Receiver<Phase>,
) {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BYTES)
        .write_buffer_size(WRITE_BYTES)
        .max_write_buffer_size(4 * WRITE_BYTES)
        .max_message_size(Some(INCOMING_BYTES_MAX))
        .max_frame_size(Some(INCOMING_BYTES_MAX));
    let io = TokioIo::new(upgraded);
    let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
    let mut closed = phase.clone();
    let closed = pin!(closed.wait_for(|phase| *phase == Phase::Closed));
    let talking = async {
        let mut room = held.outlet().room(Kind::Stream);
        let end = talk(&mut socket, stream, heartbeat, &mut room, &phase).await?;
        close(&mut socket, end, heartbeat).await
    };
    tokio::select! {
        _ = closed => {}
        () = held.outlet().ended() => {}
        ended = talking => if let Err(error) = ended {
            tracing::debug!(%error, "WebSocket ended early");
        }
    }
}

/// Sends frames until one side ends; what to say then.
async fn talk(
    socket: &mut Socket,
    mut stream: LiveStream,
    heartbeat: Duration,
    room: &mut Room,
    phase: &watch::Receiver<Phase>,
) -> Result<Option<CloseFrame>, Error> {
    let mut ticks = tokio::time::interval(heartbeat);
    ticks.reset();
    let mut silent = 0;
    loop {
        tokio::select! {
            frames = stream.next() => {
                let Some(frames) = frames else { return Ok(Some(ended(phase))) };
                for frame in frames {
                    feed(socket, room, &frame).await?;
                }
                socket.flush().await?;
            }
            said = socket.next() => match said {
                None | Some(Ok(Message::Close(_))) => return Ok(None),
                // What a gateway says is only a sign of life.
                Some(said) => {
                    said?;
                    silent = 0;
                }
            },
            _ = ticks.tick() => {
                if silent == SILENT_HEARTBEATS_MAX {
                    return Ok(Some(close_frame(CloseCode::Away, "no answer to pings")));
                }
                silent += 1;
                socket.send(Message::Ping(Bytes::new())).await?;
            }
        }
    }
}

/// Puts a frame on its way as one message, in parts if it is long.
async fn feed(socket: &mut Socket, room: &mut Room, frame: &LiveFrame) -> Result<(), Error> {
    let making = room.make(|outlet| {
        let mut out = Vec::new();
        show::put_frame(&mut out, frame);
        let held = outlet.take(out.len());
        (Bytes::from(out), held)
    });
    let (mut rest, _held) = making.await;
    let mut kind = Data::Text;
    loop {
        let part = rest.split_to(rest.len().min(PART_BYTES));
        let part = Frame::message(part, OpCode::Data(kind), rest.is_empty());
        socket.feed(Message::Frame(part)).await?;
        if rest.is_empty() {
            return Ok(());
        }
        kind = Data::Continue;
    }
}

/// What to say when the stream has ended.
fn ended(phase: &watch::Receiver<Phase>) -> CloseFrame {
    if *phase.borrow() == Phase::Serving {
        let reason = "replaced by another stream of the gateway";
        return close_frame(CloseCode::Policy, reason);
    }
    close_frame(CloseCode::Away, "the server is stopping; reconnect")
}

fn close_frame(code: CloseCode, reason: &'static str) -> CloseFrame {
    CloseFrame { code, reason: Utf8Bytes::from_static(reason) }
}

/// Ends the conversation, and waits a while for the other side to agree.
async fn close(
    socket: &mut Socket,
    frame: Option<CloseFrame>,
    patience: Duration,
) -> Result<(), Error> {
    let closing = async {
        socket.close(frame).await?;
        while let Some(said) = socket.next().await {
            said?;
        }
        Ok(())
    };
    match tokio::time::timeout(patience, closing).await {
        Ok(Err(Error::ConnectionClosed)) | Err(_) => Ok(()),
        Ok(closed) => closed,
    }
}
