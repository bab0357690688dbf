//! `postrider topic`.

use clap::{Args, Subcommand};
use domain::topic::SETTINGS;
use serde_json::{Value, json};

use super::changes::Changes;
use super::client::{At, Client, query};
use super::names::{Name, path};
use super::settings::{Settings, tell_all};
use super::table::{Table, fact, plain};
use super::values::span;
use super::{Failure, create, print, print_json, warn};

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
    /// Succeed without changes if it already exists
    #[arg(long)]
    if_not_exists: bool,
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    settings: Settings<domain::Topic, true>,
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
    /// A label to remove; can be repeated
    #[arg(long = "remove-label", value_name = "KEY")]
    removed: Vec<String>,
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    settings: Settings<domain::Topic, false>,
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
        Command::Delete(arguments) => delete_all(&arguments.at, &arguments.names, At::topic),
    }
}

fn make(arguments: &Create) -> Result<(), Failure> {
    let name = arguments.at.topic(&arguments.name)?;
    let client = Client::new(&arguments.at)?;
    let mut changes = Changes::new(Value::Null);
    arguments.settings.given.apply(SETTINGS, &arguments.at, &mut changes, client.wall())?;
    let created = create::create(&client, &name, &changes.body(), arguments.if_not_exists);
    let created = created.map_err(|problem| create::failure(&client, problem))?;
    let (answer, done) = created.told();
    tell(&arguments.at, answer, done, &name)
}

/// The answer as it is, or what was done in words.
pub(super) fn tell(at: &At, answer: &Value, done: &str, name: &Name) -> Result<(), Failure> {
    for warning in answer["warnings"].as_array().into_iter().flatten() {
        warn(&plain(warning));
    }
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
    for (what, field) in [("Topic", "name"), ("State", "state")] {
        if let Some(value) = topic.get(field) {
            fact(&mut text, what, &plain(value));
        }
    }
    tell_all(SETTINGS, topic, &mut text);
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
    let mut current = client.get(&name.path())?;
    let given = &arguments.settings.given;
    if given.has("schema") {
        // The revisions there are named are not of the schema that is given now.
        current["schemaSettings"] = Value::Null;
    }
    let mut changes = Changes::new(current);
    given.apply(SETTINGS, &arguments.at, &mut changes, client.wall())?;
    for key in &arguments.removed {
        changes.remove("labels", key);
    }
    if changes.is_empty() {
        return Err(Failure::usage("nothing to change: see postrider topic update --help"));
    }
    let changed = client.patch(&name.path(), &changes.request("topic"))?;
    tell(&arguments.at, &changed, "changed", &name)
}

/// Deletes resources one after the other, of the kind that `named` reads names of; stops at the
/// first that cannot be.
pub(super) fn delete_all(
    at: &At,
    names: &[String],
    named: fn(&At, &str) -> Result<Name, Failure>,
) -> Result<(), Failure> {
    let names: Vec<Name> = names.iter().map(|name| named(at, name)).collect::<Result<_, _>>()?;
    let client = Client::new(at)?;
    for name in &names {
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
    use clap::Parser;

    use super::super::settings::Given;
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
    fn flags_become_googles_fields() {
        #[derive(clap::Parser)]
        struct Cli<const IS_NEW: bool> {
            #[command(flatten)]
            settings: Settings<domain::Topic, IS_NEW>,
        }
        let at = At { project: Some("p".to_owned()), ..At::default() };
        let asked = |given: &Given, current: Value| {
            let mut changes = Changes::new(current);
            let applied = given.apply(SETTINGS, &at, &mut changes, domain::Timestamp(0));
            applied.map_err(|failure| failure.problem).unwrap();
            changes.request("topic")
        };
        let parse =
            |words: &'static str| std::iter::once("x").chain(words.split(' ')).collect::<Vec<_>>();
        let words = "--retention 1d --label a=b --schema order --encoding json --live";
        let cli = Cli::<true>::try_parse_from(parse(words)).ok().unwrap();
        let made = &asked(&cli.settings.given, Value::Null)["topic"];
        let expected = json!({
            "messageRetentionDuration": "86400s", "labels": {"a": "b"},
            "schemaSettings": {"schema": "projects/p/schemas/order", "encoding": "JSON"},
            "postrider": {"live": true},
        });
        assert_eq!(*made, expected);
        assert!(Cli::<true>::try_parse_from(parse("--schema order")).is_err());
        let words = "--retention none --schema none";
        let cli = Cli::<false>::try_parse_from(parse(words)).ok().unwrap();
        let changed = asked(&cli.settings.given, expected.clone());
        let mask = "messageRetentionDuration,schemaSettings";
        assert_eq!(changed, json!({"topic": {}, "updateMask": mask}));
        let cli = Cli::<false>::try_parse_from(parse("--first-revision none")).ok().unwrap();
        let changed = asked(&cli.settings.given, expected.clone());
        assert_eq!(changed["topic"]["schemaSettings"], expected["schemaSettings"]);
    }
}
