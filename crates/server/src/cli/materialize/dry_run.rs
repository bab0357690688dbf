//! What would be written, without writing, acking or nacking anything.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use broker::{Clock, SystemClock};
use consumer::effects::{Value as Field, Write};
use consumer::router::Routed;
use consumer::{About, Message};
use domain::Timestamp;
use serde_json::{Map, Value, json};

use super::Arguments;
use super::config::{Config, Source};
use crate::cli::client::{At, Client, Ours, query};
use crate::cli::table::plain;
use crate::cli::values::rfc3339;
use crate::cli::{Failure, messages, note, print};

/// Messages asked for at a time.
const PAGE_SIZE: usize = 100;

pub(super) fn run(arguments: &Arguments, config: Config) -> Result<(), Failure> {
    let max = usize::try_from(arguments.max).unwrap_or(usize::MAX);
    let now = SystemClock::start().wall();
    let found = match &arguments.messages {
        Some(file) => of_file(file, max)?,
        None => of_backlog(&config.source, max)?,
    };
    if found.is_empty() {
        note("no messages");
    }
    let mut poison = 0;
    for message in &found {
        let routed = config.router.route(message, now);
        poison += usize::from(routed.write.is_err());
        let text = if arguments.json {
            format!("{}\n", as_json(message, &routed))
        } else {
            as_text(message, &routed)
        };
        print(&text)?;
    }
    note(&format!(
        "{} messages: {} would be written, {poison} are poison; nothing was written, acked or \
         nacked",
        found.len(),
        found.len() - poison
    ));
    Ok(())
}

/// Messages of a file: each line one, as `postrider tail --follow --json` prints them, or in
/// Google's JSON, or with JSON of its own as `data`.
fn of_file(path: &Path, max: usize) -> Result<Vec<Message>, Failure> {
    let wrong = |problem: String| Failure::failed(format!("{}: {problem}", path.display()));
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let mut found = Vec::new();
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|error| wrong(error.to_string()))?;
        if line.trim().is_empty() {
            continue;
        }
        let value: Value = serde_json::from_str(&line)
            .map_err(|error| wrong(format!("line {}: {error}", number + 1)))?;
        found.push(message(&value, None));
        if found.len() == max {
            break;
        }
    }
    Ok(found)
}

/// What the subscription has not settled yet, looked at only.
fn of_backlog(source: &Source, max: usize) -> Result<Vec<Message>, Failure> {
    let Source::Pull(source) = source else {
        return Err(Failure::usage(
            "with way = \"push\" there is no backlog to read: give a file with --messages",
        ));
    };
    if source.is_google() {
        return Err(Failure::usage(
            "Google's server cannot be read without leasing: give a file with --messages",
        ));
    }
    let at = At { server: Some(source.server.clone()), ..At::default() };
    let name = at.subscription(&source.subscription)?;
    let client = Client::new(&at)?;
    let mut found = Vec::new();
    let mut token = String::new();
    while found.len() < max {
        let size = (max - found.len()).min(PAGE_SIZE).to_string();
        let query = query(&[("from", "earliest"), ("pageSize", &size), ("pageToken", &token)]);
        let path = format!("{}/messages{query}", name.path());
        let page = client.get_ours("messages", Ours::Of(&name), &path)?;
        let messages = page["messages"].as_array().cloned().unwrap_or_default();
        found.extend(messages.iter().map(|one| message(one, Some(name.as_str()))));
        token = plain(&page["nextPageToken"]);
        if token.is_empty() {
            break;
        }
    }
    Ok(found)
}

/// A message in one of the forms of `of_file`.
fn message(value: &Value, subscription: Option<&str>) -> Message {
    let inner = value.get("message").unwrap_or(value);
    let data = match &inner["data"] {
        Value::String(_) => messages::data(inner),
        Value::Null => Vec::new(),
        other => other.to_string().into_bytes(),
    };
    let attributes = inner["attributes"].as_object().into_iter().flatten();
    let publish_time =
        serde_json::from_value::<wire::protobuf::Timestamp>(inner["publishTime"].clone());
    let publish_time = publish_time.ok().and_then(|time| time.unix_micros().ok());
    let named = value["subscription"].as_str().or(subscription);
    Message {
        id: plain(&inner["messageId"]),
        data: data.into(),
        attributes: attributes.map(|(name, value)| (name.clone(), plain(value))).collect(),
        ordering_key: plain(&inner["orderingKey"]),
        publish_time: publish_time.and_then(|micros| u64::try_from(micros).ok()).map(Timestamp),
        delivery_attempt: None,
        subscription: named.map(Into::into),
    }
}

fn as_text(message: &Message, routed: &Routed) -> String {
    let route = routed.about.handler.as_deref().unwrap_or("no route");
    let id = if message.id.is_empty() { "(no id)" } else { &message.id };
    match &routed.write {
        Ok(write) => {
            let About { write_kind, doc_path, idempotency_doc, .. } = &routed.about;
            let word = |text: &Option<String>| text.clone().unwrap_or_default();
            format!(
                "{id}  {route}  {} {}  {}  noted in {}\n",
                word(write_kind),
                word(doc_path),
                fields(write),
                word(idempotency_doc)
            )
        }
        Err(failure) => format!("{id}  {route}  poison: {}: {}\n", failure.kind, failure.message),
    }
}

fn as_json(message: &Message, routed: &Routed) -> Value {
    let about = &routed.about;
    let mut shown = json!({
        "messageId": message.id,
        "route": about.handler,
        "event_type": about.event_type,
        "schemaVersion": about.schema_version,
    });
    let more = match &routed.write {
        Ok(write) => json!({
            "would": "write",
            "write_kind": about.write_kind,
            "doc_path": about.doc_path,
            "idempotency_doc": about.idempotency_doc,
            "fields": fields(write),
            "event_time": write.event_time.as_ref().map(|time| rfc3339(time.at)),
            "kept_until": rfc3339(write.dedupe_until),
        }),
        Err(failure) => json!({
            "would": "poison",
            "error_type": failure.kind,
            "error": failure.message,
        }),
    };
    if let (Some(shown), Value::Object(more)) = (shown.as_object_mut(), more) {
        shown.extend(more);
    }
    shown
}

/// The fields as JSON, the event time's among them.
fn fields(write: &Write) -> Value {
    let mut fields: Map<String, Value> =
        write.fields.iter().map(|(name, value)| (name.clone(), field(value))).collect();
    if let Some(time) = &write.event_time {
        fields.insert(time.field.clone(), Value::String(rfc3339(time.at)));
    }
    Value::Object(fields)
}

fn field(value: &Field) -> Value {
    match value {
        Field::Null => Value::Null,
        Field::Bool(value) => json!(value),
        Field::Integer(value) => json!(value),
        Field::Double(value) => json!(value),
        Field::Text(value) => json!(value),
        Field::Time(at) => Value::String(rfc3339(*at)),
        Field::List(values) => values.iter().map(field).collect(),
        Field::Map(values) => {
            Value::Object(values.iter().map(|(name, value)| (name.clone(), field(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use consumer::router::Router;

    use super::*;

    fn router() -> Router {
        let text = r#"
            [[route]]
            name = "r"
            collection = "c"
            document = "{data.id}"
            kind = "set"
            event_time = { from = "data.at", field = "at" }
            dedupe = { collection = "d" }
            fields = { n = { from = "data.n", type = "integer" } }
        "#;
        Router::from_toml(text).unwrap()
    }

    #[test]
    fn messages_are_taken_in_every_form() {
        let plain = json!({"messageId": 7, "data": {"id": "x"}});
        assert_eq!(&message(&plain, None).data[..], br#"{"id":"x"}"#);
        let google = json!({"message": {"messageId": "7", "data": "eyJpZCI6IngifQ==",
            "attributes": {"a": "b"}, "publishTime": "2027-01-15T08:00:00Z"},
            "subscription": "projects/p/subscriptions/s"});
        let found = message(&google, None);
        assert_eq!((&*found.id, &found.data[..]), ("7", &br#"{"id":"x"}"#[..]));
        assert_eq!(found.attributes["a"], "b");
        assert_eq!(found.publish_time, Some(Timestamp(1_800_000_000_000_000)));
        assert_eq!(found.subscription.as_deref(), Some("projects/p/subscriptions/s"));
    }

    #[test]
    fn what_would_be_written_is_said_for_people_and_programs() {
        let good = json!({"messageId": "7", "data":
            {"id": "x", "n": 3, "at": "2027-01-15T08:00:00Z"}});
        let good = message(&good, None);
        let routed = router().route(&good, Timestamp(0));
        let expected = "7  r  set c/x  {\"at\":\"2027-01-15T08:00:00Z\",\"n\":3}  noted in d/7\n";
        assert_eq!(as_text(&good, &routed), expected);
        let shown = as_json(&good, &routed);
        assert_eq!((&shown["would"], &shown["doc_path"]), (&json!("write"), &json!("c/x")));
        assert_eq!(shown["event_time"], json!("2027-01-15T08:00:00Z"));
        let bad = message(&json!({"messageId": "8", "data": {"id": "x"}}), None);
        let routed = router().route(&bad, Timestamp(0));
        assert!(as_text(&bad, &routed).starts_with("8  r  poison: MissingField: data.n"));
        assert_eq!(as_json(&bad, &routed)["would"], json!("poison"));
    }
}
