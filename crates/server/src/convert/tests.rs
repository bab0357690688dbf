use std::collections::BTreeMap;
use std::time::Duration;

use domain::limits::EXPIRATION_DEFAULT;
use domain::push::Secret;
use domain::setting::Document;
use domain::subscription::{Change, DeadLetterChange, Joined, RetryChange, SigningAsk};
use domain::{
    DeadLetterPolicy, Filter, Poison, RetryPolicy, Snapshot, SnapshotName, Start, Subscription,
    Timestamp, Topic, TopicName, snapshot,
};
use tonic::Code;

use super::subscription::settings_to_wire;
use super::*;
use serde_json::json;

fn wire_subscription() -> pubsub::Subscription {
    pubsub::Subscription {
        name: "projects/p/subscriptions/billing".to_owned(),
        topic: "projects/p/topics/orders".to_owned(),
        ..pubsub::Subscription::default()
    }
}

fn subscription(wire: pubsub::Subscription) -> Result<Subscription> {
    Wanted::<Subscription>::google(&wire)?.made()
}

/// The subscription that REST makes of Google's fields and of ours.
fn with_ours(wire: &pubsub::Subscription, ours: serde_json::Value) -> Result<Subscription> {
    Wanted::<Subscription>::with_ours(wire, document(ours))?.made()
}

fn document(ours: serde_json::Value) -> Document {
    let mut document = Document::default();
    document.put("postrider", ours);
    document
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn seconds(count: i64) -> Option<protobuf::Duration> {
    Some(protobuf::Duration::from_secs(count))
}

fn dead_letters(topic: &str, attempts: i32) -> Option<pubsub::DeadLetterPolicy> {
    Some(pubsub::DeadLetterPolicy {
        dead_letter_topic: topic.to_owned(),
        max_delivery_attempts: attempts,
    })
}

fn dead_topic() -> TopicName {
    TopicName::parse("topic", "projects/p/topics/dead").unwrap()
}

/// The change an update over gRPC makes.
fn change(wire: &pubsub::Subscription, names: &[&str]) -> Result<Change> {
    Wanted::<Subscription>::google(wire)?.change(&paths(names))
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
        let wire = pubsub::Subscription {
            expiration_policy: policy,
            message_retention_duration: seconds(600),
            ..wire_subscription()
        };
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
fn a_start_comes_from_the_object_or_the_label() {
    let labelled = pubsub::Subscription {
        labels: [("postrider-start".to_owned(), "earliest".to_owned())].into(),
        ..wire_subscription()
    };
    assert_eq!(subscription(labelled.clone()).unwrap().start, Start::Earliest);
    let torn = with_ours(&labelled, json!({"start": "latest"}));
    assert!(torn.is_err(), "a label and the object that disagree must be refused");
    assert!(with_ours(&labelled, json!({"start": "earliest"})).is_ok());
}

#[test]
fn reserved_labels_set_what_they_stand_for() {
    let labelled = |pairs: &[(&str, &str)]| pubsub::Subscription {
        labels: labels(pairs),
        ..wire_subscription()
    };
    let set = subscription(labelled(&[
        ("postrider-fifo", "true"),
        ("postrider-paused", "true"),
        ("postrider-poison", "halt"),
        ("postrider-max-attempts", "3"),
    ]))
    .unwrap();
    assert_eq!((set.fifo, set.paused, set.poison), (true, true, Poison::Halt));
    assert_eq!(set.attempts_max, Some(3));
    assert_eq!(set.validate(), Ok(()));
    let refusal = subscription(labelled(&[("postrider-fifo", "perhaps")])).unwrap_err();
    assert!(refusal.to_string().starts_with(r#"labels["postrider-fifo"]: "#), "{refusal}");
    let torn = with_ours(&labelled(&[("postrider-fifo", "true")]), json!({"fifo": false}));
    assert!(torn.is_err(), "a label and the object that disagree must be refused");
}

#[test]
fn every_setting_goes_there_and_back() {
    let wire = pubsub::Subscription {
        push_config: Some(pubsub::PushConfig::default()),
        ack_deadline_seconds: 60,
        retain_acked_messages: true,
        message_retention_duration: seconds(3_600),
        labels: labels(&[("team", "blue")]),
        enable_message_ordering: true,
        expiration_policy: Some(pubsub::ExpirationPolicy { ttl: None }),
        filter: "attributes:kind".to_owned(),
        dead_letter_policy: dead_letters("projects/q/topics/dead", 7),
        retry_policy: Some(pubsub::RetryPolicy {
            minimum_backoff: Some(protobuf::Duration { seconds: 0, nanos: 1 }),
            maximum_backoff: seconds(600),
        }),
        enable_exactly_once_delivery: true,
        state: pubsub::subscription::State::Active.into(),
        ..wire_subscription()
    };
    let settings = subscription(wire.clone()).unwrap();
    assert_eq!(settings.validate(), Ok(()));
    assert_eq!(settings.filter, Some(Filter::parse("filter", "attributes:kind").unwrap()));
    assert_eq!(settings_to_wire(&settings), wire);
    let detached = settings_to_wire(&Subscription { detached: true, ..settings });
    assert_eq!(detached, pubsub::Subscription { detached: true, ..wire });
}

#[test]
fn every_setting_of_a_topic_goes_there_and_back() {
    let wire = pubsub::Topic {
        name: "projects/p/topics/orders".to_owned(),
        labels: labels(&[("team", "blue"), ("postrider-live", "true")]),
        message_retention_duration: seconds(3_600),
        schema_settings: Some(pubsub::SchemaSettings {
            schema: "projects/p/schemas/order".to_owned(),
            encoding: pubsub::Encoding::Binary.into(),
            first_revision_id: "0000000a".to_owned(),
            last_revision_id: String::new(),
        }),
        kms_key_name: "projects/p/locations/l/keyRings/r/cryptoKeys/k".to_owned(),
        message_storage_policy: Some(pubsub::MessageStoragePolicy {
            allowed_persistence_regions: vec!["europe-west1".to_owned()],
            enforce_in_transit: true,
        }),
        state: pubsub::topic::State::Active.into(),
        ..pubsub::Topic::default()
    };
    let given =
        pubsub::Topic { tags: labels(&[("1/team", "blue")]), satisfies_pzs: true, ..wire.clone() };
    let settings = Wanted::<Topic>::google(&given).unwrap().made().unwrap();
    assert_eq!(settings.tags, given.tags);
    assert_eq!(super::topic::settings_to_wire(&settings), wire, "tags are never shown");
}

#[test]
fn an_update_of_a_topic_takes_only_what_its_mask_names() {
    let updated = |wire: pubsub::Topic, names: &[&str]| {
        let before = Topic::new(TopicName::parse("name", "projects/p/topics/orders")?);
        let wire = with_known_words(wire);
        let change = Wanted::<Topic>::google(&wire)?.change(&paths(names))?;
        Ok::<_, Refusal>(change.apply(&before)?)
    };
    let encoded = |encoding| {
        let settings = pubsub::SchemaSettings {
            schema: "projects/p/schemas/order".to_owned(),
            encoding,
            ..pubsub::SchemaSettings::default()
        };
        pubsub::Topic { schema_settings: Some(settings), ..pubsub::Topic::default() }
    };
    let labelled = pubsub::Topic { labels: labels(&[("team", "blue")]), ..encoded(0) };
    let after = updated(labelled, &["labels"]).unwrap();
    assert_eq!((after.labels, after.schema), (labels(&[("team", "blue")]), None));
    for encoding in [0, 7] {
        let refusal = updated(encoded(encoding), &["schema_settings"]).unwrap_err();
        assert_eq!(refusal.code, Code::InvalidArgument);
        assert!(refusal.to_string().starts_with("schema_settings.encoding: "), "{refusal}");
    }
    let keyed = || pubsub::Topic { kms_key_name: "k".to_owned(), ..pubsub::Topic::default() };
    assert!(updated(keyed(), &["labels"]).is_ok());
    assert_eq!(updated(keyed(), &["kms_key_name"]).unwrap_err().code, Code::InvalidArgument);
    let nothing = updated(pubsub::Topic::default(), &["kms_key_name", "message_transforms"]);
    assert!(nothing.is_ok());
}

#[test]
fn policies_have_googles_defaults() {
    let wire = pubsub::Subscription {
        retry_policy: Some(pubsub::RetryPolicy::default()),
        dead_letter_policy: dead_letters("projects/p/topics/dead", 0),
        ..wire_subscription()
    };
    let made = subscription(wire.clone()).unwrap();
    assert_eq!(made.retry_policy, Some(RetryPolicy::default()));
    let policy = DeadLetterPolicy { topic: dead_topic(), max_delivery_attempts: 5 };
    assert_eq!(made.dead_letter_policy, Some(policy));
    let ours = with_ours(&wire, json!({"maxAttempts": 3})).unwrap();
    assert_eq!(ours.dead_letter_policy.unwrap().max_delivery_attempts, 3);
}

#[test]
fn bad_settings_are_refused_by_name() {
    let plain = wire_subscription;
    let retrying = |min, max| pubsub::Subscription {
        retry_policy: Some(pubsub::RetryPolicy { minimum_backoff: min, maximum_backoff: max }),
        ..plain()
    };
    let dead = |topic, attempts| pubsub::Subscription {
        dead_letter_policy: dead_letters(topic, attempts),
        ..plain()
    };
    for (wire, words) in [
        (
            pubsub::Subscription { filter: "attributes.kind = 5".to_owned(), ..plain() },
            "filter: at 19: ",
        ),
        (retrying(seconds(-1), None), "retry_policy.minimum_backoff: "),
        (retrying(seconds(601), seconds(601)), "retry_policy.minimum_backoff: 601 s, 0 to 600 s"),
        (retrying(None, seconds(601)), "retry_policy.maximum_backoff: 601 s, 0 to 600 s"),
        (retrying(seconds(6), seconds(5)), "retry_policy.minimum_backoff: 6 s is longer"),
        (dead("", 5), "dead_letter_policy.dead_letter_topic: "),
        (dead("dead", 5), "dead_letter_policy.dead_letter_topic: "),
        (
            dead("projects/p/topics/dead", 3),
            "dead_letter_policy.max_delivery_attempts: 3, 5 to 100 are allowed",
        ),
        (
            dead("projects/p/topics/dead", -1),
            "dead_letter_policy.max_delivery_attempts: -1, 5 to 100 are allowed",
        ),
    ] {
        let refusal = subscription(wire)
            .and_then(|made| made.validate().map_err(Refusal::from))
            .expect_err(words);
        assert_eq!(refusal.code, Code::InvalidArgument, "{refusal}");
        assert!(refusal.to_string().starts_with(words), "{refusal}");
    }
}

#[test]
fn an_enum_number_that_nobody_knows_is_called_so() {
    let given = pubsub::Subscription { state: 9, ..wire_subscription() };
    let refusal = subscription(given).unwrap_err();
    assert_eq!(refusal.code, Code::InvalidArgument);
    assert_eq!(refusal.to_string(), "request: has an enum value that this version does not know");
}

#[test]
fn an_update_takes_only_what_its_mask_names() {
    let wire = pubsub::Subscription {
        ack_deadline_seconds: 60,
        filter: "ignored, not in the mask".to_owned(),
        retain_acked_messages: true,
        ..wire_subscription()
    };
    let before = subscription(wire_subscription()).unwrap();
    let after = change(&wire, &["ack_deadline_seconds"]).unwrap().apply(&before).unwrap();
    let ack_deadline = Duration::from_secs(60);
    assert_eq!(after, Subscription { ack_deadline, is_ack_deadline_given: true, ..before });
}

#[test]
fn definitions_of_what_is_not_run_are_shown_with_a_state_that_says_so() {
    use pubsub::big_query_config::State;
    let table = pubsub::BigQueryConfig {
        table: "p.d.t".to_owned(),
        write_metadata: true,
        // Of a later version, and nobody's to set.
        state: 77,
        ..Default::default()
    };
    let wire = pubsub::Subscription { bigquery_config: Some(table), ..wire_subscription() };
    let given = without_states(wire);
    let wanted = Wanted::<Subscription>::google(&given).unwrap();
    assert_eq!(wanted.only_kept(None), Some("bigquery_config"));
    assert_eq!(wanted.only_kept(Some(&paths(&["labels"]))), None);
    assert_eq!(wanted.only_kept(Some(&paths(&["bigquery_config.table"]))), Some("bigquery_config"));
    let shown = settings_to_wire(&wanted.made().unwrap());
    assert_eq!(shown.state(), pubsub::subscription::State::ResourceError);
    let config = shown.bigquery_config.unwrap();
    assert_eq!((config.table.as_str(), config.write_metadata), ("p.d.t", true));
    assert_eq!(config.state(), State::NotFound);
    let rows = pubsub::Subscription {
        bigtable_config: Some(pubsub::BigtableConfig {
            table: "projects/p/instances/i/tables/t".to_owned(),
            ..Default::default()
        }),
        ..wire_subscription()
    };
    let shown = settings_to_wire(&subscription(rows).unwrap());
    let state = shown.bigtable_config.unwrap().state();
    assert_eq!(state, pubsub::bigtable_config::State::NotFound);
    let empty =
        pubsub::Subscription { bigquery_config: Some(Default::default()), ..wire_subscription() };
    assert_eq!(subscription(empty).unwrap().export(), None, "an empty one means none");
}

#[test]
fn an_import_topic_is_shown_with_the_state_of_a_source_that_is_not_there() {
    use pubsub::ingestion_data_source_settings::{CloudStorage, Source, cloud_storage};
    let storage = CloudStorage {
        bucket: "my-bucket".to_owned(),
        state: 77,
        input_format: Some(cloud_storage::InputFormat::AvroFormat(Default::default())),
        minimum_object_create_time: Some(protobuf::Timestamp::from_unix_micros(1_000_000)),
        ..Default::default()
    };
    let settings = pubsub::IngestionDataSourceSettings {
        source: Some(Source::CloudStorage(storage.clone())),
        platform_logs_settings: Some(pubsub::PlatformLogsSettings { severity: 3 }),
    };
    let wire = pubsub::Topic {
        name: "projects/p/topics/orders".to_owned(),
        ingestion_data_source_settings: Some(settings),
        ..Default::default()
    };
    let wanted = Wanted::<Topic>::google(&with_known_words(wire)).unwrap();
    let shown = super::topic::settings_to_wire(&wanted.made().unwrap());
    assert_eq!(shown.state(), pubsub::topic::State::IngestionResourceError);
    let shown = shown.ingestion_data_source_settings.unwrap();
    let state = cloud_storage::State::BucketNotFound.into();
    assert_eq!(shown.source, Some(Source::CloudStorage(CloudStorage { state, ..storage })));
    assert_eq!(shown.platform_logs_settings.unwrap().severity, 3);
}

#[test]
fn a_subscription_without_a_name_gets_one_in_its_topics_project() {
    let nameless = || pubsub::Subscription { name: String::new(), ..wire_subscription() };
    let (one, other) = (subscription(nameless()).unwrap(), subscription(nameless()).unwrap());
    assert!(one.name.as_str().starts_with("projects/p/subscriptions/subscription-"));
    assert_ne!(one.name, other.name);
    let lost = pubsub::Subscription { topic: String::new(), ..nameless() };
    assert!(subscription(lost).is_err());
}

#[test]
fn an_update_of_a_policy_sets_it_changes_it_or_ends_it() {
    let wire = pubsub::Subscription {
        retry_policy: Some(pubsub::RetryPolicy {
            minimum_backoff: seconds(1),
            maximum_backoff: None,
        }),
        dead_letter_policy: dead_letters("projects/p/topics/dead", 7),
        ..wire_subscription()
    };
    let second = Duration::from_secs(1);
    let set = change(&wire, &["retry_policy", "dead_letter_policy"]).unwrap();
    let whole = RetryPolicy { min: second, ..RetryPolicy::default() };
    assert_eq!(
        set.joined.retry_policy,
        RetryChange { whole: Some(Some(whole)), ..RetryChange::default() }
    );
    let dead_letters =
        DeadLetterChange { topic: Some(Some(dead_topic())), attempts: Some(Some(7)) };
    assert_eq!(set.joined.dead_letter_policy, dead_letters);
    let parts = change(
        &wire,
        &["retry_policy.minimum_backoff", "dead_letter_policy.max_delivery_attempts"],
    )
    .unwrap();
    assert_eq!(
        parts.joined.retry_policy,
        RetryChange { min: Some(Some(second)), ..RetryChange::default() }
    );
    assert_eq!(
        parts.joined.dead_letter_policy,
        DeadLetterChange { topic: None, attempts: Some(Some(7)) }
    );
    let ended = change(&wire_subscription(), &["retry_policy", "dead_letter_policy"]).unwrap();
    assert_eq!(ended.joined.retry_policy.whole, Some(None));
    assert_eq!(ended.joined.dead_letter_policy.topic, Some(None));
}

#[test]
fn an_update_needs_a_mask() {
    let refusal = change(&wire_subscription(), &[]).unwrap_err();
    assert!(refusal.to_string().starts_with("update_mask: "));
    let topic = Wanted::<Topic>::google(&pubsub::Topic::default()).unwrap();
    assert!(topic.change(&[]).is_err());
    assert!(snapshot_change(&pubsub::Snapshot::default(), &[]).is_err());
}

#[test]
fn the_postrider_path_changes_what_is_given() {
    let changed = |ours: serde_json::Value, before: &Subscription, names: &[&str]| {
        let ours = document(ours);
        let wanted = Wanted::<Subscription>::with_ours(&wire_subscription(), ours).unwrap();
        wanted.change(&paths(names)).unwrap().apply(before).unwrap()
    };
    let all = json!({
        "fifo": true, "paused": true, "poison": "halt", "maxAttempts": 3, "description": "old",
        "metadata": {"k": "v"}, "alerts": "off", "backoff": ["5s"], "headers": {"x-a": "b"},
        "method": "PUT", "signing": {}, "batch": {}, "rateLimit": 9,
    });
    let before = with_ours(&wire_subscription(), all).unwrap();
    let given = json!({"description": "new", "paused": false, "batch": null, "signing": null});
    let after = changed(given, &before, &["postrider"]);
    let expected = Subscription {
        description: "new".to_owned(),
        paused: false,
        batch: None,
        signing: None,
        ..before.clone()
    };
    assert_eq!(after, expected);
    let named = [
        "postrider.fifo",
        "postrider.paused",
        "postrider.poison",
        "postrider.lane_by",
        "postrider.max_attempts",
        "postrider.description",
        "postrider.metadata",
        "postrider.alerts",
        "postrider.backoff",
        "postrider.headers",
        "postrider.method",
        "postrider.signing",
        "postrider.batch",
        "postrider.rate_limit",
    ];
    let plain = subscription(wire_subscription()).unwrap();
    assert_eq!(changed(json!({}), &before, &named), plain);
}

#[test]
fn a_secret_is_told_only_to_whom_sets_it() {
    let asks = |signing: Option<SigningAsk>, spare: &Secret| {
        let spare_secret = Some(spare.clone());
        Change::joining(Joined { signing, spare_secret, ..Joined::default() })
    };
    let (first, second) = (Secret::new(&[1; 32]), Secret::new(&[2; 32]));
    let plain = subscription(wire_subscription()).unwrap();
    let on = asks(Some(SigningAsk::On), &first);
    let signed = on.clone().apply(&plain).unwrap();
    assert_eq!(secret_set(&on, &signed), Some(first));
    assert_eq!(secret_set(&asks(Some(SigningAsk::On), &second), &signed), None);
    assert_eq!(secret_set(&asks(None, &second), &signed), None);
    assert_eq!(secret_set(&asks(Some(SigningAsk::Off), &second), &signed), None);
}

#[test]
fn a_call_that_cannot_give_our_fields_cannot_clear_them() {
    for path in ["postrider", "postrider.fifo", "postrider.description"] {
        let refusal = change(&wire_subscription(), &[path]).unwrap_err();
        assert_eq!(refusal.code, Code::InvalidArgument);
        assert!(refusal.to_string().contains(path), "{refusal}");
    }
}

#[test]
fn snapshots_are_shown_and_changed() {
    let snapshot = Snapshot {
        name: SnapshotName::parse("name", "projects/p/snapshots/before").unwrap(),
        topic: TopicName::parse("topic", "projects/p/topics/orders").unwrap(),
        expire_time: Timestamp(1_726_937_845_123_456),
        labels: labels(&[("team", "blue")]),
        tags: labels(&[("1/team", "blue")]),
    };
    let wire = snapshot_to_wire(&snapshot);
    assert_eq!(wire.name, "projects/p/snapshots/before");
    assert_eq!(wire.topic, "projects/p/topics/orders");
    let both = snapshot_change(&wire, &paths(&["labels", "expire_time"])).unwrap();
    let expected =
        snapshot::Change { labels: Some(snapshot.labels), expire_time: Some(snapshot.expire_time) };
    assert_eq!(both, expected);
    for path in ["name", "topic", "expireTime"] {
        assert!(snapshot_change(&wire, &paths(&[path])).is_err(), "{path}");
    }
    let timeless = pubsub::Snapshot::default();
    let refusal = snapshot_change(&timeless, &paths(&["expire_time"])).unwrap_err();
    assert!(refusal.to_string().starts_with("expire_time: "), "{refusal}");
}
