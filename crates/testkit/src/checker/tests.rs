//! The checker passes a faithful history and catches each kind of lie.

use super::*;

const LOSS: Duration = Duration::from_millis(20);

/// A history written in short steps.
struct History(Checker);

impl History {
    fn new(exactly_once: bool) -> Self {
        let mut history = Self(Checker::new(LOSS));
        history.0.note(Event::Subscribed {
            subscription: "s".to_owned(),
            topic: "t".to_owned(),
            exactly_once,
        });
        history
    }

    fn sent(mut self, request: u64, digests: &[u64]) -> Self {
        let messages = digests.iter().map(|digest| content(*digest)).collect();
        self.0.note(Event::PublishSent { request, topic: "t".to_owned(), messages });
        self
    }

    fn answered(mut self, request: u64, ids: &[u64]) -> Self {
        self.0.note(Event::PublishAnswered { request, ids: ids.to_vec() });
        self
    }

    fn delivered(mut self, id: u64, digest: u64, ack_id: u64) -> Self {
        let (subscription, content) = ("s".to_owned(), content(digest));
        self.0.note(Event::Delivered { subscription, id, content, ack_id });
        self
    }

    fn acked(self, ack_id: u64, accepted: bool, at_ms: u64) -> Self {
        let mut history = self.ack_sent(ack_id);
        let (subscription, at) = ("s".to_owned(), at_ms * 1_000);
        history.0.note(Event::AckAnswered { subscription, ack_id, accepted, at });
        history
    }

    fn ack_sent(mut self, ack_id: u64) -> Self {
        self.0.note(Event::AckSent { subscription: "s".to_owned(), ack_id });
        self
    }

    fn crashed(mut self, at_ms: u64) -> Self {
        self.0.note(Event::Crashed { at: at_ms * 1_000 });
        self
    }

    fn drained(mut self) -> Self {
        self.0.note(Event::Drained { subscription: "s".to_owned() });
        self
    }

    fn broken(&self) -> Vec<Promise> {
        self.0.violations().iter().map(|violation| violation.promise).collect()
    }
}

/// Content with a key of two, so that requests have several keys.
fn content(digest: u64) -> Content {
    Content { key: format!("k{}", digest % 2), digest }
}

#[test]
fn a_faithful_history_breaks_nothing() {
    for exactly_once in [false, true] {
        let history = History::new(exactly_once)
            .sent(1, &[10, 11, 12])
            .answered(1, &[100, 101, 102])
            .delivered(100, 10, 1)
            .acked(1, true, 10)
            .delivered(101, 11, 2)
            .sent(2, &[13, 14, 15, 16])
            .crashed(500)
            .delivered(101, 11, 3)
            .acked(2, !exactly_once, 510)
            .acked(3, true, 510)
            .delivered(102, 12, 4)
            .acked(4, true, 510)
            .delivered(103, 13, 5)
            .acked(5, true, 520)
            .drained();
        assert_eq!(history.0.violations(), []);
    }
}

#[test]
fn an_answered_message_that_never_arrives_breaks_d1() {
    let history = History::new(false).sent(1, &[10]).answered(1, &[100]).drained();
    assert_eq!(history.broken(), [Promise::D1]);
}

#[test]
fn a_delivered_message_that_is_gone_without_an_ack_breaks_d1() {
    let history = History::new(false)
        .sent(1, &[10])
        .answered(1, &[100])
        .delivered(100, 10, 1)
        .crashed(50)
        .drained();
    assert_eq!(history.broken(), [Promise::D1]);
}

#[test]
fn an_ack_taken_back_by_a_crash_must_be_made_again() {
    let history = History::new(false)
        .sent(1, &[10])
        .answered(1, &[100])
        .delivered(100, 10, 1)
        .acked(1, true, 49)
        .crashed(50)
        .delivered(100, 10, 2)
        .drained();
    assert_eq!(history.broken(), [Promise::D1]);
}

#[test]
fn an_ack_under_way_in_a_crash_must_be_made_again_if_the_message_comes_again() {
    let history = History::new(false)
        .sent(1, &[10])
        .answered(1, &[100])
        .delivered(100, 10, 1)
        .ack_sent(1)
        .crashed(50);
    let again = history.delivered(100, 10, 2).drained();
    assert_eq!(again.broken(), [Promise::D1]);
}

#[test]
fn content_nobody_published_breaks_d2() {
    let history = History::new(false).sent(1, &[10]).delivered(100, 99, 1);
    assert_eq!(history.broken(), [Promise::D2]);
}

#[test]
fn a_changed_key_breaks_d2() {
    let mut history = History::new(false).sent(1, &[10]);
    let content = Content { key: "other".to_owned(), digest: 10 };
    let subscription = "s".to_owned();
    history.0.note(Event::Delivered { subscription, id: 1, content, ack_id: 1 });
    assert_eq!(history.broken(), [Promise::D2]);
}

#[test]
fn one_message_under_two_ids_breaks_d2() {
    let history = History::new(false)
        .sent(1, &[10])
        .answered(1, &[100])
        .delivered(100, 10, 1)
        .delivered(101, 10, 2);
    assert_eq!(history.broken(), [Promise::D2]);
}

#[test]
fn an_answer_to_nothing_breaks_d2() {
    assert_eq!(History::new(false).answered(9, &[1]).broken(), [Promise::D2]);
}

#[test]
fn a_hole_inside_a_key_of_an_unanswered_request_breaks_d3() {
    let history = History::new(false).sent(1, &[10, 11, 12, 13, 14]);
    let history = history.delivered(100, 10, 1).ack_sent(1).delivered(104, 14, 2).drained();
    assert_eq!(history.broken(), [Promise::D3], "12 is missing; 11 and 13 have another key");
}

#[test]
fn an_id_given_twice_breaks_d4() {
    let history = History::new(false).sent(1, &[10]).sent(2, &[11]);
    let history = history.answered(1, &[100]).answered(2, &[100]);
    assert_eq!(history.broken(), [Promise::D4]);
}

#[test]
fn an_id_below_one_answered_before_breaks_d4() {
    let history = History::new(false).sent(1, &[10]).answered(1, &[100]);
    let history = history.crashed(1).sent(2, &[11]).answered(2, &[99]);
    assert_eq!(history.broken(), [Promise::D4]);
}

#[test]
fn ids_out_of_order_or_missing_break_d4() {
    let history = History::new(false).sent(1, &[10, 11]).answered(1, &[101, 100]);
    assert_eq!(history.broken(), [Promise::D4]);
    let history = History::new(false).sent(1, &[10, 11]).answered(1, &[101]);
    assert_eq!(history.broken(), [Promise::D4]);
}

/// One message delivered and acked at 100 ms.
fn acked_once(exactly_once: bool) -> History {
    let history = History::new(exactly_once).sent(1, &[10]).answered(1, &[100]);
    history.delivered(100, 10, 1).acked(1, true, 100)
}

#[test]
fn a_delivery_after_an_accepted_ack_breaks_a1() {
    assert_eq!(acked_once(false).delivered(100, 10, 2).broken(), [Promise::A1]);
    assert_eq!(acked_once(true).delivered(100, 10, 2).broken(), [Promise::A1]);
}

#[test]
fn a_crash_may_take_back_only_the_last_ordinary_acks() {
    assert_eq!(acked_once(false).crashed(110).delivered(100, 10, 2).broken(), []);
    let late = acked_once(false).crashed(200).delivered(100, 10, 2);
    assert_eq!(late.broken(), [Promise::A1]);
    let exact = acked_once(true).crashed(110).delivered(100, 10, 2);
    assert_eq!(exact.broken(), [Promise::A1]);
}

#[test]
fn a_stale_ack_id_accepted_by_an_exactly_once_subscription_breaks_a2() {
    let twice = |exactly_once| {
        let history = History::new(exactly_once).sent(1, &[10]).answered(1, &[100]);
        history.delivered(100, 10, 1).delivered(100, 10, 2).acked(1, true, 5)
    };
    assert_eq!(twice(true).broken(), [Promise::A2]);
    assert_eq!(twice(false).broken(), []);
}

#[test]
fn an_ack_id_from_before_a_crash_accepted_by_an_exactly_once_subscription_breaks_a2() {
    let history = History::new(true).sent(1, &[10]).answered(1, &[100]);
    let history = history.delivered(100, 10, 1).crashed(5).acked(1, true, 6);
    assert_eq!(history.broken(), [Promise::A2]);
}

#[test]
fn a_late_ack_that_does_not_count_breaks_a2() {
    let history = History::new(false).sent(1, &[10]).answered(1, &[100]);
    let history = history.delivered(100, 10, 1).delivered(100, 10, 2).acked(1, true, 5);
    assert_eq!(history.delivered(100, 10, 3).broken(), [Promise::A2]);
}

#[test]
fn a_resource_that_is_gone_breaks_r1() {
    let mut checker = Checker::new(LOSS);
    for resource in ["a", "b", "c"] {
        checker.note(Event::Created { resource: resource.to_owned() });
    }
    checker.note(Event::DeleteSent { resource: "b".to_owned() });
    checker.note(Event::Found { resources: ["a".to_owned(), "c".to_owned()].into() });
    assert_eq!(checker.violations(), []);
    checker.note(Event::Found { resources: ["a".to_owned(), "b".to_owned()].into() });
    let broken: Vec<_> = checker.violations().iter().map(|violation| violation.promise).collect();
    assert_eq!(broken, [Promise::R1]);
    assert!(checker.violations()[0].to_string().contains("R1: c "));
}

#[test]
fn a_subscription_owes_nothing_for_what_was_sent_before_it_existed() {
    let mut checker = Checker::new(LOSS);
    let messages = vec![content(10)];
    checker.note(Event::PublishSent { request: 1, topic: "t".to_owned(), messages });
    checker.note(Event::PublishAnswered { request: 1, ids: vec![100] });
    let mut history = History(checker);
    history.0.note(Event::Subscribed {
        subscription: "s".to_owned(),
        topic: "t".to_owned(),
        exactly_once: false,
    });
    assert_eq!(history.drained().broken(), []);
}
