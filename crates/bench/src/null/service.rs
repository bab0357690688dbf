//! Pub/Sub as the null server answers it. What the bench does not call is not implemented.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use tonic::{Request, Response, Status, Streaming};
use wire::protobuf::Empty;
use wire::pubsub::publisher_server::Publisher;
use wire::pubsub::subscriber_server::Subscriber;
use wire::pubsub::{
    AcknowledgeRequest, CreateSnapshotRequest, DeleteSnapshotRequest, DeleteSubscriptionRequest,
    DeleteTopicRequest, DetachSubscriptionRequest, DetachSubscriptionResponse, GetSnapshotRequest,
    GetSubscriptionRequest, GetTopicRequest, ListSnapshotsRequest, ListSnapshotsResponse,
    ListSubscriptionsRequest, ListSubscriptionsResponse, ListTopicSnapshotsRequest,
    ListTopicSnapshotsResponse, ListTopicSubscriptionsRequest, ListTopicSubscriptionsResponse,
    ListTopicsRequest, ListTopicsResponse, ModifyAckDeadlineRequest, ModifyPushConfigRequest,
    PublishRequest, PublishResponse, PullRequest, PullResponse, SeekRequest, SeekResponse,
    Snapshot, StreamingPullRequest, StreamingPullResponse, Subscription, Topic,
    UpdateSnapshotRequest, UpdateSubscriptionRequest, UpdateTopicRequest,
};

use super::queue::Queue;

/// Messages of one response on a stream, as many as the server's.
const STREAM_MESSAGES_MAX: usize = 1000;

/// Both services over one queue.
#[derive(Clone)]
pub(super) struct Null {
    queue: Arc<Queue>,
}

impl Null {
    pub(super) fn new(queue: bool) -> Self {
        Self { queue: Arc::new(Queue::new(queue)) }
    }
}

type Answer<T> = Result<Response<T>, Status>;
type Answering<'a, T> = Pin<Box<dyn Future<Output = Answer<T>> + Send + 'a>>;

/// Methods that answer UNIMPLEMENTED.
macro_rules! not_implemented {
    ($($method:ident($request:ty) -> $response:ty;)*) => {$(
        fn $method<'own, 'call>(&'own self, _: Request<$request>) -> Answering<'call, $response>
        where
            'own: 'call,
            Self: 'call,
        {
            Box::pin(async { Err(Status::unimplemented("the null server")) })
        }
    )*};
}

#[tonic::async_trait]
impl Publisher for Null {
    async fn create_topic(&self, request: Request<Topic>) -> Answer<Topic> {
        Ok(Response::new(request.into_inner()))
    }

    async fn publish(&self, request: Request<PublishRequest>) -> Answer<PublishResponse> {
        let messages = request.into_inner().messages;
        let count = messages.len();
        let first = self.queue.number(count);
        if self.queue.keeps() {
            poll_fn(|context| self.queue.poll_room(context)).await;
            self.queue.push(first, messages);
        }
        let message_ids = (first..).take(count).map(|id| id.to_string()).collect();
        Ok(Response::new(PublishResponse { message_ids }))
    }

    not_implemented! {
        update_topic(UpdateTopicRequest) -> Topic;
        get_topic(GetTopicRequest) -> Topic;
        list_topics(ListTopicsRequest) -> ListTopicsResponse;
        list_topic_subscriptions(ListTopicSubscriptionsRequest) -> ListTopicSubscriptionsResponse;
        list_topic_snapshots(ListTopicSnapshotsRequest) -> ListTopicSnapshotsResponse;
        delete_topic(DeleteTopicRequest) -> Empty;
        detach_subscription(DetachSubscriptionRequest) -> DetachSubscriptionResponse;
    }
}

#[tonic::async_trait]
impl Subscriber for Null {
    type StreamingPullStream = HandOut;

    async fn create_subscription(&self, request: Request<Subscription>) -> Answer<Subscription> {
        Ok(Response::new(request.into_inner()))
    }

    async fn delete_subscription(&self, _: Request<DeleteSubscriptionRequest>) -> Answer<Empty> {
        Ok(Response::new(Empty {}))
    }

    async fn acknowledge(&self, _: Request<AcknowledgeRequest>) -> Answer<Empty> {
        Ok(Response::new(Empty {}))
    }

    async fn pull(&self, request: Request<PullRequest>) -> Answer<PullResponse> {
        let messages_max = usize::try_from(request.into_inner().max_messages).unwrap_or_default();
        if messages_max == 0 {
            return Err(Status::invalid_argument("max_messages must be positive"));
        }
        let received_messages =
            poll_fn(|context| self.queue.poll_take(context, messages_max)).await;
        Ok(Response::new(PullResponse { received_messages }))
    }

    async fn streaming_pull(
        &self,
        request: Request<Streaming<StreamingPullRequest>>,
    ) -> Answer<HandOut> {
        let queue = Arc::clone(&self.queue);
        Ok(Response::new(HandOut { queue, requests: Some(request.into_inner()) }))
    }

    not_implemented! {
        get_subscription(GetSubscriptionRequest) -> Subscription;
        update_subscription(UpdateSubscriptionRequest) -> Subscription;
        list_subscriptions(ListSubscriptionsRequest) -> ListSubscriptionsResponse;
        modify_ack_deadline(ModifyAckDeadlineRequest) -> Empty;
        modify_push_config(ModifyPushConfigRequest) -> Empty;
        get_snapshot(GetSnapshotRequest) -> Snapshot;
        list_snapshots(ListSnapshotsRequest) -> ListSnapshotsResponse;
        create_snapshot(CreateSnapshotRequest) -> Snapshot;
        update_snapshot(UpdateSnapshotRequest) -> Snapshot;
        delete_snapshot(DeleteSnapshotRequest) -> Empty;
        seek(SeekRequest) -> SeekResponse;
    }
}

/// Hands the queue out on a stream as fast as HTTP/2 lets it, and drops the acks.
pub(super) struct HandOut {
    queue: Arc<Queue>,
    requests: Option<Streaming<StreamingPullRequest>>,
}

impl HandOut {
    fn poll_requests(&mut self, context: &mut Context<'_>) -> Poll<Option<Status>> {
        while let Some(requests) = &mut self.requests {
            match Pin::new(requests).poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(status))) => {
                    self.requests = None;
                    return Poll::Ready(Some(status));
                }
                Poll::Ready(None) => self.requests = None,
            }
        }
        Poll::Ready(None)
    }
}

impl Stream for HandOut {
    type Item = Result<StreamingPullResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.poll_requests(context) {
            Poll::Ready(Some(status)) => return Poll::Ready(Some(Err(status))),
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => {}
        }
        let taken = self.queue.poll_take(context, STREAM_MESSAGES_MAX);
        taken.map(|received_messages| {
            Some(Ok(StreamingPullResponse { received_messages, ..Default::default() }))
        })
    }
}
