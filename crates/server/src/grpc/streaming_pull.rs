//! StreamingPull: leases out, acks and deadlines in, for as long as both sides like.
//!
//! ```text
//! client ──requests──▶ inbound task ──acks, deadlines──▶ Subscription (inline, short lock)
//!                            │ the end, a new stream deadline, confirmations
//!                            ▼
//! client ◀─responses── Outbound::poll_next ◀──leases── Consumer::poll_lease
//! ```
//!
//! Requests have their own task, so that acks are read while the client is too slow to take
//! more messages. Responses have none: they are made when the transport asks for the next one.

mod inbound;
mod settling;

use broker::tasks::Task;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use broker::{Consumer, Subscription};
use domain::delivery::{Flow, Lease};
use domain::limits::CLIENT_ID_BYTES_MAX;
use domain::subscription::stream_ack_deadline;
use domain::{Invalid, SubscriptionName};
use futures::Stream;
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tonic::{Request, Status, Streaming};
use wire::pubsub::streaming_pull_response::SubscriptionProperties;
use wire::pubsub::{StreamingPullRequest, StreamingPullResponse};

use inbound::{Confirmation, Inbound};

use crate::api::Api;
use crate::convert;
use crate::net::{Kind, Outlet};
use crate::status::{Refusal, Result};

/// Opens a stream once its first request has come and is in order.
pub(super) async fn open(
    api: &Api,
    mut request: Request<Streaming<StreamingPullRequest>>,
    first_request_timeout: Duration,
) -> Result<Outbound, Status> {
    let outlet = request.extensions_mut().remove::<Arc<Outlet>>();
    let outlet = outlet.ok_or_else(|| Status::internal("the stream has no connection"))?;
    let mut requests = request.into_inner();
    let first = tokio::time::timeout(first_request_timeout, requests.message()).await;
    let first = match first {
        Ok(first) => first?.ok_or_else(|| Status::invalid_argument("the stream has no request"))?,
        Err(_) => return Err(Status::deadline_exceeded("the first request did not come")),
    };
    let (subscription, consumer) = open_consumer(api, &first)?;
    let shared = Arc::new(Shared::default());
    let room = outlet.room(Kind::Stream);
    let mut inbound = Inbound::new(requests, Arc::clone(&subscription), Arc::clone(&shared), room);
    inbound.begin(first).await?;
    let inbound = broker::tasks::spawn("streaming pull", inbound.run());
    let open = Open::count(api.open_streams());
    Ok(Outbound { consumer, subscription, shared, inbound, told: None, ended: false, _open: open })
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
    /// What became of acks and deadlines, to be sent. Bounded by the places of `Inbound`.
    confirmations: Mutex<VecDeque<Confirmation>>,
    /// The client has ended its side, or broken it: nothing more is leased to it.
    is_ending: AtomicBool,
    /// How the stream ends, once all that the client said is done.
    end: Mutex<Option<std::result::Result<(), Status>>>,
    waker: AtomicWaker,
}

impl Shared {
    fn tell(&self, confirmation: Confirmation) {
        self.confirmations.lock().push_back(confirmation);
        self.waker.wake();
    }

    /// Nothing is leased to the stream anymore.
    fn end_leasing(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
    }

    fn end(&self, end: std::result::Result<(), Status>) {
        *self.end.lock() = Some(end);
        self.waker.wake();
    }
}

/// The responses of a stream.
pub(crate) struct Outbound {
    consumer: Consumer,
    subscription: Arc<Subscription>,
    shared: Arc<Shared>,
    inbound: Task,
    /// What the client was last told about the subscription.
    told: Option<SubscriptionProperties>,
    ended: bool,
    _open: Open,
}

/// Counts as an open stream for as long as it lives.
struct Open(Arc<AtomicU64>);

impl Open {
    fn count(open: &Arc<AtomicU64>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(open))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Outbound {
    /// A response, if there is anything to say.
    fn respond(
        &mut self,
        leases: Vec<Lease>,
        confirmation: Option<Confirmation>,
    ) -> Option<StreamingPullResponse> {
        let settings = self.subscription.settings();
        let properties = SubscriptionProperties {
            exactly_once_delivery_enabled: settings.exactly_once,
            message_ordering_enabled: settings.message_ordering,
        };
        let has_changed = self.told.is_some_and(|told| told != properties);
        if leases.is_empty() && confirmation.is_none() && !has_changed {
            return None;
        }
        self.told = Some(properties);
        let shows_attempt = settings.dead_letter_policy.is_some();
        let to_wire = |lease| convert::lease_to_wire(lease, shows_attempt);
        Some(StreamingPullResponse {
            received_messages: leases.into_iter().map(to_wire).collect(),
            // In every response: official clients take a missing one for all false.
            subscription_properties: Some(properties),
            ..confirmation.map(|confirmation| confirmation.response).unwrap_or_default()
        })
    }

    fn poll_response(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<StreamingPullResponse, Status>>> {
        // Registered before looking, so that what is said in between is not missed.
        self.shared.waker.register(context.waker());
        let has_ended = self.shared.end.lock().is_some();
        let confirmation = self.shared.confirmations.lock().pop_front();
        if has_ended {
            if let Some(last) = self.respond(Vec::new(), confirmation) {
                return Poll::Ready(Some(Ok(last)));
            }
            self.ended = true;
            let end = self.shared.end.lock().take();
            return Poll::Ready(end.and_then(Result::err).map(Err));
        }
        let deadline_s = self.shared.deadline_s.swap(0, Ordering::Relaxed);
        if deadline_s != 0 {
            self.consumer.set_ack_deadline(Duration::from_secs(deadline_s));
        }
        let polled = match self.shared.is_ending.load(Ordering::SeqCst) {
            true => Poll::Pending,
            false => self.consumer.poll_lease(context),
        };
        let leases = match polled {
            Poll::Pending => Vec::new(),
            Poll::Ready(Ok(leases)) => leases,
            Poll::Ready(Err(error)) => {
                self.ended = true;
                return Poll::Ready(Some(Err(Refusal::from(error).into())));
            }
        };
        match self.respond(leases, confirmation) {
            Some(response) => Poll::Ready(Some(Ok(response))),
            None => Poll::Pending,
        }
    }
}

impl Stream for Outbound {
    type Item = std::result::Result<StreamingPullResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        self.poll_response(context)
    }
}

impl Drop for Outbound {
    fn drop(&mut self) {
        self.inbound.abort();
    }
}
