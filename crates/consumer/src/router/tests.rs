//! Routes from text, and what messages come to.

use std::collections::BTreeMap;

use bytes::Bytes;
use domain::Timestamp;

use super::*;
use crate::effects::{EventTime, Path, Value, WriteKind};

const NOW: Timestamp = Timestamp(1_800_000_000_000_000);
const DAY: u64 = 86_400_000_000;

const ROUTES: &str = r#"
[[route]]
name = "system events"
match = 'has(data.service) && attributes.kind == "system"'
schema_version = { from = "data.version", known = [1, "2"] }
event_type = "{data.type}"
collection = "ops_services"
document = "{data.service}-{attributes.region}"
kind = "merge"
event_time = { from = "data.at", field = "lastEventAt" }
dedupe = { collection = "ops_dedupe" }
[route.fields]
service = { from = "data.service", type = "text" }
load = { from = "data.load", type = "double", optional = true }
details = { from = "data.details", optional = true }
label = { template = "{{{data.service}}}" }
source = { constant = "pubsub" }

[[route]]
name = "hits"
subscription = "hits"
collection = "pages/main/hits"
document = "{message.ordering_key}"
kind = "increment"
event_time = { from = "attributes.at", field = "last", type = "time_millis" }
dedupe = { collection = "hits_dedupe", id = "{message.subscription}-{message.id}", expiry = "30d" }
[route.fields]
count = { constant = 1 }
bytes = { from = "attributes.bytes", type = "integer" }
"#;

fn message(data: &str, attributes: &[(&str, &str)]) -> Message {
    let attributes = attributes.iter().map(|(key, value)| ((*key).into(), (*value).into()));
    Message {
        id: "7".to_owned(),
        data: Bytes::copy_from_slice(data.as_bytes()),
        attributes: attributes.collect(),
        ..Message::default()
    }
}

fn router() -> Router {
    Router::from_toml(ROUTES).unwrap()
}

fn path(collection: &str, id: &str) -> Path {
    Path { collection: collection.to_owned(), id: id.to_owned() }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

const SYSTEM: [(&str, &str); 2] = [("kind", "system"), ("region", "eu")];

/// Why a message of the first route's kind is poison.
fn poison(data: &str, attributes: &[(&str, &str)]) -> (String, String) {
    let failure = router().route(&message(data, attributes), NOW).write.unwrap_err();
    (failure.kind, failure.message)
}

#[test]
fn a_message_is_written_as_its_route_says() {
    let data = r#"{"service":"api","version":2,"type":"deploy","at":"2027-01-01T00:00:00.5Z",
                   "load":3,"details":{"a":[1,2.5,null,true],"b":"x"}}"#;
    let Routed { write, about } = router().route(&message(data, &SYSTEM), NOW);
    let write = write.unwrap();
    assert_eq!(write.document, path("ops_services", "api-eu"));
    assert_eq!(write.dedupe, path("ops_dedupe", "7"));
    assert_eq!(write.dedupe_until, Timestamp(NOW.0 + 21 * DAY), "7 days and 14 days");
    assert_eq!(write.kind, WriteKind::Merge);
    let at = Timestamp(1_798_761_600_500_000);
    assert_eq!(write.event_time, Some(EventTime { field: "lastEventAt".to_owned(), at }));
    let list = vec![Value::Integer(1), Value::Double(2.5), Value::Null, Value::Bool(true)];
    let details =
        BTreeMap::from([("a".to_owned(), Value::List(list)), ("b".to_owned(), text("x"))]);
    let expected = [
        ("details", Value::Map(details)),
        ("label", text("{api}")),
        ("load", Value::Double(3.0)),
        ("service", text("api")),
        ("source", text("pubsub")),
    ];
    assert!(write.fields.iter().map(|(name, value)| (&**name, value.clone())).eq(expected));
    assert_eq!(about.handler.as_deref(), Some("system events"));
    assert_eq!(about.event_type.as_deref(), Some("deploy"));
    assert_eq!(about.schema_version.as_deref(), Some("2"));
    assert_eq!(about.write_kind.as_deref(), Some("merge"));
    assert_eq!(about.doc_path.as_deref(), Some("ops_services/api-eu"));
    assert_eq!(about.idempotency_doc.as_deref(), Some("ops_dedupe/7"));
}

#[test]
fn a_route_can_be_for_one_subscription_and_any_data() {
    let mut hit = message("not json", &[("at", "1800000000123"), ("bytes", "12")]);
    hit.ordering_key = "home".to_owned();
    assert_eq!(router().route(&hit, NOW).write.unwrap_err().kind, "InvalidJson");
    hit.subscription = Some("projects/p/subscriptions/hits".into());
    hit.attributes.insert("original_message_id".to_owned(), "3".to_owned());
    let write = router().route(&hit, NOW).write.unwrap();
    assert_eq!(write.document, path("pages/main/hits", "home"));
    assert_eq!(write.dedupe, path("hits_dedupe", "hits-3"), "a replay is the message it was");
    assert_eq!(write.dedupe_until, Timestamp(NOW.0 + 30 * DAY));
    assert_eq!(write.kind, WriteKind::Increment);
    assert_eq!(write.event_time.unwrap().at, Timestamp(1_800_000_000_123_000));
    let fields: Vec<_> = write.fields.into_iter().collect();
    let number = |name: &str, value| (name.to_owned(), Value::Integer(value));
    assert_eq!(fields, [number("bytes", 12), number("count", 1)]);
}

#[test]
fn what_no_route_takes_is_poison() {
    assert_eq!(poison("{", &SYSTEM).0, "InvalidJson");
    assert_eq!(poison(r#"{"service":"api"}"#, &[("kind", "other")]).0, "Unroutable");
    assert_eq!(poison(r#"{"other":1}"#, &SYSTEM).0, "Unroutable");
}

#[test]
fn what_a_route_needs_and_does_not_find_is_poison_that_names_it() {
    for (data, kind, named) in [
        (r#"{"service":"a","at":"2027-01-01T00:00:00Z"}"#, "MissingField", "data.type"),
        (r#"{"service":"a","type":"t"}"#, "MissingField", "data.version"),
        (r#"{"service":"a","type":"t","version":3}"#, "UnknownSchemaVersion", "version 3"),
        (r#"{"service":"a","type":"t","version":null}"#, "MissingField", "data.version"),
        (r#"{"service":"a","type":"t","version":1}"#, "MissingField", "data.at"),
        (r#"{"service":"a","type":"t","version":1,"at":7}"#, "WrongType", "data.at"),
        (r#"{"service":"a","type":"t","version":1,"at":"noon"}"#, "WrongType", "data.at"),
        (r#"{"service":"a","type":{},"version":1}"#, "WrongType", "data.type"),
        (r#"{"service":["a"],"type":"t","version":1}"#, "WrongType", "data.service"),
        (r#"{"service":"a/b","type":"t","version":1}"#, "InvalidDocumentId", "a/b-eu"),
        (
            r#"{"service":"a","type":"t","version":1,"at":"2027-01-01T00:00:00Z","load":"x"}"#,
            "WrongType",
            "data.load",
        ),
    ] {
        let (found, message) = poison(data, &SYSTEM);
        assert_eq!(found, kind, "{data}: {message}");
        assert!(message.contains(named), "{data}: {message}");
    }
    let data = r#"{"service":"a","type":"t","version":1,"at":"2027-01-01T00:00:00Z"}"#;
    let (kind, message) = poison(data, &[("kind", "system")]);
    assert_eq!((&*kind, message.contains("attributes.region")), ("MissingField", true));
    let long = format!(r#"{{"service":"{}","type":"t","version":1}}"#, "x".repeat(1_500));
    assert_eq!(poison(&long, &SYSTEM).0, "InvalidDocumentId");
}

#[test]
fn ids_that_firestore_does_not_take_are_poison() {
    let plain = ROUTES.replace("{data.service}-{attributes.region}", "{data.service}");
    let router = Router::from_toml(&plain).unwrap();
    for id in ["", ".", "..", "__x__", "a/b"] {
        let data = format!(r#"{{"service":"{id}","type":"t","version":1}}"#);
        let failure = router.route(&message(&data, &SYSTEM), NOW).write.unwrap_err();
        assert_eq!(failure.kind, "InvalidDocumentId", "{id:?}");
    }
}

#[test]
fn a_file_that_says_what_it_may_not_is_refused_with_the_place() {
    for (from, to, said) in [
        ("kind = \"merge\"", "kind = \"append\"", "line 9"),
        ("kind = \"merge\"", "kind = \"merge\"\ncolour = 1", "colour"),
        ("type = \"double\", ", "type = \"number\", ", "number"),
        ("has(data.service) &&", "has(data.service", "route[0].match: at"),
        ("\"{data.service}-{attributes.region}\"", "\"{data.service\"", "route[0].document"),
        ("\"{data.service}-{attributes.region}\"", "\"{service}\"", "route[0].document"),
        ("known = [1, \"2\"]", "known = []", "route[0].schema_version.known"),
        ("from = \"data.at\"", "from = \"at\"", "route[0].event_time.from"),
        ("field = \"lastEventAt\"", "field = \"\"", "route[0].event_time.field"),
        ("\"ops_dedupe\"", "\"ops_services\"", "route[0].dedupe.collection"),
        ("\"ops_services\"", "\"a/b\"", "route[0].collection"),
        ("constant = \"pubsub\"", "constant = 1, from = \"data.x\"", "route[0].fields.source"),
        ("constant = \"pubsub\"", "optional = true", "route[0].fields.source"),
        ("constant = 1 ", "constant = \"1\" ", "route[1].fields.count"),
        ("name = \"hits\"", "name = \"system events\"", "route[1].name"),
        ("\"30d\"", "\"20d\"", "route[1].dedupe.expiry: too short"),
        ("\"30d\"", "\"long\"", "route[1].dedupe.expiry"),
    ] {
        let text = ROUTES.replacen(from, to, 1);
        assert_ne!(text, ROUTES, "{from}");
        let error = Router::from_toml(&text).unwrap_err().to_string();
        assert!(error.contains(said), "{to}: {error}");
    }
    assert!(Router::from_toml("").unwrap_err().to_string().contains("route"));
}

#[test]
fn notes_are_kept_as_long_as_messages_may_come_again() {
    let longer = format!("[dedupe]\nretention = \"31d\"\n{ROUTES}");
    let error = Router::from_toml(&longer).unwrap_err().to_string();
    assert!(error.contains("route[1].dedupe.expiry") && error.contains("45 days"), "{error}");
    let shorter =
        format!("[dedupe]\nretention = \"10m\"\ndead_letter_retention = \"0s\"\n{ROUTES}");
    let router = Router::from_toml(&shorter).unwrap();
    let data = r#"{"service":"a","version":1,"type":"t","at":"2027-01-01T00:00:00Z"}"#;
    let write = router.route(&message(data, &SYSTEM), NOW).write.unwrap();
    assert_eq!(write.dedupe_until, Timestamp(NOW.0 + 600_000_000));
}
