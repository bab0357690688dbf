//! Streams: woken by records, held back by flow control, sharing fairly.

use std::future::poll_fn;
use std::time::Duration;

use broker::{Consumer, Error};
use domain::delivery::{Flow, Lease};
use futures::FutureExt;

use crate::fixture::{Fixture, ack_ids, subscription_name, texts};

const DEADLINE: Duration = Duration::from_secs(10);

fn flow(messages_max: u64) -> Flow {
    Flow { messages_max, bytes_max: 0 }
}

async fn next(stream: &mut Consumer) -> Result<Vec<Lease>, Error> {
    poll_fn(|context| stream.poll_lease(context)).await
}

#[tokio::test]
async fn a_stream_is_given_no_more_than_it_may_hold() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let subscription = fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["a", "b", "c"]).await;
    let mut stream = fixture.broker.stream(&subscription_name("sub"), flow(2), DEADLINE).unwrap();
    let held = next(&mut stream).await.unwrap();
    assert_eq!(texts(&held), ["a", "b"]);
    assert!(next(&mut stream).now_or_never().is_none());
    let (more, ()) = tokio::join!(next(&mut stream), async {
        tokio::task::yield_now().await;
        subscription.acknowledge(&ack_ids(&held[..1])).await.unwrap();
    });
    assert_eq!(texts(&more.unwrap()), ["c"]);
}

#[tokio::test]
async fn waiting_streams_share_what_comes() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    let name = subscription_name("sub");
    let mut one = fixture.broker.stream(&name, Flow::default(), DEADLINE).unwrap();
    let mut two = fixture.broker.stream(&name, Flow::default(), DEADLINE).unwrap();
    let publishing = async {
        tokio::task::yield_now().await;
        fixture.publish(&topic, &["a", "b", "c", "d"]).await
    };
    let (first, second, _) = tokio::join!(next(&mut one), next(&mut two), publishing);
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!((first.len(), second.len()), (2, 2), "{first:?} {second:?}");
}

#[tokio::test]
async fn a_stream_that_leaves_passes_its_turn_on() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    let name = subscription_name("sub");
    let mut leaving = fixture.broker.stream(&name, Flow::default(), DEADLINE).unwrap();
    let mut staying = fixture.broker.stream(&name, Flow::default(), DEADLINE).unwrap();
    assert!(next(&mut leaving).now_or_never().is_none());
    let leave = async {
        tokio::task::yield_now().await;
        // The wake-up goes to the first in line, which is gone before it looks.
        fixture.publish(&topic, &["a"]).await;
        drop(leaving);
    };
    let (got, ()) = tokio::join!(next(&mut staying), leave);
    assert_eq!(texts(&got.unwrap()), ["a"]);
}

#[tokio::test]
async fn a_stream_ends_with_its_subscription_and_with_the_server() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "one").await;
    fixture.subscription(&topic, "two").await;
    let open = |id| fixture.broker.stream(&subscription_name(id), Flow::default(), DEADLINE);
    let (mut one, mut two) = (open("one").unwrap(), open("two").unwrap());
    let (ended, ()) = tokio::join!(next(&mut one), async {
        tokio::task::yield_now().await;
        fixture.broker.delete_subscription(&subscription_name("one")).await.unwrap();
    });
    assert!(matches!(ended, Err(Error::NotFound(..))));
    let (ended, ()) = tokio::join!(next(&mut two), async {
        tokio::task::yield_now().await;
        fixture.broker.close(Duration::ZERO).await.unwrap();
    });
    assert!(matches!(ended, Err(Error::Closing)));
}
