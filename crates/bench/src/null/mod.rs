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
        serve_on(listener, queue).await
    })
}

/// Serves on a port until dropped.
async fn serve_on(listener: TcpListener, queue: bool) -> Result<()> {
    let null = Null::new(queue);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::Semaphore;

    use super::*;
    use crate::grpc::Channel;
    use crate::lean;
    use crate::load::{self, Goal, Pace, Publisher, Pullers, Subscriber, Wanted};

    const TOPIC: &str = "projects/p/topics/t";
    const SUBSCRIPTION: &str = "projects/p/subscriptions/s";
    const MINUTE: Duration = Duration::from_secs(60);

    /// A null server that ends with the set, and a channel to it.
    async fn start() -> (JoinSet<Result<()>>, Channel) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut server = JoinSet::new();
        server.spawn(serve_on(listener, true));
        (server, Channel::connect(address, 2).await.unwrap())
    }

    fn publishers(channel: &Channel, callers: usize, batch: u32) -> Vec<Publisher> {
        let requests: Arc<[_]> = [load::request_of(TOPIC, batch, 1024)].into();
        let caller = |index| channel.caller(index, "Publisher/Publish").unwrap();
        let publisher = |index| Publisher::new(caller(index), Arc::clone(&requests), 0, batch);
        (0..callers).map(publisher).collect()
    }

    #[tokio::test]
    async fn the_load_receives_on_a_stream_what_it_published() {
        let (_server, channel) = start().await;
        let lead = Arc::new(Semaphore::new(50));
        let publishers = publishers(&channel, 4, 10);
        let publishers = publishers.into_iter().map(|one| one.with_lead(Arc::clone(&lead)));
        let publishing = load::run(publishers.collect(), Goal::calls(100, MINUTE));
        let mut subscriber = Subscriber::open(&channel, SUBSCRIPTION).await.unwrap();
        let wanted = Wanted { messages: 1000, lead: Some(lead) };
        let (slice, received) = tokio::try_join!(publishing, subscriber.receive(&wanted)).unwrap();
        assert_eq!((slice.calls, received.messages, received.again), (100, 1000, 0));
    }

    #[tokio::test]
    async fn the_load_pulls_and_acks_what_it_published() {
        let (_server, channel) = start().await;
        load::run(publishers(&channel, 4, 10), Goal::calls(100, MINUTE)).await.unwrap();
        let pullers = Pullers { callers: 2, messages_max: 50 };
        let pulled = load::pull_and_ack(&channel, SUBSCRIPTION, pullers, 900, MINUTE);
        let (messages, _) = pulled.await.unwrap();
        assert!((900..=1000).contains(&messages), "{messages}");
    }

    #[tokio::test]
    async fn the_load_at_a_fixed_rate_counts_every_message_after_the_warm_up() {
        let (_server, channel) = start().await;
        let pace = Pace { per_second: 1000, warm_up: 10, measured: 50 };
        let at_rate = load::stream_at_rate(&channel, TOPIC, SUBSCRIPTION, 1024, pace);
        let at_rate = at_rate.await.unwrap();
        assert_eq!((at_rate.stored.count(), at_rate.received.count()), (50, 50));
    }

    #[tokio::test]
    async fn a_refused_call_is_an_error_that_names_its_status() {
        let (_server, channel) = start().await;
        let request = lean::frame(&wire::pubsub::SeekRequest::default());
        let error = channel.call("Subscriber/Seek", request).await;
        assert!(format!("{:#}", error.unwrap_err()).contains("gRPC status 12"));
    }
}
