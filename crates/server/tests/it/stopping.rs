//! How the server ends: as asked, or because its log failed.

use std::time::Duration;

use testkit::disk::{Call, Effect, Errno, Fault};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use wire::pubsub::{PublishRequest, PullRequest, StreamingPullRequest, Subscription};

use crate::rig::{Rig, call, message, publisher};
use crate::simulated::{Simulated, one_message};

async fn health(address: std::net::SocketAddr, service: &str) -> Result<i32, tonic::Status> {
    let channel = Channel::from_shared(format!("http://{address}")).unwrap();
    let mut client = HealthClient::new(channel.connect().await.unwrap());
    let request = HealthCheckRequest { service: service.to_owned() };
    Ok(client.check(request).await?.into_inner().status)
}

#[tokio::test]
async fn streams_and_waiting_pulls_are_told_to_come_again() {
    let rig = Rig::start("memory").await;
    let (topic, subscription) = rig.pair().await;
    let first = StreamingPullRequest {
        subscription: subscription.clone(),
        stream_ack_deadline_seconds: 60,
        ..StreamingPullRequest::default()
    };
    let (requests, receiver) = tokio::sync::mpsc::channel(1);
    requests.send(first).await.unwrap();
    let mut client = rig.subscriber().await;
    let stream = client.streaming_pull(ReceiverStream::new(receiver)).await.unwrap();
    let mut stream = stream.into_inner();
    let request = PublishRequest { topic, messages: vec![message("x")] };
    rig.publisher().await.publish(request).await.unwrap();
    assert_eq!(stream.message().await.unwrap().unwrap().received_messages.len(), 1);
    let pull = PullRequest { subscription, max_messages: 1, ..PullRequest::default() };
    let mut puller = rig.subscriber().await;
    let (pulled, stopped) =
        tokio::join!(puller.pull(pull), rig.server.stop(std::future::pending()));
    stopped.unwrap();
    assert_eq!(pulled.unwrap_err().code(), Code::Unavailable);
    assert_eq!(stream.message().await.unwrap_err().code(), Code::Unavailable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_under_way_is_answered_before_the_end() {
    let rig = Simulated::start("", Subscription::default()).await;
    let mut publishing = rig.publish_held().await;
    let disk = rig.disk.clone();
    let mut stopping = std::pin::pin!(rig.server.stop(std::future::pending()));
    // The end has begun once the first poll is done; only then the disk goes on.
    assert!(futures::poll!(&mut stopping).is_pending());
    disk.release();
    stopping.await.unwrap();
    let answered = publishing.join_next().await.unwrap().unwrap().unwrap().into_inner();
    assert_eq!(answered.message_ids.len(), 1);
    rig.opened.handle.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_does_not_end_is_cut_off_after_the_grace_time() {
    let rig = Simulated::start("shutdown_grace = \"50ms\"", Subscription::default()).await;
    let mut publishing = rig.publish_held().await;
    let disk = rig.disk.clone();
    let publishing = async {
        let answered = publishing.join_next().await.unwrap().unwrap();
        disk.release();
        answered
    };
    let (answered, stopped) = tokio::join!(publishing, rig.server.stop(std::future::pending()));
    assert!(answered.is_err(), "the connection is gone, the outcome unknown");
    // Whether the last checkpoint came in time depends on when the disk was released.
    println!("{stopped:?}");
    rig.opened.handle.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_hangs_does_not_keep_the_server_from_ending() {
    let rig = Simulated::start("shutdown_grace = \"50ms\"", Subscription::default()).await;
    let _publishing = rig.publish_held().await;
    let stopped = rig.server.stop(std::future::pending()).await;
    assert!(matches!(stopped, Err(server::StopError::Hangs)), "{stopped:?}");
    rig.disk.release();
    rig.opened.handle.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_log_makes_the_server_unhealthy_and_refuse() {
    let rig = Simulated::start("", Subscription::default()).await;
    let address = rig.server.address();
    for service in ["", "google.pubsub.v1.Publisher", "google.pubsub.v1.Subscriber"] {
        assert_eq!(health(address, service).await.unwrap(), ServingStatus::Serving as i32);
    }
    assert_eq!(health(address, "nobody").await.unwrap_err().code(), Code::NotFound);
    rig.disk.fail(Fault { on: Some(Call::Sync), nth: 1, effect: Effect::Fail(Errno::Io) });
    let refused = publisher(address).await.publish(one_message()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    let failure = tokio::time::timeout(Duration::from_secs(10), rig.server.failure()).await;
    println!("{}", failure.expect("the failure is told"));
    for service in ["", "google.pubsub.v1.Publisher", "google.pubsub.v1.Subscriber"] {
        assert_eq!(health(address, service).await.unwrap(), ServingStatus::NotServing as i32);
    }
    assert_eq!(call(address, "GET", "/readyz", "").await.code.as_u16(), 503);
    assert_eq!(call(address, "GET", "/healthz", "").await.code.as_u16(), 200);
    rig.disk.heal();
    let refused = publisher(address).await.publish(one_message()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "no OK ever again: {refused}");
    // Progress cannot be saved any more, but the end comes all the same.
    drop(rig.server.stop(std::future::ready(())).await);
    rig.opened.handle.close();
}
