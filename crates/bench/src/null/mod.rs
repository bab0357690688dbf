//! The null server, one of the two limits: the same gRPC, runtime and wire types as the server,
//! and nothing behind them. It stores nothing, leases nothing and drops every ack.

mod queue;
mod service;

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::codegen::Service;
use wire::pubsub::publisher_server::PublisherServer;
use wire::pubsub::subscriber_server::SubscriberServer;

use service::Null;

/// Largest request taken, above every request of the bench.
const REQUEST_BYTES_MAX: usize = 16 << 20;

// HTTP/2 as the server has it.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
const SEND_BUFFER: usize = 1 << 20;
const STREAMS_MAX: u32 = 1000;
const HEADER_BYTES_MAX: u32 = 16 * 1024;
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Serves on a free local port, which it prints, until it is killed.
pub(crate) fn serve(queue: bool) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        writeln!(std::io::stdout(), "Listening   {}", listener.local_addr()?)?;
        accept(listener, Null::new(queue)).await
    })
}

async fn accept(listener: TcpListener, null: Null) -> Result<()> {
    let publisher = PublisherServer::new(null.clone()).max_decoding_message_size(REQUEST_BYTES_MAX);
    let subscriber = SubscriberServer::new(null).max_decoding_message_size(REQUEST_BYTES_MAX);
    let builder = builder();
    let mut connections = JoinSet::new();
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let (publisher, subscriber) = (publisher.clone(), subscriber.clone());
        let front = service_fn(move |request: Request<Incoming>| {
            if request.uri().path().starts_with("/google.pubsub.v1.Publisher/") {
                publisher.clone().call(request)
            } else {
                subscriber.clone().call(request)
            }
        });
        let connection = builder.serve_connection(TokioIo::new(socket), front);
        // The bench sees a broken connection as a failed call.
        connections.spawn(async move { drop(connection.await) });
        while connections.try_join_next().is_some() {}
    }
}

fn builder() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER);
    builder
}
