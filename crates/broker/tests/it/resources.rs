//! Topics and subscriptions: made, found, changed, ended, and still there afterwards.

use std::time::Duration;

use broker::{Error, Resource};
use domain::ProjectName;
use futures::FutureExt;

use crate::fixture::{Fixture, keep, settings, subscription_name, texts, topic_name, until};

#[tokio::test]
async fn a_topic_cannot_be_made_twice() {
    let fixture = Fixture::new().await;
    let name = fixture.topic().await;
    let again = fixture.broker.create_topic(domain::Topic::new(name)).await;
    assert!(matches!(again.err(), Some(Error::AlreadyExists(Resource::Topic, _))));
}

#[tokio::test]
async fn a_subscription_needs_its_topic() {
    let fixture = Fixture::new().await;
    let settings = domain::Subscription::new(subscription_name("sub"), topic_name("none"));
    let made = fixture.broker.create_subscription(settings).await;
    assert!(matches!(made.err(), Some(Error::NotFound(Resource::Topic, _))));
}

#[tokio::test]
async fn everything_is_there_after_a_stop() {
    let mut fixture = Fixture::new().await;
    let name = fixture.topic().await;
    fixture.subscription(&name, "sub").await;
    fixture.broker.update_topic(&name, keep(Duration::from_secs(3_600))).await.unwrap();
    fixture.publish(&name, &["kept"]).await;
    fixture.reopen().await;
    let topic = fixture.broker.topic(&name).unwrap();
    assert_eq!(topic.settings().message_retention, Some(Duration::from_secs(3_600)));
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["kept"]);
    fixture.publish(&name, &["more"]).await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["more"]);
}

#[tokio::test]
async fn listings_are_paged_by_name_within_the_project() {
    let fixture = Fixture::new().await;
    for id in ["aaa", "bbb", "ccc"] {
        fixture.broker.create_topic(domain::Topic::new(topic_name(id))).await.unwrap();
    }
    let project = ProjectName::parse("project", "projects/p").unwrap();
    let (first, next) = fixture.broker.list_topics(&project, None, 2);
    assert_eq!(first.len(), 2);
    let (second, end) = fixture.broker.list_topics(&project, next.as_deref(), 2);
    assert_eq!(second.first().map(|topic| topic.name().id().to_owned()), Some("ccc".to_owned()));
    assert_eq!(end, None);
    let other = ProjectName::parse("project", "projects/other").unwrap();
    assert!(fixture.broker.list_topics(&other, None, 2).0.is_empty());
}

#[tokio::test]
async fn a_deleted_topic_leaves_its_backlog_to_its_subscriptions() {
    let mut fixture = Fixture::new().await;
    let name = fixture.topic().await;
    fixture.subscription(&name, "sub").await;
    fixture.publish(&name, &["left"]).await;
    fixture.broker.delete_topic(&name).await.unwrap();
    assert!(fixture.broker.topic(&name).is_err());
    assert!(fixture.broker.publish(&name, Vec::new()).await.is_err());
    fixture.reopen().await;
    let subscription = fixture.broker.subscription(&subscription_name("sub")).unwrap();
    assert!(subscription.topic().is_deleted());
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["left"]);
}

#[tokio::test]
async fn a_topic_made_again_is_another_one_and_repeats_no_id() {
    let mut fixture = Fixture::new().await;
    let name = fixture.topic().await;
    fixture.subscription(&name, "old").await;
    let old = fixture.publish(&name, &["a", "b"]).await;
    fixture.broker.delete_topic(&name).await.unwrap();
    fixture.reopen().await;
    // The clock stands still, so that only the stored floor keeps the ids apart.
    fixture.topic().await;
    fixture.subscription(&name, "new").await;
    let new = fixture.publish(&name, &["c"]).await;
    assert!(new[0] > old[1], "{new:?} after {old:?}");
    assert_eq!(texts(&fixture.pull("old", 10).await), ["a", "b"]);
    assert_eq!(texts(&fixture.pull("new", 10).await), ["c"]);
}

#[tokio::test]
async fn a_deleted_subscription_is_gone_after_a_stop() {
    let mut fixture = Fixture::new().await;
    let name = fixture.topic().await;
    fixture.subscription(&name, "sub").await;
    fixture.broker.delete_subscription(&subscription_name("sub")).await.unwrap();
    fixture.reopen().await;
    let found = fixture.broker.subscription(&subscription_name("sub"));
    assert!(matches!(found.err(), Some(Error::NotFound(Resource::Subscription, _))));
}

#[tokio::test]
async fn a_change_whose_caller_goes_away_is_made_all_the_same() {
    let fixture = Fixture::new().await;
    let name = topic_name("orders");
    // The caller is gone after the first step.
    assert!(fixture.broker.create_topic(domain::Topic::new(name.clone())).now_or_never().is_none());
    until(|| fixture.broker.topic(&name).is_ok()).await;
    let settings = settings(&name, "sub");
    assert!(fixture.broker.create_subscription(settings).now_or_never().is_none());
    until(|| fixture.broker.subscription(&subscription_name("sub")).is_ok()).await;
    fixture.publish(&name, &["a"]).await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["a"]);
}

#[tokio::test]
async fn acts_are_on_record_with_who_asked_though_they_go_away() {
    let fixture = Fixture::new().await;
    let name = fixture.topic().await;
    fixture.subscription(&name, "sub").await;
    let peer = Some(([10, 1, 2, 3], 4_000).into());
    let ended = subscription_name("sub");
    let deleting = broker::asked_by(peer, fixture.broker.delete_subscription(&ended));
    assert!(deleting.now_or_never().is_none(), "begun, and the caller is gone");
    until(|| !fixture.acts.0.lock().is_empty()).await;
    fixture.broker.delete_topic(&name).await.unwrap();
    let acts = fixture.acts.0.lock().clone();
    let told: Vec<_> = acts.iter().map(|act| (act.act, act.resource.as_str(), act.peer)).collect();
    assert_eq!(told, [("delete", ended.as_str(), peer), ("delete", name.as_str(), None)]);
}
