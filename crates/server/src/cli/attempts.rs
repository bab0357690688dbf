//! `postrider subscription attempts`: what became of the attempts to push messages.

use clap::Args;
use serde_json::{Value, json};

use super::client::{At, Client};
use super::{Failure, print};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider subscription attempts projects/my-project/subscriptions/billing
  postrider subscription attempts projects/my-project/subscriptions/billing --class timeout
  postrider subscription attempts projects/my-project/subscriptions/billing --message 17 --json

The newest attempts come first. Kept are the last 1,000 of a subscription and, before them, the
latest failure of each message that is not acked yet.";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The subscription: projects/{project}/subscriptions/{subscription}
    name: String,
    #[command(flatten)]
    at: At,
    /// Only attempts of this class, such as ok, timeout, connect, http_4xx or http_5xx
    #[arg(long)]
    class: Option<String>,
    /// Only attempts of the message with this id
    #[arg(long, value_name = "ID")]
    message: Option<u64>,
    /// Show at most so many
    #[arg(long, value_name = "NUMBER", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Print JSON: {"attempts": …}
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let client = Client::new(&arguments.name, &arguments.at)?;
    let limit = usize::try_from(arguments.limit).unwrap_or(usize::MAX);
    let mut attempts = Vec::new();
    let mut token = String::new();
    while attempts.len() < limit {
        let page = client.get(&path(arguments, limit - attempts.len(), &token)?)?;
        attempts.extend(page["attempts"].as_array().cloned().unwrap_or_default());
        match page["nextPageToken"].as_str() {
            Some(next) if !next.is_empty() => next.clone_into(&mut token),
            _ => break,
        }
    }
    if arguments.json {
        let attempts = json!({ "attempts": attempts });
        return print(&format!("{attempts:#}\n"));
    }
    print(&table(&attempts))
}

/// Attempts asked for at a time: their answers must fit into what the client reads of one.
const PAGE_SIZE: usize = 500;

fn path(arguments: &Arguments, left: usize, token: &str) -> Result<String, Failure> {
    // A token is made of letters, digits, - and _ only.
    let mut path = format!("/attempts?pageSize={}&pageToken={token}", left.min(PAGE_SIZE));
    if let Some(class) = &arguments.class {
        if !class.chars().all(|char| char.is_ascii_alphanumeric() || char == '_') {
            return Err(Failure::usage(format!("{class:?} is not a class")));
        }
        path.push_str(&format!("&class={class}"));
    }
    if let Some(message) = arguments.message {
        path.push_str(&format!("&messageId={message}"));
    }
    Ok(path)
}

/// The columns: heading, field, width; the error takes what it needs.
const COLUMNS: [(&str, &str, usize); 7] = [
    ("TIME", "time", 29),
    ("MESSAGE", "messageId", 18),
    ("ATTEMPT", "attempt", 9),
    ("CLASS", "class", 11),
    ("STATUS", "status", 8),
    ("MS", "durationMs", 11),
    ("ADDRESS", "address", 23),
];

fn table(attempts: &[Value]) -> String {
    if attempts.is_empty() {
        return "no attempts\n".to_owned();
    }
    let mut text = line(|(heading, ..)| heading.to_owned(), "ERROR OR ANSWER");
    for attempt in attempts {
        let cell = |(_, field, _): (&str, &str, usize)| match &attempt[field] {
            Value::Null => "-".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        text.push_str(&line(cell, &said(attempt)));
    }
    text
}

/// Characters of an error or an answer that are shown in a table.
const SAID_CHARS_MAX: usize = 120;

/// The error, or the answer if there is none: quoted, since it may hold anything.
fn said(attempt: &Value) -> String {
    let text = attempt["error"].as_str().or_else(|| attempt["response"].as_str());
    let Some(text) = text else { return "-".to_owned() };
    let shown: String = text.chars().take(SAID_CHARS_MAX).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("{}{more}", json!(shown))
}

fn line(cell: impl Fn((&'static str, &'static str, usize)) -> String, last: &str) -> String {
    let mut line = String::new();
    for column in COLUMNS {
        let width = column.2;
        line.push_str(&format!("{:<width$} ", cell(column)));
    }
    line + last + "\n"
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parse(words: &[&str]) -> Result<Arguments, clap::Error> {
        let words = ["attempts", "projects/p/subscriptions/s"].iter().chain(words);
        Cli::try_parse_from(words).map(|cli| cli.arguments)
    }

    fn asked(words: &[&str]) -> String {
        path(&parse(words).unwrap(), 10, "t").ok().unwrap()
    }

    #[test]
    fn flags_become_the_query() {
        assert_eq!(parse(&[]).unwrap().limit, 50);
        assert_eq!(asked(&[]), "/attempts?pageSize=10&pageToken=t");
        let filtered = asked(&["--class", "http_5xx", "--message", "7"]);
        assert_eq!(filtered, "/attempts?pageSize=10&pageToken=t&class=http_5xx&messageId=7");
        let all = parse(&["--limit", "5000", "--json"]).unwrap();
        assert!(path(&all, 5_000, "").ok().unwrap().starts_with("/attempts?pageSize=500&"));
    }

    #[test]
    fn bad_flags_are_refused() {
        for bad in [&["--limit", "0"], &["--message", "x"], &["--limit", "many"]] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        let injected = parse(&["--class", "ok&x=1"]).unwrap();
        assert!(path(&injected, 1, "").is_err());
    }

    #[test]
    fn attempts_are_lines_of_a_table() {
        let attempts = [
            json!({
                "time": "2026-11-15T12:00:00.123456Z", "messageId": "1790000000000001",
                "attempt": 3, "address": "127.0.0.1:8080", "status": 500, "class": "http_5xx",
                "durationMs": 12.3, "response": "line\nbreak",
            }),
            json!({
                "time": "2026-11-15T12:00:00Z", "messageId": "7", "attempt": 1, "class": "dns",
                "durationMs": 1.0, "error": "x".repeat(500),
            }),
        ];
        let text = table(&attempts);
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!(
            lines[1],
            [
                "2026-11-15T12:00:00.123456Z",
                "1790000000000001",
                "3",
                "http_5xx",
                "500",
                "12.3",
                "127.0.0.1:8080",
                r#""line\nbreak""#
            ]
        );
        assert_eq!(lines[2][..7], ["2026-11-15T12:00:00Z", "7", "1", "dns", "-", "1.0", "-"]);
        assert_eq!(lines[2][7].chars().count(), SAID_CHARS_MAX + 3);
        assert_eq!(table(&[]), "no attempts\n");
    }
}
