//! StreamingPull.

use std::net::SocketAddr;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use wire::pubsub::{
    DeleteSubscriptionRequest, PublishRequest, PullRequest, ReceivedMessage, StreamingPullRequest,
    StreamingPullResponse,
};

use crate::rig::{Rig, each_engine, message, subscriber};

/// A stream under a test's control.
pub(crate) struct Stream {
    requests: mpsc::Sender<StreamingPullRequest>,
    pub(crate) responses: Streaming<StreamingPullResponse>,
}

pub(crate) fn first(subscription: &str) -> StreamingPullRequest {
    StreamingPullRequest {
        subscription: subscription.to_owned(),
        stream_ack_deadline_seconds: 60,
        ..StreamingPullRequest::default()
    }
}

impl Stream {
    async fn open(rig: &Rig, first: StreamingPullRequest) -> Result<Self, Status> {
        Self::open_at(rig.address, first).await
    }

    pub(crate) async fn open_at(
        address: SocketAddr,
        first: StreamingPullRequest,
    ) -> Result<Self, Status> {
        let (requests, receiver) = mpsc::channel(16);
        requests.send(first).await.unwrap();
        let outgoing = ReceiverStream::new(receiver);
        let opened = subscriber(address).await.streaming_pull(outgoing).await?;
        Ok(Self { requests, responses: opened.into_inner() })
    }

    pub(crate) async fn send(&self, request: StreamingPullRequest) {
        self.requests.send(request).await.unwrap();
    }

    pub(crate) async fn take(&mut self, count: usize) -> Vec<ReceivedMessage> {
        let mut taken = Vec::new();
        while taken.len() < count {
            let response = self.responses.message().await.unwrap().expect("the stream ended");
            taken.extend(response.received_messages);
        }
        assert_eq!(taken.len(), count);
        taken
    }

    /// The client has nothing more to say.
    pub(crate) fn half_close(self) -> Streaming<StreamingPullResponse> {
        self.responses
    }

    async fn end(mut self) -> Result<(), Status> {
        while self.responses.message().await?.is_some() {}
        Ok(())
    }
}

async fn publish(rig: &Rig, topic: &str, count: usize) {
    let messages = (0..count).map(|n| message(n.to_string())).collect();
    let request = PublishRequest { topic: topic.to_owned(), messages };
    rig.publisher().await.publish(request).await.unwrap();
}

async fn pull_now(rig: &Rig, subscription: &str) -> Vec<ReceivedMessage> {
    let request = PullRequest {
        subscription: subscription.to_owned(),
        max_messages: 1_000,
        return_immediately: true,
    };
    rig.subscriber().await.pull(request).await.unwrap().into_inner().received_messages
}

pub(crate) fn ids(received: &[ReceivedMessage]) -> Vec<String> {
    received.iter().map(|one| one.ack_id.clone()).collect()
}

async fn a_stream_gets_what_is_there_and_what_comes(rig: &Rig) {
    let (topic, subscription) = rig.pair().await;
    publish(rig, &topic, 3).await;
    let mut stream = Stream::open(rig, first(&subscription)).await.unwrap();
    let backlog = stream.take(3).await;
    publish(rig, &topic, 1).await;
    let fresh = stream.take(1).await;
    let acked = [ids(&backlog), ids(&fresh)].concat();
    stream.send(StreamingPullRequest { ack_ids: acked, ..Default::default() }).await;
    drop(stream.requests);
    assert!(stream.responses.message().await.unwrap().is_none(), "half-close ends it well");
    assert!(pull_now(rig, &subscription).await.is_empty());
}

async fn every_response_tells_the_properties(rig: &Rig) {
    let (topic, subscription) = rig.pair().await;
    let mut stream = Stream::open(rig, first(&subscription)).await.unwrap();
    publish(rig, &topic, 1).await;
    let response = stream.responses.message().await.unwrap().unwrap();
    let properties = response.subscription_properties.unwrap();
    assert!(!properties.exactly_once_delivery_enabled);
    assert!(!properties.message_ordering_enabled);
    // And so does every other: clients take a missing one for all false.
    publish(rig, &topic, 1).await;
    let response = stream.responses.message().await.unwrap().unwrap();
    assert_eq!(response.subscription_properties, Some(properties));
}

async fn outstanding_messages_are_bounded(rig: &Rig) {
    let (topic, subscription) = rig.pair().await;
    let bounded = StreamingPullRequest { max_outstanding_messages: 2, ..first(&subscription) };
    let mut stream = Stream::open(rig, bounded).await.unwrap();
    publish(rig, &topic, 5).await;
    let held = stream.take(2).await;
    // What the stream may not have is free for others.
    let others = pull_now(rig, &subscription).await;
    assert_eq!(others.len(), 3);
    stream.send(StreamingPullRequest { ack_ids: ids(&held), ..Default::default() }).await;
    publish(rig, &topic, 2).await;
    stream.take(2).await;
}

async fn outstanding_bytes_are_bounded_but_one_message_always_fits(rig: &Rig) {
    let (topic, subscription) = rig.pair().await;
    let bounded = StreamingPullRequest { max_outstanding_bytes: 10, ..first(&subscription) };
    let mut stream = Stream::open(rig, bounded).await.unwrap();
    let large =
        PublishRequest { topic: topic.clone(), messages: vec![message("x".repeat(1_000)); 2] };
    rig.publisher().await.publish(large).await.unwrap();
    let held = stream.take(1).await;
    assert_eq!(pull_now(rig, &subscription).await.len(), 1);
    stream.send(StreamingPullRequest { ack_ids: ids(&held), ..Default::default() }).await;
    publish(rig, &topic, 1).await;
    stream.take(1).await;
}

async fn nacks_on_the_stream_bring_messages_back(rig: &Rig) {
    let (topic, subscription) = rig.pair().await;
    let mut stream = Stream::open(rig, first(&subscription)).await.unwrap();
    publish(rig, &topic, 2).await;
    let held = stream.take(2).await;
    let nack_one = StreamingPullRequest {
        modify_deadline_ack_ids: ids(&held),
        modify_deadline_seconds: vec![600, 0],
        ..StreamingPullRequest::default()
    };
    stream.send(nack_one).await;
    let again = stream.take(1).await;
    assert_eq!(again[0].message, held[1].message);
    // The ack deadline of leases to come may change without ending the stream.
    let change = StreamingPullRequest { stream_ack_deadline_seconds: 10, ..Default::default() };
    stream.send(change).await;
    publish(rig, &topic, 1).await;
    stream.take(1).await;
}

async fn a_bad_first_request_opens_no_stream(rig: &Rig) {
    let (_, subscription) = rig.pair().await;
    let good = || first(&subscription);
    for (request, code) in [
        (StreamingPullRequest { subscription: String::new(), ..good() }, Code::InvalidArgument),
        (StreamingPullRequest { stream_ack_deadline_seconds: 0, ..good() }, Code::InvalidArgument),
        (
            StreamingPullRequest { stream_ack_deadline_seconds: 601, ..good() },
            Code::InvalidArgument,
        ),
        (
            StreamingPullRequest { ack_ids: vec!["rubbish".to_owned()], ..good() },
            Code::InvalidArgument,
        ),
        (StreamingPullRequest { client_id: "x".repeat(2_000), ..good() }, Code::InvalidArgument),
        (first("projects/p/subscriptions/missing"), Code::NotFound),
    ] {
        let refused = Stream::open(rig, request).await.err().expect("it must not open");
        assert_eq!(refused.code(), code, "{refused}");
    }
}

async fn a_bad_later_request_ends_the_stream(rig: &Rig) {
    let (_, subscription) = rig.pair().await;
    for (request, field) in [
        (
            StreamingPullRequest { subscription: subscription.clone(), ..Default::default() },
            "subscription: ",
        ),
        (
            StreamingPullRequest { stream_ack_deadline_seconds: 5, ..Default::default() },
            "stream_ack_deadline_seconds: ",
        ),
        (
            StreamingPullRequest { ack_ids: vec!["x".to_owned()], ..Default::default() },
            "ack_ids[0]: ",
        ),
        (
            StreamingPullRequest {
                modify_deadline_ack_ids: vec!["x".to_owned()],
                ..Default::default()
            },
            "modify_deadline_seconds: ",
        ),
        (
            StreamingPullRequest { modify_deadline_seconds: vec![601], ..Default::default() },
            "modify_deadline_seconds: ",
        ),
    ] {
        let stream = Stream::open(rig, first(&subscription)).await.unwrap();
        stream.send(request).await;
        let ended = stream.end().await.unwrap_err();
        assert_eq!(ended.code(), Code::InvalidArgument, "{ended}");
        assert!(ended.message().starts_with(field), "{ended}");
    }
}

async fn acks_of_another_life_of_the_subscription_do_not_end_a_stream(rig: &Rig) {
    let (topic, subscription) = rig.pair().await;
    publish(rig, &topic, 1).await;
    let before = pull_now(rig, &subscription).await;
    let delete = DeleteSubscriptionRequest { subscription: subscription.clone() };
    rig.subscriber().await.delete_subscription(delete).await.unwrap();
    let made = wire::pubsub::Subscription {
        name: subscription.clone(),
        topic: topic.clone(),
        ..Default::default()
    };
    rig.subscriber().await.create_subscription(made).await.unwrap();
    let mut stream = Stream::open(rig, first(&subscription)).await.unwrap();
    let old = StreamingPullRequest {
        ack_ids: ids(&before),
        modify_deadline_ack_ids: ids(&before),
        modify_deadline_seconds: vec![0],
        ..StreamingPullRequest::default()
    };
    stream.send(old).await;
    publish(rig, &topic, 1).await;
    assert_eq!(stream.take(1).await.len(), 1);
}

async fn a_stream_ends_with_its_subscription(rig: &Rig) {
    let (_, subscription) = rig.pair().await;
    let stream = Stream::open(rig, first(&subscription)).await.unwrap();
    let delete = DeleteSubscriptionRequest { subscription };
    rig.subscriber().await.delete_subscription(delete).await.unwrap();
    assert_eq!(stream.end().await.unwrap_err().code(), Code::NotFound);
}

async fn two_streams_share_a_subscription(rig: &Rig) {
    let (topic, subscription) = rig.pair().await;
    let bounded = StreamingPullRequest { max_outstanding_messages: 5, ..first(&subscription) };
    let mut one = Stream::open(rig, bounded.clone()).await.unwrap();
    let mut two = Stream::open(rig, bounded).await.unwrap();
    publish(rig, &topic, 10).await;
    let (of_one, of_two) = tokio::join!(one.take(5), two.take(5));
    let mut ids: Vec<_> = of_one.iter().chain(&of_two).map(|one| one.message.clone()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 10, "no message went to both");
}

each_engine! {
    a_stream_gets_what_is_there_and_what_comes,
    every_response_tells_the_properties,
    outstanding_messages_are_bounded,
    outstanding_bytes_are_bounded_but_one_message_always_fits,
    nacks_on_the_stream_bring_messages_back,
    a_bad_first_request_opens_no_stream,
    a_bad_later_request_ends_the_stream,
    acks_of_another_life_of_the_subscription_do_not_end_a_stream,
    a_stream_ends_with_its_subscription,
    two_streams_share_a_subscription,
}
