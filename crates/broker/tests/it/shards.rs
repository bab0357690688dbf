//! Shards that are opened and closed while the broker runs.

use std::sync::Arc;
use std::time::Duration;

use broker::{Error, Options};
use domain::ShardId;
use domain::delivery::Flow;

use crate::fixture::{
    DAY, Fixture, HOUR, ack_ids, dead_letters_to, keep, message, settings, settle,
    subscription_name, texts, topic_name, until,
};

const ONLY: ShardId = ShardId(0);

pub(crate) fn alive_tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

#[tokio::test]
async fn a_shard_that_is_closed_answers_nobody_and_goes_on_when_it_is_opened() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["one", "two"]).await;
    let leases = fixture.pull("sub", 1).await;
    let stale = fixture.find("sub");
    let name = subscription_name("sub");
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["two"]);
    let waiting = fixture.broker.pull(&name, 10, HOUR);
    let closing = async {
        settle().await;
        fixture.broker.close_shard(ONLY, Duration::ZERO).await.unwrap();
    };
    let (refused, ()) = tokio::join!(waiting, closing);
    assert!(matches!(refused, Err(Error::Closing | Error::NotOwner(_))), "{refused:?}");
    let refused = fixture.broker.publish(&topic, vec![message("three")]).await;
    assert!(matches!(refused, Err(Error::NotOwner(ONLY))), "{refused:?}");
    assert!(matches!(stale.acknowledge(&ack_ids(&leases)).await, Err(Error::Closing)));
    assert!(fixture.broker.open_shards().is_empty());
    fixture.broker.open_shard(ONLY).await.unwrap();
    fixture.ack("sub", &leases).await;
    assert_eq!(texts(&fixture.wait("sub").await), ["two"]);
}

#[tokio::test]
async fn a_shard_that_is_opened_and_closed_a_thousand_times_leaves_nothing_behind() {
    let mut fixture = Fixture::with(Options::default()).await;
    let topic = fixture.topic().await;
    fixture.topic_of("dead").await;
    for number in 0..20 {
        let dead_letter_policy = dead_letters_to("dead");
        let id = format!("sub-{number}");
        fixture
            .subscribe(domain::Subscription { dead_letter_policy, ..settings(&topic, &id) })
            .await;
    }
    fixture.broker.update_topic(&topic, keep(DAY)).await.unwrap();
    let names: Vec<_> = (0..20).map(|number| format!("sub-{number}")).collect();
    let (mut topics, mut subscriptions) = (Vec::new(), Vec::new());
    let mut tasks = 0;
    for round in 0..1_000 {
        fixture.publish(&topic, &["one"]).await;
        let leases = fixture.pull(&names[round % names.len()], 2).await;
        let flow = Flow { messages_max: 10, bytes_max: 0 };
        let stream = fixture.broker.stream(&subscription_name(&names[0]), flow, HOUR).unwrap();
        fixture.ack(&names[round % names.len()], &leases).await;
        topics.push(Arc::downgrade(&fixture.broker.topic(&topic).unwrap()));
        subscriptions.extend(names.iter().map(|name| Arc::downgrade(&fixture.find(name))));
        fixture.broker.close_shard(ONLY, Duration::ZERO).await.unwrap();
        drop(stream);
        fixture.broker.open_shard(ONLY).await.unwrap();
        if round == 200 {
            until(|| alive_tasks() <= 40).await;
            tasks = alive_tasks();
        }
    }
    until(|| alive_tasks() <= tasks).await;
    // Whatever a shard has in memory hangs from its topics and subscriptions.
    let left = topics.iter().filter(|topic| topic.strong_count() > 0).count();
    assert_eq!(left, 0, "topics of closed shards are still in memory");
    let left = subscriptions.iter().filter(|one| one.strong_count() > 0).count();
    assert_eq!(left, 0, "subscriptions of closed shards are still in memory");
    assert_eq!(fixture.broker.outstanding_used(), 0);
    fixture.reopen().await;
    assert!(fixture.broker.topic(&topic_name("orders")).is_ok());
}
