//! A whole set-up: schemas, topics and subscriptions, as a file has them and as a server does.

use std::path::Path;

use domain::setting::{Document, Resource};
use domain::{Invalid, Subscription, Topic, subscription, topic};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Failure;
use super::client::{At, Client, query};
use super::names::path;
use super::topic::{LIST_MAX, PAGE_SIZE};
use crate::config::resources::{document, subscription_of, topic_of};

/// A set-up as a file has it, with names as they were written.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    schemas: Vec<Schema>,
    #[serde(default)]
    topics: Vec<Map<String, Value>>,
    #[serde(default)]
    subscriptions: Vec<Map<String, Value>>,
}

/// A schema.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Schema {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) definition: String,
}

/// A topic or a subscription that is wanted: what is given of it, and what that makes.
pub(super) struct Wanted<S> {
    pub(super) name: String,
    /// Its topic; empty for a topic.
    pub(super) topic: String,
    /// What is given.
    pub(super) document: Document,
    pub(super) settings: S,
}

/// A whole set-up that is wanted.
pub(super) struct Setup {
    pub(super) schemas: Vec<Schema>,
    pub(super) topics: Vec<Wanted<Topic>>,
    pub(super) subscriptions: Vec<Wanted<Subscription>>,
}

impl Setup {
    /// The set-up in a file; short names are completed with the project of `at`.
    pub(super) fn read(file: &Path, at: &At) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| Failure::failed(format!("cannot read {}: {error}", file.display())))?;
        Self::parse(&text, at)
            .map_err(|failure| Failure::usage(format!("{}: {}", file.display(), failure.problem)))
    }

    fn parse(text: &str, at: &At) -> Result<Self, Failure> {
        let file: File = toml::from_str(text).map_err(|error| {
            Failure::usage(format!(
                "{}; a setup file has [[schemas]], [[topics]] and [[subscriptions]]",
                error.to_string().trim_end()
            ))
        })?;
        let mut schemas = file.schemas;
        for (index, schema) in schemas.iter_mut().enumerate() {
            let named = |failure: Failure| {
                Failure::usage(format!("schemas[{index}].name: {}", failure.problem))
            };
            schema.name = at.schema(&schema.name).map_err(named)?.as_str().to_owned();
        }
        let topics = file.topics.into_iter().enumerate();
        let subscriptions = file.subscriptions.into_iter().enumerate();
        Ok(Self {
            schemas,
            topics: topics
                .map(|(index, entry)| read_topic(index, entry, at))
                .collect::<Result<_, Failure>>()?,
            subscriptions: subscriptions
                .map(|(index, entry)| read_subscription(index, entry, at))
                .collect::<Result<_, Failure>>()?,
        })
    }
}

/// Takes a name out of an entry.
fn take(entry: &mut Map<String, Value>, key: &str) -> Result<String, String> {
    match entry.remove(key) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("{key}: expected text")),
        None => Err(format!("{key}: must be given")),
    }
}

fn read_topic(
    index: usize,
    mut entry: Map<String, Value>,
    at: &At,
) -> Result<Wanted<Topic>, Failure> {
    let wrong = |problem: String| Failure::usage(format!("topics[{index}].{problem}"));
    let name = take(&mut entry, "name").map_err(wrong)?;
    let name = at.topic(&name).map_err(|failure| wrong(format!("name: {}", failure.problem)))?;
    let name = name.as_str().to_owned();
    let made = document(topic::SETTINGS, &entry)
        .and_then(|document| Ok((topic_of(&name, &document)?, document)));
    let (settings, document) = made.map_err(|invalid| wrong(invalid.to_string()))?;
    Ok(Wanted { name, topic: String::new(), document, settings })
}

fn read_subscription(
    index: usize,
    mut entry: Map<String, Value>,
    at: &At,
) -> Result<Wanted<Subscription>, Failure> {
    let wrong = |problem: String| Failure::usage(format!("subscriptions[{index}].{problem}"));
    let name = take(&mut entry, "name").map_err(wrong)?;
    let topic = take(&mut entry, "topic").map_err(wrong)?;
    let name =
        at.subscription(&name).map_err(|failure| wrong(format!("name: {}", failure.problem)))?;
    let topic = at.topic(&topic).map_err(|failure| wrong(format!("topic: {}", failure.problem)))?;
    let (name, topic) = (name.as_str().to_owned(), topic.as_str().to_owned());
    let made = document(subscription::SETTINGS, &entry)
        .and_then(|document| Ok((subscription_of(&name, &topic, &document)?, document)));
    let (settings, document) = made.map_err(|invalid| wrong(invalid.to_string()))?;
    Ok(Wanted { name, topic, document, settings })
}

/// Everything in `collection` of a project (`projects/{project}`).
pub(super) fn all_in(
    client: &Client,
    project: &str,
    collection: &str,
) -> Result<Vec<Value>, Failure> {
    let path = format!("{}/{collection}", path(project));
    client.pages(collection, LIST_MAX, |client, left, token| {
        let size = left.min(PAGE_SIZE).to_string();
        let view = if collection == "schemas" { "FULL" } else { "" };
        let query = query(&[("pageSize", &size), ("pageToken", token), ("view", view)]);
        client.get(&format!("{path}{query}"))
    })
}

/// A topic as a server shows it.
pub(super) fn topic_from(shown: &Value) -> Result<Topic, Invalid> {
    topic_of(shown["name"].as_str().unwrap_or_default(), &document_from::<Topic>(shown))
}

/// A subscription as a server shows it.
pub(super) fn subscription_from(shown: &Value) -> Result<Subscription, Invalid> {
    let text = |field: &str| shown[field].as_str().unwrap_or_default();
    subscription_of(text("name"), text("topic"), &document_from::<Subscription>(shown))
}

/// What a server shows of the settings.
fn document_from<S: Resource>(shown: &Value) -> Document {
    let shown = Document(shown.as_object().cloned().unwrap_or_default());
    let mut document = Document::default();
    for setting in S::table() {
        if let Some(value) = shown.get(setting.path) {
            document.put(setting.path, value.clone());
        }
    }
    document
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(text: &str) -> Result<Setup, String> {
        let at = At { project: Some("p".to_owned()), ..At::default() };
        Setup::parse(text, &at).map_err(|failure| failure.problem)
    }

    #[test]
    fn names_are_completed_and_settings_are_those_of_the_configuration() {
        let setup = parse(
            r#"
            [[schemas]]
            name = "order"
            type = "AVRO"
            definition = '"string"'
            [[topics]]
            name = "orders"
            message_retention = "1d"
            [[subscriptions]]
            name = "projects/q/subscriptions/billing"
            topic = "orders"
            fifo = true
            "#,
        )
        .unwrap();
        assert_eq!(setup.schemas[0].name, "projects/p/schemas/order");
        assert_eq!(setup.topics[0].name, "projects/p/topics/orders");
        assert!(setup.topics[0].settings.message_retention.is_some());
        let subscription = &setup.subscriptions[0];
        assert_eq!(subscription.name, "projects/q/subscriptions/billing");
        assert_eq!(subscription.topic, "projects/p/topics/orders");
        assert!(subscription.settings.fifo);
        assert_eq!(subscription.document.get("postrider.fifo"), Some(&json!(true)));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, named) in [
            ("listen = \"127.0.0.1:1\"", "[[topics]]"),
            ("[[topics]]", "topics[0].name: must be given"),
            ("[[topics]]\nname = 5", "topics[0].name"),
            ("[[topics]]\nname = \"a/b\"", "topics[0].name"),
            ("[[topics]]\nname = \"abc\"\ncolour = 1", "topics[0].colour: unknown field"),
            ("[[subscriptions]]\nname = \"abc\"", "subscriptions[0].topic: must be given"),
            (
                "[[subscriptions]]\nname = \"abc\"\ntopic = \"abc\"\nfilter = \"x\"",
                "subscriptions[0].filter",
            ),
            ("[[schemas]]\nname = \"abc\"\ntype = \"AVRO\"", "definition"),
        ] {
            let Err(problem) = parse(text) else { panic!("{text}") };
            assert!(problem.contains(named), "{problem}");
        }
    }
}
