//! `postrider snapshot`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::changes::Changes;
use super::client::{At, Client};
use super::table::{Table, fact, plain};
use super::topic::{all_of, delete_all, tell};
use super::values::{object, pair};
use super::{Failure, print, print_json};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider snapshot create before-deploy --subscription billing --project demo
  postrider seek billing --snapshot before-deploy
  postrider snapshot list --json
  postrider snapshot describe before-deploy
  postrider snapshot update before-deploy --label release=42
  postrider snapshot delete before-deploy";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Take a snapshot of what a subscription has acked.
    Create(Create),
    /// List the snapshots of a project.
    #[command(visible_alias = "ls")]
    List(List),
    /// Show a snapshot.
    #[command(visible_alias = "show")]
    Describe(Named),
    /// Change the labels of a snapshot.
    Update(Update),
    /// Delete snapshots.
    #[command(visible_alias = "rm")]
    Delete(Delete),
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// The snapshot; without one the server picks a name
    name: Option<String>,
    /// The subscription
    #[arg(long)]
    subscription: String,
    /// A label; can be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
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
    /// The snapshot
    name: String,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
pub(super) struct Update {
    /// The snapshot
    name: String,
    /// A label; can be repeated
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
    /// The snapshots
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
        Command::Delete(arguments) => delete_all(&arguments.at, &arguments.names, At::snapshot),
    }
}

fn make(arguments: &Create) -> Result<(), Failure> {
    let at = &arguments.at;
    let subscription = at.subscription(&arguments.subscription)?;
    let client = Client::new(at)?;
    let name = match &arguments.name {
        Some(name) => at.snapshot(name)?,
        // Over REST a snapshot always has a name.
        None => subscription.sibling("snapshots", &format!("snapshot-{}", broker_id()?)),
    };
    let body = json!({"subscription": subscription.as_str(), "labels": object(&arguments.labels)});
    let made = client.put(&name.path(), &body)?;
    tell(at, &made, "made", &name)
}

fn broker_id() -> Result<String, Failure> {
    broker::make_id().map_err(Failure::failed)
}

fn list(arguments: &List) -> Result<(), Failure> {
    let client = Client::new(&arguments.at)?;
    let snapshots = all_of(&client, &arguments.at, "snapshots")?;
    if arguments.at.json {
        return print_json(&json!({ "snapshots": snapshots }));
    }
    print(&table(&snapshots))
}

fn table(snapshots: &[Value]) -> String {
    let mut table = Table::new(&["SNAPSHOT", "TOPIC", "EXPIRES", "LABELS"]);
    for snapshot in snapshots {
        table.line(["name", "topic", "expireTime", "labels"].map(|cell| plain(&snapshot[cell])));
    }
    table.text("no snapshots")
}

fn describe(arguments: &Named) -> Result<(), Failure> {
    let name = arguments.at.snapshot(&arguments.name)?;
    let snapshot = Client::new(&arguments.at)?.get(&name.path())?;
    if arguments.at.json {
        return print_json(&snapshot);
    }
    let mut text = String::new();
    for (what, field) in
        [("Snapshot", "name"), ("Topic", "topic"), ("Expires", "expireTime"), ("Labels", "labels")]
    {
        if let Some(value) = snapshot.get(field) {
            fact(&mut text, what, &plain(value));
        }
    }
    print(&text)
}

fn update(arguments: &Update) -> Result<(), Failure> {
    let name = arguments.at.snapshot(&arguments.name)?;
    let client = Client::new(&arguments.at)?;
    let mut changes = Changes::new(client.get(&name.path())?);
    for (key, value) in &arguments.labels {
        changes.set(&format!("labels.{key}"), value.as_str().into());
    }
    for key in &arguments.removed {
        changes.remove("labels", key);
    }
    if changes.is_empty() {
        let problem = "nothing to change: give --label KEY=VALUE or --remove-label KEY";
        return Err(Failure::usage(problem));
    }
    let changed = client.patch(&name.path(), &changes.request("snapshot"))?;
    tell(&arguments.at, &changed, "changed", &name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_listed() {
        let snapshot = json!({
            "name": "projects/p/snapshots/s", "topic": "projects/p/topics/t",
            "expireTime": "2026-11-22T12:00:00Z", "labels": {"a": "b"},
        });
        let text = table(&[snapshot]);
        let line: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        let expected =
            ["projects/p/snapshots/s", "projects/p/topics/t", "2026-11-22T12:00:00Z", "a=b"];
        assert_eq!(line, expected);
        assert_eq!(table(&[]), "no snapshots\n");
    }
}
