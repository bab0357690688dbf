//! What is kept: for the topic, for each subscription, and nothing that nobody needs.

use std::time::Duration;

use domain::subscription::Start;
use domain::{Filter, Message, Subscription, TopicName, topic};

use crate::fixture::{DAY, Fixture, message, settings, texts};

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
    assert_eq!(earliest(&fixture, &topic, "late").await, ["c"]);
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
    assert_eq!(earliest(&fixture, &topic, "within").await, ["a"]);
    let leases = fixture.pull("within", 10).await;
    assert!(leases.is_empty());
    fixture.broker.delete_subscription(&crate::fixture::subscription_name("within")).await.unwrap();
    fixture.clock.advance(DAY + Duration::from_secs(1));
    fixture.trim().await;
    assert!(earliest(&fixture, &topic, "after").await.is_empty());
}

#[tokio::test]
async fn within_the_topics_retention_every_message_is_there_for_all() {
    let mut fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let change = topic::Change { message_retention: Some(Some(20 * DAY)), ..Default::default() };
    fixture.broker.update_topic(&topic, change).await.unwrap();
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
    assert_eq!(earliest(&fixture, &topic, "late").await, ["4"], "the others are settled");
}
