//! The rules of topic settings and of changes to them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::name::{SchemaName, TopicName};
use crate::schema::{Encoding, RevisionId};
use crate::setting::{self, Document};

fn topic() -> Topic {
    Topic::new(TopicName::parse("name", "projects/p/topics/orders").unwrap())
}

fn label(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

fn of_schema(id: &str, first: Option<u32>) -> Topic {
    let schema = SchemaName::parse("", &format!("projects/p/schemas/{id}")).unwrap();
    let (encoding, first) = (Encoding::Json, first.map(RevisionId));
    Topic { schema: Some(SchemaSettings { schema, encoding, first, last: None }), ..topic() }
}

/// `before` after an update that names `path`.
fn updated(before: &Topic, path: &str, fields: Value) -> Result<Topic, Invalid> {
    let Value::Object(fields) = fields else { panic!("not an object") };
    Change::by_mask(&Document(fields), false, &[path.to_owned()])?.apply(before)
}

#[test]
fn retention_and_labels_are_checked() {
    assert!(topic().validate().is_ok());
    let retained =
        |s| Topic { message_retention: Some(Duration::from_secs(s)), ..topic() }.validate();
    assert!(retained(600).is_ok());
    assert_eq!(retained(599).unwrap_err().field, "message_retention_duration");
    let labelled = |key| Topic { labels: label(key, "v"), ..topic() }.validate();
    assert!(labelled("team").is_ok());
    assert!(labelled("Team").is_err());
    assert_eq!(labelled("postrider-start").unwrap_err().field, r#"labels["postrider-start"]"#);
    assert_eq!(labelled(LIVE_LABEL).unwrap_err().field, r#"labels["postrider-live"]"#);
    let live = |value| Topic { labels: label(LIVE_LABEL, value), ..topic() };
    assert!(live("true").validate().is_ok() && live("true").is_live());
    assert!(live("false").validate().is_ok() && !live("false").is_live());
    assert!(!topic().is_live());
}

#[test]
fn a_topic_is_live_by_its_label_or_by_the_setting_which_must_agree() {
    let live = Change::of("postrider.live", json!(true)).unwrap().apply(&topic()).unwrap();
    assert_eq!(live.labels, label(LIVE_LABEL, "true"));
    let torn = Change {
        labels: Some(label(LIVE_LABEL, "false")),
        ..Change::of("postrider.live", json!(true)).unwrap()
    };
    assert_eq!(torn.apply(&topic()).unwrap_err().field, r#"labels["postrider-live"]"#);
    let with_other = Change {
        labels: Some(label("team", "blue")),
        ..Change::of("postrider.live", json!(true)).unwrap()
    };
    assert!(with_other.apply(&topic()).unwrap().is_live());
    let unlabelled = updated(&live, "labels", json!({})).unwrap();
    assert!(!unlabelled.is_live(), "the label alone keeps it");
    let back = Change::of("postrider.live", Value::Null).unwrap().apply(&live).unwrap();
    assert_eq!(back, topic());
}

#[test]
fn masks_name_known_fields_only() {
    let named = |path: &str| updated(&of_schema("order", None), path, json!({}));
    assert!(named("labels").is_ok() && named("message_retention_duration").is_ok());
    assert_eq!(named("schema_settings").unwrap().schema, None);
    assert_eq!(named("schema_settings.encoding").unwrap_err().field, "schema_settings.encoding");
    for known in ["message_storage_policy", "kms_key_name"] {
        assert!(named(known).is_ok(), "{known}");
    }
    for fixed in ["name", "state", "tags", "satisfies_pzs"] {
        let error = named(fixed).unwrap_err();
        assert_eq!(error.field, "update_mask");
        assert!(error.problem.contains("cannot be changed"), "{error}");
    }
    for unknown in ["", "label", "labels.team", "retention", "schema_settings.x", "postrider.live"]
    {
        let error = named(unknown).unwrap_err();
        assert!(error.problem.contains("not a field of a topic"), "{error}");
    }
}

#[test]
fn a_change_touches_only_what_it_names() {
    let before = Topic {
        labels: label("team", "a"),
        message_retention: Some(Duration::from_secs(3_600)),
        ..of_schema("order", Some(7))
    };
    let relabelled = updated(&before, "labels", json!({"labels": {"team": "b"}}));
    assert_eq!(relabelled.unwrap(), Topic { labels: label("team", "b"), ..before.clone() });
    let unretained = updated(&before, "message_retention_duration", json!({})).unwrap();
    assert_eq!(unretained, Topic { message_retention: None, ..before.clone() });
    assert_eq!(Change::default().apply(&before).unwrap(), before);
}

#[test]
fn a_change_to_something_invalid_is_refused() {
    let change = Change::of("message_retention_duration", json!("1s")).unwrap();
    assert_eq!(change.apply(&topic()).unwrap_err().field, "message_retention_duration");
}

#[test]
fn schema_settings_are_set_as_a_whole_or_by_their_parts() {
    let whole = json!({"schemaSettings": {
        "schema": "projects/p/schemas/order", "encoding": "BINARY", "lastRevisionId": "0000000a",
    }});
    let set = updated(&topic(), "schema_settings", whole.clone()).unwrap().schema.unwrap();
    assert_eq!((set.encoding, set.first, set.last), (Encoding::Binary, None, Some(RevisionId(10))));
    let before = of_schema("order", Some(7));
    let set = updated(&before, "schema_settings.encoding", whole.clone()).unwrap().schema.unwrap();
    assert_eq!((set.encoding, set.first, set.last), (Encoding::Binary, Some(RevisionId(7)), None));
    let first = updated(&before, "schema_settings.first_revision_id", whole.clone()).unwrap();
    assert_eq!(first, of_schema("order", None));
    // The ends of a range are revisions of the schema they were set for.
    let moved = updated(&of_schema("other", Some(7)), "schema_settings.schema", whole.clone());
    assert_eq!(moved.unwrap(), of_schema("order", None));
    let same = updated(&before, "schema_settings.schema", whole).unwrap();
    assert_eq!(same, before);
}

#[test]
fn bad_schema_settings_are_named() {
    let good = json!({"schema": "projects/p/schemas/order", "encoding": "JSON"});
    for (part, value) in [
        ("schema", json!("order")),
        ("schema", json!("_deleted-schema_")),
        ("schema", Value::Null),
        ("encoding", json!("XML")),
        ("encoding", Value::Null),
        ("firstRevisionId", json!("7")),
        ("lastRevisionId", json!(7)),
    ] {
        let mut wrong = good.clone();
        wrong.as_object_mut().unwrap().insert(part.to_owned(), value);
        let error = updated(&topic(), "schema_settings", json!({"schemaSettings": wrong}));
        let field = format!("schema_settings.{}", setting::snake(part));
        assert_eq!(error.unwrap_err().field, field);
    }
    for (part, missing) in [("encoding", "schema"), ("schema", "encoding")] {
        let fields = json!({"schemaSettings": good});
        let error = updated(&topic(), &format!("schema_settings.{part}"), fields).unwrap_err();
        assert_eq!(error.field, format!("schema_settings.{missing}"));
    }
}

#[test]
fn every_setting_that_is_shown_can_be_given_again() {
    let retained = Topic { message_retention: Some(Duration::from_secs(600)), ..topic() };
    let live = Topic { labels: label(LIVE_LABEL, "true"), ..of_schema("order", Some(7)) };
    for one in [topic(), retained, live] {
        let mut document = Document::default();
        setting::show(SETTINGS, &one, &mut document);
        assert_eq!(Change::creating(&document).unwrap().apply(&topic()).unwrap(), one);
    }
}
