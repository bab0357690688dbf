//! Small histories, each with one fault that only its check finds.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::delivery::Ordering;

use super::*;
use crate::executor::Node;
use crate::history::{Answer, Ask, Event, Fate, Goal, Id, Life, Seen, Sent};
use crate::scenario::{Kind, Scenario, Subscription};

/// A history in the making, on one topic with one subscription.
struct Story {
    scenario: Scenario,
    entries: Vec<Entry>,
    calls: u64,
    leases: u64,
    life: Life,
    at: u64,
}

fn id(text: &str) -> Id {
    Arc::from(text)
}

impl Story {
    fn new(change: impl FnOnce(&mut Subscription)) -> Self {
        let mut scenario = Scenario::draw(Kind::Memory, 1);
        scenario.steps.clear();
        let mut subscription = scenario.extra(1);
        (subscription.id, subscription.topic) = (id("sub"), id("topic"));
        subscription.exactly_once = false;
        change(&mut subscription);
        let mut undertaker = subscription.clone();
        (undertaker.id, undertaker.topic) = (id("undertaker"), id("letters"));
        (undertaker.letters_to, undertaker.kind) = (None, None);
        scenario.subscriptions = vec![subscription, undertaker];
        let mut story =
            Self { scenario, entries: Vec::new(), calls: 0, leases: 0, life: Life(1), at: 0 };
        for name in ["sub", "undertaker"] {
            let call = story.ask(Ask::CreateSubscription(id(name)));
            story.answer(call, Answer::Done);
        }
        story
    }

    fn note(&mut self, event: Event) {
        self.at += 1_000;
        self.entries.push(Entry { at: self.at, event });
    }

    fn ask(&mut self, ask: Ask) -> u64 {
        self.calls += 1;
        self.note(Event::Asked(self.calls, ask));
        self.calls
    }

    fn answer(&mut self, call: u64, answer: Answer) {
        self.note(Event::Answered(call, self.life, answer));
    }

    /// Publishes texts of `a` with that key.
    fn send(&mut self, key: &'static str, texts: &[&str]) -> u64 {
        let sent = |text: &&str| Sent { text: id(text), key, kind: "a" };
        self.ask(Ask::Publish(id("topic"), texts.iter().map(sent).collect()))
    }

    fn publish(&mut self, key: &'static str, texts: &[&str], first: u64) {
        let call = self.send(key, texts);
        self.answer(call, Answer::Ids((first..first + texts.len() as u64).collect()));
    }

    fn lease_to(&mut self, consumer: u64, number: u64, text: &str, key: &str) -> u64 {
        self.lease_as(consumer, Seen { key: key.to_owned(), ..self.seen(number, text) })
    }

    fn seen(&self, number: u64, text: &str) -> Seen {
        Seen {
            lease: 0,
            id: number,
            text: id(text),
            key: String::new(),
            kind: "a".to_owned(),
            epoch: self.life.0.into(),
            attempt: 1,
            letter_of: None,
            original: None,
            is_whole: true,
        }
    }

    fn lease_as(&mut self, consumer: u64, seen: Seen) -> u64 {
        self.leases += 1;
        let of = if seen.letter_of.is_some() { "undertaker" } else { "sub" };
        let seen = Seen { lease: self.leases, ..seen };
        self.note(Event::Leased(id(of), consumer, self.life, vec![seen]));
        self.leases
    }

    fn lease(&mut self, number: u64, text: &str) -> u64 {
        self.lease_to(1, number, text, "")
    }

    fn ack(&mut self, lease: u64) {
        let call = self.ask(Ask::Ack(id("sub"), vec![lease]));
        self.answer(call, Answer::DoneBut(Vec::new()));
    }

    fn crash(&mut self) {
        self.note(Event::Befell(Node(1), self.life, Fate::Killed));
        self.life.0 += 1;
    }

    fn wait(&mut self, micros: u64) {
        self.at += micros;
    }

    fn broken(&self) -> Vec<Promise> {
        let found = check(&self.scenario, &self.entries).into_iter();
        found.map(|violation| violation.promise).collect()
    }
}

fn plain() -> Story {
    Story::new(|_| {})
}

fn once() -> Story {
    Story::new(|subscription| subscription.exactly_once = true)
}

fn keyed() -> Story {
    Story::new(|subscription| subscription.ordering = Ordering::ByKey)
}

#[test]
fn what_comes_and_is_acked_breaks_nothing() {
    let mut story = plain();
    story.publish("", &["one", "two"], 10);
    for (number, text) in [(10, "one"), (11, "two")] {
        let lease = story.lease(number, text);
        story.ack(lease);
    }
    assert_eq!(story.broken(), []);
}

#[test]
fn what_never_comes_or_never_comes_again_breaks_d1() {
    let mut story = plain();
    story.publish("", &["one"], 10);
    assert_eq!(story.broken(), [Promise::D1]);
    story.lease(10, "one");
    assert_eq!(story.broken(), [Promise::D1]);
    let lease = story.lease(10, "one");
    story.ack(lease);
    assert_eq!(story.broken(), []);
}

#[test]
fn an_ack_that_was_lost_leaves_its_message_owed() {
    let mut story = plain();
    story.publish("", &["one"], 10);
    let lease = story.lease(10, "one");
    story.ack(lease);
    story.crash();
    story.lease(10, "one");
    assert_eq!(story.broken(), [Promise::D1]);
}

#[test]
fn other_bytes_and_what_nobody_sent_break_d2() {
    let mut story = plain();
    story.publish("", &["one"], 10);
    let seen = Seen { is_whole: false, ..story.seen(10, "one") };
    let lease = story.lease_as(1, seen);
    story.ack(lease);
    assert_eq!(story.broken(), [Promise::D2]);
    let mut story = plain();
    story.publish("", &["one"], 10);
    for (number, text) in [(10, "one"), (11, "none")] {
        let lease = story.lease(number, text);
        story.ack(lease);
    }
    assert!(story.broken().contains(&Promise::D2));
}

#[test]
fn half_a_batch_breaks_d3() {
    let mut story = plain();
    story.send("ann", &["one", "two"]);
    let lease = story.lease_to(1, 11, "two", "ann");
    story.ack(lease);
    assert_eq!(story.broken(), [Promise::D3]);
}

#[test]
fn an_id_that_comes_twice_or_goes_back_breaks_d4() {
    let mut story = plain();
    story.publish("", &["one"], 10);
    story.publish("", &["two"], 10);
    assert!(story.broken().contains(&Promise::D4));
}

#[test]
fn an_ack_sticks_unless_a_crash_came_too_soon() {
    for (is_soon, is_once, breaks) in
        [(true, false, false), (false, false, true), (true, true, true)]
    {
        let mut story = if is_once { once() } else { plain() };
        story.publish("", &["one"], 10);
        let lease = story.lease(10, "one");
        story.ack(lease);
        story.wait(if is_soon { 0 } else { 1_000_000 });
        story.crash();
        let lease = story.lease(10, "one");
        story.ack(lease);
        assert_eq!(story.broken(), if breaks { vec![Promise::A1] } else { vec![] });
    }
}

#[test]
fn an_ack_behind_another_in_a_lane_is_not_final() {
    let mut story = keyed();
    story.publish("ann", &["one", "two"], 10);
    story.lease_to(1, 10, "one", "ann");
    let second = story.lease_to(1, 11, "two", "ann");
    story.ack(second);
    for (number, text) in [(10, "one"), (11, "two")] {
        let lease = story.lease_to(2, number, text, "ann");
        story.ack(lease);
    }
    assert_eq!(story.broken(), []);
}

#[test]
fn a_stale_ack_that_counts_breaks_a2() {
    let mut story = once();
    story.publish("", &["one"], 10);
    let old = story.lease(10, "one");
    story.lease(10, "one");
    story.ack(old);
    assert_eq!(story.broken(), [Promise::A2]);
    let mut story = once();
    story.publish("", &["one"], 10);
    let old = story.lease(10, "one");
    story.crash();
    story.ack(old);
    assert_eq!(story.broken(), [Promise::A2]);
}

#[test]
fn what_overtakes_in_its_lane_breaks_o1() {
    let mut story = keyed();
    story.publish("ann", &["one", "two"], 10);
    for (number, text) in [(11, "two"), (10, "one")] {
        let lease = story.lease_to(1, number, text, "ann");
        story.ack(lease);
    }
    assert_eq!(story.broken(), [Promise::O1]);
}

#[test]
fn a_lane_that_two_consumers_hold_breaks_o1() {
    for (other, breaks) in [(1, false), (2, true)] {
        let mut story = keyed();
        story.publish("ann", &["one", "two"], 10);
        let first = story.lease_to(1, 10, "one", "ann");
        let second = story.lease_to(other, 11, "two", "ann");
        story.ack(first);
        story.ack(second);
        assert_eq!(story.broken(), if breaks { vec![Promise::O1] } else { vec![] });
    }
}

#[test]
fn what_a_redelivery_leaves_behind_breaks_o1() {
    let mut story = keyed();
    story.publish("ann", &["one", "two", "three"], 10);
    story.lease_to(1, 10, "one", "ann");
    let second = story.lease_to(1, 11, "two", "ann");
    story.ack(second);
    let first = story.lease_to(1, 10, "one", "ann");
    story.ack(first);
    let third = story.lease_to(1, 12, "three", "ann");
    story.ack(third);
    assert_eq!(story.broken(), [Promise::O1]);
}

#[test]
fn a_letter_too_early_or_twice_breaks_x1() {
    for (deliveries, letters, breaks) in [(5, 1, false), (2, 1, true), (5, 2, true)] {
        let mut story = Story::new(|subscription| subscription.letters_to = Some(id("letters")));
        story.publish("", &["one"], 10);
        for _ in 0..deliveries {
            story.lease(10, "one");
        }
        for letter in 0..letters {
            let seen = story.seen(20 + letter, "one");
            let (letter_of, original) = (Some("sub".to_owned()), Some(10));
            let lease = story.lease_as(1, Seen { letter_of, original, ..seen });
            let call = story.ask(Ask::Ack(id("undertaker"), vec![lease]));
            story.answer(call, Answer::DoneBut(Vec::new()));
        }
        assert_eq!(story.broken(), if breaks { vec![Promise::X1] } else { vec![] });
    }
}

#[test]
fn what_the_filter_keeps_out_breaks_f1() {
    let mut story = Story::new(|subscription| subscription.kind = Some("b"));
    story.publish("", &["one"], 10);
    let lease = story.lease(10, "one");
    story.ack(lease);
    assert_eq!(story.broken(), [Promise::F1]);
}

#[test]
fn what_is_made_and_missing_breaks_r1() {
    for (found, breaks) in [("topics/topic", false), ("topics/other", true)] {
        let mut story = plain();
        let call = story.ask(Ask::CreateTopic(id("topic")));
        story.answer(call, Answer::Done);
        let call = story.ask(Ask::List);
        let both = ["subscriptions/sub", "subscriptions/undertaker", found];
        let names: BTreeSet<String> = both.into_iter().map(str::to_owned).collect();
        story.answer(call, Answer::Found(names));
        assert_eq!(story.broken(), if breaks { vec![Promise::R1] } else { vec![] });
    }
}

#[test]
fn a_seek_to_a_snapshot_brings_back_what_was_unacked_there() {
    for (comes_again, breaks) in [(true, false), (false, true)] {
        let mut story = Story::new(|subscription| subscription.is_sought = true);
        story.publish("", &["one"], 10);
        let call = story.ask(Ask::Snapshot(id("sub"), id("then")));
        story.answer(call, Answer::Done);
        let lease = story.lease(10, "one");
        story.ack(lease);
        let call = story.ask(Ask::Seek(id("sub"), Goal::Snapshot(id("then"))));
        story.answer(call, Answer::Done);
        if comes_again {
            let lease = story.lease(10, "one");
            story.ack(lease);
        }
        assert_eq!(story.broken(), if breaks { vec![Promise::D1] } else { vec![] });
    }
}
