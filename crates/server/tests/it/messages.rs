//! Publish, pull, ack and deadlines over gRPC.

use tonic::Code;
use wire::pubsub::{
    AcknowledgeRequest, ModifyAckDeadlineRequest, PublishRequest, PubsubMessage, PullRequest,
    ReceivedMessage,
};

use crate::rig::{Rig, each_engine, message};

async fn publish(rig: &Rig, topic: &str, messages: Vec<PubsubMessage>) -> Vec<String> {
    let request = PublishRequest { topic: topic.to_owned(), messages };
    rig.publisher().await.publish(request).await.unwrap().into_inner().message_ids
}

fn pull_request(subscription: &str, max_messages: i32) -> PullRequest {
    PullRequest { subscription: subscription.to_owned(), max_messages, ..Default::default() }
}

async fn pull(rig: &Rig, subscription: &str, max_messages: i32) -> Vec<ReceivedMessage> {
    let request = pull_request(subscription, max_messages);
    rig.subscriber().await.pull(request).await.unwrap().into_inner().received_messages
}

async fn pull_now(rig: &Rig, subscription: &str) -> Vec<ReceivedMessage> {
    let mut request = pull_request(subscription, 1_000);
    // Deprecated by Google, but the only way not to wait.
    request.return_immediately = true;
    rig.subscriber().await.pull(request).await.unwrap().into_inner().received_messages
}

async fn ack(rig: &Rig, subscription: &str, received: &[ReceivedMessage]) {
    let request = AcknowledgeRequest {
        subscription: subscription.to_owned(),
        ack_ids: received.iter().map(|one| one.ack_id.clone()).collect(),
    };
    rig.subscriber().await.acknowledge(request).await.unwrap();
}

async fn nack(rig: &Rig, subscription: &str, received: &[ReceivedMessage]) {
    let request = ModifyAckDeadlineRequest {
        subscription: subscription.to_owned(),
        ack_ids: received.iter().map(|one| one.ack_id.clone()).collect(),
        ack_deadline_seconds: 0,
    };
    rig.subscriber().await.modify_ack_deadline(request).await.unwrap();
}

async fn a_message_arrives_byte_for_byte_and_an_ack_settles_it(rig: &Rig) {
    let (topic, subscription) = rig.pair().await;
    let sent = vec![
        PubsubMessage {
            data: (0..=255).collect::<Vec<u8>>().into(),
            attributes: [("ключ".to_owned(), "значение".to_owned())].into(),
            ordering_key: "key".to_owned(),
            ..PubsubMessage::default()
        },
        PubsubMessage {
            attributes: [("only".to_owned(), String::new())].into(),
            ordering_key: "key".to_owned(),
            ..PubsubMessage::default()
        },
    ];
    let ids = publish(rig, &topic, sent.clone()).await;
    let received = pull(rig, &subscription, 10).await;
    assert_eq!(received.len(), 2);
    for ((received, sent), id) in received.iter().zip(sent).zip(&ids) {
        let message = received.decode_message().unwrap();
        assert_eq!(&message.message_id, id);
        assert!(message.publish_time.is_some());
        assert_eq!(message.data, sent.data);
        assert_eq!(message.attributes, sent.attributes);
        assert_eq!(message.ordering_key, sent.ordering_key);
        assert_eq!(received.delivery_attempt, 0);
    }
    ack(rig, &subscription, &received).await;
    nack(rig, &subscription, &received).await;
    assert!(pull_now(rig, &subscription).await.is_empty());
}

async fn ids_grow_and_fill_without_holes(rig: &Rig) {
    let (topic, _) = rig.pair().await;
    let mut ids: Vec<u64> = Vec::new();
    for _ in 0..3 {
        let batch = publish(rig, &topic, vec![message("x"); 10]).await;
        ids.extend(batch.iter().map(|id| id.parse::<u64>().unwrap()));
    }
    assert!(ids.windows(2).all(|pair| pair[1] == pair[0] + 1), "{ids:?}");
}

async fn a_leased_message_is_not_given_out_again_until_nacked(rig: &Rig) {
    let (topic, subscription) = rig.pair().await;
    publish(rig, &topic, vec![message("x")]).await;
    let first = pull(rig, &subscription, 10).await;
    assert!(pull_now(rig, &subscription).await.is_empty());
    nack(rig, &subscription, &first).await;
    let second = pull(rig, &subscription, 10).await;
    assert_eq!(second[0].message, first[0].message);
    assert_ne!(second[0].ack_id, first[0].ack_id);
    // The first lease is over, but its ack still counts.
    ack(rig, &subscription, &first).await;
    nack(rig, &subscription, &second).await;
    assert!(pull_now(rig, &subscription).await.is_empty());
}

async fn a_pull_waits_for_a_message(rig: &Rig) {
    let (topic, subscription) = rig.pair().await;
    let mut subscriber = rig.subscriber().await;
    let waiting = pull_request(&subscription, 10);
    let pulling = async { subscriber.pull(waiting).await.unwrap().into_inner() };
    let publishing = publish(rig, &topic, vec![message("at last")]);
    let (pulled, _) = tokio::join!(pulling, publishing);
    assert_eq!(pulled.received_messages[0].decode_message().unwrap().data.as_ref(), b"at last");
}

async fn a_pull_takes_at_most_a_thousand(rig: &Rig) {
    let (topic, subscription) = rig.pair().await;
    for _ in 0..2 {
        publish(rig, &topic, vec![message("x"); 800]).await;
    }
    let taken = pull(rig, &subscription, i32::MAX).await.len();
    assert!((1..=1_000).contains(&taken), "{taken}");
}

async fn large_messages_pass_and_larger_ones_are_refused(rig: &Rig) {
    let (topic, subscription) = rig.pair().await;
    let data = vec![7_u8; 9_900_000];
    publish(rig, &topic, vec![message(data.clone())]).await;
    let received = pull(rig, &subscription, 1).await;
    assert_eq!(received[0].decode_message().unwrap().data, data);
    for bytes in [10_000_001, 11_000_000] {
        let request =
            PublishRequest { topic: topic.clone(), messages: vec![message(vec![7_u8; bytes])] };
        let refused = rig.publisher().await.publish(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    }
}

async fn bad_calls_are_refused_by_field(rig: &Rig) {
    let (topic, subscription) = rig.pair().await;
    let mut publisher = rig.publisher().await;
    let mut subscriber = rig.subscriber().await;
    let empty = PublishRequest { topic: topic.clone(), messages: Vec::new() };
    let one_bad = PublishRequest {
        topic: topic.clone(),
        messages: vec![message("good"), PubsubMessage::default()],
    };
    for (request, field) in [(empty, "messages: "), (one_bad, "messages[1]: ")] {
        let refused = publisher.publish(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().starts_with(field), "{refused}");
    }
    for count in [0, -1] {
        let refused = subscriber.pull(pull_request(&subscription, count)).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().starts_with("max_messages: "), "{refused}");
    }
    for ids in [vec![], vec![String::new()], vec!["rubbish".to_owned()], vec!["x".repeat(600_000)]]
    {
        let request = AcknowledgeRequest { subscription: subscription.clone(), ack_ids: ids };
        let refused = subscriber.acknowledge(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().starts_with("ack_ids"), "{refused}");
    }
    publish(rig, &topic, vec![message("x")]).await;
    let ack_ids: Vec<String> =
        pull(rig, &subscription, 1).await.into_iter().map(|one| one.ack_id).collect();
    for seconds in [-1, 601] {
        let request = ModifyAckDeadlineRequest {
            subscription: subscription.clone(),
            ack_ids: ack_ids.clone(),
            ack_deadline_seconds: seconds,
        };
        let refused = subscriber.modify_ack_deadline(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().starts_with("ack_deadline_seconds: "), "{refused}");
    }
    assert!(pull_now(rig, &subscription).await.is_empty(), "the good half was not published");
}

async fn missing_resources_are_not_found_before_anything_else(rig: &Rig) {
    let missing = "projects/p/subscriptions/missing".to_owned();
    let mut subscriber = rig.subscriber().await;
    let request =
        AcknowledgeRequest { subscription: missing.clone(), ack_ids: vec!["unknown".into()] };
    assert_eq!(subscriber.acknowledge(request).await.unwrap_err().code(), Code::NotFound);
    let refused = subscriber.pull(pull_request(&missing, 1)).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert_eq!(refused.message(), format!("subscription {missing} not found"));
    let request = PublishRequest {
        topic: "projects/p/topics/missing".to_owned(),
        messages: vec![message("x")],
    };
    let refused = rig.publisher().await.publish(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
}

each_engine! {
    a_message_arrives_byte_for_byte_and_an_ack_settles_it,
    ids_grow_and_fill_without_holes,
    a_leased_message_is_not_given_out_again_until_nacked,
    a_pull_waits_for_a_message,
    a_pull_takes_at_most_a_thousand,
    large_messages_pass_and_larger_ones_are_refused,
    bad_calls_are_refused_by_field,
    missing_resources_are_not_found_before_anything_else,
}

#[tokio::test]
async fn a_pull_that_waited_in_vain_answers_with_none() {
    let rig = Rig::with("memory", "[limits]\npull_wait = \"20ms\"\n").await;
    let (_, subscription) = rig.pair().await;
    assert!(pull(&rig, &subscription, 10).await.is_empty());
    rig.stop().await;
}

#[tokio::test]
async fn compressed_requests_are_understood() {
    let rig = Rig::start("memory").await;
    let (topic, subscription) = rig.pair().await;
    let request = PublishRequest { topic, messages: vec![message("x".repeat(10_000))] };
    let mut publisher =
        rig.publisher().await.send_compressed(tonic::codec::CompressionEncoding::Gzip);
    publisher.publish(request).await.unwrap();
    assert_eq!(pull(&rig, &subscription, 1).await.len(), 1);
    rig.stop().await;
}
