//! Consumers that are woken and never ask, as a stream whose client stops reading: nobody else of
//! the subscription may depend on them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};
use std::time::Duration;

use broker::Consumer;
use domain::delivery::{Flow, Lease};
use domain::filter::Filter;
use domain::{Message, TopicName};

use crate::fixture::{
    Fixture, ack_ids, message, settings, settle, subscription_name, texts, until,
};

/// Longer than any test lets pass.
const DEADLINE: Duration = Duration::from_secs(600);

/// What a test lets pass at a time, and how often at most. Far less than a deadline.
const TICK: Duration = Duration::from_millis(10);
const TICKS_MAX: usize = 6_000;

/// A stream that is asked for leases only when the test says so.
pub(crate) struct Watched {
    stream: Consumer,
    woken: Arc<Woken>,
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Watched {
    pub(crate) fn open(fixture: &Fixture, messages_max: u64) -> Self {
        let flow = Flow { messages_max, bytes_max: 0 };
        let stream = fixture.broker.stream(&subscription_name("sub"), flow, DEADLINE).unwrap();
        Self { stream, woken: Arc::default() }
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.woken.0.load(Ordering::SeqCst)
    }

    /// Asks once; nothing = it waits now.
    pub(crate) fn ask(&mut self) -> Vec<Lease> {
        self.woken.0.store(false, Ordering::SeqCst);
        let waker = Arc::clone(&self.woken).into();
        match self.stream.poll_lease(&mut Context::from_waker(&waker)) {
            Poll::Ready(leases) => leases.unwrap(),
            Poll::Pending => Vec::new(),
        }
    }

    /// Asks for as long as it is given something.
    pub(crate) fn ask_all(&mut self) -> Vec<Lease> {
        let mut all = Vec::new();
        loop {
            let leases = self.ask();
            if leases.is_empty() {
                return all;
            }
            all.extend(leases);
        }
    }

    /// Asks whenever it is woken, until it has `count`, while little time passes.
    async fn take(&mut self, fixture: &Fixture, count: usize) -> Vec<Lease> {
        let mut taken = Vec::new();
        for _ in 0..TICKS_MAX {
            if taken.len() >= count {
                return taken;
            }
            pass_tick(fixture).await;
            if self.is_woken() {
                taken.extend(self.ask_all());
            }
        }
        panic!("{} of {count} came", taken.len());
    }
}

/// Lets a tick pass, and whatever is to happen then happen.
pub(crate) async fn pass_tick(fixture: &Fixture) {
    fixture.clock.advance(TICK);
    // The log tells what is visible from a thread of its own.
    until(|| fixture.log.has_told_all()).await;
    settle().await;
}

#[tokio::test]
async fn one_that_is_woken_and_never_asks_keeps_nothing_from_others() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    let (mut silent, mut other) = (Watched::open(&fixture, 0), Watched::open(&fixture, 0));
    assert!(silent.ask().is_empty() && other.ask().is_empty());
    fixture.publish(&topic, &["a", "b"]).await;
    until(|| silent.is_woken()).await;
    fixture.publish(&topic, &["c"]).await;
    assert_eq!(texts(&other.take(&fixture, 3).await), ["a", "b", "c"]);
    // From now on the line is without it.
    fixture.publish(&topic, &["d"]).await;
    until(|| other.is_woken()).await;
    assert_eq!(texts(&other.ask()), ["d"]);
    fixture.publish(&topic, &["e"]).await;
    assert_eq!(texts(&silent.ask()), ["e"], "it is welcome when it asks");
}

#[tokio::test]
async fn one_that_takes_leases_and_never_asks_again_keeps_nothing_from_others() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscribe(filtered(&topic)).await;
    let (mut silent, mut other) = (Watched::open(&fixture, 0), Watched::open(&fixture, 0));
    assert!(silent.ask().is_empty() && other.ask().is_empty());
    // Its equal part of four is two, of which there is only one.
    let messages = [("-", "no"), ("-", "no"), ("-", "no"), ("a", "yes")];
    let messages = messages.map(|(text, wanted)| marked(text, wanted));
    fixture.broker.publish(&topic, messages.to_vec()).await.unwrap();
    until(|| silent.is_woken()).await;
    assert_eq!(texts(&silent.ask()), ["a"]);
    assert!(!other.is_woken(), "there is nothing left");
    fixture.broker.publish(&topic, vec![marked("b", "yes")]).await.unwrap();
    assert_eq!(texts(&other.take(&fixture, 1).await), ["b"]);
}

#[tokio::test]
async fn a_crowd_that_never_asks_is_passed_over_in_little_time() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    let mut silent: Vec<_> = (0..300).map(|_| Watched::open(&fixture, 0)).collect();
    silent.iter_mut().for_each(|silent| assert!(silent.ask().is_empty()));
    let mut last = Watched::open(&fixture, 0);
    assert!(last.ask().is_empty());
    fixture.publish(&topic, &["a"]).await;
    until(|| silent[0].is_woken()).await;
    let before = fixture.now();
    assert_eq!(texts(&last.take(&fixture, 1).await), ["a"]);
    // Ten rounds of at most 50 ms, and what the test adds itself.
    let took = fixture.now().0 - before.0;
    assert!(took < 5_000_000, "it took {took} us");
}

fn marked(text: &str, wanted: &str) -> Message {
    let attributes = BTreeMap::from([("wanted".to_owned(), wanted.to_owned())]);
    Message { attributes, ..message(text) }
}

/// A filter that takes every tenth of the messages of `filtered_backlog`.
fn filtered(topic: &TopicName) -> domain::Subscription {
    let filter = Filter::parse("filter", "attributes.wanted = \"yes\"").unwrap();
    domain::Subscription { filter: Some(filter), ..settings(topic, "sub") }
}

async fn filtered_backlog(fixture: &Fixture, topic: &TopicName) {
    for number in 0..80 {
        let wanted = if number % 10 == 0 { "yes" } else { "no" };
        let messages = vec![marked(&number.to_string(), wanted)];
        fixture.broker.publish(topic, messages).await.unwrap();
    }
}

#[tokio::test]
async fn one_that_begins_to_read_and_never_asks_again_keeps_the_disk_from_nobody() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscribe(filtered(&topic)).await;
    filtered_backlog(&fixture, &topic).await;
    fixture.log.is_far.store(true, Ordering::SeqCst);
    let (mut silent, mut other) = (Watched::open(&fixture, 0), Watched::open(&fixture, 0));
    assert!(silent.ask().is_empty(), "it reads");
    assert!(other.ask().is_empty(), "it waits for what is read");
    let taken = other.take(&fixture, 8).await;
    assert_eq!(texts(&taken), ["0", "10", "20", "30", "40", "50", "60", "70"]);
    assert!(silent.is_woken());
}

#[tokio::test]
async fn one_whose_read_ends_at_once_and_never_asks_again_keeps_the_disk_from_nobody() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscribe(filtered(&topic)).await;
    filtered_backlog(&fixture, &topic).await;
    fixture.log.is_far.store(true, Ordering::SeqCst);
    fixture.log.is_quick.store(true, Ordering::SeqCst);
    let (mut silent, mut other) = (Watched::open(&fixture, 0), Watched::open(&fixture, 0));
    assert!(silent.ask().is_empty() && silent.is_woken(), "it has read, and is to look");
    let mut taken = other.ask_all();
    assert!(taken.len() < 8, "for more it waits until the reader has looked");
    taken.extend(other.take(&fixture, 8 - taken.len()).await);
    assert_eq!(texts(&taken), ["0", "10", "20", "30", "40", "50", "60", "70"]);
}

#[tokio::test]
async fn one_that_leaves_while_it_reads_leaves_what_is_read_to_others() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscribe(filtered(&topic)).await;
    filtered_backlog(&fixture, &topic).await;
    fixture.log.is_far.store(true, Ordering::SeqCst);
    let (mut leaving, mut other) = (Watched::open(&fixture, 0), Watched::open(&fixture, 0));
    assert!(leaving.ask().is_empty() && other.ask().is_empty());
    drop(leaving);
    // No time passes: nobody has to be given up.
    let mut taken = Vec::new();
    while taken.len() < 8 {
        until(|| other.is_woken()).await;
        taken.extend(other.ask_all());
    }
    assert!(fixture.log.reads() <= 72, "each record up to the last was read once");
}

#[tokio::test]
async fn one_that_is_served_otherwise_while_it_reads_leaves_the_disk_to_others() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["a", "b"]).await;
    let (mut served, mut other) = (Watched::open(&fixture, 1), Watched::open(&fixture, 0));
    fixture.log.is_far.store(true, Ordering::SeqCst);
    assert!(served.ask().is_empty(), "it begins to read");
    fixture.log.is_far.store(false, Ordering::SeqCst);
    assert_eq!(texts(&served.ask()), ["a"], "from memory");
    fixture.log.is_far.store(true, Ordering::SeqCst);
    assert!(other.ask().is_empty());
    // No time passes, and the reader does not ask again.
    until(|| other.is_woken()).await;
    assert_eq!(texts(&other.ask_all()), ["b"]);
}

#[tokio::test]
async fn two_that_read_different_lanes_do_not_take_each_others_records_away() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let ordered = domain::Subscription { message_ordering: true, ..settings(&topic, "sub") };
    fixture.subscribe(ordered).await;
    for number in 0..40 {
        let key = if number % 2 == 0 { "even" } else { "odd" };
        fixture.publish_keyed(&topic, &[(key, &number.to_string())]).await;
    }
    fixture.log.is_far.store(true, Ordering::SeqCst);
    let mut streams = [Watched::open(&fixture, 1), Watched::open(&fixture, 1)];
    let mut seen = BTreeSet::new();
    streams.iter_mut().for_each(|stream| assert!(stream.ask().is_empty()));
    for _ in 0..TICKS_MAX {
        for stream in &mut streams {
            if stream.is_woken() {
                let leases = stream.ask_all();
                seen.extend(texts(&leases));
                fixture.ack("sub", &leases).await;
            }
        }
        if seen.len() == 40 {
            return;
        }
        pass_tick(&fixture).await;
    }
    panic!("{} of 40 came", seen.len());
}

#[tokio::test]
async fn what_a_stream_gives_back_is_not_offered_to_it_at_once() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["a", "b", "c"]).await;
    for messages_max in [0, 3] {
        let mut ending = Watched::open(&fixture, messages_max);
        let held = ending.ask_all();
        assert_eq!(texts(&held), ["a", "b", "c"]);
        fixture.nack("sub", &held[..1]).await;
        fixture.nack("sub", &held[1..]).await;
        settle().await;
        assert!(!ending.is_woken(), "it would take them with it");
        drop(ending);
        let mut next = Watched::open(&fixture, 0);
        let again = next.ask_all();
        assert_eq!(texts(&again), ["a", "b", "c"]);
        fixture.nack("sub", &again).await;
    }
}

#[tokio::test]
async fn what_a_stream_gives_back_goes_to_another_at_once_and_to_itself_soon() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let subscription = fixture.subscription(&topic, "sub").await;
    fixture.publish(&topic, &["a"]).await;
    let mut giver = Watched::open(&fixture, 0);
    let held = giver.ask_all();
    let mut other = Watched::open(&fixture, 0);
    assert!(other.ask().is_empty());
    subscription.modify_ack_deadline(&ack_ids(&held), Duration::ZERO).await.unwrap();
    assert!(other.is_woken() && !giver.is_woken());
    let held = other.ask_all();
    assert_eq!(texts(&held), ["a"]);
    drop(giver);
    assert!(other.ask().is_empty());
    subscription.modify_ack_deadline(&ack_ids(&held), Duration::ZERO).await.unwrap();
    assert!(!other.is_woken());
    assert_eq!(texts(&other.take(&fixture, 1).await), ["a"], "there is nobody else");
}
