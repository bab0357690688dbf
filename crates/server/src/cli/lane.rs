//! `postrider lane`: which lanes are stuck, and what to do with one of them.

use std::cell::RefCell;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::{At, Client, Ours, query};
use super::table::{Table, plain};
use super::topic::LIST_MAX;
use super::{Failure, note, obstacles, print, print_json};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider lane list billing --project my-project
  postrider lane list projects/my-project/subscriptions/billing --all --json
  postrider lane release billing --key ann
  postrider lane skip ledger                         the one lane of a FIFO subscription

release retries the message that blocks the lane now, as if it had never been tried. skip gives up
on it: it goes to the dead letter topic if there is one, or is dropped. Both are recorded in the
server's audit log. postrider subscription lanes does the same.";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Show blocked lanes.
    #[command(visible_alias = "ls")]
    List(List),
    /// Retry the message that blocks a lane, as if it had never been tried.
    Release(Lane),
    /// Give up on the message that blocks a lane.
    Skip(Lane),
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// The subscription
    name: String,
    #[command(flatten)]
    how: How,
}

/// `postrider subscription lanes`, which lists where no act is named.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Lanes {
    #[command(subcommand)]
    act: Option<Act>,
    /// The subscription
    #[arg(required = true)]
    name: Option<String>,
    #[command(flatten)]
    how: How,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Retry the message that blocks a lane, as if it had never been tried.
    Release(Lane),
    /// Give up on the message that blocks a lane.
    Skip(Lane),
}

#[derive(Debug, Args)]
struct How {
    /// Also show lanes that are not blocked
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
pub(super) struct Lane {
    /// The subscription
    name: String,
    /// The lane's key; a FIFO subscription has one lane, which needs none
    #[arg(long)]
    key: Option<String>,
    #[command(flatten)]
    at: At,
}

pub(super) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::List(list) => self::list(&list.name, &list.how),
        Command::Release(lane) => release(lane),
        Command::Skip(lane) => skip(lane),
    }
}

pub(super) fn run_lanes(lanes: &Lanes) -> Result<(), Failure> {
    match &lanes.act {
        Some(Act::Release(lane)) => release(lane),
        Some(Act::Skip(lane)) => skip(lane),
        None => list(lanes.name.as_deref().unwrap_or_default(), &lanes.how),
    }
}

fn release(lane: &Lane) -> Result<(), Failure> {
    act(lane, "release", "released")
}

fn skip(lane: &Lane) -> Result<(), Failure> {
    act(lane, "skip", "skipped")
}

fn act(lane: &Lane, act: &str, done: &str) -> Result<(), Failure> {
    let name = lane.at.subscription(&lane.name)?;
    let client = Client::new(&lane.at)?;
    let key = match &lane.key {
        Some(key) => key.clone(),
        None => only_key(&client.get(&name.path())?)?,
    };
    let path = format!("{}/lanes:{act}", name.path());
    client.post_ours("lanes", Ours::Of(&name), &path, &json!({ "key": key }))?;
    if lane.at.json {
        return print_json(&json!({"subscription": name.as_str(), "key": key, "act": act}));
    }
    print(&format!("{done} lane {key:?} of {name}\n"))
}

/// The key of the only lane there can be.
fn only_key(subscription: &Value) -> Result<String, Failure> {
    match subscription.pointer("/postrider/fifo") {
        Some(Value::Bool(true)) => Ok(String::new()),
        _ => Err(Failure::usage("which lane? Give its --key")),
    }
}

fn list(name: &str, how: &How) -> Result<(), Failure> {
    let name = how.at.subscription(name)?;
    let state = if how.all { "" } else { "blocked" };
    let client = Client::new(&how.at)?;
    let delivery = RefCell::new(Value::Null);
    let lanes = client.pages("lanes", LIST_MAX, |client, _, token| {
        let query = query(&[("state", state), ("pageToken", token)]);
        let path = format!("{}/lanes{query}", name.path());
        let page = client.get_ours("lanes", Ours::Of(&name), &path)?;
        page["delivery"].clone_into(&mut delivery.borrow_mut());
        Ok(page)
    })?;
    let delivery = delivery.into_inner();
    if how.at.json {
        return print_json(&json!({ "lanes": lanes, "delivery": delivery }));
    }
    if let Some(lines) = obstacles::lines(&delivery) {
        note(&lines);
    }
    print(&table(&lanes, how.all))
}

const HEADINGS: [&str; 9] =
    ["STATE", "MESSAGE", "ATTEMPT", "OF", "AGE S", "PENDING", "LAST", "NEXT ATTEMPT", "KEY"];

const FIELDS: [&str; 8] = [
    "state",
    "messageId",
    "attempt",
    "maxAttempts",
    "ageSeconds",
    "pendingCount",
    "lastClass",
    "nextAttemptAt",
];

fn table(lanes: &[Value], is_all: bool) -> String {
    let mut table = Table::new(&HEADINGS);
    for lane in lanes {
        // Keys come last: they may be long, and are quoted, since they may hold anything.
        let key = std::iter::once(lane["key"].to_string());
        table.line(FIELDS.map(|field| plain(&lane[field])).into_iter().chain(key));
    }
    table.text(if is_all { "no lane has work to do" } else { "no lane is blocked" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_fifo_subscription_needs_no_key() {
        assert_eq!(only_key(&json!({"postrider": {"fifo": true}})).ok(), Some(String::new()));
        assert!(only_key(&json!({"postrider": {"fifo": false}})).is_err());
        assert!(only_key(&json!({})).is_err());
    }

    #[test]
    fn lanes_are_lines_of_a_table() {
        let lanes = [
            json!({
                "key": "ann", "state": "halted", "messageId": "1790000000000001", "attempt": 5,
                "maxAttempts": 5, "ageSeconds": 17, "pendingCount": 3, "lastClass": "nack",
            }),
            json!({"key": "a\nb", "state": "moving", "pendingCount": 0}),
        ];
        let text = table(&lanes, true);
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!(
            lines[1],
            ["halted", "1790000000000001", "5", "5", "17", "3", "nack", "-", "\"ann\""]
        );
        assert_eq!(lines[2], ["moving", "-", "-", "-", "-", "0", "-", "-", r#""a\nb""#]);
        assert_eq!(table(&[], false), "no lane is blocked\n");
    }
}
