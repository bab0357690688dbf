//! `postrider attempts`: push attempts and their results.

use clap::Args;
use serde_json::{Value, json};

use super::client::{At, Client, Ours, query};
use super::table::{Table, plain, quoted, quoted_error};
use super::{Failure, print, print_json};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider attempts billing --project my-project
  postrider attempts projects/my-project/subscriptions/billing --class timeout
  postrider attempts billing --message 17 --json

Newest first. The server keeps a subscription's last 1,000 attempts and, before those, the latest
failure of each unacked message.";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The subscription
    name: String,
    /// Only attempts of this class, such as ok, timeout, connect, http_4xx or http_5xx
    #[arg(long)]
    class: Option<String>,
    /// Only attempts of the message with this id
    #[arg(long, value_name = "ID")]
    message: Option<u64>,
    /// Show at most this many
    #[arg(long, value_name = "NUMBER", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    at: At,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let name = arguments.at.subscription(&arguments.name)?;
    let client = Client::new(&arguments.at)?;
    let limit = usize::try_from(arguments.limit).unwrap_or(usize::MAX);
    let attempts = client.pages("attempts", limit, |client, left, token| {
        let path = format!("{}/attempts{}", name.path(), asked(arguments, left, token));
        client.get_ours("attempts", Ours::Of(&name), &path)
    })?;
    if arguments.at.json {
        return print_json(&json!({ "attempts": attempts }));
    }
    print(&table(&attempts))
}

/// Attempts asked for at a time.
const PAGE_SIZE: usize = 500;

fn asked(arguments: &Arguments, left: usize, token: &str) -> String {
    let size = left.min(PAGE_SIZE).to_string();
    let message = arguments.message.map(|id| id.to_string()).unwrap_or_default();
    query(&[
        ("pageSize", &size),
        ("pageToken", token),
        ("class", arguments.class.as_deref().unwrap_or_default()),
        ("messageId", &message),
    ])
}

const HEADINGS: [&str; 8] =
    ["TIME", "MESSAGE", "ATTEMPT", "CLASS", "STATUS", "MS", "ADDRESS", "ERROR OR ANSWER"];

const FIELDS: [&str; 7] =
    ["time", "messageId", "attempt", "class", "status", "durationMs", "address"];

/// Characters of an error or an answer that are shown in a table.
const SAID_CHARS_MAX: usize = 160;

fn table(attempts: &[Value]) -> String {
    let mut table = Table::new(&HEADINGS);
    for attempt in attempts {
        // Quoted, since they may hold anything.
        let said = match (attempt["error"].as_str(), attempt["response"].as_str()) {
            (Some(error), _) => quoted_error(error, SAID_CHARS_MAX),
            (None, Some(response)) => quoted(response, SAID_CHARS_MAX),
            (None, None) => String::new(),
        };
        table.line(FIELDS.map(|field| plain(&attempt[field])).into_iter().chain([said]));
    }
    table.text("no attempts")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parsing;

    fn parse(words: &[&str]) -> Result<Arguments, clap::Error> {
        let words = ["attempts", "projects/p/subscriptions/s"].iter().chain(words);
        parsing::parse(words)
    }

    #[test]
    fn flags_become_the_query() {
        assert_eq!(parse(&[]).unwrap().limit, 50);
        let plain = parse(&[]).unwrap();
        assert_eq!(asked(&plain, 10, "t"), "?pageSize=10&pageToken=t");
        let filtered = parse(&["--class", "http_5xx", "--message", "7"]).unwrap();
        assert_eq!(asked(&filtered, 10, ""), "?pageSize=10&class=http_5xx&messageId=7");
        assert_eq!(asked(&plain, 5_000, ""), "?pageSize=500");
        let injected = parse(&["--class", "ok&x=1"]).unwrap();
        assert_eq!(asked(&injected, 1, ""), "?pageSize=1&class=ok%26x%3D1");
    }

    #[test]
    fn bad_flags_are_refused() {
        for bad in [&["--limit", "0"], &["--message", "x"], &["--limit", "many"]] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
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
        assert_eq!(lines[2][..7], ["2026-11-15T12:00:00Z", "7", "1", "dns", "-", "1", "-"]);
        assert_eq!(lines[2][7].len(), SAID_CHARS_MAX + 2);
        assert_eq!(table(&[]), "no attempts\n");
    }
}
