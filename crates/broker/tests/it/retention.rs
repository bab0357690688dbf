//! What is kept: for the topic, for each subscription, and nothing that nobody needs.

use std::time::Duration;

use broker::{Peek, Peeked};
use domain::subscription::Start;
use domain::{Filter, Message, Subscription, TopicName};

use crate::fixture::{DAY, Fixture, keep, message, settings, texts};

/// What is in the log, needed or not.
async fn stored(fixture: &Fixture, topic: &TopicName) -> Vec<String> {
    let peek = Peek { limit: 100, ..Peek::default() };
    let page = fixture.broker.peek_topic(topic, &peek).await.unwrap();
    let text = |peeked: &Peeked| domain::message::decode(&peeked.record.body).unwrap().data;
    let datas = page.messages.iter().map(text);
    datas.map(|data| String::from_utf8(data.to_vec()).unwrap()).collect()
}

/// What a new subscription that starts at the earliest message is given.
async fn earliest(fixture: &Fixture, topic: &TopicName, id: &str) -> Vec<String> {
    let start = Start::Earliest;
    fixture.subscribe(Subscription { start, ..settings(topic, id) }).await;
    texts(&fixture.pull(id, 100).await)
}

#[tokio::test]
async fn what_everybody_has_acked_is_dropped() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "one").await;
    fixture.subscription(&topic, "two").await;
    fixture.publish(&topic, &["a", "b", "c"]).await;
    for id in ["one", "two"] {
        let leases = fixture.pull(id, 10).await;
        fixture.ack(id, &leases[..2]).await;
    }
    let of_two = fixture.find("two");
    assert_eq!(of_two.outstanding(), 1);
    fixture.trim().await;
    assert_eq!(stored(&fixture, &topic).await, ["c"]);
}

#[tokio::test]
async fn acked_messages_are_kept_where_that_was_asked_for_and_no_longer() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let retain_acked_messages = true;
    let message_retention = DAY;
    let retaining =
        Subscription { retain_acked_messages, message_retention, ..settings(&topic, "sub") };
    fixture.subscribe(retaining).await;
    fixture.publish(&topic, &["a"]).await;
    let leases = fixture.pull("sub", 10).await;
    fixture.ack("sub", &leases).await;
    fixture.trim().await;
    assert_eq!(stored(&fixture, &topic).await, ["a"]);
    assert!(earliest(&fixture, &topic, "other").await.is_empty(), "for itself, not for others");
    fixture.clock.advance(DAY + Duration::from_secs(1));
    fixture.trim().await;
    assert!(stored(&fixture, &topic).await.is_empty());
}

#[tokio::test]
async fn within_the_topics_retention_every_message_is_there_for_all() {
    let mut fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.broker.update_topic(&topic, keep(20 * DAY)).await.unwrap();
    let message_retention = Duration::from_secs(600);
    fixture.subscribe(Subscription { message_retention, ..settings(&topic, "sub") }).await;
    fixture.publish(&topic, &["a"]).await;
    fixture.clock.advance(10 * DAY);
    fixture.trim().await;
    fixture.reopen().await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["a"], "longer than its own retention");
    assert_eq!(earliest(&fixture, &topic, "late").await, ["a"]);
    fixture.clock.advance(11 * DAY);
    assert!(fixture.pull("sub", 10).await.is_empty());
}

#[tokio::test]
async fn a_filter_settles_what_it_leaves_out_and_keeps_the_rest() {
    let mut fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let filter = Some(Filter::parse("filter", r#"attributes.color = "red""#).unwrap());
    fixture.subscribe(Subscription { filter, ..settings(&topic, "sub") }).await;
    let colored = |text: &str, color: &str| Message {
        attributes: [("color".to_owned(), color.to_owned())].into(),
        ..message(text)
    };
    let messages =
        vec![colored("1", "blue"), colored("2", "red"), message("3"), colored("4", "red")];
    fixture.broker.publish(&topic, messages).await.unwrap();
    fixture.trim().await;
    fixture.reopen().await;
    let leases = fixture.pull("sub", 1).await;
    assert_eq!(texts(&leases), ["2"]);
    fixture.ack("sub", &leases).await;
    let rest = fixture.pull("sub", 10).await;
    assert_eq!(texts(&rest), ["4"]);
    fixture.trim().await;
    assert_eq!(stored(&fixture, &topic).await, ["4"], "the others are settled");
}

#[tokio::test]
async fn a_longer_retention_covers_what_the_one_before_did_and_what_comes_after() {
    let mut fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let message_retention = Duration::from_secs(600);
    fixture.subscribe(Subscription { message_retention, ..settings(&topic, "sub") }).await;
    fixture.publish(&topic, &["before"]).await;
    fixture.broker.update_topic(&topic, keep(DAY)).await.unwrap();
    fixture.publish(&topic, &["within"]).await;
    assert_eq!(earliest(&fixture, &topic, "first").await, ["within"]);
    fixture.clock.advance(2 * DAY);
    fixture.publish(&topic, &["young"]).await;
    fixture.broker.update_topic(&topic, keep(10 * DAY)).await.unwrap();
    // Whether or not a chore has dropped the older ones by now, the rule keeps them away, also
    // after a restart.
    assert_eq!(stored(&fixture, &topic).await.last().map(String::as_str), Some("young"));
    fixture.reopen().await;
    assert_eq!(earliest(&fixture, &topic, "second").await, ["young"]);
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["young"], "past its own retention too");
}
