//! Order: by key, for the whole subscription, over failures; lanes that stop and operators.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering as Memory;
use std::time::Duration;

use broker::{Consumer, Error};
use domain::delivery::{Flow, LaneState, Lease};
use domain::{Poison, RetryPolicy, Subscription, TopicName};
use futures::FutureExt;

use crate::fixture::{Fixture, ack_ids, dead_letters_to, settings, subscription_name, texts};

const DEADLINE: Duration = Duration::from_secs(10);

async fn ordered(fixture: &Fixture) -> TopicName {
    let topic = fixture.topic().await;
    fixture.subscribe(Subscription { message_ordering: true, ..settings(&topic, "sub") }).await;
    topic
}

fn stream(fixture: &Fixture) -> Consumer {
    fixture.broker.stream(&subscription_name("sub"), Flow::default(), DEADLINE).unwrap()
}

async fn next(stream: &mut Consumer) -> Vec<Lease> {
    poll_fn(|context| stream.poll_lease(context)).await.unwrap()
}

#[tokio::test]
async fn a_nack_brings_back_all_later_ones_of_its_key_and_no_others() {
    let fixture = Fixture::new().await;
    let topic = ordered(&fixture).await;
    let texts_of = [("a", "a1"), ("b", "b1"), ("a", "a2"), ("", "free"), ("a", "a3")];
    fixture.publish_keyed(&topic, &texts_of).await;
    let leases = fixture.pull("sub", 10).await;
    assert_eq!(texts(&leases), ["a1", "b1", "a2", "free", "a3"]);
    // a2 is acked while a1 is not: that is undone when a1 comes back.
    fixture.ack("sub", &leases[2..3]).await;
    fixture.nack("sub", &leases[..1]).await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["a1", "a2", "a3"]);
}

#[tokio::test]
async fn an_ordered_redelivery_goes_on_after_a_restart() {
    let mut fixture = Fixture::new().await;
    let topic = ordered(&fixture).await;
    fixture.publish_keyed(&topic, &[("a", "a1"), ("a", "a2"), ("b", "b1")]).await;
    let leases = fixture.pull("sub", 10).await;
    fixture.ack("sub", &leases[1..]).await;
    fixture.reopen().await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["a1", "a2"]);
}

#[tokio::test]
async fn a_lane_belongs_to_the_stream_that_holds_it() {
    let fixture = Fixture::new().await;
    let topic = ordered(&fixture).await;
    let (mut one, mut two) = (stream(&fixture), stream(&fixture));
    fixture.publish_keyed(&topic, &[("a", "a1")]).await;
    let held = next(&mut one).await;
    fixture.publish_keyed(&topic, &[("a", "a2"), ("b", "b1")]).await;
    let other = next(&mut two).await;
    assert_eq!(texts(&other), ["b1"]);
    fixture.ack("sub", &other).await;
    assert!(fixture.pull("sub", 10).await.is_empty(), "a pull gets nothing of it either");
    assert_eq!(texts(&next(&mut one).await), ["a2"]);
    fixture.publish_keyed(&topic, &[("a", "a3")]).await;
    drop(one);
    assert!(next(&mut two).now_or_never().is_none(), "its leases last");
    fixture.ack("sub", &held).await;
    fixture.clock.advance(DEADLINE + Duration::from_secs(1));
    assert_eq!(texts(&next(&mut two).await), ["a2", "a3"]);
}

#[tokio::test]
async fn the_owner_of_a_lane_is_woken_for_it_while_others_stand_in_line() {
    let fixture = Fixture::new().await;
    let topic = ordered(&fixture).await;
    let (mut one, mut two) = (stream(&fixture), stream(&fixture));
    fixture.publish_keyed(&topic, &[("a", "a1")]).await;
    let held = next(&mut one).await;
    // Both wait, two in front of one; what comes next is for one alone.
    let (mine, ()) = tokio::join!(next(&mut one), async {
        assert!(next(&mut two).now_or_never().is_none());
        tokio::task::yield_now().await;
        fixture.publish_keyed(&topic, &[("a", "a2")]).await;
    });
    assert_eq!(texts(&mine), ["a2"]);
    fixture.ack("sub", &held).await;
}

#[tokio::test]
async fn fifo_is_one_lane_and_can_be_turned_on_and_off() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    let name = subscription_name("sub");
    let turn = |fifo| domain::subscription::Change::of("postrider.fifo", bool::into(fifo)).unwrap();
    fixture.broker.update_subscription(&name, turn(true)).await.unwrap();
    fixture.publish(&topic, &["1", "2", "3"]).await;
    let first = fixture.pull("sub", 1).await;
    assert_eq!(texts(&first), ["1"]);
    assert!(fixture.pull("sub", 10).await.is_empty(), "one at a time");
    fixture.nack("sub", &first).await;
    let all = fixture.pull("sub", 10).await;
    assert_eq!(texts(&all), ["1", "2", "3"]);
    fixture.ack("sub", &all[1..]).await;
    fixture.broker.update_subscription(&name, turn(false)).await.unwrap();
    fixture.publish(&topic, &["4"]).await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["4"]);
    fixture.nack("sub", &all[..1]).await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["1"], "2 and 3 stay acked");
}

/// An ordered subscription whose key `a` is halted at `bad`, with `next` behind it.
async fn halted(fixture: &Fixture) -> TopicName {
    let topic = fixture.topic().await;
    fixture
        .subscribe(Subscription {
            message_ordering: true,
            dead_letter_policy: dead_letters_to("dead"),
            poison: Poison::Halt,
            ..settings(&topic, "sub")
        })
        .await;
    fixture.publish_keyed(&topic, &[("a", "bad"), ("a", "next"), ("b", "other")]).await;
    let other = fixture.pull("sub", 10).await;
    fixture.ack("sub", &other[2..]).await;
    fixture.nack("sub", &other[..1]).await;
    for _ in 1..5 {
        let leases = fixture.pull("sub", 10).await;
        fixture.nack("sub", &leases[..1]).await;
    }
    assert!(fixture.pull("sub", 10).await.is_empty(), "halted");
    topic
}

#[tokio::test]
async fn a_halted_lane_stops_and_others_go_on_over_restarts() {
    let mut fixture = Fixture::new().await;
    let topic = halted(&fixture).await;
    for _ in 0..2 {
        let lanes = fixture.find("sub").lanes(true).await.unwrap();
        let lane = lanes.first().unwrap();
        assert_eq!((lane.key.as_str(), lane.state, lane.attempts), ("a", LaneState::Halted, 5));
        assert_eq!(lanes.len(), 1);
        // Its lane is not read yet the second time.
        fixture.reopen().await;
    }
    fixture.publish_keyed(&topic, &[("b", "more")]).await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["more"]);
    assert_eq!(fixture.find("sub").lanes(true).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_released_lane_tries_its_message_as_if_for_the_first_time() {
    let mut fixture = Fixture::new().await;
    halted(&fixture).await;
    fixture.find("sub").release_lane("a").await.unwrap();
    fixture.reopen().await;
    let leases = fixture.pull("sub", 10).await;
    assert_eq!((texts(&leases), leases[0].attempt), (vec!["bad".into(), "next".into()], 1));
    let acts = fixture.acts.0.lock().clone();
    assert_eq!((acts.len(), acts[0].act, acts[0].key.as_deref()), (1, "release", Some("a")));
    assert_eq!(acts[0].message_id, Some(leases[0].record.offset.to_string()));
    assert_eq!(acts[0].resource, subscription_name("sub").as_str());
}

#[tokio::test]
async fn a_lane_not_read_since_a_restart_can_be_released_and_skipped() {
    for skips in [false, true] {
        let mut fixture = Fixture::new().await;
        halted(&fixture).await;
        fixture.topic_of("dead").await;
        fixture.reopen().await;
        let subscription = fixture.find("sub");
        if skips {
            subscription.skip_lane("a").await.unwrap();
            assert_eq!(texts(&fixture.pull("sub", 10).await), ["next"]);
            assert_eq!(subscription.dead_lettered(), 1);
        } else {
            subscription.release_lane("a").await.unwrap();
            assert_eq!(texts(&fixture.pull("sub", 10).await), ["bad", "next"]);
        }
    }
}

#[tokio::test]
async fn a_skipped_message_goes_to_the_dead_letter_topic_and_its_lane_goes_on() {
    let mut fixture = Fixture::new().await;
    halted(&fixture).await;
    let subscription = fixture.find("sub");
    let refused = subscription.skip_lane("a").await.unwrap_err();
    assert!(matches!(&refused, Error::FailedPrecondition(why) if why.contains("does not exist")));
    assert!(fixture.pull("sub", 10).await.is_empty(), "still halted");
    assert!(fixture.acts.0.lock().is_empty());
    let dead = fixture.topic_of("dead").await;
    fixture.subscription(&dead, "undertaker").await;
    subscription.skip_lane("a").await.unwrap();
    assert_eq!(texts(&fixture.pull("undertaker", 10).await), ["bad"]);
    assert_eq!(fixture.acts.0.lock()[0].act, "skip");
    fixture.reopen().await;
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["next"]);
}

#[tokio::test]
async fn acts_on_a_lane_that_is_not_blocked_are_refused() {
    let fixture = Fixture::new().await;
    let topic = ordered(&fixture).await;
    fixture.publish_keyed(&topic, &[("a", "a1")]).await;
    fixture.pull("sub", 10).await;
    let subscription = fixture.find("sub");
    for key in ["a", "unknown", ""] {
        let refusals =
            [subscription.release_lane(key).await.err(), subscription.skip_lane(key).await.err()];
        for refusal in refusals {
            let Some(Error::FailedPrecondition(why)) = refusal else { panic!("{refusal:?}") };
            assert!(why.contains("is not blocked"), "{why}");
        }
    }
    assert!(subscription.lanes(true).await.unwrap().is_empty());
    assert_eq!(subscription.lanes(false).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_backing_off_lane_is_shown_and_can_be_released() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let retry_policy = Some(RetryPolicy { min: 60 * DEADLINE, max: 60 * DEADLINE });
    let fifo = Subscription { fifo: true, retry_policy, ..settings(&topic, "sub") };
    fixture.subscribe(fifo).await;
    fixture.publish(&topic, &["1", "2"]).await;
    fixture.fail("sub", 1).await;
    let subscription = fixture.find("sub");
    let lanes = subscription.lanes(true).await.unwrap();
    assert_eq!((lanes[0].key.as_str(), lanes[0].state), ("", LaneState::BackingOff));
    assert_eq!((lanes[0].pending, lanes[0].last_class), (2, Some("nack")));
    assert!(lanes[0].next_attempt_at.unwrap() >= fixture.now().plus(60 * DEADLINE));
    subscription.release_lane("").await.unwrap();
    assert_eq!(texts(&fixture.pull("sub", 10).await), ["1", "2"]);
}

#[tokio::test]
async fn lanes_far_apart_on_disk_are_all_served() {
    let fixture = Fixture::new().await;
    let topic = ordered(&fixture).await;
    let keyed = [("a", "a1"), ("b", "b1"), ("c", "c1"), ("a", "a2"), ("b", "b2"), ("c", "c2")];
    fixture.publish_keyed(&topic, &keyed).await;
    let leases = fixture.pull("sub", 10).await;
    // All lanes wait, and each record is a read of its own.
    fixture.log.is_far.store(true, Memory::SeqCst);
    fixture.nack("sub", &leases[..3]).await;
    let mut got = Vec::new();
    while got.len() < 6 {
        let pulled = fixture.wait("sub").await;
        fixture.ack("sub", &pulled).await;
        got.extend(texts(&pulled));
        assert!(fixture.log.reads() < 100, "{got:?} after {} reads", fixture.log.reads());
    }
    got.sort_unstable();
    assert_eq!(got, ["a1", "a2", "b1", "b2", "c1", "c2"]);
}

#[tokio::test]
async fn streams_that_need_the_disk_take_turns_and_none_is_forgotten() {
    let fixture = Fixture::new().await;
    let topic = ordered(&fixture).await;
    let (mut one, mut two) = (stream(&fixture), stream(&fixture));
    fixture.publish_keyed(&topic, &[("a", "a1")]).await;
    let first = next(&mut one).await;
    fixture.publish_keyed(&topic, &[("b", "b1")]).await;
    let second = next(&mut two).await;
    fixture.log.is_far.store(true, Memory::SeqCst);
    fixture.publish_keyed(&topic, &[("a", "a2"), ("b", "b2")]).await;
    let both = async { tokio::join!(next(&mut one), next(&mut two)) };
    let (of_one, of_two) = tokio::time::timeout(DEADLINE, both).await.unwrap();
    assert_eq!((texts(&of_one), texts(&of_two)), (vec!["a2".into()], vec!["b2".into()]));
    fixture.ack("sub", &first).await;
    fixture.ack("sub", &second).await;
}

#[tokio::test]
async fn a_stream_that_waits_is_not_woken_over_and_over() {
    let fixture = Fixture::new().await;
    let topic = halted(&fixture).await;
    let wakes = Arc::new(Wakes::default());
    let waker = Arc::clone(&wakes).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut stream = stream(&fixture);
    assert!(stream.poll_lease(&mut context).is_pending());
    for seconds in 1..=60 {
        fixture.clock.advance(Duration::from_secs(seconds));
        crate::fixture::settle().await;
    }
    fixture.trim().await;
    assert_eq!(wakes.count(), 0);
    // One record of the halted lane: one look, and waiting goes on.
    fixture.publish_keyed(&topic, &[("a", "behind")]).await;
    crate::fixture::until(|| wakes.count() > 0).await;
    assert!(stream.poll_lease(&mut context).is_pending());
    crate::fixture::settle().await;
    assert_eq!(wakes.count(), 1);
    fixture.find("sub").release_lane("a").await.unwrap();
    assert_eq!(wakes.count(), 2);
    let leased = poll_fn(|context| stream.poll_lease(context)).await.unwrap();
    fixture.find("sub").acknowledge(&ack_ids(&leased)).await.unwrap();
    assert_eq!(texts(&leased), ["bad", "next", "behind"]);
}

#[derive(Default)]
struct Wakes(std::sync::atomic::AtomicUsize);

impl Wakes {
    fn count(&self) -> usize {
        self.0.load(Memory::SeqCst)
    }
}

impl std::task::Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Memory::SeqCst);
    }
}
