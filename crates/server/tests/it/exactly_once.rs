//! Exactly-once subscriptions: acks that are confirmed, ids that count no more.

use std::time::Duration;

use serde_json::json;
use tonic::{Code, Status};
use tonic_prost::prost::Message;
use wire::protobuf::FieldMask;
use wire::pubsub::streaming_pull_response::{
    AcknowledgeConfirmation, ModifyAckDeadlineConfirmation,
};
use wire::pubsub::{
    AcknowledgeRequest, ModifyAckDeadlineRequest, PublishRequest, PullRequest, ReceivedMessage,
    StreamingPullRequest, StreamingPullResponse, Subscription, UpdateSubscriptionRequest,
};
use wire::rpc::ErrorInfo;

use crate::rig::{Rig, each_engine, message, publisher, subscription, topic};
use crate::simulated::Simulated;
use crate::streams::{Stream, first, ids};

fn exactly_once() -> Subscription {
    Subscription { enable_exactly_once_delivery: true, ..Subscription::default() }
}

/// The subscription `billing` of a new topic, exactly-once from now on.
async fn billing(rig: &Rig) -> String {
    let (_, name) = rig.pair().await;
    set_exactly_once(rig, &name, true).await;
    name
}

async fn set_exactly_once(rig: &Rig, name: &str, enabled: bool) {
    let wanted = Subscription {
        name: name.to_owned(),
        enable_exactly_once_delivery: enabled,
        ..Subscription::default()
    };
    let paths = vec!["enable_exactly_once_delivery".to_owned()];
    let update = UpdateSubscriptionRequest {
        subscription: Some(wanted),
        update_mask: Some(FieldMask { paths }),
    };
    rig.subscriber().await.update_subscription(update).await.unwrap();
}

fn publish_request(count: usize) -> PublishRequest {
    let messages = (0..count).map(|n| message(n.to_string())).collect();
    PublishRequest { topic: topic("orders"), messages }
}

async fn publish(rig: &Rig, count: usize) {
    rig.publisher().await.publish(publish_request(count)).await.unwrap();
}

async fn pull(rig: &Rig, name: &str) -> Vec<ReceivedMessage> {
    let request = PullRequest {
        subscription: name.to_owned(),
        max_messages: 1_000,
        return_immediately: true,
    };
    rig.subscriber().await.pull(request).await.unwrap().into_inner().received_messages
}

async fn ack(rig: &Rig, name: &str, ack_ids: Vec<String>) -> Result<(), Status> {
    let request = AcknowledgeRequest { subscription: name.to_owned(), ack_ids };
    rig.subscriber().await.acknowledge(request).await.map(drop)
}

async fn modify(rig: &Rig, name: &str, ack_ids: Vec<String>, seconds: i32) -> Result<(), Status> {
    let request = ModifyAckDeadlineRequest {
        subscription: name.to_owned(),
        ack_ids,
        ack_deadline_seconds: seconds,
    };
    rig.subscriber().await.modify_ack_deadline(request).await.map(drop)
}

/// The ids that a refused call says are void.
fn void(refused: Result<(), Status>) -> Vec<String> {
    let status = refused.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    let decoded = wire::rpc::Status::decode(status.details()).unwrap();
    assert_eq!((decoded.code, decoded.message.as_str()), (3, status.message()));
    let info = ErrorInfo::decode(decoded.details[0].value.clone()).unwrap();
    assert_eq!(info.reason, "EXACTLY_ONCE_ACKID_FAILURE");
    assert_eq!(info.domain, "pubsub.googleapis.com");
    assert!(info.metadata.values().all(|why| why == "PERMANENT_FAILURE_INVALID_ACK_ID"));
    info.metadata.into_keys().collect()
}

async fn void_ids_are_named_and_the_others_count(rig: &Rig) {
    let name = billing(rig).await;
    publish(rig, 2).await;
    let received = pull(rig, &name).await;
    modify(rig, &name, ids(&received[..1]), 0).await.unwrap();
    let mut given = ids(&received);
    given.push("rubbish".to_owned());
    let mut bad = vec![received[0].ack_id.clone(), "rubbish".to_owned()];
    bad.sort_unstable();
    assert_eq!(void(ack(rig, &name, given).await), bad);
    assert_eq!(void(modify(rig, &name, bad.clone(), 30).await), bad);
    // The good one was acked beside them; to say so again is no error.
    ack(rig, &name, ids(&received[1..])).await.unwrap();
    let again = pull(rig, &name).await;
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].message, received[0].message);
    let path = format!("/v1/{name}:acknowledge");
    let refused = rig.post(&path, json!({"ackIds": ["rubbish"]})).await;
    refused.refused(400, "INVALID_ARGUMENT");
    let details = json!([{
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "EXACTLY_ONCE_ACKID_FAILURE",
        "domain": "pubsub.googleapis.com",
        "metadata": {"rubbish": "PERMANENT_FAILURE_INVALID_ACK_ID"},
    }]);
    assert_eq!(refused.json()["error"]["details"], details);
}

async fn next(stream: &mut Stream) -> StreamingPullResponse {
    stream.responses.message().await.unwrap().expect("the stream ended")
}

fn acks(good: Vec<String>, bad: &[&str]) -> Option<AcknowledgeConfirmation> {
    let invalid_ack_ids = bad.iter().map(|id| (*id).to_owned()).collect();
    Some(AcknowledgeConfirmation { ack_ids: good, invalid_ack_ids, ..Default::default() })
}

async fn a_stream_confirms_what_became_of_each_id(rig: &Rig) {
    let name = billing(rig).await;
    publish(rig, 3).await;
    let mut stream = Stream::open_at(rig.address, first(&name)).await.unwrap();
    let received = stream.take(3).await;
    let request = StreamingPullRequest {
        ack_ids: vec![received[0].ack_id.clone(), "rubbish".to_owned()],
        modify_deadline_ack_ids: ids(&received[1..]),
        modify_deadline_seconds: vec![60, 0],
        ..StreamingPullRequest::default()
    };
    stream.send(request).await;
    let mut response = next(&mut stream).await;
    // The one given back may come along with the confirmation, or after it.
    if response.acknowledge_confirmation.is_none() {
        response = next(&mut stream).await;
    }
    assert_eq!(response.acknowledge_confirmation, acks(ids(&received[..1]), &["rubbish"]));
    let modified =
        ModifyAckDeadlineConfirmation { ack_ids: ids(&received[1..]), ..Default::default() };
    assert_eq!(response.modify_ack_deadline_confirmation, Some(modified));
}

async fn a_stream_is_told_when_the_setting_changes(rig: &Rig) {
    let (_, name) = rig.pair().await;
    publish(rig, 1).await;
    let mut stream = Stream::open_at(rig.address, first(&name)).await.unwrap();
    stream.take(1).await;
    for enabled in [true, false] {
        set_exactly_once(rig, &name, enabled).await;
        let told = next(&mut stream).await;
        assert!(told.received_messages.is_empty());
        let properties = told.subscription_properties.unwrap();
        assert_eq!(properties.exactly_once_delivery_enabled, enabled);
    }
}

async fn a_client_that_is_done_gets_its_last_confirmation(rig: &Rig) {
    let name = billing(rig).await;
    publish(rig, 1).await;
    let mut stream = Stream::open_at(rig.address, first(&name)).await.unwrap();
    let received = stream.take(1).await;
    let request = StreamingPullRequest { ack_ids: ids(&received), ..Default::default() };
    stream.send(request).await;
    let mut responses = stream.half_close();
    let last = responses.message().await.unwrap().unwrap();
    assert_eq!(last.acknowledge_confirmation, acks(ids(&received), &[]));
    assert!(responses.message().await.unwrap().is_none());
}

each_engine! {
    void_ids_are_named_and_the_others_count,
    a_stream_confirms_what_became_of_each_id,
    a_stream_is_told_when_the_setting_changes,
    a_client_that_is_done_gets_its_last_confirmation,
}

/// A stream on a server whose disk holds back every sync, and what it was given before.
async fn held(count: usize) -> (Simulated, Stream, Vec<ReceivedMessage>) {
    let rig = Simulated::start("", exactly_once()).await;
    let address = rig.server.address();
    publisher(address).await.publish(publish_request(count)).await.unwrap();
    let mut stream = Stream::open_at(address, first(&subscription("billing"))).await.unwrap();
    let received = stream.take(count).await;
    rig.disk.hold_syncs("wal/");
    (rig, stream, received)
}

async fn end(rig: Simulated, stream: Stream) {
    drop(stream);
    rig.server.stop(std::future::ready(())).await.unwrap();
    rig.opened.handle.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ack_is_confirmed_after_its_sync_and_requests_are_read_meanwhile() {
    let (rig, mut stream, received) = held(2).await;
    let ack = StreamingPullRequest { ack_ids: ids(&received[..1]), ..Default::default() };
    stream.send(ack).await;
    rig.wait_for_held_sync().await;
    // A longer deadline needs no disk. It is confirmed although the ack before it is not.
    let extend = StreamingPullRequest {
        modify_deadline_ack_ids: ids(&received[1..]),
        modify_deadline_seconds: vec![60],
        ..StreamingPullRequest::default()
    };
    stream.send(extend).await;
    let response = next(&mut stream).await;
    assert!(response.modify_ack_deadline_confirmation.is_some(), "{response:?}");
    assert_eq!(response.acknowledge_confirmation, None);
    rig.disk.release();
    let response = next(&mut stream).await;
    assert_eq!(response.acknowledge_confirmation, acks(ids(&received[..1]), &[]));
    end(rig, stream).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unary_ack_is_answered_after_its_sync() {
    let (rig, stream, received) = held(1).await;
    let request =
        AcknowledgeRequest { subscription: subscription("billing"), ack_ids: ids(&received) };
    let mut client = crate::rig::subscriber(rig.server.address()).await;
    let mut acking = std::pin::pin!(client.acknowledge(request));
    tokio::select! {
        answered = &mut acking => panic!("answered before it was durable: {answered:?}"),
        () = rig.wait_for_held_sync() => {}
    }
    assert!(futures::poll!(&mut acking).is_pending());
    rig.disk.release();
    acking.await.unwrap();
    end(rig, stream).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_wait_for_their_confirmation_are_bounded() {
    let (rig, mut stream, received) = held(17).await;
    for one in &received[..16] {
        let ack = StreamingPullRequest { ack_ids: vec![one.ack_id.clone()], ..Default::default() };
        stream.send(ack).await;
    }
    rig.wait_for_held_sync().await;
    let extend = StreamingPullRequest {
        modify_deadline_ack_ids: ids(&received[16..]),
        modify_deadline_seconds: vec![60],
        ..StreamingPullRequest::default()
    };
    stream.send(extend).await;
    // It would be confirmed at once if it were read; that it is not can only be waited for.
    let early = tokio::time::timeout(Duration::from_millis(200), stream.responses.message()).await;
    assert!(early.is_err(), "{early:?}");
    rig.disk.release();
    let mut confirmed = Vec::new();
    let mut is_extended = false;
    while confirmed.len() < 16 || !is_extended {
        let response = next(&mut stream).await;
        confirmed.extend(response.acknowledge_confirmation.unwrap_or_default().ack_ids);
        is_extended |= response.modify_ack_deadline_confirmation.is_some();
    }
    confirmed.sort_unstable();
    let mut acked = ids(&received[..16]);
    acked.sort_unstable();
    assert_eq!(confirmed, acked);
    end(rig, stream).await;
}
