//! Reserved labels of a subscription.

use serde_json::json;

use super::tests::{field_at_fault, pairs, subscription};
use super::{Change, Start, Subscription};
use crate::error::Invalid;
use crate::policy::Poison;

fn labelled(labels: &[(&str, &str)]) -> Result<Subscription, Invalid> {
    let labels = Some(pairs(labels));
    Change { labels, is_creation: true, ..Change::default() }.apply(&subscription())
}

#[test]
fn labels_are_read_as_settings() {
    let labels = [
        ("postrider-start", "earliest"),
        ("postrider-fifo", "true"),
        ("postrider-paused", "false"),
        ("postrider-poison", "halt"),
        ("postrider-max-attempts", "7"),
        ("postrider-timeout-seconds", "600"),
        ("team", "blue"),
    ];
    let expected = Subscription {
        labels: pairs(&labels),
        start: Start::Earliest,
        fifo: true,
        poison: Poison::Halt,
        attempts_max: Some(7),
        ..subscription()
    };
    assert_eq!(labelled(&labels), Ok(expected));
}

#[test]
fn labels_that_make_no_sense_are_named() {
    for (label, text) in [
        ("postrider-start", "soon"),
        ("postrider-fifo", "yes"),
        ("postrider-fifo", ""),
        ("postrider-paused", "1"),
        ("postrider-poison", "stop"),
        ("postrider-max-attempts", "0"),
        ("postrider-max-attempts", "101"),
        ("postrider-max-attempts", ""),
        ("postrider-max-attempts", "-1"),
        ("postrider-max-attempts", "99999999999999999999"),
        ("postrider-timeout-seconds", "0"),
        ("postrider-timeout-seconds", "601"),
        ("postrider-timeout-seconds", "30s"),
    ] {
        let error = labelled(&[(label, text)]).unwrap_err();
        assert_eq!(error.field, format!("labels[{label:?}]"), "{text}");
    }
}

#[test]
fn a_label_must_agree_with_its_setting() {
    for (label, text) in [
        ("postrider-start", "earliest"),
        ("postrider-fifo", "true"),
        ("postrider-paused", "true"),
        ("postrider-poison", "halt"),
        ("postrider-max-attempts", "7"),
    ] {
        let torn = Subscription { labels: pairs(&[(label, text)]), ..subscription() };
        assert_eq!(field_at_fault(&torn), format!("labels[{label:?}]"));
    }
    let agreeing = Subscription {
        labels: pairs(&[("postrider-start", "earliest"), ("postrider-fifo", "true")]),
        start: Start::Earliest,
        fifo: true,
        ..subscription()
    };
    assert_eq!(agreeing.validate(), Ok(()));
    let both_numbers = Subscription {
        labels: pairs(&[("postrider-max-attempts", "7")]),
        attempts_max: Some(8),
        ..subscription()
    };
    assert_eq!(field_at_fault(&both_numbers), r#"labels["postrider-max-attempts"]"#);
}

#[test]
fn what_is_given_goes_before_a_label_and_must_agree() {
    let mut change = Change::of("postrider.fifo", json!(false)).unwrap();
    change.labels = Some(pairs(&[("postrider-fifo", "true")]));
    let error = change.apply(&subscription()).unwrap_err();
    assert_eq!(error.field, r#"labels["postrider-fifo"]"#);
}

#[test]
fn unknown_reserved_labels_are_refused() {
    let typo = Subscription { labels: pairs(&[("postrider-strat", "x")]), ..subscription() };
    assert_eq!(field_at_fault(&typo), r#"labels["postrider-strat"]"#);
}

#[test]
fn labels_follow_their_settings() {
    let torn = Subscription {
        labels: pairs(&[
            ("postrider-fifo", "true"),
            ("postrider-max-attempts", "7"),
            ("team", "blue"),
        ]),
        ..subscription()
    };
    let changed = Change::default().apply(&torn).unwrap();
    assert_eq!(changed.labels, pairs(&[("postrider-fifo", "false"), ("team", "blue")]));
}
