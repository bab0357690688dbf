//! The stream to the server: opened, lost, opened again, closed.

use std::time::Duration;

use domain::RetryPolicy;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use wire::pubsub::{StreamingPullRequest, StreamingPullResponse};

use crate::{Connection, clock};

/// Requests that may wait for the transport, at most.
const REQUESTS_MAX: usize = 16;
/// A stream that lived so long was a good one: the next is opened at once.
const GOOD_AFTER: Duration = Duration::from_secs(10);

/// What happened to the stream.
pub(super) enum Event {
    /// It is open.
    Opened,
    /// The server said something.
    Response(StreamingPullResponse),
    /// It was lost, and will be opened again after a while.
    Lost(Option<Status>),
    /// The server refuses it, and would again.
    Refused(Status),
    /// It was closed, and everything that came was read.
    Closed,
}

/// A stream that is opened again when it is lost.
pub(super) struct Link {
    connection: Connection,
    first: StreamingPullRequest,
    reconnect: RetryPolicy,
    state: State,
    /// Tries that failed, one after the other.
    failures: u32,
    is_closing: bool,
}

type Opening = BoxFuture<'static, Result<Streaming<StreamingPullResponse>, Status>>;

enum State {
    Waiting(std::pin::Pin<Box<Sleep>>),
    Opening(Opening, mpsc::Sender<StreamingPullRequest>),
    Open(Open),
    Closed,
}

struct Open {
    responses: Streaming<StreamingPullResponse>,
    /// `None` = this side is closed.
    requests: Option<mpsc::Sender<StreamingPullRequest>>,
    since: Instant,
    has_said: bool,
}

impl Link {
    /// A link that begins each stream with `first`.
    pub(super) fn new(
        connection: Connection,
        first: StreamingPullRequest,
        reconnect: RetryPolicy,
    ) -> Self {
        let state = State::Waiting(Box::pin(tokio::time::sleep(Duration::ZERO)));
        Self { connection, first, reconnect, state, failures: 0, is_closing: false }
    }

    /// What happens next. May be dropped at any time without loss.
    pub(super) async fn next(&mut self) -> Event {
        loop {
            match &mut self.state {
                State::Waiting(_) | State::Opening(..) if self.is_closing => {
                    self.state = State::Closed;
                }
                State::Waiting(sleep) => {
                    sleep.as_mut().await;
                    self.begin_opening();
                }
                State::Opening(opening, _) => {
                    let opened = opening.as_mut().await;
                    return self.opened(opened);
                }
                State::Open(open) => {
                    let said = open.responses.message().await;
                    return self.said(said);
                }
                State::Closed => return Event::Closed,
            }
        }
    }

    /// Takes requests for the server; `None` while there is no stream.
    pub(super) fn sender(&self) -> Option<mpsc::Sender<StreamingPullRequest>> {
        match &self.state {
            State::Open(open) => open.requests.clone(),
            _ => None,
        }
    }

    /// Tells the server that nothing more comes from here. What it has sent is still read.
    pub(super) fn close(&mut self) {
        self.is_closing = true;
        if let State::Open(open) = &mut self.state {
            open.requests = None;
        }
    }

    fn begin_opening(&mut self) {
        let (sender, receiver) = mpsc::channel(REQUESTS_MAX);
        let (connection, first) = (self.connection.clone(), self.first.clone());
        let opening = async move {
            let requests = ReceiverStream::new(receiver);
            let requests =
                futures::StreamExt::chain(futures::stream::iter(std::iter::once(first)), requests);
            let request = connection.stream(requests).await?;
            Ok(connection.subscriber().streaming_pull(request).await?.into_inner())
        };
        self.state = State::Opening(Box::pin(opening), sender);
    }

    fn opened(&mut self, opened: Result<Streaming<StreamingPullResponse>, Status>) -> Event {
        let State::Opening(_, requests) = std::mem::replace(&mut self.state, State::Closed) else {
            return Event::Closed;
        };
        match opened {
            Ok(responses) => {
                let (requests, since) = (Some(requests), Instant::now());
                self.state = State::Open(Open { responses, requests, since, has_said: false });
                Event::Opened
            }
            Err(status) => self.lost(Some(status), false),
        }
    }

    fn said(&mut self, said: Result<Option<StreamingPullResponse>, Status>) -> Event {
        let State::Open(open) = &mut self.state else { return Event::Closed };
        let status = match said {
            Ok(Some(response)) => {
                open.has_said = true;
                self.failures = 0;
                return Event::Response(response);
            }
            Ok(None) => None,
            Err(status) => Some(status),
        };
        let was_good = open.has_said || open.since.elapsed() >= GOOD_AFTER;
        self.lost(status, was_good)
    }

    fn lost(&mut self, status: Option<Status>, was_good: bool) -> Event {
        if self.is_closing {
            self.state = State::Closed;
            return Event::Closed;
        }
        if let Some(status) = &status
            && !was_good
            && is_permanent(status.code())
        {
            self.state = State::Closed;
            return Event::Refused(status.clone());
        }
        self.failures = if was_good { 1 } else { self.failures.saturating_add(1) };
        let wait = self.reconnect.backoff(self.failures, clock::wall().0);
        self.state = State::Waiting(Box::pin(tokio::time::sleep(wait)));
        Event::Lost(status)
    }
}

/// Whether the server would say the same again.
fn is_permanent(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument
            | Code::NotFound
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::FailedPrecondition
            | Code::Unimplemented
    )
}
