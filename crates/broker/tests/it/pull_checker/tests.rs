//! The checker must catch each broken promise, or the power cuts prove nothing.

use super::*;
use crate::fixture::{dead_letters_to, settings, topic_name};

/// A subscription `s` with 1, 2, 3 published, all of one key.
fn world(change: impl FnOnce(&mut Subscription)) -> PullChecker {
    let mut settings = settings(&topic_name("orders"), "sub");
    change(&mut settings);
    let mut checker = PullChecker::default();
    checker.add("s", &settings, None);
    for id in 1..=3 {
        checker.publish_begins(&id.to_string(), "k", "a");
        checker.published(&id.to_string(), id);
    }
    checker
}

fn ordered() -> PullChecker {
    world(|settings| settings.message_ordering = true)
}

fn give(checker: &mut PullChecker, id: u64, consumer: u64) {
    let seen = Seen { id, text: id.to_string(), key: "k".to_owned(), original: None };
    checker.given("s", consumer, &seen);
}

fn ack(checker: &mut PullChecker, id: u64) {
    checker.acked("s", id, Ok(()));
}

fn promises(checker: &PullChecker) -> Vec<&str> {
    checker.faults.iter().map(|fault| &fault[..2]).collect()
}

#[test]
fn a_sound_history_has_no_faults() {
    let mut checker = ordered();
    for id in 1..=3 {
        give(&mut checker, id, 7);
    }
    ack(&mut checker, 2);
    assert_eq!(checker.failed("s", 1), [3]);
    for id in 1..=3 {
        give(&mut checker, id, 8);
        ack(&mut checker, id);
    }
    assert_eq!((promises(&checker), checker.owed()), (vec![], vec![]));
}

#[test]
fn what_is_passed_over_or_shared_in_a_lane_is_caught() {
    let mut checker = ordered();
    give(&mut checker, 2, 7);
    assert_eq!(promises(&checker), ["O1"]);
    let mut checker = ordered();
    give(&mut checker, 1, 7);
    give(&mut checker, 2, 8);
    assert_eq!(promises(&checker), ["O1"]);
    let mut checker = ordered();
    give(&mut checker, 1, 7);
    give(&mut checker, 2, 7);
    ack(&mut checker, 2);
    checker.cut();
    give(&mut checker, 1, 7);
    give(&mut checker, 3, 7);
    assert_eq!(promises(&checker), ["O1"], "the ack of 2 was provisional");
}

#[test]
fn an_ack_that_does_not_stick_is_caught() {
    let mut checker = ordered();
    give(&mut checker, 1, 7);
    ack(&mut checker, 1);
    checker.all_durable();
    checker.cut();
    give(&mut checker, 1, 7);
    assert_eq!(promises(&checker), ["A1"]);
    // Exactly-once: without anything that came after it.
    let mut checker = world(|settings| settings.exactly_once = true);
    give(&mut checker, 1, 7);
    ack(&mut checker, 1);
    checker.cut();
    give(&mut checker, 1, 7);
    assert_eq!(promises(&checker), ["A1"]);
}

#[test]
fn what_was_forgotten_as_settled_may_not_come_again() {
    let mut checker = world(|_| {});
    for id in 1..=2 {
        give(&mut checker, id, 7);
        ack(&mut checker, id);
    }
    checker.all_durable();
    checker.forget_settled();
    assert_eq!(checker.owed(), [("s", 3)]);
    give(&mut checker, 3, 7);
    assert_eq!(promises(&checker), [""; 0]);
    give(&mut checker, 1, 7);
    assert_eq!(promises(&checker), ["A1"]);
}

#[test]
fn what_a_crash_may_take_back_is_no_fault_and_is_then_known() {
    let mut checker = ordered();
    give(&mut checker, 1, 7);
    ack(&mut checker, 1);
    checker.cut();
    give(&mut checker, 2, 7);
    assert_eq!(promises(&checker), [""; 0]);
    checker.cut();
    give(&mut checker, 1, 7);
    assert_eq!(promises(&checker), ["A1"], "it was passed over: so it was settled");
}

#[test]
fn letters_that_are_early_twice_missing_or_of_acked_messages_are_caught() {
    let policy = |settings: &mut Subscription| {
        settings.dead_letter_policy = dead_letters_to("dead");
    };
    let fail = |checker: &mut PullChecker, times| {
        for _ in 0..times {
            give(checker, 1, 7);
            checker.failed("s", 1);
        }
    };
    let mut early = world(policy);
    fail(&mut early, 4);
    early.letter("s", 1, 100);
    assert_eq!(promises(&early), ["X1"]);
    let mut twice = world(policy);
    fail(&mut twice, 5);
    assert!(twice.owed().contains(&("s", 1)), "neither acked nor a letter");
    twice.letter("s", 1, 100);
    twice.letter("s", 1, 100);
    assert_eq!((promises(&twice), twice.owed().len()), (vec![], 2));
    twice.letter("s", 1, 101);
    assert_eq!(promises(&twice), ["X1"]);
    give(&mut twice, 1, 7);
    assert_eq!(promises(&twice), ["X1", "A1"]);
    let mut acked = world(policy);
    fail(&mut acked, 5);
    give(&mut acked, 1, 7);
    ack(&mut acked, 1);
    acked.cut();
    assert!(!acked.owed().contains(&("s", 1)), "the crash may have kept the ack");
    acked.letter("s", 1, 100);
    assert_eq!(promises(&acked), ["X1"]);
}

#[test]
fn what_a_filter_keeps_out_and_what_nobody_published_is_caught() {
    let mut checker = world(|_| {});
    checker.add("b", &settings(&topic_name("orders"), "other"), Some("b"));
    checker.given("b", 7, &Seen { id: 1, text: "1".into(), key: "k".into(), original: None });
    checker.given("s", 7, &Seen { id: 9, text: "9".into(), key: "k".into(), original: None });
    assert_eq!(promises(&checker), ["F1", "D2", "F1"]);
}

#[test]
fn a_seek_that_was_not_answered_leaves_open_what_it_would_change() {
    let mut checker = world(|settings| settings.exactly_once = true);
    give(&mut checker, 1, 7);
    ack(&mut checker, 1);
    let then = checker.snapshot("s");
    give(&mut checker, 2, 7);
    ack(&mut checker, 2);
    checker.sought("s", &then, Err(()));
    give(&mut checker, 2, 7);
    assert_eq!(promises(&checker), [""; 0]);
    checker.sought("s", &then, Ok(()));
    assert_eq!(checker.owed(), [("s", 2), ("s", 3)]);
    give(&mut checker, 1, 7);
    assert_eq!(promises(&checker), ["A1"]);
}
