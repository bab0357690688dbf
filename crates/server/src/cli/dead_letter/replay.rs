//! Replays: they run in the server, which is asked how far they are.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::{Of, WHAT, Which, selection};
use crate::cli::client::{At, Client, Ours, query};
use crate::cli::names::path;
use crate::cli::progress_bar::Bar;
use crate::cli::table::{Table, plain};
use crate::cli::topic::LIST_MAX;
use crate::cli::{Failure, note, print, print_json};

#[derive(Debug, Args)]
pub(in crate::cli) struct Replay {
    /// The ids of the dead letters
    ids: Vec<String>,
    #[command(flatten)]
    of: Of,
    #[command(flatten)]
    which: Which,
    /// All of them
    #[arg(long)]
    all: bool,
    /// Deliver only to the subscription they came from, or to every subscription on its topic
    #[arg(long, default_value = "subscription", value_parser = ["subscription", "topic"])]
    to: String,
    /// The most letters per second; 0 = as fast as possible
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    per_second: u32,
    /// Also replay letters that were already replayed
    #[arg(long)]
    again: bool,
    /// Start it and do not wait for it to end
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Replays {
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Named {
    /// The replay: projects/{project}/replays/{id}, or its id
    name: String,
    #[command(flatten)]
    at: At,
}

/// Between two looks at how far a replay is.
const POLL: Duration = Duration::from_millis(200);

pub(super) fn start(arguments: &Replay) -> Result<(), Failure> {
    let at = &arguments.at;
    let name = arguments.of.name(at)?;
    let client = Client::new(at)?;
    let mut body = selection(&arguments.ids, &arguments.which, arguments.all, &client)?;
    body.insert("to".to_owned(), arguments.to.clone().into());
    body.insert("perSecond".to_owned(), arguments.per_second.into());
    body.insert("again".to_owned(), arguments.again.into());
    let asked = format!("{}/deadLetters:replay", name.path());
    let replay = client.post_ours(WHAT, Ours::Of(&name), &asked, &Value::Object(body))?;
    if arguments.no_wait {
        return tell(at, &replay);
    }
    wait(&client, at, replay)
}

/// Watches until it has ended.
fn wait(client: &Client, at: &At, mut replay: Value) -> Result<(), Failure> {
    let bar = Bar::new();
    let began = client.now();
    let first = done(&replay);
    while is_running(&replay) {
        bar.show(done(&replay) - first, total(&replay) - first, client.now().since(began));
        std::thread::sleep(POLL);
        let asked = path(&plain(&replay["name"]));
        replay = client.get_ours(WHAT, Ours::Item, &asked).inspect_err(|_| bar.end())?;
    }
    bar.end();
    tell(at, &replay)?;
    match replay["state"].as_str() {
        Some("done") if number(&replay["failed"]) == 0 => Ok(()),
        _ => Err(Failure::failed(format!("the replay ended {}", plain(&replay["state"])))),
    }
}

fn is_running(replay: &Value) -> bool {
    replay["state"] == "running"
}

/// A number, which JSON may carry as text.
fn number(value: &Value) -> u64 {
    plain(value).parse().unwrap_or_default()
}

fn total(replay: &Value) -> u64 {
    number(&replay["total"])
}

fn done(replay: &Value) -> u64 {
    ["replayed", "skipped", "failed"].iter().map(|field| number(&replay[*field])).sum()
}

fn tell(at: &At, replay: &Value) -> Result<(), Failure> {
    if at.json {
        return print_json(replay);
    }
    if is_running(replay) {
        note(&format!("watch it with: postrider dead-letter watch {}", plain(&replay["name"])));
    }
    print(&line(replay))
}

fn line(replay: &Value) -> String {
    let [name, state, replayed, total, skipped, failed] =
        ["name", "state", "replayed", "total", "skipped", "failed"]
            .map(|field| plain(&replay[field]));
    let mut text = format!("{name}: {state}, {replayed} of {total} replayed");
    if number(&replay["skipped"]) > 0 {
        text.push_str(&format!(", {skipped} skipped"));
    }
    if number(&replay["failed"]) > 0 {
        text.push_str(&format!(", {failed} failed"));
    }
    if let Some(error) = replay["error"].as_str().filter(|error| !error.is_empty()) {
        text.push_str(&format!(": {error}"));
    }
    text + "\n"
}

pub(super) fn list(arguments: &Replays) -> Result<(), Failure> {
    let at = &arguments.at;
    let asked = format!("{}/replays", path(&at.project()?));
    let client = Client::new(at)?;
    let replays = client.pages("replays", LIST_MAX, |client, _, token| {
        let query = query(&[("pageToken", token)]);
        client.get_ours(WHAT, Ours::Whole, &format!("{asked}{query}"))
    })?;
    if at.json {
        return print_json(&json!({ "replays": replays }));
    }
    print(&table(&replays))
}

const FIELDS: [&str; 9] =
    ["name", "state", "total", "replayed", "skipped", "failed", "perSecond", "to", "createTime"];

const HEADINGS: [&str; 9] =
    ["REPLAY", "STATE", "TOTAL", "REPLAYED", "SKIPPED", "FAILED", "PER SECOND", "TO", "BEGAN"];

fn table(replays: &[Value]) -> String {
    let mut table = Table::new(&HEADINGS);
    for replay in replays {
        table.line(FIELDS.map(|field| plain(&replay[field])));
    }
    table.text("no replays")
}

/// The path of a replay given by its whole name or its id.
fn replay_path(arguments: &Named) -> Result<String, Failure> {
    if arguments.name.contains('/') {
        return Ok(path(&arguments.name));
    }
    let project = arguments.at.project()?;
    Ok(path(&format!("{project}/replays/{}", arguments.name)))
}

pub(super) fn watch(arguments: &Named) -> Result<(), Failure> {
    let client = Client::new(&arguments.at)?;
    let replay = client.get_ours(WHAT, Ours::Item, &replay_path(arguments)?)?;
    wait(&client, &arguments.at, replay)
}

pub(super) fn cancel(arguments: &Named) -> Result<(), Failure> {
    let client = Client::new(&arguments.at)?;
    let asked = format!("{}:cancel", replay_path(arguments)?);
    let replay = client.post_ours(WHAT, Ours::Item, &asked, &json!({}))?;
    tell(&arguments.at, &replay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_is_told_in_one_line() {
        let replay = json!({
            "name": "projects/p/replays/1", "state": "done", "total": 9, "replayed": "7",
            "skipped": 2, "failed": 0,
        });
        assert_eq!(line(&replay), "projects/p/replays/1: done, 7 of 9 replayed, 2 skipped\n");
        assert_eq!((done(&replay), total(&replay)), (9, 9));
        let failed = json!({
            "name": "r", "state": "failed", "total": 1, "replayed": 0, "failed": 1, "error": "e",
        });
        assert_eq!(line(&failed), "r: failed, 0 of 1 replayed, 1 failed: e\n");
        assert!(table(&[replay]).contains("projects/p/replays/1"));
        assert_eq!(table(&[]), "no replays\n");
    }

    #[test]
    fn a_replay_is_named_whole_or_by_its_id() {
        let named = |name: &str| {
            let at = At { project: Some("p".to_owned()), ..At::default() };
            replay_path(&Named { name: name.to_owned(), at }).ok()
        };
        let whole = Some("/v1/projects/p/replays/7".to_owned());
        assert_eq!(named("7"), whole);
        assert_eq!(named("projects/p/replays/7"), whole);
    }
}
