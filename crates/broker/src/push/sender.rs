//! Sends one request and reads its answer, over pooled connections.
//!
//! ```text
//!   send ─► pool ── one that was kept ─────────────────► connection: request, head, body ─► pool
//!             └── none ─► connect: name, guard, permit, TCP, TLS ─► connection
//! ```
//!
//! A request and its connection run in the caller's future; nothing is spawned. Dropping that
//! future closes the connection.

mod allowance;
mod body;
mod connect;
mod connection;
pub(crate) mod fuzzing;
mod head;
mod outgoing;
mod permits;
mod pool;
mod resolve;
mod sockets;
mod stream;
mod trouble;

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use clock::Clock;
use domain::Moment;
use domain::push::{Class, Endpoint};
use futures::future::BoxFuture;
use rustls::pki_types::pem;

use self::allowance::Allowance;
use self::connect::Connector;
use self::connection::{Connection, Unanswered};
use self::pool::Pool;
use self::resolve::Lookup;
use self::sockets::Sockets;
use self::trouble::Stage;
use super::exchange::{Answer, NoAnswer, Request};
use super::guard::Guard;

/// How long to resolve a name for a caller that only wants to know whether it may be reached.
const LOOK_TIME_MAX: Duration = Duration::from_millis(500);

/// Limits and settings of a sender.
#[derive(Clone, Debug)]
pub(crate) struct SenderOptions {
    /// For TCP and TLS together.
    pub(crate) connect_timeout: Duration,
    /// Maximum number of connects in progress, at least one.
    pub(crate) connects_max: usize,
    /// Maximum number of connects in progress to one host, at least one.
    pub(crate) connects_per_host_max: usize,
    /// A connection that was not used for this long is closed.
    pub(crate) idle_timeout: Duration,
    /// Maximum number of connections kept between requests, in total; 0 = none.
    pub(crate) idle_max: usize,
    /// Maximum number of sockets, in total: connecting, in use and kept between requests.
    pub(crate) sockets_max: usize,
    /// Which addresses may be connected to.
    pub(crate) guard: Guard,
    /// Additional trusted certificates, as PEM.
    pub(crate) ca_file: Option<PathBuf>,
}

/// Why there is no sender.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SenderError {
    #[error("push.ca_file {} cannot be read", path.display())]
    CaFile { path: PathBuf, source: io::Error },
    #[error("push.ca_file {} is not PEM: {source}", path.display())]
    CaPem { path: PathBuf, source: pem::Error },
    #[error("push.ca_file {} has a certificate that cannot be trusted", path.display())]
    CaCertificate { path: PathBuf, source: rustls::Error },
    #[error("push.ca_file {} has no certificate", path.display())]
    CaEmpty { path: PathBuf },
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
}

/// Sends requests. Created once, shared by all callers.
pub(crate) struct Sender {
    pool: Arc<Pool>,
    connector: Connector,
    clock: Arc<dyn Clock>,
}

impl Sender {
    pub(crate) fn new(options: SenderOptions, clock: Arc<dyn Clock>) -> Result<Self, SenderError> {
        Self::with_lookup(options, Arc::new(resolve::System), clock)
    }

    fn with_lookup(
        options: SenderOptions,
        lookup: Arc<dyn Lookup>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, SenderError> {
        let sockets = Arc::new(Sockets::new(options.sockets_max));
        let (idle_max, idle_timeout) = (options.idle_max, options.idle_timeout);
        let pool = Pool::new(idle_max, idle_timeout, Arc::clone(&sockets), Arc::clone(&clock));
        let pool = Arc::new(pool);
        let room = (sockets, Arc::clone(&pool));
        let connector = Connector::new(&options, lookup, room, Arc::clone(&clock))?;
        Ok(Self { pool, connector, clock })
    }

    /// Sends a request and reads its answer. The status line decides: a body that stalls, breaks or
    /// does not end is cut off. Redirects are not followed. Dropping the future cancels the request
    /// and closes its connection.
    pub(crate) fn send(self: &Arc<Self>, request: Request) -> Sending {
        let deadline = self.clock.now().plus(request.timeout);
        let way = match self.pool.take(&request.endpoint) {
            Some(mut connection) => {
                connection.begin(&request);
                Way::Kept(connection, request)
            }
            None => Way::Fresh(Box::pin(Arc::clone(self).send_fresh(request, deadline))),
        };
        Sending { sender: Arc::clone(self), deadline, way }
    }

    /// Why the endpoint may not be connected to, if its name can be resolved quickly.
    pub(crate) async fn refusal(&self, endpoint: &Endpoint) -> Option<String> {
        let deadline = self.clock.now().plus(LOOK_TIME_MAX);
        let mut allowance = Allowance::new(&*self.clock, LOOK_TIME_MAX, deadline);
        let refused = self.connector.vetted(endpoint, &mut allowance).await.err()?;
        (refused.class == Class::Blocked).then(|| refused.message.to_string())
    }

    /// Closes the connections that no request uses.
    pub(crate) fn close_idle(&self) {
        self.pool.clear();
    }

    async fn send_fresh(
        self: Arc<Self>,
        request: Request,
        deadline: Moment,
    ) -> Result<Answer, NoAnswer> {
        let endpoint = &request.endpoint;
        let mut allowance = Allowance::new(&*self.clock, request.timeout, deadline);
        let mut connection = self.connector.open(endpoint, &mut allowance).await?;
        connection.begin(&request);
        let answered = std::future::poll_fn(|context| {
            connection.poll_answer(&*self.clock, allowance.deadline(), context)
        });
        let answered = answered.await;
        self.finish(connection, &request, answered)
    }

    fn finish(
        &self,
        connection: Box<Connection>,
        request: &Request,
        answered: Result<Answer, Unanswered>,
    ) -> Result<Answer, NoAnswer> {
        let (endpoint, address) = (&request.endpoint, connection.address());
        match answered {
            Ok(answer) => {
                self.pool.put(endpoint, connection);
                Ok(answer)
            }
            Err(Unanswered::Late) => {
                Err(trouble::timeout(endpoint, Stage::Answer(address), request.timeout))
            }
            Err(why) => Err(trouble::protocol(endpoint, address, &why)),
        }
    }
}

/// A request in flight.
pub(crate) struct Sending {
    sender: Arc<Sender>,
    deadline: Moment,
    way: Way,
}

/// Over a kept connection first. If the endpoint had closed that one before a byte of the request
/// went out, over a fresh one. Anything that may have reached the endpoint is not resent: that
/// would be a second request in one attempt.
enum Way {
    Kept(Box<Connection>, Request),
    Fresh(BoxFuture<'static, Result<Answer, NoAnswer>>),
    Done,
}

impl Future for Sending {
    type Output = Result<Answer, NoAnswer>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { sender, deadline, way } = &mut *self;
        loop {
            let answered = match way {
                Way::Kept(connection, _) => {
                    ready!(connection.poll_answer(&*sender.clock, *deadline, context))
                }
                Way::Fresh(sending) => return sending.as_mut().poll(context),
                Way::Done => return Poll::Pending,
            };
            let Way::Kept(connection, request) = std::mem::replace(way, Way::Done) else {
                return Poll::Pending;
            };
            if !matches!(answered, Err(Unanswered::Unsent)) {
                return Poll::Ready(sender.finish(connection, &request, answered));
            }
            drop(connection);
            *way = Way::Fresh(Box::pin(Arc::clone(sender).send_fresh(request, *deadline)));
        }
    }
}

#[cfg(test)]
mod tests;
