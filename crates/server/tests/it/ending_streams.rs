//! Streams whose clients give back what they hold as their last act: it must come to the next one
//! at once, and not go with the stream that ends.

use std::time::Duration;

use wire::pubsub::{
    ModifyAckDeadlineRequest, PublishRequest, ReceivedMessage, StreamingPullRequest, Subscription,
};

use crate::rig::{Rig, each_engine, message};
use crate::streams::{Stream, first, ids};

/// Less than the ack deadline of 60 s for which what is leased to an ended stream would be gone.
const SOON: Duration = Duration::from_secs(30);

async fn publish(rig: &Rig, topic: &str, count: usize) {
    let messages = (0..count).map(|number| message(number.to_string())).collect();
    let request = PublishRequest { topic: topic.to_owned(), messages };
    rig.publisher().await.publish(request).await.unwrap();
}

/// What a new stream is given at once.
async fn taken_over(rig: &Rig, subscription: &str, count: usize) -> Option<Vec<ReceivedMessage>> {
    let mut next = Stream::open_at(rig.address, first(subscription)).await.unwrap();
    let taken = tokio::time::timeout(SOON, next.take(count)).await.ok()?;
    let ack_ids = ids(&taken);
    next.send(StreamingPullRequest { ack_ids, ..StreamingPullRequest::default() }).await;
    // Read to its end, so that the acks are done.
    let mut responses = next.half_close();
    while responses.message().await.unwrap().is_some() {}
    Some(taken)
}

async fn nacks_right_before_the_end_of_a_stream_are_not_leased_to_it_again(rig: &Rig) {
    let (topic, subscription) = rig.pair().await;
    for _ in 0..10 {
        publish(rig, &topic, 20).await;
        let mut ending = Stream::open_at(rig.address, first(&subscription)).await.unwrap();
        let held = ending.take(20).await;
        let nacks = StreamingPullRequest {
            modify_deadline_ack_ids: ids(&held),
            modify_deadline_seconds: vec![0; 20],
            ..StreamingPullRequest::default()
        };
        ending.send(nacks).await;
        let mut responses = ending.half_close();
        while let Some(response) = responses.message().await.unwrap() {
            assert!(response.received_messages.is_empty(), "leased to a stream that ends");
        }
        assert!(taken_over(rig, &subscription, 20).await.is_some(), "it did not come again");
    }
}

async fn a_client_that_ends_with_nacks_of_its_own_leaves_them_to_the_next(rig: &Rig) {
    let (topic, _) = rig.pair().await;
    let mut came = 0;
    for round in 0..5 {
        let subscription = crate::rig::subscription(&format!("round-{round}"));
        let made = Subscription {
            name: subscription.clone(),
            topic: topic.clone(),
            ..Subscription::default()
        };
        rig.subscriber().await.create_subscription(made).await.unwrap();
        publish(rig, &topic, 20).await;
        let mut ending = Stream::open_at(rig.address, first(&subscription)).await.unwrap();
        let held = ending.take(20).await;
        // As Google's Rust client does: calls of their own, and then it hangs up.
        let nacks = ModifyAckDeadlineRequest {
            subscription: subscription.clone(),
            ack_ids: ids(&held),
            ack_deadline_seconds: 0,
        };
        rig.subscriber().await.modify_ack_deadline(nacks).await.unwrap();
        drop(ending);
        came += usize::from(taken_over(rig, &subscription, 20).await.is_some());
    }
    // On a machine with too much to do it may hang up too late.
    assert!(came >= 3, "only {came} of 5 times did they come at once");
}

each_engine! {
    nacks_right_before_the_end_of_a_stream_are_not_leased_to_it_again,
    a_client_that_ends_with_nacks_of_its_own_leaves_them_to_the_next,
}
