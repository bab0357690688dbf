//! Snapshots: taken, kept, gone back to, changed, ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use broker::{Error, Resource, SeekTarget, Snapshot};
use domain::snapshot::Change;
use domain::{ProjectName, SnapshotName, Subscription, TopicName};

use crate::fixture::{DAY, Fixture, HOUR, settings, subscription_name, texts, until};

fn snapshot_name(id: &str) -> SnapshotName {
    SnapshotName::parse("name", &format!("projects/p/snapshots/{id}")).unwrap()
}

impl Fixture {
    async fn snapshot(&self, id: &str) -> Result<Arc<Snapshot>, Error> {
        let of = subscription_name("sub");
        self.broker.create_snapshot(snapshot_name(id), &of, BTreeMap::new(), BTreeMap::new()).await
    }

    async fn seek_to(&self, subscription: &str, id: &str) -> Result<(), Error> {
        let target = SeekTarget::Snapshot(snapshot_name(id));
        self.broker.seek(&subscription_name(subscription), target).await
    }
}

/// A subscription that has acked b of a, b, c.
async fn with_three(fixture: &Fixture) -> TopicName {
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["a", "b", "c"]).await;
    let leases = fixture.pull("sub", 10).await;
    fixture.ack("sub", &leases[1..2]).await;
    topic
}

#[tokio::test]
async fn a_seek_to_a_snapshot_brings_back_what_was_unacked_then_and_what_came_after() {
    let mut fixture = Fixture::new().await;
    let topic = with_three(&fixture).await;
    fixture.snapshot("snap").await.unwrap();
    fixture.publish(&topic, &["d"]).await;
    fixture.seek_to("sub", "snap").await.unwrap();
    let leases = fixture.pull("sub", 10).await;
    fixture.ack("sub", &leases).await;
    // Only the snapshot needs them now.
    fixture.trim().await;
    fixture.reopen().await;
    assert!(fixture.pull("sub", 10).await.is_empty());
    fixture.seek_to("sub", "snap").await.unwrap();
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["a", "c", "d"]);
    fixture.subscription(&topic, "other").await;
    fixture.seek_to("other", "snap").await.unwrap();
    assert_eq!(texts(&fixture.pull("other", 10).await), ["a", "c", "d"]);
}

#[tokio::test]
async fn it_outlives_its_subscription_and_its_topic_and_keeps_their_log() {
    let mut fixture = Fixture::new().await;
    let topic = with_three(&fixture).await;
    fixture.snapshot("snap").await.unwrap();
    fixture.subscription(&topic, "heir").await;
    fixture.broker.delete_subscription(&subscription_name("sub")).await.unwrap();
    fixture.broker.delete_topic(&topic).await.unwrap();
    fixture.trim().await;
    fixture.reopen().await;
    let snapshot = fixture.broker.snapshot(&snapshot_name("snap")).unwrap();
    assert!(snapshot.topic().is_deleted());
    assert_eq!(snapshot.settings().topic, topic);
    fixture.seek_to("heir", "snap").await.unwrap();
    assert_eq!(texts(&fixture.pull("heir", 10).await), ["a", "c"]);
}

#[tokio::test]
async fn it_keeps_old_messages_for_a_subscription_with_a_short_retention() {
    let mut fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let message_retention = Duration::from_secs(600);
    fixture.subscribe(Subscription { message_retention, ..settings(&topic, "sub") }).await;
    fixture.publish(&topic, &["a"]).await;
    fixture.clock.advance(Duration::from_secs(300));
    fixture.snapshot("snap").await.unwrap();
    let leases = fixture.pull("sub", 10).await;
    fixture.ack("sub", &leases).await;
    fixture.clock.advance(DAY);
    fixture.trim().await;
    fixture.reopen().await;
    fixture.seek_to("sub", "snap").await.unwrap();
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["a"]);
}

#[tokio::test]
async fn it_lives_seven_days_less_the_age_of_the_oldest_unacked_message() {
    let fixture = Fixture::new().await;
    let topic = with_three(&fixture).await;
    fixture.clock.advance(2 * DAY);
    let snapshot = fixture.snapshot("snap").await.unwrap();
    assert_eq!(snapshot.settings().expire_time, fixture.now().plus(5 * DAY));
    let leases = fixture.pull("sub", 10).await;
    fixture.ack("sub", &leases).await;
    let snapshot = fixture.snapshot("empty").await.unwrap();
    assert_eq!(snapshot.settings().expire_time, fixture.now().plus(7 * DAY));
    fixture.publish(&topic, &["d"]).await;
    fixture.clock.advance(7 * DAY - HOUR + Duration::from_secs(1));
    let refused = fixture.snapshot("late").await.err();
    assert!(matches!(&refused, Some(Error::FailedPrecondition(why)) if why.contains("1 hour")));
    assert!(fixture.broker.snapshot(&snapshot_name("late")).is_err());
}

#[tokio::test]
async fn an_expired_snapshot_is_gone_and_keeps_nothing() {
    let fixture = Fixture::new().await;
    let topic = with_three(&fixture).await;
    fixture.snapshot("snap").await.unwrap();
    fixture.snapshot("longer").await.unwrap();
    let sooner = Change { expire_time: Some(fixture.now().plus(HOUR)), ..Change::default() };
    fixture.broker.update_snapshot(&snapshot_name("snap"), sooner).await.unwrap();
    let left = || fixture.broker.list_snapshots(&project(), None, 10).0.len();
    fixture.clock.advance(HOUR);
    until(|| left() == 1).await;
    assert!(fixture.broker.snapshot(&snapshot_name("longer")).is_ok());
    fixture.clock.advance(7 * DAY);
    until(|| left() == 0).await;
    let gone = fixture.seek_to("sub", "longer").await;
    assert!(matches!(gone, Err(Error::NotFound(Resource::Snapshot, _))));
    assert!(fixture.broker.topic(&topic).is_ok());
}

#[tokio::test]
async fn what_only_a_deleted_snapshot_kept_is_dropped() {
    let fixture = Fixture::new().await;
    let topic = with_three(&fixture).await;
    fixture.snapshot("snap").await.unwrap();
    fixture.seek_to("sub", "snap").await.unwrap();
    let leases = fixture.pull("sub", 10).await;
    fixture.ack("sub", &leases).await;
    fixture.broker.delete_snapshot(&snapshot_name("snap")).await.unwrap();
    fixture.trim().await;
    let start = domain::subscription::Start::Earliest;
    fixture.subscribe(Subscription { start, ..settings(&topic, "late") }).await;
    assert!(fixture.pull("late", 10).await.is_empty());
}

fn project() -> ProjectName {
    ProjectName::parse("project", "projects/p").unwrap()
}

#[tokio::test]
async fn snapshots_are_listed_by_project_and_by_topic() {
    let fixture = Fixture::new().await;
    let topic = with_three(&fixture).await;
    let other = fixture.topic_of("other").await;
    for id in ["aaa", "bbb", "ccc"] {
        fixture.snapshot(id).await.unwrap();
    }
    let ids = |listed: Vec<Arc<Snapshot>>| -> Vec<String> {
        listed.iter().map(|snapshot| snapshot.settings().name.id().to_owned()).collect()
    };
    let (first, more) = fixture.broker.list_snapshots(&project(), None, 2);
    assert_eq!(ids(first), ["aaa", "bbb"]);
    let (rest, end) = fixture.broker.list_snapshots(&project(), more.as_deref(), 2);
    assert_eq!((ids(rest), end), (vec!["ccc".to_owned()], None));
    let of = |name: &TopicName| {
        let topic = fixture.broker.topic(name).unwrap();
        ids(fixture.broker.list_topic_snapshots(&topic, None, 10).0)
    };
    assert_eq!(of(&topic), ["aaa", "bbb", "ccc"]);
    assert!(of(&other).is_empty());
}

#[tokio::test]
async fn changes_of_a_snapshot_are_kept_and_bad_ones_refused() {
    let mut fixture = Fixture::new().await;
    with_three(&fixture).await;
    let name = snapshot_name("snap");
    fixture.snapshot("snap").await.unwrap();
    assert!(matches!(fixture.snapshot("snap").await, Err(Error::AlreadyExists(..))));
    let labels = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
    let change = Change { labels: Some(labels.clone()), ..Change::default() };
    fixture.broker.update_snapshot(&name, change).await.unwrap();
    let past = Change { expire_time: Some(fixture.now()), ..Change::default() };
    assert!(matches!(fixture.broker.update_snapshot(&name, past).await, Err(Error::Invalid(_))));
    fixture.reopen().await;
    assert_eq!(fixture.broker.snapshot(&name).unwrap().settings().labels, labels);
    fixture.broker.delete_snapshot(&name).await.unwrap();
    fixture.reopen().await;
    let gone = fixture.broker.delete_snapshot(&name).await;
    assert!(matches!(gone, Err(Error::NotFound(Resource::Snapshot, _))));
}

#[tokio::test]
async fn a_snapshot_of_another_topic_is_refused_with_both_names() {
    let fixture = Fixture::new().await;
    let topic = with_three(&fixture).await;
    fixture.snapshot("snap").await.unwrap();
    let other = fixture.topic_of("other").await;
    fixture.subscription(&other, "elsewhere").await;
    let refused = fixture.seek_to("elsewhere", "snap").await.unwrap_err().to_string();
    assert!(refused.contains(topic.as_str()) && refused.contains(other.as_str()), "{refused}");
    // A topic made again under the name is another one.
    fixture.broker.delete_topic(&topic).await.unwrap();
    fixture.topic().await;
    fixture.subscription(&topic, "again").await;
    let refused = fixture.seek_to("again", "snap").await;
    assert!(matches!(refused, Err(Error::Invalid(invalid)) if invalid.field == "snapshot"));
}
