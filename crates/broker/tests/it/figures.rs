//! Figures of subscriptions, topics and the log: each is made to move.

use std::sync::atomic::Ordering;
use std::time::Duration;

use broker::SubscriptionFigures;
use domain::{RetryPolicy, Subscription};
use futures::FutureExt;

use crate::fixture::{Fixture, HOUR, dead_letters_to, message, settings, subscription_name, until};
use crate::push_receiver::Receiver;

fn figures(fixture: &Fixture, id: &str) -> SubscriptionFigures {
    let name = subscription_name(id);
    fixture.broker.figures().into_iter().find(|figures| figures.name == name).unwrap()
}

#[tokio::test]
async fn deliveries_acks_nacks_and_expiries_are_counted() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["a", "b", "c"]).await;
    let leases = fixture.pull("sub", 10).await;
    let now = figures(&fixture, "sub");
    assert_eq!((now.deliveries, now.outstanding, now.backlog_messages), (3, 3, 3));
    fixture.ack("sub", &leases[..1]).await;
    // Repeated, it counts no more.
    fixture.ack("sub", &leases[..1]).await;
    fixture.nack("sub", &leases[1..2]).await;
    fixture.nack("sub", &leases[1..2]).await;
    let now = figures(&fixture, "sub");
    assert_eq!((now.acks, now.nacks, now.expiries), (1, 1, 0));
    assert_eq!((now.outstanding, now.backlog_messages), (1, 2));
    fixture.clock.advance(Duration::from_secs(11));
    until(|| figures(&fixture, "sub").expiries == 1).await;
    let now = figures(&fixture, "sub");
    assert_eq!((now.outstanding, now.deliveries, now.nacks), (0, 3, 1));
    assert_eq!(now.topic, Some(topic.clone()));
    fixture.broker.delete_topic(&topic).await.unwrap();
    assert_eq!(figures(&fixture, "sub").topic, None);
}

#[tokio::test]
async fn the_backlog_has_messages_bytes_and_an_age() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    let now = figures(&fixture, "sub");
    assert_eq!((now.backlog_messages, now.backlog_bytes, now.oldest_unacked_age), (0, 0, None));
    fixture.publish(&topic, &["1234567890"]).await;
    fixture.clock.advance(HOUR);
    fixture.publish(&topic, &["12345678901234567890"]).await;
    let now = figures(&fixture, "sub");
    assert_eq!((now.backlog_messages, now.backlog_bytes), (2, 30));
    assert_eq!(now.oldest_unacked_age, Some(HOUR));
    let leases = fixture.pull("sub", 1).await;
    fixture.ack("sub", &leases).await;
    let now = figures(&fixture, "sub");
    assert_eq!((now.backlog_messages, now.backlog_bytes), (1, 15));
    assert_eq!(now.oldest_unacked_age, Some(Duration::ZERO));
}

#[tokio::test]
async fn after_a_restart_the_backlog_has_about_the_size_of_its_oldest_message() {
    let mut fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["1234567890"; 4]).await;
    fixture.reopen().await;
    let now = figures(&fixture, "sub");
    assert_eq!(now.backlog_messages, 4);
    assert!((40..400).contains(&now.backlog_bytes), "{now:?}");
}

#[tokio::test]
async fn an_oldest_message_that_is_not_in_memory_is_looked_up() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["a"]).await;
    fixture.clock.advance(HOUR);
    fixture.log.is_far.store(true, Ordering::SeqCst);
    assert_eq!(figures(&fixture, "sub").oldest_unacked_age, None, "not known yet");
    fixture.broker.refresh_figures().await;
    assert_eq!(figures(&fixture, "sub").oldest_unacked_age, Some(HOUR));
    let reads = fixture.log.reads();
    fixture.broker.refresh_figures().await;
    assert_eq!(fixture.log.reads(), reads, "it is known, as long as the cursor stays");
}

#[tokio::test]
async fn so_many_are_looked_up_at_a_time_and_all_have_their_turn() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    for n in 0..100 {
        fixture.subscription(&topic, &format!("sub{n}")).await;
    }
    fixture.publish(&topic, &["a"]).await;
    fixture.log.is_far.store(true, Ordering::SeqCst);
    let known = || {
        let figures = fixture.broker.figures();
        figures.iter().filter(|figures| figures.oldest_unacked_age.is_some()).count()
    };
    fixture.broker.refresh_figures().await;
    assert_eq!(known(), 64);
    fixture.broker.refresh_figures().await;
    assert_eq!(known(), 100);
}

#[tokio::test]
async fn dead_letters_and_drops_are_counted() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.topic_of("dead").await;
    let dead_letter_policy = dead_letters_to("dead");
    fixture.subscribe(Subscription { dead_letter_policy, ..settings(&topic, "sub") }).await;
    let attempts_max = Some(5);
    fixture.subscribe(Subscription { attempts_max, ..settings(&topic, "dropping") }).await;
    fixture.publish(&topic, &["bad"]).await;
    fixture.fail("sub", 5).await;
    fixture.fail("dropping", 5).await;
    until(|| figures(&fixture, "sub").dead_letters == 1).await;
    until(|| figures(&fixture, "dropping").dropped == 1).await;
    assert_eq!((figures(&fixture, "sub").dropped, figures(&fixture, "sub").nacks), (0, 5));
    let published = |id: &str| {
        let all = fixture.broker.topic_figures();
        let found = all.into_iter().find(|topic| topic.name.id() == id).unwrap();
        (found.messages, found.bytes)
    };
    assert_eq!(published("orders"), (1, 3));
    assert!(published("dead").0 == 1 && published("dead").1 > 3, "a letter says more");
    let log = fixture.broker.log_figures();
    assert!(log[0].group_messages.snapshot().sum >= 2);
}

#[tokio::test]
async fn a_fifo_subscription_is_blocked_from_its_first_failure_to_its_ack() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let minute = Duration::from_secs(60);
    let fifo = Subscription {
        fifo: true,
        retry_policy: Some(RetryPolicy { min: minute, max: minute }),
        ..settings(&topic, "sub")
    };
    fixture.subscribe(fifo).await;
    fixture.publish(&topic, &["a", "b", "c"]).await;
    let fifo = || figures(&fixture, "sub").fifo.unwrap();
    assert_eq!((fifo().queue_depth, fifo().blocked_for, fifo().current_retry_count), (3, None, 0));
    fixture.fail("sub", 1).await;
    fixture.clock.advance(2 * minute);
    assert_eq!((fifo().blocked_for, fifo().current_retry_count), (Some(2 * minute), 1));
    // While it is tried again it is still blocked.
    let leases = fixture.wait("sub").await;
    assert_eq!(fifo().blocked_for, Some(2 * minute));
    fixture.nack("sub", &leases[..1]).await;
    fixture.clock.advance(2 * minute);
    assert_eq!((fifo().blocked_for, fifo().current_retry_count), (Some(4 * minute), 2));
    let leases = fixture.wait("sub").await;
    fixture.ack("sub", &leases[..1]).await;
    assert_eq!((fifo().queue_depth, fifo().blocked_for, fifo().current_retry_count), (2, None, 0));
}

#[tokio::test]
async fn what_blocks_a_fifo_subscription_is_known_after_a_restart() {
    let mut fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let retry_policy = Some(RetryPolicy { min: HOUR / 6, max: HOUR / 6 });
    let fifo = Subscription { fifo: true, retry_policy, ..settings(&topic, "sub") };
    fixture.subscribe(fifo).await;
    fixture.publish(&topic, &["a"]).await;
    fixture.fail("sub", 1).await;
    fixture.reopen().await;
    fixture.clock.advance(Duration::from_secs(7));
    let fifo = figures(&fixture, "sub").fifo.unwrap();
    assert_eq!(fifo.current_retry_count, 1);
    assert_eq!(fifo.blocked_for, Some(Duration::from_secs(7)), "since the restart");
}

#[tokio::test]
async fn attempts_to_push_are_counted_by_class_with_latency_and_window() {
    let fixture = Fixture::new().await;
    let receiver = Receiver::start(|push| {
        let is_bad = push.messages[0].text == "bad";
        let status = if is_bad { 404 } else { 200 };
        async move { (status, String::new()) }.boxed()
    })
    .await;
    let topic = fixture.topic().await;
    let retry_policy = Some(RetryPolicy { min: HOUR / 6, max: HOUR / 6 });
    let push = receiver.push_to("/push");
    fixture.subscribe(Subscription { push, retry_policy, ..settings(&topic, "sub") }).await;
    fixture.broker.publish(&topic, vec![message("good"), message("bad")]).await.unwrap();
    let class = |word: &str| {
        let attempts = figures(&fixture, "sub").attempts;
        attempts.iter().find(|(class, _)| *class == word).unwrap().1
    };
    until(|| class("ok") == 1 && class("http_4xx") == 1).await;
    let now = figures(&fixture, "sub");
    assert!(now.is_push && now.push_window.is_some_and(|window| window >= 1), "{now:?}");
    assert_eq!(now.push_latency.count(), 2);
    assert_eq!((now.acks, now.nacks, now.deliveries), (1, 1, 2));
}
