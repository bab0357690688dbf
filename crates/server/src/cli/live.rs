//! `postrider live`: watches what is published, as a gateway does.

use std::time::Duration;

use broker::{Clock, SystemClock};
use clap::{Args, Subcommand};
use consumer::Connection;
use consumer::gateway::{Change, Event, Gateway, Match, Wish};
use serde_json::{Map, Value, json};

use super::client::{At, Client, Ours, query};
use super::table::{Table, plain};
use super::{Failure, messages, note, print, print_json, warn};
use crate::rest::show_time;

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider live watch --tenant demo --collection rooms/1/messages
  postrider live watch --tenant demo --collection orders --filter 'data.total > 100' --json
  postrider live list --tenant demo

Messages of topics with the label postrider-live=true are matched: those with the attribute
collection, and of the tenant that the attribute tenant names, else of the topic's project. Set up
one with
  postrider topic create changes --label postrider-live=true --project demo
  postrider publish changes '{\"total\": 120}' --attribute collection=orders --project demo";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print each matching message as it is published, until Ctrl-C.
    #[command(after_help = super::help(EXAMPLES))]
    Watch(Watch),
    /// List live subscriptions.
    #[command(visible_alias = "ls", after_help = super::help(EXAMPLES))]
    List(List),
}

#[derive(Debug, Args)]
pub(super) struct Watch {
    /// The tenant
    #[arg(long)]
    tenant: String,
    /// The collection
    #[arg(long)]
    collection: String,
    /// A filter: data.status == "active" && data.priority > 5 [default: all]
    #[arg(long, default_value = "", hide_default_value = true)]
    filter: String,
    /// The gateway to act as [default: a new one]
    #[arg(long, value_name = "ID")]
    gateway: Option<String>,
    /// Stop after this many messages [default: no limit]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// Only those of this gateway
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    gateway: String,
    /// Only those of this tenant
    #[arg(long, default_value = "", hide_default_value = true)]
    tenant: String,
    /// Only those of this collection
    #[arg(long, default_value = "", hide_default_value = true)]
    collection: String,
    /// Show at most this many
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000)]
    max: usize,
    #[command(flatten)]
    at: At,
}

/// A subscription that was left behind by a watch that was killed is soon gone.
const TTL: Duration = Duration::from_secs(60);

/// Subscriptions asked for at a time.
const PAGE_SIZE_MAX: usize = 1_000;

pub(super) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Watch(arguments) => watch(arguments),
        Command::List(arguments) => list(arguments),
    }
}

fn watch(arguments: &Watch) -> Result<(), Failure> {
    let client = Client::new(&arguments.at)?;
    // Tells at once whether there is a server that has them.
    client.get_ours("live subscriptions", Ours::Whole, "/internal/v1/health")?;
    let own = format!("watch-{}-{}", std::process::id(), SystemClock::start().wall().0);
    let gateway = arguments.gateway.clone().unwrap_or_else(|| own.clone());
    let wish = Wish {
        id: own,
        tenant: arguments.tenant.clone(),
        collection: arguments.collection.clone(),
        filter: arguments.filter.clone(),
        ttl: Some(TTL),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let connection = Connection::open(&client.url());
        let connection = connection.map_err(Failure::failed)?;
        let (mut gateway, wishes) = Gateway::new(connection, gateway);
        let id = wish.id.clone();
        wishes.add(wish).await;
        tokio::select! {
            done = follow(&mut gateway, arguments) => done?,
            _ = tokio::signal::ctrl_c() => {}
        }
        // Its time would be over in a minute anyway.
        drop(gateway.leave([id]).await);
        Ok(())
    })
}

async fn follow(gateway: &mut Gateway, arguments: &Watch) -> Result<(), Failure> {
    let mut left = arguments.max.unwrap_or(u64::MAX);
    while left > 0 {
        match gateway.next().await.map_err(Failure::failed)? {
            Event::Message(found) => {
                left -= 1;
                show(&found, arguments.at.json)?;
            }
            Event::Registered(_) => note("watching; end with Ctrl-C"),
            Event::Refused { code, message, .. } => {
                return Err(Failure::failed(format!("{code}: {message}")));
            }
            Event::Warning(warning) => warn(&warning),
            Event::Resync(reason) => warn(&format!("messages may be missing ({reason})")),
            Event::Lost(why) => warn(&format!("connection lost, retrying: {why}")),
        }
    }
    Ok(())
}

fn show(found: &Match, as_json: bool) -> Result<(), Failure> {
    let message = json(found);
    if as_json {
        return print(&format!("{message}\n"));
    }
    let change = message["change"].as_str().unwrap_or_default();
    print(&messages::line(&message["message"], change))
}

/// A match as Google's JSON has messages, with where it came from around it.
fn json(found: &Match) -> Value {
    let Match { topic, offset, message, subscriptions } = found;
    let mut inner = json!({
        "messageId": message.id,
        "publishTime": message.publish_time.map(show_time),
        "attributes": message.attributes,
        "data": messages::encoded(&message.data),
    });
    if !message.ordering_key.is_empty() {
        inner["orderingKey"] = json!(message.ordering_key);
    }
    let mut shown = Map::new();
    shown.insert("topic".to_owned(), json!(topic));
    shown.insert("offset".to_owned(), json!(offset.to_string()));
    shown.insert("message".to_owned(), inner);
    let change = subscriptions.first().and_then(|(_, change)| *change).map(word);
    if let Some(change) = change {
        shown.insert("change".to_owned(), json!(change));
    }
    Value::Object(shown)
}

fn word(change: Change) -> &'static str {
    match change {
        Change::Enter => "enter",
        Change::Update => "update",
        Change::Leave => "leave",
    }
}

fn list(arguments: &List) -> Result<(), Failure> {
    let client = Client::new(&arguments.at)?;
    let found = client.pages("subscriptions", arguments.max, |client, size, token| {
        let size = size.min(PAGE_SIZE_MAX).to_string();
        let query = query(&[
            ("gatewayId", &arguments.gateway),
            ("tenant", &arguments.tenant),
            ("collection", &arguments.collection),
            ("pageSize", &size),
            ("pageToken", token),
        ]);
        let path = format!("/internal/v1/subscriptions{query}");
        client.get_ours("live subscriptions", Ours::Whole, &path)
    })?;
    if arguments.at.json {
        return print_json(&json!({ "subscriptions": found }));
    }
    print(&table(&found))
}

fn table(found: &[Value]) -> String {
    let mut table =
        Table::new(&["ID", "GATEWAY", "TENANT", "COLLECTION", "STATE", "EXPIRES", "FILTER"]);
    for one in found {
        let fields = ["subscriptionId", "gatewayId", "tenant", "collection", "state", "expiresAt"];
        let filter = one["filter"].as_str().map_or_else(|| clauses(&one["filters"]), str::to_owned);
        table.line(fields.map(|field| plain(&one[field])).into_iter().chain([filter]));
    }
    table.text("no live subscriptions")
}

/// The list form of a filter in one line.
fn clauses(filters: &Value) -> String {
    let clause = |clause: &Value| {
        format!("{} {} {}", plain(&clause["field"]), plain(&clause["op"]), clause["value"])
    };
    let clauses: Vec<_> = filters.as_array().into_iter().flatten().map(clause).collect();
    clauses.join(" && ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_are_lines_of_a_table() {
        let one = json!({
            "subscriptionId": "s", "gatewayId": "g", "tenant": "t", "collection": "c/d",
            "state": "active", "expiresAt": "later",
            "filters": [
                {"field": "data.a", "op": "==", "value": "x"},
                {"field": "data.b", "op": ">", "value": 5},
            ],
        });
        let shown = table(&[one]);
        assert!(shown.starts_with("ID  GATEWAY  TENANT  COLLECTION"), "{shown}");
        assert!(shown.ends_with("later    data.a == \"x\" && data.b > 5\n"), "{shown}");
        assert_eq!(table(&[]), "no live subscriptions\n");
    }

    #[test]
    fn a_match_is_shown_as_a_message_with_its_change() {
        let message =
            consumer::Message { id: "7".to_owned(), data: "hello".into(), ..Default::default() };
        let subscriptions = vec![("s".to_owned(), Some(Change::Leave))];
        let found = Match { topic: "t".to_owned(), offset: 7, message, subscriptions };
        let shown = json(&found);
        assert_eq!((&shown["change"], &shown["offset"]), (&json!("leave"), &json!("7")));
        assert_eq!(shown["message"]["data"], "aGVsbG8=");
    }
}
