//! Backoffs: by attempt, kept over a restart.

use std::time::Duration;

use domain::{RetryPolicy, Subscription};

use crate::fixture::{Fixture, settings, subscription_name, texts};

const SECOND: Duration = Duration::from_secs(1);

async fn with_backoff(fixture: &Fixture) -> domain::TopicName {
    let topic = fixture.topic().await;
    let retry_policy = Some(RetryPolicy { min: 10 * SECOND, max: 40 * SECOND });
    fixture.subscribe(Subscription { retry_policy, ..settings(&topic, "sub") }).await;
    topic
}

#[tokio::test]
async fn a_failed_message_waits_longer_each_time_and_others_do_not_wait_for_it() {
    let fixture = Fixture::new().await;
    let topic = with_backoff(&fixture).await;
    fixture.publish(&topic, &["bad"]).await;
    for (wait, attempt) in [(10, 1), (20, 2), (40, 3), (40, 4)] {
        let leases = fixture.pull("sub", 10).await;
        assert_eq!(leases[0].attempt, attempt);
        fixture.nack("sub", &leases).await;
        fixture.clock.advance(wait * SECOND - SECOND);
        assert!(fixture.pull("sub", 10).await.is_empty(), "attempt {attempt}");
        // Up to a tenth is added.
        fixture.clock.advance(SECOND + wait * SECOND / 10);
    }
    fixture.publish(&topic, &["good"]).await;
    let leases = fixture.pull("sub", 10).await;
    fixture.nack("sub", &leases[..1]).await;
    assert_eq!(texts(&leases), ["bad", "good"]);
}

#[tokio::test]
async fn a_backoff_goes_on_after_a_restart() {
    let mut fixture = Fixture::new().await;
    let topic = with_backoff(&fixture).await;
    fixture.publish(&topic, &["bad"]).await;
    fixture.fail("sub", 1).await;
    fixture.clock.advance(9 * SECOND);
    fixture.reopen().await;
    assert!(fixture.pull("sub", 10).await.is_empty());
    fixture.clock.advance(2 * SECOND);
    let leases = fixture.pull("sub", 10).await;
    assert_eq!((texts(&leases), leases[0].attempt), (vec!["bad".to_owned()], 2));
}

#[tokio::test]
async fn the_end_of_a_backoff_wakes_a_waiting_pull() {
    let fixture = Fixture::new().await;
    let topic = with_backoff(&fixture).await;
    fixture.publish(&topic, &["bad"]).await;
    fixture.fail("sub", 1).await;
    let name = subscription_name("sub");
    let waiting = fixture.broker.pull(&name, 10, 60 * SECOND);
    let advancing = async {
        tokio::task::yield_now().await;
        fixture.clock.advance(11 * SECOND);
    };
    let (again, ()) = tokio::join!(waiting, advancing);
    assert_eq!(again.unwrap()[0].attempt, 2);
}
