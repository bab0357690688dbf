//! The rules of subscription settings and of changes to them.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::name::{SubscriptionName, TopicName};
use crate::policy::{DeadLetterPolicy, Poison};
use crate::push::{Endpoint, PushConfig};
use crate::setting::{self, Document};

const START_LABEL: &str = "postrider-start";
const FIFO_LABEL: &str = "postrider-fifo";
const MAX_ATTEMPTS_LABEL: &str = "postrider-max-attempts";

const DAY: Duration = Duration::from_secs(86_400);

pub(super) fn subscription() -> Subscription {
    Subscription::new(
        SubscriptionName::parse("name", "projects/p/subscriptions/billing").unwrap(),
        TopicName::parse("topic", "projects/p/topics/orders").unwrap(),
    )
}

pub(super) fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

pub(super) fn field_at_fault(subscription: &Subscription) -> String {
    subscription.validate().unwrap_err().field
}

/// A subscription that pushes.
pub(super) fn pushing() -> Subscription {
    let endpoint = Endpoint::parse("push_endpoint", "http://localhost:9/push").unwrap();
    Subscription { push: Some(PushConfig::new(endpoint)), ..subscription() }
}

/// A subscription with a dead letter policy.
pub(super) fn dead_letters(topic: &str, attempts: u32) -> Subscription {
    let topic = TopicName::parse("topic", topic).unwrap();
    let policy = DeadLetterPolicy { topic, max_delivery_attempts: attempts };
    Subscription { dead_letter_policy: Some(policy), ..subscription() }
}

#[test]
fn the_defaults_are_googles() {
    let subscription = subscription();
    assert!(subscription.validate().is_ok());
    assert_eq!(subscription.ack_deadline, Duration::from_secs(10));
    assert_eq!(subscription.message_retention, 7 * DAY);
    assert_eq!(subscription.expiration, Some(31 * DAY));
    assert_eq!(subscription.start, Start::Latest);
}

#[test]
fn ack_deadlines_out_of_range_are_refused() {
    let long = Subscription { ack_deadline: Duration::from_secs(601), ..subscription() };
    assert_eq!(field_at_fault(&long), "ack_deadline_seconds");
}

#[test]
fn retention_is_ten_minutes_to_31_days() {
    let short = Subscription { message_retention: Duration::from_secs(599), ..subscription() };
    assert_eq!(field_at_fault(&short), "message_retention_duration");
    let longest = Subscription { message_retention: 31 * DAY, ..subscription() };
    assert!(longest.validate().is_ok());
}

#[test]
fn expiration_is_a_day_or_more_and_not_shorter_than_retention() {
    let expiring = |expiration, retention| Subscription {
        expiration,
        message_retention: retention,
        ..subscription()
    };
    let hour = Duration::from_secs(3_600);
    assert!(expiring(Some(DAY), hour).validate().is_ok());
    assert!(expiring(None, 31 * DAY).validate().is_ok());
    assert!(expiring(Some(7 * DAY), 7 * DAY).validate().is_ok());
    assert!(expiring(Some(365 * DAY), hour).validate().is_ok());
    let short = expiring(Some(DAY.saturating_sub(Duration::from_secs(1))), hour);
    assert_eq!(field_at_fault(&short), "expiration_policy.ttl");
    assert_eq!(field_at_fault(&expiring(Some(2 * DAY), 7 * DAY)), "expiration_policy.ttl");
}

#[test]
fn description_and_metadata_are_bounded() {
    let described = |bytes| Subscription { description: "x".repeat(bytes), ..subscription() };
    assert!(described(4_096).validate().is_ok());
    assert_eq!(field_at_fault(&described(4_097)), "postrider.description");
    let with = |key: &str, value: &str| Subscription {
        metadata: pairs(&[(key, value)]),
        ..subscription()
    };
    assert!(with("Any key at all", "Any value").validate().is_ok());
    assert_eq!(field_at_fault(&with("", "v")), "postrider.metadata");
    assert_eq!(field_at_fault(&with(&"k".repeat(257), "v")), "postrider.metadata");
    assert_eq!(field_at_fault(&with("k", &"v".repeat(4_097))), r#"postrider.metadata["k"]"#);
    let metadata = (0..65).map(|i| (i.to_string(), String::new())).collect();
    assert_eq!(field_at_fault(&Subscription { metadata, ..subscription() }), "postrider.metadata");
}

/// The change that a mask of one path makes.
fn masked(path: &str, has_ours: bool) -> Result<Change, Invalid> {
    Change::by_mask(&Document::default(), has_ours, &[path.to_owned()])
}

#[test]
fn masks_name_known_fields_only() {
    for path in [
        "ack_deadline_seconds",
        "expiration_policy.ttl",
        "message_transforms",
        "push_config",
        "push_config.push_endpoint",
        "push_config.attributes",
        "push_config.oidc_token",
        "push_config.oidc_token.audience",
        "push_config.no_wrapper.write_metadata",
        "push_config.pubsub_wrapper",
        "retry_policy",
        "retry_policy.minimum_backoff",
        "retry_policy.maximum_backoff",
        "dead_letter_policy",
        "dead_letter_policy.max_delivery_attempts",
        "enable_exactly_once_delivery",
        "postrider",
        "postrider.fifo",
        "postrider.laneBy",
        "postrider.lane_by",
        "postrider.max_attempts",
        "postrider.backoff",
        "postrider.headers",
        "postrider.method",
        "postrider.signing",
        "postrider.batch",
        "postrider.rate_limit",
        "fifo_mode",
        "is_enabled",
    ] {
        assert!(masked(path, true).is_ok(), "{path}");
        let is_ours = path.starts_with("postrider") || path == "fifo_mode" || path == "is_enabled";
        assert_eq!(masked(path, false).is_err(), is_ours, "{path}");
    }
    for fixed in [
        "name",
        "topic",
        "filter",
        "enable_message_ordering",
        "postrider.filter",
        "postrider.start",
        "detached",
    ] {
        assert!(Change::is_fixed(fixed), "{fixed}");
        let error = masked(fixed, true).unwrap_err();
        assert_eq!(error.field, "update_mask");
        assert!(error.problem.contains("cannot be changed"), "{error}");
    }
    for unknown in [
        "",
        "ack_deadline",
        "ackDeadlineSeconds",
        "postrider.stat",
        "postrider.",
        "postrider.batch.messages",
        "push_config.",
        "push_config.endpoint",
        "retry_policy.min",
        "dead_letter_policyx",
    ] {
        let error = masked(unknown, true).unwrap_err();
        assert!(error.problem.contains("not a field"), "{error}");
    }
    assert_eq!(Change::by_mask(&Document::default(), true, &[]).unwrap_err().field, "update_mask");
}

#[test]
fn what_a_push_config_has_of_ours_is_no_field_of_googles() {
    for path in ["push_config.timeout_seconds", "push_config.retry_policy"] {
        assert!(masked(path, true).is_ok());
        assert!(masked(path, false).is_err());
    }
}

#[test]
fn every_setting_that_is_shown_can_be_given_again() {
    let given = Subscription {
        message_ordering: true,
        expiration: None,
        exactly_once: true,
        metadata: pairs(&[("owner", "Ann")]),
        start: Start::Earliest,
        poison: Poison::Halt,
        retry_policy: Some(RetryPolicy::default()),
        ..dead_letters("projects/p/topics/dead", 7)
    };
    for mut one in [subscription(), pushing(), given] {
        let mut document = Document::default();
        setting::show(SETTINGS, &one, &mut document);
        // The version is always shown, and so it is given.
        if let Some(push) = &mut one.push {
            push.attributes.insert("x-goog-version".to_owned(), "v1".to_owned());
        }
        let again = Change::creating(&document).unwrap().apply(&subscription()).unwrap();
        // The deadline is shown, and so it is given.
        assert_eq!(again, Subscription { is_ack_deadline_given: true, ..one });
    }
}

#[test]
fn a_change_knows_whether_the_ack_deadline_was_given() {
    let given = Subscription { is_ack_deadline_given: true, ..subscription() };
    let described = Change::of("postrider.description", json!("d")).unwrap();
    assert!(described.clone().apply(&given).unwrap().is_ack_deadline_given);
    assert!(!described.apply(&subscription()).unwrap().is_ack_deadline_given);
    let change = Change::of("ack_deadline_seconds", json!(10)).unwrap();
    assert!(change.apply(&subscription()).unwrap().is_ack_deadline_given);
    let change = Change::of("ack_deadline_seconds", json!(null)).unwrap();
    let after = change.apply(&Subscription { ack_deadline: DAY / 288, ..given }).unwrap();
    assert_eq!((after.ack_deadline, after.is_ack_deadline_given), (Duration::from_secs(10), false));
}

#[test]
fn a_change_touches_only_what_it_names() {
    let before = Subscription {
        labels: pairs(&[(START_LABEL, "earliest")]),
        start: Start::Earliest,
        description: "first".to_owned(),
        metadata: pairs(&[("owner", "Ann")]),
        ..subscription()
    };
    let minute = Duration::from_secs(60);
    let change = Change::of("ack_deadline_seconds", json!(60)).unwrap();
    let expected =
        Subscription { ack_deadline: minute, is_ack_deadline_given: true, ..before.clone() };
    assert_eq!(change.apply(&before).unwrap(), expected);
    assert_eq!(Change::default().apply(&before).unwrap(), before);
    let never = Change::of("expiration_policy", json!({})).unwrap().apply(&before).unwrap();
    assert_eq!(never.expiration, None);
}

#[test]
fn a_change_cannot_move_the_start_by_label() {
    let before = subscription();
    let relabelled =
        |text| Change { labels: Some(pairs(&[(START_LABEL, text)])), ..Change::default() };
    assert!(relabelled("latest").apply(&before).is_ok());
    let error = relabelled("earliest").apply(&before).unwrap_err();
    assert_eq!(error.field, r#"labels["postrider-start"]"#);
}

#[test]
fn a_change_to_something_invalid_is_refused() {
    let change = Change::of("message_retention_duration", json!("2678400s")).unwrap();
    let before = Subscription { expiration: Some(7 * DAY), ..subscription() };
    assert_eq!(change.apply(&before).unwrap_err().field, "expiration_policy.ttl");
}

#[test]
fn the_order_of_delivery_follows_from_the_settings() {
    let plain = subscription();
    assert_eq!(plain.ordering(), Ordering::None);
    let by_key = Subscription { message_ordering: true, ..subscription() };
    assert_eq!(by_key.ordering(), Ordering::ByKey);
    let by_attribute = Subscription { lane_by: Some("kind".to_owned()), ..subscription() };
    assert_eq!(by_attribute.ordering(), Ordering::ByKey);
    let fifo = Subscription { fifo: true, ..by_key };
    assert_eq!(fifo.ordering(), Ordering::Fifo);
    assert_eq!(fifo.validate(), Ok(()));
}

#[test]
fn lanes_by_attribute_need_a_key_and_no_other_order() {
    let by = |key: &str| Subscription { lane_by: Some(key.to_owned()), ..subscription() };
    assert_eq!(by("k").validate(), Ok(()));
    assert_eq!(by(&"k".repeat(256)).validate(), Ok(()));
    for bad in [
        by(""),
        by(&"k".repeat(257)),
        Subscription { fifo: true, ..by("k") },
        Subscription { message_ordering: true, ..by("k") },
    ] {
        assert_eq!(field_at_fault(&bad), "postrider.laneBy");
    }
}

#[test]
fn halting_needs_lanes_and_an_end_of_attempts() {
    let halting = Subscription { poison: Poison::Halt, ..subscription() };
    let error = halting.validate().unwrap_err();
    assert_eq!(error.field, "postrider.poison");
    assert!(error.problem.contains("postrider.fifo"), "{error}");
    let ordered = Subscription { message_ordering: true, ..halting.clone() };
    let error = ordered.validate().unwrap_err();
    assert!(error.problem.contains("postrider.maxAttempts"), "{error}");
    let counted = Subscription { attempts_max: Some(3), ..halting };
    assert_eq!(field_at_fault(&counted), "postrider.poison");
    let dead = Subscription {
        poison: Poison::Halt,
        fifo: true,
        ..dead_letters("projects/p/topics/dead", 5)
    };
    assert_eq!(dead.validate(), Ok(()));
    assert_eq!(Subscription { attempts_max: Some(3), ..ordered }.validate(), Ok(()));
}

#[test]
fn attempts_may_be_given_in_two_ways_that_agree() {
    let ours = |attempts| Subscription { attempts_max: Some(attempts), ..subscription() };
    for good in [1, 100] {
        assert_eq!(ours(good).validate(), Ok(()));
        assert_eq!(ours(good).attempts_allowed(), Some(good));
    }
    for bad in [0, 101] {
        assert_eq!(field_at_fault(&ours(bad)), "postrider.maxAttempts");
    }
    let both = |theirs, ours| Subscription {
        attempts_max: Some(ours),
        ..dead_letters("projects/p/topics/dead", theirs)
    };
    assert_eq!(both(7, 7).validate(), Ok(()));
    assert_eq!(both(3, 3).attempts_allowed(), Some(3));
    assert_eq!(field_at_fault(&both(5, 7)), "dead_letter_policy.max_delivery_attempts");
    assert_eq!(dead_letters("projects/other/topics/dead", 9).attempts_allowed(), Some(9));
    assert_eq!(subscription().attempts_allowed(), None);
}

#[test]
fn bad_policies_are_named() {
    let retrying =
        Subscription { retry_policy: Some(RetryPolicy { min: DAY, max: DAY }), ..subscription() };
    assert_eq!(field_at_fault(&retrying), "retry_policy.minimum_backoff");
    let dead = dead_letters("projects/p/topics/dead", 4);
    assert_eq!(field_at_fault(&dead), "dead_letter_policy.max_delivery_attempts");
}

#[test]
fn labels_of_an_update_set_what_they_stand_for() {
    let relabelled =
        |labels: &[(&str, &str)]| Change { labels: Some(pairs(labels)), ..Change::default() };
    let on = relabelled(&[(FIFO_LABEL, "true"), (MAX_ATTEMPTS_LABEL, "7")]);
    let on = on.apply(&subscription()).unwrap();
    assert_eq!((on.fifo, on.attempts_max), (true, Some(7)));
    let off = relabelled(&[(FIFO_LABEL, "false")]).apply(&on).unwrap();
    assert_eq!((off.fifo, off.attempts_max), (false, Some(7)));
    assert!(relabelled(&[(FIFO_LABEL, "maybe")]).apply(&on).is_err());
}

#[test]
fn labels_of_an_update_that_are_missing_clear_nothing() {
    let before = Subscription {
        fifo: true,
        paused: true,
        labels: pairs(&[(FIFO_LABEL, "true")]),
        ..subscription()
    };
    let change = Change { labels: Some(pairs(&[("team", "blue")])), ..Change::default() };
    let after = change.apply(&before).unwrap();
    assert_eq!(after, Subscription { labels: pairs(&[("team", "blue")]), ..before });
}

#[test]
fn a_setting_that_changes_takes_its_label_along() {
    let before = Subscription {
        fifo: true,
        attempts_max: Some(7),
        labels: pairs(&[(FIFO_LABEL, "true"), (MAX_ATTEMPTS_LABEL, "7"), ("team", "blue")]),
        ..subscription()
    };
    let mut change = Change::of("postrider.fifo", json!(false)).unwrap();
    change.joined.attempts_max = Some(None);
    let after = change.apply(&before).unwrap();
    assert_eq!((after.fifo, after.attempts_max), (false, None));
    assert_eq!(after.labels, pairs(&[(FIFO_LABEL, "false"), ("team", "blue")]));
}

#[test]
fn a_change_by_label_and_object_must_agree() {
    let change = |fifo| Change {
        labels: Some(pairs(&[(FIFO_LABEL, "true")])),
        ..Change::of("postrider.fifo", json!(fifo)).unwrap()
    };
    assert!(change(true).apply(&subscription()).unwrap().fifo);
    let error = change(false).apply(&subscription()).unwrap_err();
    assert_eq!(error.field, r#"labels["postrider-fifo"]"#);
}

#[test]
fn a_retry_policy_can_be_changed_as_a_whole_or_by_its_bounds() {
    let seconds = Duration::from_secs;
    let changed = |current: Option<RetryPolicy>, retry_policy| {
        let before = Subscription { retry_policy: current, ..subscription() };
        Change::joining(Joined { retry_policy, ..Joined::default() })
            .apply(&before)
            .map(|after| after.retry_policy)
    };
    let policy = RetryPolicy { min: seconds(1), max: seconds(5) };
    let whole = |whole| RetryChange { whole: Some(whole), ..RetryChange::default() };
    let min = |min| RetryChange { min: Some(min), ..RetryChange::default() };
    assert_eq!(changed(None, whole(Some(policy))), Ok(Some(policy)));
    assert_eq!(changed(Some(policy), whole(None)), Ok(None));
    assert_eq!(changed(Some(policy), RetryChange::default()), Ok(Some(policy)));
    let raised = RetryPolicy { min: seconds(2), ..policy };
    assert_eq!(changed(Some(policy), min(Some(seconds(2)))), Ok(Some(raised)));
    let made = RetryPolicy { min: seconds(2), max: seconds(600) };
    assert_eq!(changed(None, min(Some(seconds(2)))), Ok(Some(made)));
    assert_eq!(changed(None, min(None)), Ok(None));
    // Back to the default of 10 s, which is beyond the other bound.
    let error = changed(Some(policy), min(None)).unwrap_err();
    assert_eq!(error.field, "retry_policy.minimum_backoff");
    let max = RetryChange { max: Some(None), ..RetryChange::default() };
    assert_eq!(changed(Some(policy), max), Ok(Some(RetryPolicy { max: seconds(600), ..policy })));
}

#[test]
fn a_dead_letter_policy_can_be_changed_as_a_whole_or_by_its_parts() {
    let other = TopicName::parse("topic", "projects/p/topics/other").unwrap();
    let changed = |before: &Subscription, topic, attempts| {
        let dead_letter_policy = DeadLetterChange { topic, attempts };
        let after =
            Change::joining(Joined { dead_letter_policy, ..Joined::default() }).apply(before);
        after.map(|after| {
            after
                .dead_letter_policy
                .map(|policy| (policy.topic.id().to_owned(), policy.max_delivery_attempts))
        })
    };
    let dead = dead_letters("projects/p/topics/dead", 7);
    let named = |topic: &str, attempts| Ok(Some((topic.to_owned(), attempts)));
    assert_eq!(changed(&dead, None, None), named("dead", 7));
    assert_eq!(changed(&dead, Some(Some(other.clone())), None), named("other", 7));
    assert_eq!(changed(&dead, Some(Some(other.clone())), Some(None)), named("other", 5));
    assert_eq!(changed(&dead, None, Some(Some(9))), named("dead", 9));
    assert_eq!(changed(&dead, Some(None), Some(None)), Ok(None));
    assert_eq!(changed(&subscription(), Some(Some(other)), None), named("other", 5));
    let error = changed(&subscription(), None, Some(Some(9))).unwrap_err();
    assert_eq!(error.field, "dead_letter_policy.dead_letter_topic");
    let error = changed(&dead, None, Some(Some(101))).unwrap_err();
    assert_eq!(error.field, "dead_letter_policy.max_delivery_attempts");
}

#[test]
fn a_policy_without_attempts_has_those_given_in_our_own_way() {
    let before = Subscription { attempts_max: Some(3), ..subscription() };
    let dead = TopicName::parse("topic", "projects/p/topics/dead").unwrap();
    let dead_letter_policy = DeadLetterChange { topic: Some(Some(dead)), attempts: Some(None) };
    let after =
        Change::joining(Joined { dead_letter_policy, ..Joined::default() }).apply(&before).unwrap();
    assert_eq!(after.attempts_allowed(), Some(3));
    let apart =
        Change::joining(Joined { attempts_max: Some(Some(4)), ..Joined::default() }).apply(&after);
    assert_eq!(apart.unwrap_err().field, "dead_letter_policy.max_delivery_attempts");
}
