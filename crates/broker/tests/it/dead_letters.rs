//! Exhausted messages: forwarded in one commit, kept while they cannot be, dropped where asked.

use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::delivery::Lease;
use domain::subscription::Start;
use domain::{ProgressChange, Subscription};
use storage::Urgency;

use crate::fixture::{
    DAY, Fixture, ack_ids, dead_letters_to, decoded, settings, subscription_name, texts,
    topic_name, until,
};

/// A topic with a subscription `sub` whose exhausted messages go to `dead`.
async fn with_policy(fixture: &Fixture) -> domain::TopicName {
    let topic = fixture.topic().await;
    let dead_letter_policy = dead_letters_to("dead");
    fixture.subscribe(Subscription { dead_letter_policy, ..settings(&topic, "sub") }).await;
    topic
}

fn attribute(lease: &Lease, key: &str) -> String {
    decoded(lease).attributes.get(key).cloned().unwrap_or_default()
}

#[tokio::test]
async fn an_exhausted_message_goes_to_the_dead_letter_topic_and_nowhere_else() {
    let mut fixture = Fixture::new().await;
    let topic = with_policy(&fixture).await;
    let dead = fixture.topic_of("dead").await;
    fixture.subscription(&dead, "undertaker").await;
    let ids = fixture.publish(&topic, &["bad"]).await;
    fixture.fail("sub", 4).await;
    let last = fixture.pull("sub", 1).await;
    assert_eq!(last[0].attempt, 5);
    fixture.nack("sub", &last).await;
    let letters = fixture.wait("undertaker").await;
    assert_eq!(texts(&letters), ["bad"]);
    assert_eq!(attribute(&letters[0], "original_message_id"), ids[0].to_string());
    assert_eq!(attribute(&letters[0], "CloudPubSubDeadLetterSourceDeliveryCount"), "5");
    assert_eq!(attribute(&letters[0], "failure_reason"), "max_delivery_attempts_exceeded");
    assert_eq!(attribute(&letters[0], "error_class"), "nack");
    assert_eq!(fixture.find("sub").dead_lettered(), 1);
    assert!(fixture.pull("sub", 1).await.is_empty());
    fixture.reopen().await;
    assert!(fixture.pull("sub", 1).await.is_empty());
    assert_eq!(texts(&fixture.pull("undertaker", 10).await), ["bad"]);
}

#[tokio::test]
async fn the_letter_and_the_ack_are_one_durable_commit() {
    let fixture = Fixture::new().await;
    let topic = with_policy(&fixture).await;
    let dead = fixture.topic_of("dead").await;
    fixture.subscription(&dead, "undertaker").await;
    let ids = fixture.publish(&topic, &["bad"]).await;
    fixture.fail("sub", 4).await;
    fixture.log.take_commits();
    fixture.fail("sub", 1).await;
    fixture.wait("undertaker").await;
    let commits = fixture.log.take_commits();
    let settles = |change: &ProgressChange| match change {
        ProgressChange::Settled(ranges) => ranges.iter().any(|range| range.from.0 == ids[0]),
        _ => false,
    };
    let first = commits.iter().find(|commit| {
        !commit.appends.is_empty() || commit.progress.iter().any(|(_, change)| settles(change))
    });
    let first = first.unwrap();
    assert_eq!(first.appends.len(), 1);
    assert!(first.progress.iter().any(|(_, change)| settles(change)));
    assert_eq!(first.urgency, Urgency::Durable);
}

#[tokio::test]
async fn without_the_topic_a_message_stays_until_the_topic_is_there() {
    let fixture = Fixture::new().await;
    let topic = with_policy(&fixture).await;
    fixture.publish(&topic, &["bad"]).await;
    fixture.fail("sub", 5).await;
    let again = fixture.wait("sub").await;
    assert_eq!((texts(&again), again[0].attempt), (vec!["bad".to_owned()], 6));
    let error = fixture.find("sub").dead_letter_error().unwrap();
    assert!(error.contains("projects/p/topics/dead does not exist: create it"), "{error}");
    let dead = fixture.topic_of("dead").await;
    fixture.subscription(&dead, "undertaker").await;
    fixture.nack("sub", &again).await;
    let letters = fixture.wait("undertaker").await;
    assert_eq!(attribute(&letters[0], "attempts"), "6");
    assert_eq!(fixture.find("sub").dead_letter_error(), None);
    assert!(fixture.pull("sub", 1).await.is_empty());
}

#[tokio::test]
async fn a_dead_letter_topic_made_again_gets_the_letters() {
    let fixture = Fixture::new().await;
    let topic = with_policy(&fixture).await;
    let dead = fixture.topic_of("dead").await;
    fixture.subscription(&dead, "old").await;
    fixture.broker.delete_topic(&dead).await.unwrap();
    fixture.publish(&topic, &["bad"]).await;
    fixture.fail("sub", 5).await;
    let again = fixture.wait("sub").await;
    let dead = fixture.topic_of("dead").await;
    fixture.subscription(&dead, "new").await;
    fixture.nack("sub", &again).await;
    assert_eq!(texts(&fixture.wait("new").await), ["bad"]);
    assert!(fixture.pull("old", 1).await.is_empty());
}

#[tokio::test]
async fn a_letter_that_finds_no_space_is_not_lost() {
    let fixture = Fixture::new().await;
    let topic = with_policy(&fixture).await;
    let dead = fixture.topic_of("dead").await;
    fixture.subscription(&dead, "undertaker").await;
    fixture.publish(&topic, &["bad"]).await;
    fixture.log.is_full.store(true, Ordering::SeqCst);
    fixture.fail("sub", 5).await;
    let again = fixture.wait("sub").await;
    assert_eq!(texts(&again), ["bad"]);
    assert!(fixture.find("sub").dead_letter_error().unwrap().contains("no space left"));
    fixture.log.is_full.store(false, Ordering::SeqCst);
    fixture.nack("sub", &again).await;
    assert_eq!(texts(&fixture.wait("undertaker").await), ["bad"]);
}

#[tokio::test]
async fn a_topic_can_be_its_own_dead_letter_topic() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let dead_letter_policy = dead_letters_to("orders");
    fixture.subscribe(Subscription { dead_letter_policy, ..settings(&topic, "sub") }).await;
    let ids = fixture.publish(&topic, &["bad"]).await;
    fixture.fail("sub", 5).await;
    let again = fixture.wait("sub").await;
    assert_eq!((texts(&again), again[0].attempt), (vec!["bad".to_owned()], 1));
    assert!(again[0].record.offset.0 > ids[0], "it is another record");
    assert_eq!(attribute(&again[0], "original_message_id"), ids[0].to_string());
}

#[tokio::test]
async fn without_a_policy_an_exhausted_message_is_dropped_where_that_was_asked_for() {
    let mut fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let attempts_max = Some(2);
    fixture.subscribe(Subscription { attempts_max, ..settings(&topic, "sub") }).await;
    fixture.publish(&topic, &["bad", "good"]).await;
    let leases = fixture.pull("sub", 1).await;
    fixture.nack("sub", &leases).await;
    let leases = fixture.pull("sub", 1).await;
    assert_eq!((texts(&leases), leases[0].attempt), (vec!["bad".to_owned()], 2));
    fixture.nack("sub", &leases).await;
    let subscription = fixture.find("sub");
    until(|| subscription.dropped() == 1).await;
    fixture.reopen().await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["good"]);
}

#[tokio::test]
async fn attempts_are_counted_over_expiries_and_restarts() {
    let mut fixture = Fixture::new().await;
    let topic = with_policy(&fixture).await;
    let dead = fixture.topic_of("dead").await;
    fixture.subscription(&dead, "undertaker").await;
    fixture.publish(&topic, &["bad"]).await;
    fixture.fail("sub", 2).await;
    fixture.reopen().await;
    let third = fixture.pull("sub", 1).await;
    assert_eq!(third[0].attempt, 3);
    fixture.clock.advance(Duration::from_secs(11));
    let fourth = fixture.pull("sub", 1).await;
    assert_eq!(fourth[0].attempt, 4);
    fixture.clock.advance(Duration::from_secs(11));
    fixture.fail("sub", 1).await;
    let letters = fixture.wait("undertaker").await;
    assert_eq!(attribute(&letters[0], "attempts"), "5");
}

#[tokio::test]
async fn what_was_exhausted_when_the_server_stopped_is_forwarded_afterwards() {
    let mut fixture = Fixture::new().await;
    let topic = with_policy(&fixture).await;
    fixture.publish(&topic, &["bad"]).await;
    fixture.fail("sub", 5).await;
    fixture.reopen().await;
    let dead = fixture.topic_of("dead").await;
    fixture.subscription(&dead, "undertaker").await;
    assert!(fixture.pull("sub", 1).await.is_empty());
    assert_eq!(texts(&fixture.wait("undertaker").await), ["bad"]);
}

#[tokio::test]
async fn in_a_lane_the_next_message_follows_the_dead_letter() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let dead = fixture.topic_of("dead").await;
    fixture.subscription(&dead, "undertaker").await;
    fixture
        .subscribe(Subscription {
            dead_letter_policy: dead_letters_to("dead"),
            message_ordering: true,
            ..settings(&topic, "sub")
        })
        .await;
    fixture.publish_keyed(&topic, &[("k", "1"), ("k", "2"), ("k", "3")]).await;
    for _ in 0..5 {
        let leases = fixture.pull("sub", 10).await;
        assert_eq!(texts(&leases), ["1", "2", "3"]);
        fixture.nack("sub", &leases[..1]).await;
    }
    assert_eq!(texts(&fixture.wait("sub").await), ["2", "3"]);
    let letters = fixture.wait("undertaker").await;
    assert_eq!(texts(&letters), ["1"]);
    assert_eq!(decoded(&letters[0]).ordering_key, "k");
}

#[tokio::test]
async fn dead_letters_are_kept_for_their_time_whoever_reads_them() {
    let mut fixture = Fixture::new().await;
    let topic = with_policy(&fixture).await;
    fixture.topic_of("dead").await;
    fixture.publish(&topic, &["bad"]).await;
    fixture.fail("sub", 5).await;
    let subscription = fixture.find("sub");
    until(|| subscription.dead_lettered() == 1).await;
    fixture.clock.advance(10 * DAY);
    fixture.trim().await;
    fixture.reopen().await;
    let from_start =
        |id| Subscription { start: Start::Earliest, ..settings(&topic_name("dead"), id) };
    let late = fixture.subscribe(from_start("late")).await;
    let letters = fixture.pull("late", 10).await;
    assert_eq!(texts(&letters), ["bad"]);
    late.acknowledge(&ack_ids(&letters)).await.unwrap();
    fixture.trim().await;
    fixture.subscribe(from_start("later")).await;
    assert_eq!(texts(&fixture.pull("later", 10).await), ["bad"], "acked or not");
    fixture.clock.advance(5 * DAY);
    fixture.subscribe(from_start("too-late")).await;
    assert!(fixture.pull("too-late", 10).await.is_empty());
}

#[tokio::test]
async fn a_topic_that_no_policy_names_any_more_keeps_dead_letters_no_longer() {
    let fixture = Fixture::new().await;
    let topic = with_policy(&fixture).await;
    let dead = fixture.topic_of("dead").await;
    fixture.publish(&dead, &["letter"]).await;
    fixture.trim().await;
    let name = subscription_name("sub");
    let none = serde_json::Value::Null;
    let change = domain::subscription::Change::of("dead_letter_policy", none).unwrap();
    fixture.broker.update_subscription(&name, change).await.unwrap();
    fixture.trim().await;
    let start = Start::Earliest;
    fixture.subscribe(Subscription { start, ..settings(&dead, "late") }).await;
    assert!(fixture.pull("late", 10).await.is_empty());
    drop(topic);
}
