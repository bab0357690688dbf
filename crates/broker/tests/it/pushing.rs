//! Pushes that are under way while settings change or the server stops, and how many there are at
//! a time. The clock stands still: what happens here waits for no timer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use broker::tasks;
use domain::subscription::{Change, Joined, PushChange};
use domain::{Message, OffsetRange, Subscription, TopicName};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use testkit::Random;
use tokio::sync::watch;

use crate::fixture::{
    Fixture, dead_letters_to, message, settings, settle, subscription_name, topic_name, until,
};
use crate::push_checker::{Outcome, PushChecker};
use crate::push_receiver::{Answer, Push, Receiver};

/// Requests at a time for an endpoint of which nothing is known.
const WINDOW_START: usize = 4;

/// A broker and a receiver whose answers under `/held` wait for the test.
struct Stage {
    fixture: Fixture,
    receiver: Receiver,
    gate: Arc<watch::Sender<bool>>,
    topic: TopicName,
    other: TopicName,
    round_trips: usize,
}

impl Stage {
    async fn new() -> Self {
        let fixture = Fixture::new().await;
        let gate = Arc::new(watch::Sender::new(false));
        let receiver = Receiver::start(gated(&gate)).await;
        let topic = fixture.topic().await;
        let other = fixture.topic_of("other").await;
        fixture.topic_of("dead").await;
        let push = receiver.push_to("/other");
        fixture.subscribe(Subscription { push, ..settings(&other, "other") }).await;
        Self { fixture, receiver, gate, topic, other, round_trips: 0 }
    }

    /// Subscribes `/held`, which is told the attempt.
    async fn subscribe_held(&self) {
        let settings = Subscription {
            push: self.receiver.push_to("/held"),
            dead_letter_policy: dead_letters_to("dead"),
            ..settings(&self.topic, "sub")
        };
        self.fixture.subscribe(settings).await;
    }

    /// Publishes a message whose push then waits for its answer.
    async fn with_a_push_under_way() -> Self {
        let stage = Self::new().await;
        stage.subscribe_held().await;
        stage.fixture.publish(&stage.topic, &["a"]).await;
        stage.receiver.until(|seen| seen.open("/held") == 1).await;
        stage
    }

    async fn change(&self, change: Change) {
        self.fixture.broker.update_subscription(&subscription_name("sub"), change).await.unwrap();
    }

    async fn switch_to(&self, path: Option<&str>) {
        let endpoint = Some(path.map(|path| self.receiver.endpoint(path)));
        let push = PushChange { endpoint, ..PushChange::default() };
        self.change(Change::joining(Joined { push, ..Joined::default() })).await;
    }

    async fn pause(&self, paused: bool) {
        self.change(Change::of("postrider.paused", bool::into(paused)).unwrap()).await;
    }

    fn answer(&self) {
        self.gate.send_replace(true);
    }

    /// Has another subscription pushed, so that what must not happen has had its chance.
    async fn round_trip(&mut self) {
        settle().await;
        self.round_trips += 1;
        self.fixture.publish(&self.other, &["other"]).await;
        self.receiver.until(|seen| seen.texts("/other").len() == self.round_trips).await;
        settle().await;
    }

    /// Begins to close the broker. Done when the task is finished.
    async fn close(&self, grace: Duration) -> tasks::Task {
        let broker = Arc::clone(&self.fixture.broker);
        let closing = tasks::spawn("closing", async move { broker.close(grace).await.unwrap() });
        settle().await;
        closing
    }
}

fn gated(gate: &Arc<watch::Sender<bool>>) -> impl Fn(Push) -> BoxFuture<'static, Answer> + use<> {
    let gate = Arc::clone(gate);
    move |push| {
        let mut gate = gate.subscribe();
        async move {
            if push.path.starts_with("/held") {
                gate.wait_for(|is_open| *is_open).await.unwrap();
            }
            (200, String::new())
        }
        .boxed()
    }
}

#[tokio::test]
async fn a_new_endpoint_ends_the_push_under_way_and_gets_its_message_with_the_same_attempt() {
    let stage = Stage::with_a_push_under_way().await;
    stage.switch_to(Some("/new")).await;
    let seen = stage.receiver.until(|seen| seen.cut_off == 1 && seen.answered == 1).await;
    assert_eq!(seen.texts("/new"), ["a"]);
    assert!(seen.pushes.iter().all(|push| push.messages[0].attempt == Some(1)), "{seen:?}");
}

#[tokio::test]
async fn switching_to_pull_ends_the_push_under_way_and_spends_no_attempt() {
    let stage = Stage::with_a_push_under_way().await;
    stage.switch_to(None).await;
    stage.receiver.until(|seen| seen.cut_off == 1).await;
    let leases = stage.fixture.wait("sub").await;
    assert_eq!((leases.len(), leases[0].attempt), (1, 1));
}

#[tokio::test]
async fn deleting_a_subscription_ends_the_push_under_way() {
    let mut stage = Stage::with_a_push_under_way().await;
    stage.fixture.publish(&stage.topic, &["b"]).await;
    stage.fixture.broker.delete_subscription(&subscription_name("sub")).await.unwrap();
    stage.receiver.until(|seen| seen.open("/held") == 0).await;
    stage.answer();
    stage.round_trip().await;
    let seen = stage.receiver.seen();
    assert_eq!((seen.open("/held"), seen.answered), (0, 1), "only the round trip: {seen:?}");
}

#[tokio::test]
async fn pausing_lets_the_push_under_way_end_and_sends_no_other() {
    let mut stage = Stage::with_a_push_under_way().await;
    stage.pause(true).await;
    stage.fixture.publish(&stage.topic, &["b"]).await;
    stage.round_trip().await;
    assert_eq!(stage.receiver.seen().open("/held"), 1);
    stage.answer();
    stage.receiver.until(|seen| seen.answered == 2).await;
    stage.round_trip().await;
    let seen = stage.receiver.seen();
    assert_eq!((seen.texts("/held"), seen.cut_off), (vec!["a"], 0));
    stage.pause(false).await;
    let seen = stage.receiver.until(|seen| seen.texts("/held").len() == 2).await;
    assert_eq!(seen.texts("/held"), ["a", "b"]);
    stage.round_trip().await;
    assert_eq!(stage.receiver.seen().texts("/held").len(), 2, "what was answered is acked");
}

#[tokio::test]
async fn closing_waits_for_a_push_that_ends_within_the_grace_and_keeps_its_ack() {
    let mut stage = Stage::with_a_push_under_way().await;
    let closing = stage.close(Duration::from_secs(10)).await;
    stage.fixture.clock.advance(Duration::from_secs(9));
    settle().await;
    assert!(!closing.is_finished());
    stage.answer();
    until(|| closing.is_finished()).await;
    assert_eq!(stage.receiver.seen().cut_off, 0);
    stage.fixture.open_again().await;
    stage.round_trip().await;
    stage.fixture.publish(&stage.topic, &["b"]).await;
    let seen = stage.receiver.until(|seen| seen.texts("/held").len() == 2).await;
    assert_eq!(seen.texts("/held"), ["a", "b"]);
}

#[tokio::test]
async fn closing_cuts_off_a_push_that_outlasts_the_grace_and_spends_no_attempt() {
    let mut stage = Stage::with_a_push_under_way().await;
    let closing = stage.close(Duration::from_secs(10)).await;
    stage.fixture.clock.advance(Duration::from_secs(9));
    settle().await;
    assert!(!closing.is_finished());
    stage.fixture.clock.advance(Duration::from_secs(1));
    until(|| closing.is_finished()).await;
    stage.receiver.until(|seen| seen.cut_off == 1).await;
    stage.answer();
    stage.fixture.open_again().await;
    let seen = stage.receiver.until(|seen| seen.answered == 1).await;
    assert_eq!(seen.texts("/held"), ["a", "a"]);
    assert!(seen.pushes.iter().all(|push| push.messages[0].attempt == Some(1)), "{seen:?}");
}

/// Tells the checker of every request, and lets others run for a random while before the answer.
fn late(checker: &Arc<PushChecker>) -> impl Fn(Push) -> BoxFuture<'static, Answer> + use<> {
    let (checker, random) = (Arc::clone(checker), Mutex::new(Random::seeded(7)));
    move |push| {
        let (checker, turns) = (Arc::clone(&checker), random.lock().below(50));
        async move {
            let name = &push.path[1..];
            checker.arrived(name, &push.messages);
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            checker.answers(name, &push.messages, Outcome::Acked(push.messages.len()));
            (200, String::new())
        }
        .boxed()
    }
}

/// Pushes so many hundred messages to a plain, an ordered and a FIFO subscription, and has every
/// lane checked.
async fn push_in_lanes(hundreds: usize) -> Receiver {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let checker = Arc::new(PushChecker::default());
    checker.begin_life();
    let receiver = Receiver::start(late(&checker)).await;
    let plain = settings(&topic, "plain");
    let keys = Subscription { message_ordering: true, ..settings(&topic, "keys") };
    let fifo = Subscription { fifo: true, ..settings(&topic, "fifo") };
    for (name, kind) in [("plain", plain), ("keys", keys), ("fifo", fifo)] {
        let push = receiver.push_to(&format!("/{name}"));
        let ordering = kind.ordering();
        let subscription = fixture.subscribe(Subscription { push, ..kind }).await;
        checker.add(name, subscription.id(), ordering);
    }
    for hundred in 0..hundreds {
        let names: Vec<_> =
            (0..100).map(|at| (format!("{hundred}-{at}"), format!("key {}", at % 10))).collect();
        checker.publish_begins(&names);
        let keyed =
            |(text, key): &(String, String)| Message { ordering_key: key.clone(), ..message(text) };
        let published = fixture.broker.publish(&topic, names.iter().map(keyed).collect()).await;
        let ids: OffsetRange = published.unwrap().offsets;
        checker.publish_answered(&names, ids);
    }
    checker.until_owed(0).await;
    assert_eq!(checker.faults(), [""; 0]);
    let seen = receiver.seen();
    assert_eq!((seen.pushes.len(), seen.open_max("/fifo")), (hundreds * 300, 1));
    receiver
}

/// A subscription with so much to send is driven by several tasks.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lane_has_one_push_under_way_though_several_tasks_push() {
    let seen = push_in_lanes(50).await.seen();
    assert!(seen.open_max("/keys") <= 10, "{}", seen.open_max("/keys"));
}

#[tokio::test]
async fn a_lane_has_one_push_under_way_however_many_the_endpoint_takes() {
    let seen = push_in_lanes(10).await.seen();
    assert!((5..=10).contains(&seen.open_max("/keys")), "{}", seen.open_max("/keys"));
    assert!(seen.open_max("/plain") > 10, "{}", seen.open_max("/plain"));
}

/// The most requests at a time beyond one for each that was answered before.
#[derive(Default)]
struct Overlap {
    open: AtomicUsize,
    answered: AtomicUsize,
    beyond: AtomicUsize,
}

impl Overlap {
    fn begin(&self) {
        let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
        let beyond = open.saturating_sub(self.answered.load(Ordering::SeqCst));
        self.beyond.fetch_max(beyond, Ordering::SeqCst);
    }

    fn end(&self) {
        self.answered.fetch_add(1, Ordering::SeqCst);
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn subscriptions_with_one_endpoint_share_its_window() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let (overlap, gate) = (Arc::new(Overlap::default()), Arc::new(watch::Sender::new(false)));
    let (counted, gated) = (Arc::clone(&overlap), gated(&gate));
    let receiver = Receiver::start(move |push| {
        let (overlap, answer) = (Arc::clone(&counted), gated(push));
        overlap.begin();
        async move {
            let answer = answer.await;
            overlap.end();
            answer
        }
        .boxed()
    })
    .await;
    for name in ["one", "two"] {
        let push = receiver.push_to("/held");
        fixture.subscribe(Subscription { push, ..settings(&topic, name) }).await;
    }
    fixture.publish(&topic, &["text"; 100]).await;
    receiver.until(|seen| seen.open("/held") == WINDOW_START).await;
    settle().await;
    gate.send_replace(true);
    receiver.until(|seen| seen.answered == 200).await;
    // A window grows by one with each success, no faster.
    assert_eq!(overlap.beyond.load(Ordering::SeqCst), WINDOW_START);
}

#[tokio::test]
async fn endpoints_that_hang_leave_another_served_at_once() {
    const HANGING: usize = 200;
    let mut stage = Stage::new().await;
    for number in 0..HANGING {
        let push = stage.receiver.push_to(&format!("/held/{number}"));
        let settings = settings(&stage.topic, &format!("held-{number}"));
        stage.fixture.subscribe(Subscription { push, ..settings }).await;
    }
    stage.fixture.publish(&stage.topic, &["a"]).await;
    stage.receiver.until(|seen| seen.pushes.len() == HANGING).await;
    for _ in 0..10 {
        stage.round_trip().await;
    }
    stage.fixture.publish(&topic_name("other"), &["other"; 90]).await;
    let seen = stage.receiver.until(|seen| seen.answered == 100).await;
    assert_eq!((seen.texts("/other").len(), seen.cut_off), (100, 0));
}
