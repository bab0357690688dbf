//! StreamingPull: leases out, acks and deadlines in, for as long as both sides like.
//!
//! ```text
//! client ──requests──▶ inbound task ──acks, deadlines──▶ Subscription (inline, short lock)
//!                            │ the end, a new stream deadline
//!                            ▼
//! client ◀─responses── Outbound::poll_next ◀──leases── Consumer::poll_lease
//! ```
//!
//! Requests have a task of their own, so that acks are read while the client is too slow to take
//! more messages. Responses have none: they are made when the transport asks for the next one.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use broker::{Consumer, Subscription};
use domain::delivery::{AckId, Flow};
use domain::limits::CLIENT_ID_BYTES_MAX;
use domain::subscription::{lease_deadline, stream_ack_deadline};
use domain::{Invalid, SubscriptionName};
use futures::Stream;
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tonic::{Code, Status, Streaming};
use wire::pubsub::streaming_pull_response::SubscriptionProperties;
use wire::pubsub::{StreamingPullRequest, StreamingPullResponse};

use crate::api::{Api, ack_ids};
use crate::convert;
use crate::status::{Refusal, Result};

/// Opens a stream once its first request has come and is in order.
pub(super) async fn open(
    api: &Api,
    mut requests: Streaming<StreamingPullRequest>,
    first_request_timeout: Duration,
) -> Result<Outbound, Status> {
    let first = tokio::time::timeout(first_request_timeout, requests.message()).await;
    let first = match first {
        Ok(first) => first?.ok_or_else(|| Status::invalid_argument("the stream has no request"))?,
        Err(_) => return Err(Status::deadline_exceeded("the first request did not come")),
    };
    let (subscription, consumer) = open_consumer(api, &first)?;
    settle(&subscription, &first)?;
    let shared = Arc::new(Shared::default());
    let inbound = Inbound { requests, subscription, shared: Arc::clone(&shared) };
    let inbound = broker::spawn::named("streaming pull", inbound.run());
    Ok(Outbound { consumer, shared, inbound, properties_sent: false, ended: false })
}

fn open_consumer(api: &Api, first: &StreamingPullRequest) -> Result<(Arc<Subscription>, Consumer)> {
    let name = SubscriptionName::parse("subscription", &first.subscription)?;
    let deadline =
        stream_ack_deadline("stream_ack_deadline_seconds", first.stream_ack_deadline_seconds)?;
    if first.client_id.len() > CLIENT_ID_BYTES_MAX {
        let problem = format!("more than {CLIENT_ID_BYTES_MAX} bytes");
        return Err(Invalid::new("client_id", problem).into());
    }
    let flow = Flow {
        messages_max: limit(first.max_outstanding_messages),
        bytes_max: limit(first.max_outstanding_bytes),
    };
    let subscription = api.broker().subscription(&name)?;
    let consumer = api.broker().stream(&name, flow, deadline)?;
    Ok((subscription, consumer))
}

/// Zero or less on the wire means no limit, which is zero to the broker.
fn limit(asked: i64) -> u64 {
    u64::try_from(asked).unwrap_or(0)
}

/// What the two halves of a stream tell each other.
#[derive(Default)]
struct Shared {
    /// A new ack deadline for leases to come, in seconds; 0 = none.
    deadline_s: AtomicU64,
    /// How the stream ends, once the client has ended or broken it.
    end: Mutex<Option<std::result::Result<(), Status>>>,
    waker: AtomicWaker,
}

/// The client's requests after the first.
struct Inbound {
    requests: Streaming<StreamingPullRequest>,
    subscription: Arc<Subscription>,
    shared: Arc<Shared>,
}

impl Inbound {
    async fn run(mut self) {
        let end = loop {
            match self.requests.message().await {
                Ok(Some(request)) => {
                    if let Err(refusal) = self.take(&request) {
                        break Err(refusal.into());
                    }
                }
                Ok(None) => break Ok(()),
                Err(status) => break Err(too_long(status)),
            }
        };
        *self.shared.end.lock() = Some(end);
        self.shared.waker.wake();
    }

    fn take(&self, request: &StreamingPullRequest) -> Result<()> {
        if !request.subscription.is_empty() {
            let problem = "must be given in the first request of a stream only";
            return Err(Invalid::new("subscription", problem).into());
        }
        if request.stream_ack_deadline_seconds != 0 {
            let seconds = request.stream_ack_deadline_seconds;
            let deadline = stream_ack_deadline("stream_ack_deadline_seconds", seconds)?;
            self.shared.deadline_s.store(deadline.as_secs(), Ordering::Relaxed);
            self.shared.waker.wake();
        }
        settle(&self.subscription, request)
    }
}

/// The transport calls a request that is too long out of range; Google calls it invalid.
fn too_long(status: Status) -> Status {
    match status.code() {
        Code::OutOfRange => Status::invalid_argument(status.message().to_owned()),
        _ => status,
    }
}

/// Does what a request says about leases.
fn settle(subscription: &Arc<Subscription>, request: &StreamingPullRequest) -> Result<()> {
    if !request.ack_ids.is_empty() {
        let mut ids = ack_ids("ack_ids", &request.ack_ids)?;
        keep_own(subscription, &mut ids);
        subscription.acknowledge(&ids)?;
    }
    let (texts, deadlines) = (&request.modify_deadline_ack_ids, &request.modify_deadline_seconds);
    if texts.len() != deadlines.len() {
        let problem = format!(
            "{} deadlines for {} ids in modify_deadline_ack_ids",
            deadlines.len(),
            texts.len()
        );
        return Err(Invalid::new("modify_deadline_seconds", problem).into());
    }
    if texts.is_empty() {
        return Ok(());
    }
    let ids = ack_ids("modify_deadline_ack_ids", texts)?;
    modify(subscription, &ids, deadlines)
}

/// Changes deadlines, neighbours with the same deadline in one go: clients send them so.
fn modify(subscription: &Arc<Subscription>, ids: &[AckId], deadlines: &[i32]) -> Result<()> {
    if let Some(at) = deadlines.iter().position(|seconds| lease_deadline("", *seconds).is_err()) {
        let seconds = deadlines.get(at).copied().unwrap_or_default();
        lease_deadline(&format!("modify_deadline_seconds[{at}]"), seconds)?;
    }
    let mut rest = ids;
    for run in deadlines.chunk_by(|a, b| a == b) {
        let (same, others) = rest.split_at(run.len().min(rest.len()));
        rest = others;
        let deadline =
            lease_deadline("modify_deadline_seconds", run.first().copied().unwrap_or(0))?;
        let mut same = same.to_vec();
        keep_own(subscription, &mut same);
        subscription.modify_ack_deadline(&same, deadline)?;
    }
    Ok(())
}

/// Drops ids of another life of the subscription: a client that reconnects after it was deleted
/// and made again still sends them, and must not lose its stream for it.
fn keep_own(subscription: &Subscription, ids: &mut Vec<AckId>) {
    ids.retain(|id| id.subscription() == subscription.id());
}

/// The responses of a stream.
pub(crate) struct Outbound {
    consumer: Consumer,
    shared: Arc<Shared>,
    inbound: JoinHandle<()>,
    properties_sent: bool,
    ended: bool,
}

impl Outbound {
    fn respond(&mut self, leases: Vec<domain::delivery::Lease>) -> StreamingPullResponse {
        // Google tells the subscription's properties first and after each change; ours do not
        // change.
        let first = !std::mem::replace(&mut self.properties_sent, true);
        StreamingPullResponse {
            received_messages: leases.into_iter().map(convert::lease_to_wire).collect(),
            subscription_properties: first.then(SubscriptionProperties::default),
            ..StreamingPullResponse::default()
        }
    }
}

impl Stream for Outbound {
    type Item = std::result::Result<StreamingPullResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.ended {
            return Poll::Ready(None);
        }
        // Registered before looking, so that what is said in between is not missed.
        this.shared.waker.register(context.waker());
        if let Some(end) = this.shared.end.lock().take() {
            this.ended = true;
            return Poll::Ready(end.err().map(Err));
        }
        let deadline_s = this.shared.deadline_s.swap(0, Ordering::Relaxed);
        if deadline_s != 0 {
            this.consumer.set_ack_deadline(Duration::from_secs(deadline_s));
        }
        match this.consumer.poll_lease(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(leases)) => Poll::Ready(Some(Ok(this.respond(leases)))),
            Poll::Ready(Err(error)) => {
                this.ended = true;
                Poll::Ready(Some(Err(Refusal::from(error).into())))
            }
        }
    }
}

impl Drop for Outbound {
    fn drop(&mut self) {
        self.inbound.abort();
    }
}
