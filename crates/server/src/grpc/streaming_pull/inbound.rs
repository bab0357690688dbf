//! The client's side of a stream: requests after the first.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use broker::Subscription;
use domain::Invalid;
use domain::subscription::stream_ack_deadline;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, Peekable};
use futures::{FutureExt, StreamExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Code, Status, Streaming};
use wire::pubsub::{StreamingPullRequest, StreamingPullResponse};

use super::Shared;
use super::settling::{confirm, gives_back, is_about_leases, settle};
use crate::net::{Hold, Room};
use crate::status::Result;

/// Requests of one stream whose outcome is not yet durable, or not yet sent. Further ones are
/// not read, so that a client that takes no responses cannot fill our memory.
const UNCONFIRMED_MAX: usize = 16;

/// What became of the ids of one request. It takes one of the places that a stream has, and counts
/// as an answer from when it is begun.
pub(super) struct Confirmation {
    pub(super) response: StreamingPullResponse,
    _place: OwnedSemaphorePermit,
    _hold: Hold,
}

/// Reads requests and does what they say.
pub(super) struct Inbound {
    requests: Peekable<Streaming<StreamingPullRequest>>,
    subscription: Arc<Subscription>,
    /// Who the client said it is when it opened the stream.
    client_id: String,
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
    room: Room,
    /// On their way to stable storage. Requests go on being read meanwhile.
    confirming: FuturesUnordered<BoxFuture<'static, Result<Confirmation>>>,
}

impl Inbound {
    pub(super) fn new(
        requests: Streaming<StreamingPullRequest>,
        subscription: Arc<Subscription>,
        shared: Arc<Shared>,
        room: Room,
    ) -> Self {
        Self {
            requests: requests.peekable(),
            subscription,
            client_id: String::new(),
            shared,
            places: Arc::new(Semaphore::new(UNCONFIRMED_MAX)),
            room,
            confirming: FuturesUnordered::new(),
        }
    }

    /// Does what the first request says about leases, before any other is read.
    pub(super) async fn begin(&mut self, first: StreamingPullRequest) -> Result<()> {
        self.client_id.clone_from(&first.client_id);
        self.note_end();
        match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => self.settle(first, place).await,
            // Nobody has taken a place yet.
            Err(_) => Ok(()),
        }
    }

    pub(super) async fn run(mut self) {
        let end = self.serve().await;
        self.shared.end(end);
    }

    /// Until the client has ended or broken the stream.
    async fn serve(&mut self) -> Result<(), Status> {
        loop {
            tokio::select! {
                Some(confirmed) = self.confirming.next() => self.shared.tell(confirmed?),
                next = next_request(&mut self.requests, &self.places) => match next? {
                    Some((request, place)) => {
                        self.look_ahead(&request);
                        self.take(request, place).await?;
                    }
                    None => break,
                },
            }
        }
        self.shared.end_leasing();
        while let Some(confirmed) = self.confirming.next().await {
            self.shared.tell(confirmed?);
        }
        Ok(())
    }

    /// Clients that end give back what they hold as their last act. None of that may be leased to
    /// the stream again in the moment before its end is read.
    fn look_ahead(&mut self, request: &StreamingPullRequest) {
        if gives_back(request) {
            self.note_end();
        }
    }

    fn note_end(&mut self) {
        if let Some(None | Some(Err(_))) = Pin::new(&mut self.requests).peek().now_or_never() {
            self.shared.end_leasing();
        }
    }

    async fn take(
        &mut self,
        request: StreamingPullRequest,
        place: OwnedSemaphorePermit,
    ) -> Result<()> {
        self.check_later(&request)?;
        if request.stream_ack_deadline_seconds != 0 {
            let seconds = request.stream_ack_deadline_seconds;
            let deadline = stream_ack_deadline("stream_ack_deadline_seconds", seconds)?;
            self.shared.deadline_s.store(deadline.as_secs(), Ordering::Relaxed);
            self.shared.waker.wake();
        }
        self.settle(request, place).await
    }

    /// What a stream is opened with does not change. Clients may repeat their id.
    fn check_later(&self, request: &StreamingPullRequest) -> Result<(), Invalid> {
        let is_other_client = !request.client_id.is_empty() && request.client_id != self.client_id;
        for (field, is_given) in [
            ("subscription", !request.subscription.is_empty()),
            ("client_id", is_other_client),
            ("max_outstanding_messages", request.max_outstanding_messages != 0),
            ("max_outstanding_bytes", request.max_outstanding_bytes != 0),
        ] {
            if is_given {
                let problem = "must be given in the first request of a stream only; open another \
                               stream to change it";
                return Err(Invalid::new(field, problem));
            }
        }
        Ok(())
    }

    /// Does what a request says about leases.
    async fn settle(
        &mut self,
        request: StreamingPullRequest,
        place: OwnedSemaphorePermit,
    ) -> Result<()> {
        if !is_about_leases(&request) {
            return Ok(());
        }
        if !self.subscription.settings().exactly_once {
            return settle(&self.subscription, &request).await;
        }
        // The request itself is counted by its body.
        let bytes = ids_bytes(&request);
        let hold = self.room.make(|outlet| outlet.take(bytes)).await;
        let confirmed = confirm(Arc::clone(&self.subscription), request);
        let mut confirming: BoxFuture<'static, _> = Box::pin(async move {
            Ok(Confirmation { response: confirmed.await?, _place: place, _hold: hold })
        });
        // Begun at once, so that requests take effect in the order in which they came.
        match futures::poll!(&mut confirming) {
            Poll::Ready(confirmed) => self.shared.tell(confirmed?),
            Poll::Pending => self.confirming.push(confirming),
        }
        Ok(())
    }
}

/// What the ids of a request take in memory, about.
fn ids_bytes(request: &StreamingPullRequest) -> usize {
    let ids = request.ack_ids.iter().chain(&request.modify_deadline_ack_ids);
    ids.map(|id| size_of::<String>() + id.len()).sum()
}

/// The next request, once there is a place for its outcome; `None` = the client is done.
async fn next_request(
    requests: &mut Peekable<Streaming<StreamingPullRequest>>,
    places: &Arc<Semaphore>,
) -> Result<Option<(StreamingPullRequest, OwnedSemaphorePermit)>, Status> {
    // The semaphore is never closed.
    let Ok(place) = Arc::clone(places).acquire_owned().await else { return Ok(None) };
    let request = requests.next().await.transpose().map_err(too_long)?;
    Ok(request.map(|request| (request, place)))
}

/// The transport calls a request that is too long out of range; Google calls it invalid.
fn too_long(status: Status) -> Status {
    match status.code() {
        Code::OutOfRange => Status::invalid_argument(status.message().to_owned()),
        _ => status,
    }
}
