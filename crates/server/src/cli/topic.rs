//! `postrider topic`.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::client::{At, Client, query};
use super::names::{Name, path};
use super::schema::{self, Encoding};
use super::table::{Table, fact, plain};
use super::values::{duration, object, pair, seconds, span};
use super::{Failure, create, print, print_json};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider topic create orders --project demo
  postrider topic create orders --retention 7d --label team=shop
  postrider topic create orders --schema order --encoding json
  postrider topic create orders --if-not-exists
  postrider topic list --json
  postrider topic describe projects/demo/topics/orders
  postrider topic update orders --retention none
  postrider topic delete orders";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Create a topic.
    Create(Create),
    /// List the topics of a project.
    #[command(visible_alias = "ls")]
    List(List),
    /// Show a topic and who subscribes to it.
    #[command(visible_alias = "show")]
    Describe(Named),
    /// Change a topic.
    Update(Update),
    /// Delete topics; their subscriptions stay, without a topic.
    #[command(visible_alias = "rm")]
    Delete(Delete),
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// The topic
    name: String,
    /// How long its messages are kept, acked or not: 10m to 31d
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    retention: Option<Duration>,
    /// A label; can be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// The schema its messages must match
    #[arg(long, value_name = "SCHEMA", requires = "encoding")]
    schema: Option<String>,
    /// How its messages are encoded
    #[arg(long, requires = "schema")]
    encoding: Option<Encoding>,
    /// Succeed without changes if it already exists
    #[arg(long)]
    if_not_exists: bool,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
pub(super) struct Named {
    /// The topic
    name: String,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
pub(super) struct Update {
    /// The topic
    name: String,
    /// How long its messages are kept, acked or not: 10m to 31d; none removes it
    #[arg(long, value_name = "DURATION")]
    retention: Option<String>,
    /// A label to set; can be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// A label to remove; can be repeated
    #[arg(long = "remove-label", value_name = "KEY")]
    removed: Vec<String>,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
pub(super) struct Delete {
    /// The topics
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    at: At,
}

pub(super) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Create(arguments) => make(arguments),
        Command::List(arguments) => list(arguments),
        Command::Describe(arguments) => describe(arguments),
        Command::Update(arguments) => update(arguments),
        Command::Delete(arguments) => delete(arguments),
    }
}

fn make(arguments: &Create) -> Result<(), Failure> {
    let name = arguments.at.topic(&arguments.name)?;
    let mut body = Map::new();
    if let Some(retention) = arguments.retention {
        body.insert("messageRetentionDuration".to_owned(), seconds(retention).into());
    }
    if !arguments.labels.is_empty() {
        body.insert("labels".to_owned(), object(&arguments.labels));
    }
    if let (Some(schema), Some(encoding)) = (&arguments.schema, arguments.encoding) {
        let schema = arguments.at.schema(schema)?;
        let settings = json!({"schema": schema.as_str(), "encoding": encoding.as_str()});
        body.insert("schemaSettings".to_owned(), settings);
    }
    let client = Client::new(&arguments.at)?;
    let created = create::create(&client, &name, &Value::Object(body), arguments.if_not_exists);
    let created = created.map_err(|problem| create::failure(&client, problem))?;
    let (answer, done) = created.told();
    tell(&arguments.at, answer, done, &name)
}

/// The answer as it is, or what was done in words.
pub(super) fn tell(at: &At, answer: &Value, done: &str, name: &Name) -> Result<(), Failure> {
    if at.json { print_json(answer) } else { print(&format!("{done} {name}\n")) }
}

/// The most things a list shows: a bound, not a page.
pub(super) const LIST_MAX: usize = 1_000_000;

/// Things asked for at a time.
pub(super) const PAGE_SIZE: usize = 1_000;

/// Everything in `collection` of the project.
pub(super) fn all_of(client: &Client, at: &At, collection: &str) -> Result<Vec<Value>, Failure> {
    let path = format!("{}/{collection}", path(&at.project()?));
    client.pages(collection, LIST_MAX, |client, left, token| {
        let size = left.min(PAGE_SIZE).to_string();
        client.get(&format!("{path}{}", query(&[("pageSize", &size), ("pageToken", token)])))
    })
}

fn list(arguments: &List) -> Result<(), Failure> {
    let client = Client::new(&arguments.at)?;
    let topics = all_of(&client, &arguments.at, "topics")?;
    if arguments.at.json {
        return print_json(&json!({ "topics": topics }));
    }
    print(&table(&topics))
}

fn table(topics: &[Value]) -> String {
    let mut table = Table::new(&["TOPIC", "RETENTION", "LABELS"]);
    for topic in topics {
        let retention = span(&plain(&topic["messageRetentionDuration"]));
        table.line([plain(&topic["name"]), retention, plain(&topic["labels"])]);
    }
    table.text("no topics")
}

fn describe(arguments: &Named) -> Result<(), Failure> {
    let name = arguments.at.topic(&arguments.name)?;
    let client = Client::new(&arguments.at)?;
    let topic = client.get(&name.path())?;
    let of = |what: &str| {
        client.pages(what, LIST_MAX, |client, left, token| {
            let size = left.min(PAGE_SIZE).to_string();
            let query = query(&[("pageSize", &size), ("pageToken", token)]);
            client.get(&format!("{}/{what}{query}", name.path()))
        })
    };
    let subscriptions = of("subscriptions")?;
    if arguments.at.json {
        return print_json(&json!({"topic": topic, "subscriptions": subscriptions}));
    }
    print(&description(&topic, &subscriptions))
}

fn description(topic: &Value, subscriptions: &[Value]) -> String {
    let mut text = String::new();
    for (what, field) in [
        ("Topic", "name"),
        ("State", "state"),
        ("Retention", "messageRetentionDuration"),
        ("Labels", "labels"),
    ] {
        if let Some(value) = topic.get(field) {
            let shown = plain(value);
            let shown = if what == "Retention" { span(&shown) } else { shown };
            fact(&mut text, what, &shown);
        }
    }
    if let Some(settings) = topic.get("schemaSettings") {
        fact(&mut text, "Schema", &schema::told(settings));
    }
    for subscription in subscriptions {
        fact(&mut text, "Subscription", &plain(subscription));
    }
    if subscriptions.is_empty() {
        fact(&mut text, "Subscription", "none: nobody receives messages published here");
    }
    text
}

fn update(arguments: &Update) -> Result<(), Failure> {
    let name = arguments.at.topic(&arguments.name)?;
    let client = Client::new(&arguments.at)?;
    let mut topic = Map::new();
    let mut mask = Vec::new();
    if let Some(retention) = &arguments.retention {
        mask.push("messageRetentionDuration");
        if retention != "none" {
            let retention = duration(retention)
                .map_err(|problem| Failure::usage(format!("--retention: {problem}")))?;
            topic.insert("messageRetentionDuration".to_owned(), seconds(retention).into());
        }
    }
    if !arguments.labels.is_empty() || !arguments.removed.is_empty() {
        mask.push("labels");
        let current = client.get(&name.path())?;
        let labels = changed_labels(&current["labels"], &arguments.labels, &arguments.removed);
        topic.insert("labels".to_owned(), labels);
    }
    if mask.is_empty() {
        return Err(Failure::usage("nothing to change: give --retention, --label …"));
    }
    let body = json!({"topic": topic, "updateMask": mask.join(",")});
    let changed = client.patch(&name.path(), &body)?;
    tell(&arguments.at, &changed, "changed", &name)
}

/// The labels there are, with some set and some taken away.
pub(super) fn changed_labels(
    current: &Value,
    set: &[(String, String)],
    removed: &[String],
) -> Value {
    let mut labels = current.as_object().cloned().unwrap_or_default();
    for (key, value) in set {
        labels.insert(key.clone(), value.clone().into());
    }
    for key in removed {
        labels.remove(key);
    }
    Value::Object(labels)
}

fn delete(arguments: &Delete) -> Result<(), Failure> {
    let names: Result<Vec<Name>, Failure> =
        arguments.names.iter().map(|name| arguments.at.topic(name)).collect();
    delete_all(&arguments.at, &names?)
}

/// Deletes resources one after the other; stops at the first that cannot be.
pub(super) fn delete_all(at: &At, names: &[Name]) -> Result<(), Failure> {
    let client = Client::new(at)?;
    for name in names {
        client.delete(&name.path())?;
        if !at.json {
            print(&format!("deleted {name}\n"))?;
        }
    }
    if at.json {
        let names: Vec<&str> = names.iter().map(Name::as_str).collect();
        print_json(&json!({ "deleted": names }))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_listed_and_described() {
        let topics = [
            json!({"name": "projects/p/topics/a", "messageRetentionDuration": "600s"}),
            json!({"name": "projects/p/topics/b", "labels": {"team": "shop"}}),
        ];
        let text = table(&topics);
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["projects/p/topics/a", "10m", "-"]);
        assert_eq!(lines[2], ["projects/p/topics/b", "-", "team=shop"]);
        assert_eq!(table(&[]), "no topics\n");
        let described = description(&topics[1], &[json!("projects/p/subscriptions/s")]);
        assert!(described.contains("Subscription     projects/p/subscriptions/s\n"), "{described}");
        assert!(description(&topics[0], &[]).contains("nobody receives"));
    }

    #[test]
    fn labels_are_set_and_taken_away_one_by_one() {
        let current = json!({"a": "1", "b": "2"});
        let set = [("c".to_owned(), "3".to_owned()), ("a".to_owned(), "4".to_owned())];
        let changed = changed_labels(&current, &set, &["b".to_owned(), "x".to_owned()]);
        assert_eq!(changed, json!({"a": "4", "c": "3"}));
        assert_eq!(changed_labels(&Value::Null, &[], &[]), json!({}));
    }
}
