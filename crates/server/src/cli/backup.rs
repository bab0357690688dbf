//! `postrider backup`: copies of a server's store, which lie with the server.

use std::time::Duration;

use clap::{Args, Subcommand};
use domain::Timestamp;
use http::Method;
use serde_json::{Value, json};
use wire::protobuf;

use super::client::{At, Client, Ours, encode};
use super::table::{Table, bytes, plain};
use super::values::duration;
use super::{Failure, note, print, print_json};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider backup
  postrider backup before-the-migration --json
  postrider backup list
  postrider backup prune --keep 7
  postrider backup prune --older-than 30d --keep 3 --dry-run
  postrider backup delete before-the-migration

The running server copies its store to a new folder with that name in its storage.backup_dir. All
paths are on the server's machine, not yours. To restore: stop the server, replace its data folder
with a copy of that folder, start it.";

/// How long to wait for the copy. The server keeps copying after that.
const TIMEOUT: Duration = Duration::from_secs(6 * 60 * 60);

/// What backups are called where a server does not know them.
const WHAT: &str = "backups";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// What to call it [default: the time, as in 2026-11-15T18-43-26Z]
    name: Option<String>,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the server's backups, oldest first.
    #[command(visible_alias = "ls", after_help = super::help(EXAMPLES))]
    List(List),
    /// Delete backups from the server, for good.
    #[command(visible_alias = "rm", after_help = super::help(EXAMPLES))]
    Delete(Delete),
    /// Delete old backups from the server, for good.
    #[command(after_help = super::help(EXAMPLES))]
    Prune(Prune),
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
struct Delete {
    /// The backups
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
struct Prune {
    #[command(flatten)]
    which: Which,
    /// Show what would be deleted, but delete nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    at: At,
}

/// Which backups may go. With both, only those that are old and not among the newest.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Which {
    /// Keep this many of the newest
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Delete only those older than this
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    older_than: Option<Duration>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        None => make(arguments),
        Some(Command::List(arguments)) => list(&arguments.at),
        Some(Command::Delete(arguments)) => {
            let client = Client::new(&arguments.at)?;
            delete(&client, &arguments.at, &arguments.names)
        }
        Some(Command::Prune(arguments)) => prune(arguments),
    }
}

fn make(arguments: &Arguments) -> Result<(), Failure> {
    let client = Client::new(&arguments.at)?;
    let name = arguments.name.clone().unwrap_or_else(|| time_name(client.wall()));
    note(&format!("{} is copying its store; this may take a while", client.host()));
    let path = format!("/v1/backups/{}", encode(&name));
    let made = client.call_within(TIMEOUT, Method::PUT, &path, Some(&json!({})));
    let made = made.map_err(|problem| client.failure(problem))?;
    if arguments.at.json {
        return print_json(&made);
    }
    print(&told(&made, client.host()))
}

fn told(made: &Value, host: &str) -> String {
    let [folder, files] = ["folder", "files"].map(|field| plain(&made[field]));
    let seconds = made["seconds"].as_f64().unwrap_or_default();
    let size = bytes(&made["bytes"]);
    format!("created on {host}: {folder}: {files} files, {size}, in {seconds:.1} s\n")
}

/// As a name, times have no colons, and no more than seconds.
fn time_name(now: Timestamp) -> String {
    let seconds = i64::try_from(now.seconds()).unwrap_or(i64::MAX);
    let time = protobuf::Timestamp::from_unix_micros(seconds.saturating_mul(1_000_000));
    let text = json!(time);
    text.as_str().map_or_else(|| seconds.to_string(), |text| text.replace(':', "-"))
}

fn all(client: &Client) -> Result<Value, Failure> {
    client.get_ours(WHAT, Ours::Whole, "/v1/backups")
}

fn of(answer: &Value) -> Vec<Value> {
    answer["backups"].as_array().cloned().unwrap_or_default()
}

fn list(at: &At) -> Result<(), Failure> {
    let client = Client::new(at)?;
    let answer = all(&client)?;
    if at.json {
        return print_json(&answer);
    }
    note(&format!("on the machine of {}, in {}", client.host(), plain(&answer["folder"])));
    print(&table(&of(&answer)))
}

fn table(backups: &[Value]) -> String {
    let mut table = Table::new(&["BACKUP", "MADE", "FILES", "SIZE"]);
    for one in backups {
        let [name, made, files] = ["name", "createTime", "files"].map(|field| plain(&one[field]));
        table.line([name, made, files, bytes(&one["bytes"])]);
    }
    table.text("no backups")
}

fn prune(arguments: &Prune) -> Result<(), Failure> {
    let client = Client::new(&arguments.at)?;
    let backups = of(&all(&client)?);
    let names = doomed(&backups, &arguments.which, client.wall());
    if !arguments.dry_run {
        return delete(&client, &arguments.at, &names);
    }
    if arguments.at.json {
        return print_json(&json!({ "wouldDelete": names }));
    }
    print(&names.iter().map(|name| format!("would delete backup {name}\n")).collect::<String>())
}

/// The names of those that go. They come the oldest first.
fn doomed(backups: &[Value], which: &Which, now: Timestamp) -> Vec<String> {
    let kept = which.keep.map_or(0, |keep| usize::try_from(keep).unwrap_or(usize::MAX));
    let old = &backups[..backups.len().saturating_sub(kept)];
    let is_old = |one: &&Value| match which.older_than {
        None => true,
        Some(time) => made_at(one).is_some_and(|made| made < now.minus(time)),
    };
    old.iter().filter(is_old).map(|one| plain(&one["name"])).collect()
}

fn made_at(backup: &Value) -> Option<Timestamp> {
    let time: protobuf::Timestamp = serde_json::from_value(backup["createTime"].clone()).ok()?;
    u64::try_from(time.unix_micros().ok()?).ok().map(Timestamp)
}

fn delete(client: &Client, at: &At, names: &[String]) -> Result<(), Failure> {
    for name in names {
        client.delete(&format!("/v1/backups/{}", encode(name)))?;
        if !at.json {
            print(&format!("deleted backup {name}\n"))?;
        }
    }
    match at.json {
        true => print_json(&json!({ "deleted": names })),
        false if names.is_empty() => print("no backup to delete\n"),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_name_it_is_the_time() {
        let time = Timestamp(1_794_768_206_123_456);
        assert_eq!(time_name(time), "2026-11-15T18-43-26Z");
    }

    #[test]
    fn what_was_made_is_one_line_that_says_where() {
        let made = json!({"folder": "/b/x", "files": 4, "bytes": "1000", "seconds": 0.25});
        let expected = "created on h:1: /b/x: 4 files, 1000 bytes, in 0.2 s\n";
        assert_eq!(told(&made, "h:1"), expected);
    }

    #[test]
    fn the_oldest_go_and_never_the_newest() {
        let backups = ["a", "b", "c"].map(|name| {
            let day = match name {
                "a" => "01",
                "b" => "02",
                _ => "03",
            };
            json!({"name": name, "createTime": format!("1970-01-{day}T00:00:00Z")})
        });
        let gone = |keep, days: Option<u64>| {
            let older_than = days.map(|days| Duration::from_secs(days * 86_400));
            let now = Timestamp(3 * 86_400 * 1_000_000);
            doomed(&backups, &Which { keep, older_than }, now)
        };
        assert_eq!(gone(Some(1), None), ["a", "b"]);
        assert_eq!(gone(Some(9), None), [""; 0]);
        assert_eq!(gone(None, Some(2)), ["a"]);
        assert_eq!(gone(Some(3), Some(1)), [""; 0]);
        assert!(table(&backups).contains("1970-01-01T00:00:00Z"));
    }
}
