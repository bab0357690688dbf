//! What is stored of a subscription comes back.

use domain::Backoff;
use domain::alert::{Adjusted, Part, RuleName};
use domain::backoff::Phases;
use domain::push::{
    BatchPush, Endpoint, Form as PushedForm, Method, OidcToken, PushConfig, Secret, Signing,
};

use super::*;

const NAME: &str = "projects/p/subscriptions/sub";

fn plain() -> domain::Subscription {
    domain::Subscription::new(
        SubscriptionName::parse("name", NAME).unwrap(),
        TopicName::parse("topic", "projects/p/topics/orders").unwrap(),
    )
}

fn adjusted_alerts() -> domain::alert::Settings {
    let mut alerts = domain::alert::Settings::default();
    alerts.adjust(RuleName::DeadLetters, Part::Warning, Adjusted::Off);
    let (time, above) = (Some(Duration::from_secs(90)), Some(20_000));
    alerts.adjust(RuleName::Push5xx, Part::Critical, Adjusted::To { time, above });
    alerts
}

fn comes_back(settings: domain::Subscription) {
    let stored = StoredSubscription {
        settings: settings.clone(),
        topic: TopicId(9),
        cursor: Offset(1_234),
        gone: Some(Arc::new(Progress::starting_at(Offset(2_000)))),
    };
    let value = stored.encode().unwrap();
    let back = StoredSubscription::decode(NAME, &value).unwrap();
    assert_eq!(back.gone, stored.gone);
    assert_eq!(back.settings, settings);
    assert_eq!((back.topic, back.cursor), (TopicId(9), Offset(1_234)));
}

#[test]
fn a_subscription_comes_back_as_it_was() {
    comes_back(plain());
    comes_back(domain::Subscription {
        expiration: None,
        start: Start::Time(Timestamp(77)),
        metadata: BTreeMap::from([("owner".to_owned(), "ops".to_owned())]),
        alerts: adjusted_alerts(),
        retain_acked_messages: true,
        ..plain()
    });
}

#[test]
fn a_filter_comes_back_in_its_spelling() {
    let text = "data.total > 100 && has(attributes.kind)";
    let filter = Some(Filter::parse_cel("filter", text).unwrap());
    comes_back(domain::Subscription { filter, ..plain() });
}

#[test]
fn every_setting_of_delivery_comes_back() {
    comes_back(domain::Subscription {
        message_ordering: true,
        filter: Some(Filter::parse("filter", r#"attributes:kind AND NOT attributes:x"#).unwrap()),
        retry_policy: Some(RetryPolicy {
            min: Duration::new(0, 1),
            max: Duration::from_millis(1_500),
        }),
        dead_letter_policy: Some(DeadLetterPolicy {
            topic: TopicName::parse("topic", "projects/q/topics/dead").unwrap(),
            max_delivery_attempts: 7,
        }),
        exactly_once: true,
        detached: true,
        fifo: true,
        paused: true,
        poison: Poison::Halt,
        attempts_max: Some(7),
        ..plain()
    });
    comes_back(domain::Subscription { lane_by: Some("kind".to_owned()), ..plain() });
}

#[test]
fn every_setting_of_pushing_comes_back() {
    let endpoint = Endpoint::parse("e", "https://u:p@example.com/push?key=1").unwrap();
    let pushing = domain::Subscription {
        is_ack_deadline_given: true,
        push: Some(PushConfig {
            attributes: BTreeMap::from([("x-goog-version".to_owned(), "v1".to_owned())]),
            timeout: Some(Duration::from_secs(7)),
            oidc: Some(OidcToken {
                service_account_email: "push@example.com".to_owned(),
                audience: "me".to_owned(),
            }),
            form: PushedForm::Unwrapped { write_metadata: true },
            ..PushConfig::new(endpoint.clone())
        }),
        backoff: Some(Backoff::Ladder([Duration::new(5, 1), Duration::ZERO].into())),
        headers: BTreeMap::from([("x-tenant".to_owned(), "blue".to_owned())]),
        method: Method::Put,
        signing: Some(Signing {
            secret: Secret::new(&[1; 32]),
            previous: [(2, 99), (3, 98), (4, 97)]
                .map(|(byte, until)| (Secret::new(&[byte; 24]), Timestamp(until)))
                .to_vec(),
        }),
        batch: Some(BatchPush::default()),
        rate_max: Some(50),
        ..plain()
    };
    comes_back(pushing.clone());
    comes_back(domain::Subscription {
        push: Some(PushConfig::new(endpoint)),
        backoff: Some(Backoff::Phases(Phases {
            fast: RetryPolicy { min: Duration::from_secs(5), max: Duration::from_secs(300) },
            fast_retries: 30,
            slow_every: Duration::from_secs(3_600),
            slow_retries: 30,
        })),
        signing: Some(Signing::new(Secret::new(&[1; 64]))),
        ..pushing
    });
}

#[test]
fn a_deadline_other_than_the_default_was_given() {
    let read = |ack_deadline_ms: u64| {
        let value = format!(
            r#"{{"topic":"projects/p/topics/orders","topic_id":9,"cursor":3,
            "ack_deadline_ms":{ack_deadline_ms},"retain_acked_messages":false,
            "message_retention_ms":604800000,"labels":{{}},"expiration_ms":2678400000,
            "start":"latest"}}"#
        );
        StoredSubscription::decode(NAME, value.as_bytes()).unwrap().settings
    };
    assert!(read(20_000).is_ack_deadline_given);
    assert!(!read(10_000).is_ack_deadline_given);
}

#[test]
fn a_definition_of_the_first_version_still_reads() {
    let value = br#"{"topic":"projects/p/topics/orders","topic_id":9,"cursor":3,
        "ack_deadline_ms":10000,"retain_acked_messages":false,
        "message_retention_ms":604800000,"labels":{},"expiration_ms":2678400000,
        "start":"latest"}"#;
    let read = StoredSubscription::decode(NAME, value).unwrap();
    assert_eq!(read.settings, plain());
    assert_eq!((read.topic, read.cursor), (TopicId(9), Offset(3)));
}

#[test]
fn a_single_previous_secret_still_reads() {
    let (secret, previous) = (Secret::new(&[1; 32]), Secret::new(&[2; 32]));
    let value = format!(
        r#"{{"topic":"projects/p/topics/orders","topic_id":9,"cursor":3,
        "ack_deadline_ms":10000,"retain_acked_messages":false,
        "message_retention_ms":604800000,"labels":{{}},"expiration_ms":2678400000,
        "start":"latest","signing":{{"secret":"{}",
        "previous":{{"secret":"{}","until_us":99}}}}}}"#,
        secret.text(),
        previous.text(),
    );
    let read = StoredSubscription::decode(NAME, value.as_bytes()).unwrap().settings;
    let previous = vec![(previous, Timestamp(99))];
    assert_eq!(read.signing, Some(Signing { secret, previous }));
}

#[test]
fn rubbish_is_unreadable() {
    for value in [
        r#"{}"#,
        r#"{"topic":"orders","topic_id":9,"cursor":3,"ack_deadline_ms":10000,
            "retain_acked_messages":false,"message_retention_ms":604800000,"labels":{},
            "expiration_ms":null,"start":"latest"}"#,
        r#"{"topic":"projects/p/topics/orders","topic_id":9,"cursor":3,
            "ack_deadline_ms":10000,"retain_acked_messages":false,
            "message_retention_ms":604800000,"labels":{},"expiration_ms":null,
            "start":"latest","poison":"later"}"#,
        r#"{"topic":"projects/p/topics/orders","topic_id":9,"cursor":3,
            "ack_deadline_ms":10000,"retain_acked_messages":false,
            "message_retention_ms":604800000,"labels":{},"expiration_ms":null,
            "start":"latest","push":{"endpoint":"ftp://h"}}"#,
        r#"{"topic":"projects/p/topics/orders","topic_id":9,"cursor":3,
            "ack_deadline_ms":10000,"retain_acked_messages":false,
            "message_retention_ms":604800000,"labels":{},"expiration_ms":null,
            "start":"latest","signing":{"secret":"whsec_"}}"#,
    ] {
        assert!(StoredSubscription::decode(NAME, value.as_bytes()).is_err(), "{value}");
    }
}
