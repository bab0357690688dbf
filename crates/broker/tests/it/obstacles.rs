//! What keeps a subscription from delivering is known: pauses, endpoints left alone, backoffs,
//! lanes that stand still.

use std::time::Duration;

use broker::{AlertOptions, Cause, Obstacles, Options, SubscriptionFigures};
use domain::alert::RuleName;
use domain::subscription::Change;
use domain::{Poison, RetryPolicy, Subscription, TopicName};
use futures::FutureExt;

use crate::fixture::{Fixture, HOUR, settings, settle, subscription_name, until};
use crate::push_receiver::Receiver;

fn obstacles(fixture: &Fixture) -> Obstacles {
    fixture.broker.obstacles(&subscription_name("sub")).unwrap()
}

fn figures(fixture: &Fixture) -> SubscriptionFigures {
    let name = subscription_name("sub");
    fixture.broker.figures().into_iter().find(|figures| figures.name == name).unwrap()
}

/// `sub`, whose lanes stop for good after one failure.
async fn halting(fixture: &Fixture) -> TopicName {
    let topic = fixture.topic().await;
    let settings = Subscription {
        message_ordering: true,
        attempts_max: Some(1),
        poison: Poison::Halt,
        ..settings(&topic, "sub")
    };
    fixture.subscribe(settings).await;
    topic
}

#[tokio::test]
async fn halted_lanes_of_keys_count_in_figures_status_and_alerts() {
    let alerts = AlertOptions { interval: Duration::from_secs(15), endpoint: None };
    let mut fixture = Fixture::with(Options { alerts: Some(alerts), ..Options::default() }).await;
    let topic = halting(&fixture).await;
    fixture.publish_keyed(&topic, &[("a", "a1"), ("b", "b1"), ("c", "c1"), ("a", "a2")]).await;
    let leases = fixture.pull("sub", 10).await;
    assert_eq!(obstacles(&fixture).waits.lanes_blocked, 0);
    fixture.nack("sub", &leases[..2]).await;
    fixture.ack("sub", &leases[2..3]).await;
    let check = |fixture: &Fixture| {
        let waits = figures(fixture).obstacles.waits;
        assert_eq!((waits.lanes_blocked, waits.lanes_halted), (2, 2));
        assert_eq!(figures(fixture).fifo, None);
        let status = fixture.broker.status();
        assert_eq!((status.lanes_blocked, status.lanes_halted), (2, 2));
        let degraded = &status.degraded[0];
        assert_eq!(degraded.code, "lanes_halted");
        assert_eq!(degraded.resource.as_deref(), Some("projects/p/subscriptions/sub"));
        assert!(degraded.problem.starts_with("2 lanes wait for an operator"), "{degraded:?}");
    };
    check(&fixture);
    fixture.clock.advance(Duration::from_secs(7));
    assert_eq!(figures(&fixture).lane_blocked_for, Some(Duration::from_secs(7)));
    // After a restart nobody has read them yet, and they wait for an operator all the same.
    fixture.reopen().await;
    check(&fixture);
    // The chore of alerts looks when it likes: it is given time until it has.
    let mut looks = 0;
    let is_told = |fixture: &Fixture| {
        let alerts = fixture.broker.alerts();
        let is_halted = |alert: &&broker::AlertView| alert.rule == RuleName::LaneHalted;
        alerts.iter().find(is_halted).is_some_and(|alert| alert.state.as_str() == "firing")
    };
    while !is_told(&fixture) {
        looks += 1;
        assert!(looks < 1_000, "{:?}", fixture.broker.alerts());
        fixture.clock.advance(Duration::from_secs(15));
        settle().await;
    }
    for key in ["a", "b"] {
        fixture.find("sub").release_lane(key).await.unwrap();
    }
    let waits = obstacles(&fixture).waits;
    assert_eq!((waits.lanes_blocked, waits.lanes_halted), (0, 0));
    assert!(fixture.broker.status().degraded.is_empty());
}

#[tokio::test]
async fn a_backoff_has_an_end_in_figures_lanes_and_messages() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let retry_policy = Some(RetryPolicy { min: HOUR / 6, max: HOUR / 6 });
    fixture.subscribe(Subscription { retry_policy, ..settings(&topic, "sub") }).await;
    fixture.publish(&topic, &["a", "b"]).await;
    let leases = fixture.pull("sub", 10).await;
    fixture.nack("sub", &leases[..1]).await;
    let waits = obstacles(&fixture).waits;
    let until = waits.backing_off_until.unwrap();
    assert_eq!(waits.backing_off, 1);
    // Up to a tenth is added.
    let wait = until.since(fixture.now());
    assert!((HOUR / 6..=HOUR / 5).contains(&wait), "{wait:?}");
    let peek = broker::Peek { limit: 10, ..broker::Peek::default() };
    let page = fixture.broker.peek_subscription(&subscription_name("sub"), &peek).await.unwrap();
    let shown: Vec<_> =
        page.messages.iter().map(|one| one.view.and_then(|view| view.next_attempt_at)).collect();
    assert_eq!(shown, [Some(until), None]);
    fixture.ack("sub", &leases[1..]).await;
    fixture.clock.advance(HOUR);
    let again = fixture.wait("sub").await;
    fixture.ack("sub", &again).await;
    assert_eq!(obstacles(&fixture).waits.backing_off_until, None);
}

#[tokio::test]
async fn a_pause_is_known_with_its_beginning_until_it_ends() {
    let mut fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    let name = subscription_name("sub");
    let pause = |paused| Change::of("postrider.paused", bool::into(paused)).unwrap();
    fixture.clock.advance(HOUR);
    let paused_at = fixture.now();
    fixture.broker.update_subscription(&name, pause(true)).await.unwrap();
    fixture.clock.advance(HOUR);
    // Another change does not begin it anew.
    fixture.broker.update_subscription(&name, pause(true)).await.unwrap();
    let known = obstacles(&fixture);
    assert_eq!((known.is_paused, known.paused_since), (true, Some(paused_at)));
    fixture.reopen().await;
    let known = obstacles(&fixture);
    assert_eq!((known.is_paused, known.paused_since), (true, None), "since when is not known");
    fixture.broker.update_subscription(&name, pause(false)).await.unwrap();
    let known = obstacles(&fixture);
    assert_eq!((known.is_paused, known.paused_since), (false, None));
}

#[tokio::test]
async fn an_endpoint_that_fails_is_left_alone_until_a_known_time() {
    let fixture = Fixture::new().await;
    let receiver = Receiver::start(|_| async { (503, String::new()) }.boxed()).await;
    let topic = fixture.topic().await;
    let push = receiver.push_to("/push");
    fixture.subscribe(Subscription { push, ..settings(&topic, "sub") }).await;
    assert_eq!(obstacles(&fixture).left_alone, None);
    fixture.publish(&topic, &["a", "b", "c", "d"]).await;
    // The clock stands still, so the first pause lasts until it is moved.
    until(|| {
        let left_alone = obstacles(&fixture).left_alone;
        left_alone.is_some_and(|left_alone| left_alone.cause == Cause::Failures)
    })
    .await;
    let until = obstacles(&fixture).left_alone.unwrap().until.unwrap();
    let pause = until.since(fixture.now());
    assert!(!pause.is_zero() && pause < Duration::from_secs(1), "{pause:?}");
    assert!(figures(&fixture).obstacles.left_alone.is_some());
}
