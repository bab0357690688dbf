//! `postrider export`.

use clap::Args;
use domain::{Subscription, Topic, subscription, topic};
use serde_json::{Map, Value, json};

use super::client::{At, Client};
use super::setup::{all_in, subscription_from, topic_from};
use super::table::plain;
use super::{Failure, print, print_json, warn};
use crate::config::resources::entry_of;

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider export --project demo > setup.toml
  postrider apply -f setup.toml                 nothing to do
  postrider export --project demo --json

What is at its default is left out. Snapshots, messages, signing secrets and tags are not part of a
setup: a subscription that signs gets a new secret where the file is applied.";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    at: At,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let project = arguments.at.project()?;
    let client = Client::new(&arguments.at)?;
    let schemas: Vec<Value> =
        all_in(&client, &project, "schemas")?.iter().map(schema_entry).collect();
    let topics = entries(&all_in(&client, &project, "topics")?, topic_entry);
    let subscriptions = entries(&all_in(&client, &project, "subscriptions")?, subscription_entry);
    let mut setup = Map::new();
    for (list, entries) in
        [("schemas", schemas), ("topics", topics), ("subscriptions", subscriptions)]
    {
        if !entries.is_empty() {
            setup.insert(list.to_owned(), Value::Array(entries));
        }
    }
    if arguments.at.json {
        return print_json(&Value::Object(setup));
    }
    print(&written(&setup)?)
}

fn schema_entry(schema: &Value) -> Value {
    json!({
        "name": schema["name"], "type": schema["type"], "definition": schema["definition"],
    })
}

/// What can be made again; what cannot is told.
fn entries(shown: &[Value], entry: fn(&Value) -> Result<Value, String>) -> Vec<Value> {
    let told = shown.iter().filter_map(|one| match entry(one) {
        Ok(entry) => Some(entry),
        Err(problem) => {
            warn(&format!("{} is left out: {problem}", plain(&one["name"])));
            None
        }
    });
    told.collect()
}

fn topic_entry(shown: &Value) -> Result<Value, String> {
    let topic = topic_from(shown).map_err(|invalid| invalid.to_string())?;
    let settings = entry_of(topic::SETTINGS, &topic, &Topic::new(topic.name.clone()));
    Ok(with_names(&[("name", &shown["name"])], settings))
}

fn subscription_entry(shown: &Value) -> Result<Value, String> {
    if shown["detached"] == json!(true) {
        return Err("it is detached from its topic".to_owned());
    }
    let one = subscription_from(shown).map_err(|invalid| invalid.to_string())?;
    let plain = Subscription::new(one.name.clone(), one.topic.clone());
    let settings = entry_of(subscription::SETTINGS, &one, &plain);
    Ok(with_names(&[("name", &shown["name"]), ("topic", &shown["topic"])], settings))
}

fn with_names(names: &[(&str, &Value)], settings: Map<String, Value>) -> Value {
    let names = names.iter().map(|(key, name)| ((*key).to_owned(), (*name).clone()));
    Value::Object(names.chain(settings).collect())
}

/// The set-up as TOML.
fn written(setup: &Map<String, Value>) -> Result<String, Failure> {
    let mut text = String::new();
    for list in ["schemas", "topics", "subscriptions"] {
        for entry in setup.get(list).and_then(Value::as_array).into_iter().flatten() {
            let entry: toml::Table = serde_json::from_value(entry.clone())
                .map_err(|error| Failure::failed(format!("cannot write {list}: {error}")))?;
            text.push_str(&format!("[[{list}]]\n"));
            for key in ["name", "topic", "type"] {
                if let Some(value) = entry.get(key) {
                    text.push_str(&format!("{key} = {value}\n"));
                }
            }
            for (key, value) in &entry {
                if !["name", "topic", "type"].contains(&key.as_str()) {
                    text.push_str(&format!("{key} = {value}\n"));
                }
            }
            text.push('\n');
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setup_is_written_with_what_is_not_at_its_default() {
        let topic = topic_entry(&json!({
            "name": "projects/p/topics/orders", "state": "ACTIVE", "labels": {"team": "shop"},
            "messageRetentionDuration": "86400s",
        }));
        let one = subscription_entry(&json!({
            "name": "projects/p/subscriptions/billing", "topic": "projects/p/topics/orders",
            "ackDeadlineSeconds": 10, "pushConfig": {}, "state": "ACTIVE",
            "messageRetentionDuration": "604800s", "expirationPolicy": {"ttl": "2678400s"},
            "retryPolicy": {"minimumBackoff": "0.500s", "maximumBackoff": "600s"},
            "postrider": {"start": "latest", "fifo": true, "paused": false, "poison": "skip"},
            "warnings": ["x"],
        }));
        let mut setup = Map::new();
        setup.insert("topics".to_owned(), json!([topic.unwrap()]));
        setup.insert("subscriptions".to_owned(), json!([one.unwrap()]));
        let text = written(&setup).unwrap();
        let expected = "[[subscriptions]]\nname = \"projects/p/subscriptions/billing\"\n\
                        topic = \"projects/p/topics/orders\"\nfifo = true\n\
                        retry_policy = \
                        { maximum_backoff = \"10m\", minimum_backoff = \"500ms\" }\n";
        assert!(text.contains(expected), "{text}");
        assert!(toml::from_str::<toml::Table>(&text).is_ok(), "{text}");
        let lost = json!({"name": "projects/p/subscriptions/s", "topic": "_deleted-topic_"});
        assert!(subscription_entry(&lost).is_err());
    }
}
