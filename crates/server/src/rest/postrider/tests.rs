use domain::push::Signing;
use domain::subscription::Change;
use domain::{Offset, Poison, Start, Subscription, SubscriptionName, TopicName};

use super::*;

const SECRET: &str = "whsec_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

fn taken(mut subscription: Value) -> Result<Value, Invalid> {
    take("", &mut subscription).map(|ours| Value::Object(ours.0))
}

fn field_at_fault(subscription: Value) -> String {
    taken(subscription).unwrap_err().field
}

fn plain() -> Subscription {
    Subscription::new(
        SubscriptionName::parse("name", "projects/p/subscriptions/billing").unwrap(),
        TopicName::parse("topic", "projects/p/topics/orders").unwrap(),
    )
}

/// The subscription that JSON with only our settings makes.
fn made(subscription: Value) -> Result<Subscription, Invalid> {
    let Value::Object(ours) = taken(subscription)? else { panic!("not an object") };
    Change::creating(&Document(ours))?.apply(&plain())
}

fn shown(settings: &Subscription) -> Value {
    let mut shown = Document::default();
    show_ours(SETTINGS, settings, &mut shown);
    Value::Object(shown.0)
}

#[test]
fn ours_is_taken_out_and_the_rest_left() {
    let ours = json!({
        "start": "earliest", "description": "d", "metadata": {"k": "v"}, "fifo": true,
        "paused": false, "poison": "halt", "maxAttempts": 7,
    });
    let mut subscription = json!({
        "topic": "projects/p/topics/orders",
        "fifo_mode": true,
        "is_enabled": true,
        "warnings": ["sent back"],
        "postrider": ours,
    });
    let taken_out = take("", &mut subscription).unwrap();
    assert_eq!(Value::Object(taken_out.0), json!({"postrider": ours}));
    assert_eq!(subscription, json!({"topic": "projects/p/topics/orders"}));
    let nothing = json!({"postrider": null, "fifoMode": null});
    for nothing in [json!({}), nothing] {
        assert_eq!(made(nothing), Ok(plain()));
    }
}

#[test]
fn every_spelling_means_its_setting() {
    for (subscription, fifo, paused) in [
        (json!({"fifoMode": true}), true, false),
        (json!({"fifo_mode": false}), false, false),
        (json!({"isEnabled": false}), false, true),
        (json!({"is_enabled": true}), false, false),
        (json!({"fifoMode": true, "fifo_mode": true}), true, false),
        (json!({"fifoMode": true, "postrider": {"fifo": true}}), true, false),
        (json!({"is_enabled": false, "postrider": {"paused": true}}), false, true),
    ] {
        let made = made(subscription).unwrap();
        assert_eq!((made.fifo, made.paused), (fifo, paused));
    }
}

#[test]
fn spellings_that_disagree_are_refused() {
    for (subscription, field) in [
        (json!({"fifoMode": true, "fifo_mode": false}), "fifo_mode"),
        (json!({"fifoMode": true, "postrider": {"fifo": false}}), "fifoMode"),
        (json!({"is_enabled": true, "postrider": {"paused": true}}), "is_enabled"),
        (json!({"isEnabled": true, "is_enabled": false}), "is_enabled"),
    ] {
        assert_eq!(field_at_fault(subscription), field);
    }
}

#[test]
fn the_settings_in_force_are_shown_and_can_be_sent_back() {
    let defaults = json!({"start": "latest", "fifo": false, "paused": false, "poison": "skip"});
    assert_eq!(shown(&plain()), json!({ "postrider": defaults }));
    let settings = Subscription {
        paused: true,
        poison: Poison::Halt,
        lane_by: Some("kind".to_owned()),
        attempts_max: Some(7),
        ..plain()
    };
    let shown = shown(&settings);
    assert_eq!(shown["postrider"]["laneBy"], json!("kind"));
    assert_eq!(made(shown), Ok(settings));
}

#[test]
fn a_start_that_is_shown_can_be_sent_back() {
    for start in [
        Start::Latest,
        Start::Earliest,
        Start::Offset(Offset(u64::MAX)),
        Start::Time(Timestamp(1_726_937_845_123_456)),
    ] {
        assert_eq!(made(json!({"postrider": {"start": start.show()}})).unwrap().start, start);
    }
}

#[test]
fn starts_are_read() {
    for (value, start) in [
        (json!({"offset": 7}), Start::Offset(Offset(7))),
        (json!({"offset": "7"}), Start::Offset(Offset(7))),
        (json!({"time": "1970-01-01T00:00:01.5Z"}), Start::Time(Timestamp(1_500_000))),
        (json!({"time": "1969-01-01T00:00:00Z"}), Start::Time(Timestamp(0))),
    ] {
        assert_eq!(made(json!({"postrider": {"start": value}})).unwrap().start, start);
    }
    for bad in [
        json!("middle"),
        json!(5),
        json!(true),
        json!([]),
        json!({}),
        json!({"offset": -1}),
        json!({"offset": "x"}),
        json!({"offset": "+1"}),
        json!({"offset": ""}),
        json!({"offset": 1.5}),
        json!({"time": "yesterday"}),
        json!({"place": 1}),
        json!({"offset": 1, "time": "1970-01-01T00:00:00Z"}),
    ] {
        assert_eq!(field_at_fault(json!({"postrider": {"start": bad}})), "postrider.start");
    }
}

#[test]
fn unknown_fields_and_wrong_types_are_named() {
    for (subscription, field) in [
        (json!({"postrider": 5}), "postrider"),
        (json!({"postrider": {"strat": 1}}), "postrider.strat"),
        (json!({"postrider": {"description": 1}}), "postrider.description"),
        (json!({"postrider": {"metadata": []}}), "postrider.metadata"),
        (json!({"postrider": {"metadata": {"k": 1}}}), "postrider.metadata"),
        (json!({"postrider": {"fifo": "no"}}), "postrider.fifo"),
        (json!({"postrider": {"paused": 0}}), "postrider.paused"),
        (json!({"postrider": {"poison": "stop"}}), "postrider.poison"),
        (json!({"postrider": {"poison": true}}), "postrider.poison"),
        (json!({"postrider": {"laneBy": 1}}), "postrider.laneBy"),
        (json!({"postrider": {"maxAttempts": "7"}}), "postrider.maxAttempts"),
        (json!({"postrider": {"maxAttempts": 1.5}}), "postrider.maxAttempts"),
        (json!({"postrider": {"maxAttempts": -1}}), "postrider.maxAttempts"),
        (json!({"postrider": {"maxAttempts": 5_000_000_000_u64}}), "postrider.maxAttempts"),
        (json!({"fifoMode": 1}), "fifoMode"),
        (json!({"is_enabled": "yes"}), "is_enabled"),
    ] {
        assert_eq!(field_at_fault(subscription), field);
    }
    let mut nested = json!({"postrider": {"fifo": 1}});
    let error = take("subscription.", &mut nested).unwrap_err();
    assert_eq!(error.field, "subscription.postrider.fifo");
}

#[test]
fn what_is_ours_is_taken_out_of_a_push_config() {
    let retry = json!({"minimumBackoff": "1s", "maxAttempts": 3});
    let mut request = json!({"pushConfig": {
        "pushEndpoint": "http://h/", "timeoutSeconds": 7, "retryPolicy": retry,
    }});
    let ours = take_push("", &mut request).unwrap();
    assert_eq!(request, json!({"pushConfig": {"pushEndpoint": "http://h/"}}));
    let expected = json!({"pushConfig": {"timeoutSeconds": 7, "retryPolicy": retry}});
    assert_eq!(Value::Object(ours.0), expected);
}

#[test]
fn a_bad_push_config_is_refused_by_name() {
    for (config, field) in [
        (json!({"timeoutSeconds": "soon"}), "pushConfig.timeoutSeconds"),
        (json!({"timeoutSeconds": 1.5}), "pushConfig.timeoutSeconds"),
        (json!({"timeoutSeconds": -1}), "pushConfig.timeoutSeconds"),
        (json!({"timeoutSeconds": 1, "timeout_seconds": 2}), "pushConfig.timeout_seconds"),
        (json!({"retryPolicy": 5}), "pushConfig.retryPolicy"),
        (json!({"retryPolicy": {"min": "5s"}}), "pushConfig.retryPolicy.min"),
        (
            json!({"retryPolicy": {"minBackoffSeconds": 1, "minimumBackoff": "2s"}}),
            "pushConfig.retryPolicy.minimumBackoff",
        ),
        (
            json!({"retryPolicy": {"maximumBackoff": "1h"}}),
            "push_config.retry_policy.maximum_backoff",
        ),
    ] {
        assert_eq!(field_at_fault(json!({"pushConfig": config})), field);
    }
}

#[test]
fn a_secret_is_shown_only_where_it_was_just_set() {
    let secret = Secret::new(&[1; 32]);
    assert_eq!(secret.text(), SECRET);
    let now = Timestamp(1_000_000);
    let signing = Signing::new(secret.clone());
    let show = |signing: &Signing, secret, now| {
        let mut shown = Document::default();
        let settings = Subscription { signing: Some(signing.clone()), ..plain() };
        show_ours(SETTINGS, &settings, &mut shown);
        show_secrets(&settings, secret, now, &mut shown);
        shown.0["postrider"]["signing"].clone()
    };
    assert_eq!(show(&signing, None, now), json!({}));
    assert_eq!(show(&signing, Some(&secret), now), json!({"secret": SECRET}));
    let rotated = signing.rotated(Secret::new(&[2; 32]), now);
    let until = json!({"previousValidUntil": "1970-01-02T00:00:01Z"});
    assert_eq!(show(&rotated, None, now), until);
    let later = now.plus(std::time::Duration::from_secs(86_400));
    assert_eq!(show(&rotated, None, later), json!({}));
}
