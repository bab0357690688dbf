use tonic::Code;

use super::*;

fn wire_subscription() -> pubsub::Subscription {
    pubsub::Subscription {
        name: "projects/p/subscriptions/billing".to_owned(),
        topic: "projects/p/topics/orders".to_owned(),
        ..pubsub::Subscription::default()
    }
}

fn subscription(wire: pubsub::Subscription) -> Result<Subscription> {
    subscription_from_wire(wire, Extras::default())
}

fn paths(paths: &[&str]) -> Vec<String> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

#[test]
fn absent_fields_mean_googles_defaults() {
    let plain = subscription(wire_subscription()).unwrap();
    let default = Subscription::new(plain.name.clone(), plain.topic.clone());
    assert_eq!(plain, default);
}

#[test]
fn an_empty_push_config_means_pull() {
    let wire = pubsub::Subscription {
        push_config: Some(pubsub::PushConfig::default()),
        ..wire_subscription()
    };
    assert!(subscription(wire).is_ok());
}

#[test]
fn expiration_may_be_the_default_never_or_a_time() {
    let expiring = |policy: Option<pubsub::ExpirationPolicy>| {
        let wire = pubsub::Subscription { expiration_policy: policy, ..wire_subscription() };
        subscription(wire).unwrap().expiration
    };
    let policy = |ttl| Some(pubsub::ExpirationPolicy { ttl });
    assert_eq!(expiring(None), Some(EXPIRATION_DEFAULT));
    assert_eq!(expiring(policy(None)), None);
    assert_eq!(expiring(policy(Some(protobuf::Duration::from_secs(0)))), None);
    let day = Duration::from_secs(86_400);
    assert_eq!(expiring(policy(Some(day.into()))), Some(day));
}

#[test]
fn negative_spans_are_refused_by_name() {
    let wire = pubsub::Subscription {
        message_retention_duration: Some(protobuf::Duration::from_secs(-1)),
        ..wire_subscription()
    };
    let refusal = subscription(wire).unwrap_err();
    assert!(refusal.to_string().starts_with("message_retention_duration: "), "{refusal}");
}

#[test]
fn every_setting_that_is_not_built_is_refused_by_name() {
    let plain = wire_subscription;
    for (wire, field) in [
        (pubsub::Subscription { filter: "x".to_owned(), ..plain() }, "filter"),
        (
            pubsub::Subscription {
                push_config: Some(pubsub::PushConfig {
                    push_endpoint: "http://x".to_owned(),
                    ..Default::default()
                }),
                ..plain()
            },
            "push_config",
        ),
        (
            pubsub::Subscription { bigquery_config: Some(Default::default()), ..plain() },
            "bigquery_config",
        ),
        (
            pubsub::Subscription { cloud_storage_config: Some(Default::default()), ..plain() },
            "cloud_storage_config",
        ),
        (
            pubsub::Subscription { bigtable_config: Some(Default::default()), ..plain() },
            "bigtable_config",
        ),
        (
            pubsub::Subscription { dead_letter_policy: Some(Default::default()), ..plain() },
            "dead_letter_policy",
        ),
        (
            pubsub::Subscription { retry_policy: Some(Default::default()), ..plain() },
            "retry_policy",
        ),
        (
            pubsub::Subscription { enable_message_ordering: true, ..plain() },
            "enable_message_ordering",
        ),
        (
            pubsub::Subscription { enable_exactly_once_delivery: true, ..plain() },
            "enable_exactly_once_delivery",
        ),
        (
            pubsub::Subscription { message_transforms: vec![Default::default()], ..plain() },
            "message_transforms",
        ),
        (pubsub::Subscription { tags: [(String::new(), String::new())].into(), ..plain() }, "tags"),
        (
            pubsub::Subscription {
                labels: [("postrider-fifo".to_owned(), "true".to_owned())].into(),
                ..plain()
            },
            r#"labels["postrider-fifo"]"#,
        ),
    ] {
        let refusal = subscription(wire).unwrap_err();
        assert_eq!(refusal.code, Code::Unimplemented, "{field}");
        assert_eq!(refusal.to_string(), format!("{field}: not implemented"));
    }
}

#[test]
fn reserved_labels_with_their_default_are_fine() {
    let labels = [("postrider-fifo".to_owned(), "false".to_owned())].into();
    assert!(subscription(pubsub::Subscription { labels, ..wire_subscription() }).is_ok());
}

#[test]
fn every_topic_setting_that_is_not_built_is_refused_by_name() {
    let plain = || pubsub::Topic {
        name: "projects/p/topics/orders".to_owned(),
        ..pubsub::Topic::default()
    };
    assert!(topic_from_wire(plain()).is_ok());
    for (wire, field) in [
        (
            pubsub::Topic { message_storage_policy: Some(Default::default()), ..plain() },
            "message_storage_policy",
        ),
        (pubsub::Topic { kms_key_name: "k".to_owned(), ..plain() }, "kms_key_name"),
        (pubsub::Topic { schema_settings: Some(Default::default()), ..plain() }, "schema_settings"),
        (
            pubsub::Topic { ingestion_data_source_settings: Some(Default::default()), ..plain() },
            "ingestion_data_source_settings",
        ),
        (
            pubsub::Topic { message_transforms: vec![Default::default()], ..plain() },
            "message_transforms",
        ),
        (pubsub::Topic { tags: [(String::new(), String::new())].into(), ..plain() }, "tags"),
    ] {
        let refusal = topic_from_wire(wire).unwrap_err();
        assert_eq!(refusal.code, Code::Unimplemented, "{field}");
        assert_eq!(refusal.to_string(), format!("{field}: not implemented"));
    }
}

#[test]
fn a_start_comes_from_the_object_or_the_label() {
    let labelled = pubsub::Subscription {
        labels: [("postrider-start".to_owned(), "earliest".to_owned())].into(),
        ..wire_subscription()
    };
    assert_eq!(subscription(labelled.clone()).unwrap().start, Start::Earliest);
    let extras = Extras { start: Some(Start::Latest), ..Extras::default() };
    let torn = subscription_from_wire(labelled.clone(), extras).unwrap();
    assert!(torn.validate().is_err(), "a label and the object that disagree must be refused");
    let extras = Extras { start: Some(Start::Earliest), ..Extras::default() };
    assert!(subscription_from_wire(labelled, extras).unwrap().validate().is_ok());
}

#[test]
fn an_update_takes_only_what_its_mask_names() {
    let wire = pubsub::Subscription {
        ack_deadline_seconds: 60,
        filter: "ignored, not in the mask".to_owned(),
        retain_acked_messages: true,
        ..wire_subscription()
    };
    let change =
        subscription_change(&wire, Extras::default(), &paths(&["ack_deadline_seconds"])).unwrap();
    let expected = subscription::Change {
        ack_deadline: Some(Duration::from_secs(60)),
        ..subscription::Change::default()
    };
    assert_eq!(change, expected);
}

#[test]
fn an_update_of_what_is_not_built_is_refused_unless_it_changes_nothing() {
    let change = |wire: &pubsub::Subscription, path| {
        subscription_change(wire, Extras::default(), &paths(&[path]))
    };
    assert!(change(&wire_subscription(), "push_config").is_ok());
    assert!(change(&wire_subscription(), "dead_letter_policy").is_ok());
    let retrying =
        pubsub::Subscription { retry_policy: Some(Default::default()), ..wire_subscription() };
    assert_eq!(change(&retrying, "retry_policy").unwrap_err().code, Code::Unimplemented);
    assert_eq!(change(&retrying, "filter").unwrap_err().code, Code::InvalidArgument);
}

#[test]
fn an_update_needs_a_mask() {
    let none = subscription_change(&wire_subscription(), Extras::default(), &[]);
    assert!(none.unwrap_err().to_string().starts_with("update_mask: "));
    assert!(topic_change(&pubsub::Topic::default(), &[]).is_err());
}

#[test]
fn the_postrider_path_changes_what_is_given() {
    let extras = Extras { description: Some("new".to_owned()), ..Extras::default() };
    let change = subscription_change(&wire_subscription(), extras, &paths(&["postrider"])).unwrap();
    assert_eq!(change.description.as_deref(), Some("new"));
    assert_eq!(change.metadata, None);
    let cleared = paths(&["postrider.description", "postrider.metadata"]);
    let change = subscription_change(&wire_subscription(), Extras::default(), &cleared).unwrap();
    assert_eq!(change.description.as_deref(), Some(""));
    assert_eq!(change.metadata, Some(BTreeMap::new()));
}
