//! Stopping: what is being handled may finish, the rest is given back.

use std::time::Duration;

use postrider_consumer::pull;
use serde_json::json;

use crate::rig::{Pulling, Rig, SUBSCRIPTION, settings, soon};

fn options(grace: Duration) -> pull::Options {
    pull::Options { shutdown_grace: grace, handlers_max: 1, ..pull::Options::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_being_handled_finishes_and_what_waits_is_given_back_at_once() {
    let rig = Rig::start().await;
    let mut peer = rig.peer().await;
    peer.create(|_| ()).await;
    peer.publish_all(&[("", "wait 1"), ("", "apply 2"), ("", "apply 3")]).await;
    let pulling =
        Pulling::start(rig.connection(), settings(), options(Duration::from_secs(60))).await;
    pulling.seen.wait_for_begun(1).await;
    pulling.tell_to_stop();
    let lines = pulling.kept.wait_for(2).await;
    for line in &lines {
        assert_eq!(
            (&line["error_type"], &line["ack_action"]),
            (&json!("Stopping"), &json!("nack"))
        );
    }
    let mut given_back = 0;
    while given_back < 2 {
        given_back += soon("what was given back", peer.pull(SUBSCRIPTION, true)).await.len();
    }
    pulling.seen.release();
    let (seen, kept) = (pulling.seen.clone(), pulling.kept.clone());
    pulling.end().await.unwrap();
    assert_eq!(kept.all()[2]["outcome"], "applied");
    assert_eq!((seen.effects(), kept.all().len()), (1, 3));
    assert!(peer.pull(SUBSCRIPTION, false).await.is_empty(), "the first was acked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_finish_in_time_is_given_back() {
    let rig = Rig::start().await;
    let mut peer = rig.peer().await;
    peer.create(|_| ()).await;
    let id = peer.publish("hang").await;
    let pulling =
        Pulling::start(rig.connection(), settings(), options(Duration::from_millis(200))).await;
    pulling.seen.wait_for_begun(1).await;
    let kept = pulling.kept.clone();
    pulling.stop().await.unwrap();
    assert_eq!(kept.field("error_type"), ["Stopping"]);
    let again = soon("the message again", peer.pull(SUBSCRIPTION, true)).await;
    assert_eq!(again[0].decode_message().unwrap().message_id, id);
}
