//! A gateway of live subscriptions against a real server, restarts included.

use std::collections::BTreeMap;

use postrider_consumer::gateway::{Change, Event, Gateway, Match, Wish};
use wire::pubsub::{PublishRequest, PubsubMessage, Topic};

use crate::rig::{Peer, Rig, TOPIC, soon};

fn wish(id: &str, filter: &str) -> Wish {
    Wish {
        id: id.to_owned(),
        tenant: "p".to_owned(),
        collection: "rooms".to_owned(),
        filter: filter.to_owned(),
        ttl: None,
    }
}

async fn live_topic(peer: &mut Peer) {
    let labels = BTreeMap::from([("postrider-live".to_owned(), "true".to_owned())]);
    let topic = Topic { name: TOPIC.to_owned(), labels, ..Topic::default() };
    peer.publisher.create_topic(topic).await.unwrap();
}

async fn send(peer: &mut Peer, data: &str, old: Option<&str>) {
    let mut attributes = BTreeMap::from([("collection".to_owned(), "rooms".to_owned())]);
    attributes.extend(old.map(|old| ("old".to_owned(), old.to_owned())));
    let data = data.as_bytes().to_vec().into();
    let messages = vec![PubsubMessage { data, attributes, ..PubsubMessage::default() }];
    peer.publisher.publish(PublishRequest { topic: TOPIC.to_owned(), messages }).await.unwrap();
}

async fn next(gateway: &mut Gateway) -> Event {
    soon("the next event of a gateway", gateway.next()).await.unwrap()
}

/// The next message, whatever happens before.
async fn next_match(gateway: &mut Gateway) -> Match {
    loop {
        if let Event::Message(found) = next(gateway).await {
            return found;
        }
    }
}

async fn registered(gateway: &mut Gateway, id: &str) {
    while next(gateway).await != Event::Registered(id.to_owned()) {}
}

#[tokio::test]
async fn a_gateway_is_told_what_it_wants_and_what_changes() {
    let rig = Rig::start().await;
    let mut peer = rig.peer().await;
    live_topic(&mut peer).await;
    let (mut gateway, wishes) = Gateway::new(rig.connection(), "edge-1");
    assert!(wishes.add(wish("high", "data.priority > 5")).await);
    registered(&mut gateway, "high").await;
    send(&mut peer, r#"{"priority":1}"#, None).await;
    send(&mut peer, r#"{"priority":7}"#, Some(r#"{"priority":1}"#)).await;
    let found = next_match(&mut gateway).await;
    assert_eq!(&found.message.data[..], br#"{"priority":7}"#);
    assert_eq!(
        (found.topic.as_str(), found.message.id.as_str()),
        (TOPIC, &*found.offset.to_string())
    );
    assert_eq!(found.subscriptions, [("high".to_owned(), Some(Change::Enter))]);

    assert!(wishes.add(wish("all", "")).await);
    registered(&mut gateway, "all").await;
    assert!(wishes.remove("high").await);
    send(&mut peer, r#"{"priority":9}"#, None).await;
    // A removal is not answered: what comes meanwhile may still name it.
    let found = next_match(&mut gateway).await;
    assert!(found.subscriptions.contains(&("all".to_owned(), None)), "{found:?}");
}

#[tokio::test]
async fn a_wish_that_is_refused_is_told_and_others_go_on() {
    let rig = Rig::start().await;
    let (mut gateway, wishes) = Gateway::new(rig.connection(), "edge-1");
    wishes.add(wish("bad", "data.priority >")).await;
    wishes.add(wish("good", "")).await;
    let (mut refused, mut warned, mut registered) = (false, false, false);
    while !(refused && warned && registered) {
        match next(&mut gateway).await {
            Event::Refused { id, code, .. } => {
                assert_eq!((&*id, &*code), ("bad", "CEL_COMPILATION_FAILED"));
                refused = true;
            }
            // Nothing is matched: there is no such topic.
            Event::Warning(warning) => {
                assert!(warning.contains("postrider-live"), "{warning}");
                warned = true;
            }
            Event::Registered(id) => {
                assert_eq!(id, "good");
                registered = true;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn after_a_restart_everything_is_registered_again() {
    let mut rig = Rig::start().await;
    let mut peer = rig.peer().await;
    live_topic(&mut peer).await;
    let (mut gateway, wishes) = Gateway::new(rig.connection(), "edge-1");
    let adding = async {
        for number in 0..1_000 {
            wishes.add(wish(&format!("s{number}"), &format!("data.n == {number}"))).await;
        }
        std::future::pending::<()>().await;
    };
    let counting = async {
        let mut known = 0;
        while known < 1_000 {
            known += usize::from(matches!(next(&mut gateway).await, Event::Registered(_)));
        }
    };
    tokio::select! {
        () = adding => {}
        () = counting => {}
    }
    rig.restart().await;
    let mut again = 0;
    let mut lost = false;
    while again < 1_000 {
        match next(&mut gateway).await {
            Event::Registered(_) => again += 1,
            Event::Lost(_) => lost = true,
            // Frames from before the restart are not known any more.
            Event::Resync(_) | Event::Warning(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(lost);
    let mut peer = rig.peer().await;
    send(&mut peer, r#"{"n":999}"#, None).await;
    let found = next_match(&mut gateway).await;
    assert_eq!(found.subscriptions, [("s999".to_owned(), None)]);
    gateway.leave((0..1_000).map(|number| format!("s{number}"))).await.unwrap();
}

#[tokio::test]
async fn a_gateway_without_an_id_is_refused_for_good() {
    let rig = Rig::start().await;
    let (mut gateway, _wishes) = Gateway::new(rig.connection(), "");
    let refused = soon("a refusal", gateway.next()).await.unwrap_err();
    assert!(refused.to_string().contains("gateway"), "{refused}");
}
