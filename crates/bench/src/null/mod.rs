//! The null server, one of the two limits: the same gRPC, runtime and wire types as the server,
//! and nothing behind them. It stores nothing, leases nothing and drops every ack.

mod queue;
mod service;

use std::io::Write;

use anyhow::Result;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::service::Routes;
use wire::pubsub::publisher_server::PublisherServer;
use wire::pubsub::subscriber_server::SubscriberServer;

use service::Null;

/// Largest request taken, above every request of the bench.
const REQUEST_BYTES_MAX: usize = 16 << 20;

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
    let routes = Routes::new(publisher).add_service(subscriber).prepare();
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(1000);
    let mut connections = JoinSet::new();
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let service = TowerToHyperService::new(routes.clone());
        let builder = builder.clone();
        connections.spawn(async move {
            // The bench sees a broken connection as a failed call.
            drop(builder.serve_connection(TokioIo::new(socket), service).await);
        });
        while connections.try_join_next().is_some() {}
    }
}
