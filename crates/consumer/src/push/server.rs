//! A listener for programs that have none.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::Options;
use crate::{Consumer, Handler, StartError, observe};

/// How long the head of a request may take to come.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// The wait after cannot accept a connection, such as when there are too many files.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// A port that is open.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Opens a port, such as `0.0.0.0:8080`.
    pub async fn bind(address: &str) -> Result<Self, StartError> {
        let refused = |source| StartError::Listen { address: address.to_owned(), source };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        Ok(Self { listener, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes messages, and shows `/metrics` and `/health`, until `stop` resolves. Then requests
    /// may finish within the grace time.
    pub async fn serve<H: Handler>(
        self,
        consumer: Consumer<H>,
        options: Options,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), StartError> {
        let (grace, connections_max) = (options.shutdown_grace, options.connections_max.max(1));
        let metrics = Arc::clone(consumer.metrics());
        let router = super::router(consumer, options)?.merge(observe::router(metrics));
        self.serve_router(router, connections_max, grace, stop).await;
        Ok(())
    }

    /// Serves any routes, such as those of `observe` beside a consumer that pulls.
    pub async fn serve_router(
        self,
        router: Router,
        connections_max: usize,
        grace: Duration,
        stop: impl Future<Output = ()> + Send,
    ) {
        let mut stop = std::pin::pin!(stop);
        let places = Arc::new(Semaphore::new(connections_max));
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                () = &mut stop => break,
                taken = accept(&self.listener, &places) => {
                    let Some((stream, place)) = taken else { continue };
                    connections.spawn(converse(stream, router.clone(), graceful.watcher(), place));
                }
                Some(_) = connections.join_next() => {}
            }
        }
        drop(self.listener);
        if tokio::time::timeout(grace, graceful.shutdown()).await.is_err() {
            tracing::warn!("requests did not finish in time; their sender will retry them");
        }
        connections.shutdown().await;
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(error) => {
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
            None
        }
    }
}

async fn converse(
    stream: TcpStream,
    router: Router,
    watcher: Watcher,
    _place: OwnedSemaphorePermit,
) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let service = TowerToHyperService::new(router);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(error, "a connection broke off");
    }
}
