//! A local HTTP endpoint that pushes can go to.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Bytes of a request, at most: the longest message there is, as JSON, and room around it.
const BODY_BYTES_MAX: usize = 64 << 20;

/// Connections at a time.
const CONNECTIONS_MAX: usize = 1_000;

/// How long the head of a request may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How long what is under way may take once the end has come.
const GRACE: Duration = Duration::from_secs(5);

/// One request.
pub(super) struct Arrived {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// What it is answered.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// How long the answer waits.
    pub(super) delay: Duration,
}

/// Decides what a request is answered.
pub(super) type Decide = Arc<dyn Fn(&Arrived) -> Answer + Send + Sync>;

/// Takes requests until `end`, and lets those under way have their answers.
pub(super) async fn serve(listener: TcpListener, decide: Decide, end: impl Future<Output = ()>) {
    let open = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut end = std::pin::pin!(end);
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // Such as too many open files; the next may do better.
                Err(_) => continue,
            },
            () = &mut end => break,
        };
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
        let decide = Arc::clone(&decide);
        let service = service_fn(move |request| answer(request, Arc::clone(&decide)));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service);
        let connection = open.watch(connection);
        broker::tasks::spawn("endpoint", async move {
            // A sender that goes away is its own affair.
            drop(connection.await);
            drop(permit);
        });
    }
    drop(tokio::time::timeout(GRACE, open.shutdown()).await);
}

async fn answer(
    request: Request<Incoming>,
    decide: Decide,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
        return Ok(plain(StatusCode::PAYLOAD_TOO_LARGE));
    };
    let path = head.uri.path().to_owned();
    let arrived =
        Arrived { method: head.method, path, headers: head.headers, body: body.to_bytes() };
    let Answer { status, delay } = decide(&arrived);
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    Ok(plain(status))
}

fn plain(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::new()));
    *response.status_mut() = status;
    response
}
