//! `postrider subscription lanes`: which lanes are stuck, and what to do with one of them.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::{At, Client};
use super::{Failure, print};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider subscription lanes projects/my-project/subscriptions/billing
  postrider subscription lanes projects/my-project/subscriptions/billing --all --json
  postrider subscription lanes release projects/my-project/subscriptions/billing --key ann
  postrider subscription lanes skip projects/my-project/subscriptions/billing --key ''

release tries the message that blocks the lane again at once, as if it had never been tried.
skip gives it up: it goes to the dead letter topic if there is one, and is dropped otherwise.
Both are written to the server's audit log.";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    act: Option<Act>,
    /// The subscription: projects/{project}/subscriptions/{subscription}
    #[arg(required = true)]
    name: Option<String>,
    #[command(flatten)]
    at: At,
    /// Show lanes that move, too
    #[arg(long)]
    all: bool,
    /// Print JSON: {"lanes": …}
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Try the message that blocks a lane again, as if it had never been tried.
    Release(Lane),
    /// Give up the message that blocks a lane.
    Skip(Lane),
}

#[derive(Debug, Args)]
struct Lane {
    /// The subscription: projects/{project}/subscriptions/{subscription}
    name: String,
    #[command(flatten)]
    at: At,
    /// The lane's key; empty for the one lane of a FIFO subscription
    #[arg(long)]
    key: String,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.act {
        Some(Act::Release(lane)) => act(lane, "/lanes:release", "released"),
        Some(Act::Skip(lane)) => act(lane, "/lanes:skip", "skipped"),
        None => list(arguments),
    }
}

fn act(lane: &Lane, path: &str, done: &str) -> Result<(), Failure> {
    let client = Client::new(&lane.name, &lane.at)?;
    client.post(path, &json!({"key": lane.key}))?;
    print(&format!("{done} lane {:?} of {}\n", lane.key, lane.name))
}

fn list(arguments: &Arguments) -> Result<(), Failure> {
    let name = arguments.name.as_deref().unwrap_or_default();
    let client = Client::new(name, &arguments.at)?;
    let state = if arguments.all { "" } else { "&state=blocked" };
    let mut lanes = Vec::new();
    let mut token = String::new();
    loop {
        // A token is made of letters, digits, - and _ only.
        let page = client.get(&format!("/lanes?pageToken={token}{state}"))?;
        lanes.extend(page["lanes"].as_array().cloned().unwrap_or_default());
        match page["nextPageToken"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => break,
        }
    }
    if arguments.json {
        let lanes = json!({ "lanes": lanes });
        return print(&format!("{lanes:#}\n"));
    }
    print(&table(&lanes, arguments.all))
}

/// The columns: heading, field, width; the last one takes what it needs.
const COLUMNS: [(&str, &str, usize); 8] = [
    ("STATE", "state", 13),
    ("MESSAGE", "messageId", 18),
    ("ATTEMPT", "attempt", 9),
    ("OF", "maxAttempts", 5),
    ("AGE S", "ageSeconds", 8),
    ("PENDING", "pendingCount", 9),
    ("LAST", "lastClass", 10),
    ("NEXT ATTEMPT", "nextAttemptAt", 29),
];

fn table(lanes: &[Value], is_all: bool) -> String {
    if lanes.is_empty() {
        let none = if is_all { "no lane has anything to do" } else { "no lane is blocked" };
        return format!("{none}\n");
    }
    let mut text = line(|(heading, ..)| heading.to_owned(), "KEY");
    for lane in lanes {
        let cell = |(_, field, _): (&str, &str, usize)| match &lane[field] {
            Value::Null => "-".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        // Keys come last: they may be long, and are quoted, since they may hold anything.
        text.push_str(&line(cell, &lane["key"].to_string()));
    }
    text
}

fn line(cell: impl Fn((&'static str, &'static str, usize)) -> String, key: &str) -> String {
    let mut line = String::new();
    for column in COLUMNS {
        let width = column.2;
        line.push_str(&format!("{:<width$}", cell(column)));
    }
    line + key + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

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
