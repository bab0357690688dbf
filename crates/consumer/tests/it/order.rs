//! Ordered messages stay in order, whatever is given back.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use postrider_consumer::{Order, pull};

use crate::rig::{Pulling, Rig, SUBSCRIPTION, settings};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_goes_one_at_a_time_and_a_nack_holds_those_behind_it() {
    let rig = Rig::start().await;
    let mut peer = rig.peer().await;
    peer.create(|subscription| subscription.enable_message_ordering = true).await;
    peer.publish_all(&[
        ("a", "apply a1"),
        ("a", "transient-once a2"),
        ("a", "apply a3"),
        ("a", "panic a4"),
        ("a", "apply a5"),
        ("b", "apply b1"),
        ("b", "apply b2"),
    ])
    .await;
    let pulling = Pulling::start(rig.connection(), settings(), pull::Options::default()).await;
    assert_eq!(pulling.consumer.known().order, Order::ByKey);
    pulling.seen.wait_for_begun(9).await;
    let began = pulling.seen.began.lock().clone();
    let of = |key: &str| -> Vec<_> {
        let of_key = began.iter().filter_map(|text| text.split(' ').nth(1));
        of_key.filter(|name| name.starts_with(key)).map(str::to_owned).collect()
    };
    assert_eq!(of("a"), ["a1", "a2", "a2", "a3", "a4", "a4", "a5"]);
    assert_eq!(of("b"), ["b1", "b2"]);
    let (seen, kept) = (pulling.seen.clone(), pulling.kept.clone());
    pulling.stop().await.unwrap();
    assert_eq!(seen.effects(), 7);
    assert!(kept.field("error_type").contains(&"LaneBroken".into()), "a3 was given back");
    assert!(peer.pull(SUBSCRIPTION, false).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fifo_subscription_is_handled_one_at_a_time() {
    let rig = Rig::start().await;
    let mut peer = rig.peer().await;
    let label = [("postrider-fifo".to_owned(), "true".to_owned())];
    peer.create(|subscription| subscription.labels = BTreeMap::from(label)).await;
    let messages: Vec<String> = (0..20).map(|number| format!("apply {number}")).collect();
    let messages: Vec<_> = messages.iter().map(|data| ("", data.as_str())).collect();
    peer.publish_all(&messages).await;
    let pulling = Pulling::start(rig.connection(), settings(), pull::Options::default()).await;
    pulling.kept.wait_for(20).await;
    let expected: Vec<_> = messages.iter().map(|(_, data)| (*data).to_owned()).collect();
    assert_eq!(*pulling.seen.began.lock(), expected);
    assert_eq!(pulling.seen.at_once_max.load(Ordering::SeqCst), 1);
    pulling.stop().await.unwrap();
}
