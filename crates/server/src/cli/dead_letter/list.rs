//! Looking at dead letters.

use clap::Args;
use serde_json::{Value, json};

use super::{Of, WHAT, Which};
use crate::cli::client::{At, Client, Ours, encode};
use crate::cli::messages::{data, shown};
use crate::cli::names::{Name, path};
use crate::cli::table::{Table, fact, plain, quoted_error};
use crate::cli::{Failure, print, print_data, print_json};

#[derive(Debug, Args)]
pub(in crate::cli) struct List {
    #[command(flatten)]
    of: Of,
    #[command(flatten)]
    which: Which,
    /// Letters nobody has handled, replayed ones, or both
    #[arg(long, default_value = "waiting", value_parser = ["waiting", "replayed", "all"])]
    state: String,
    /// Show at most this many
    #[arg(long, value_name = "NUMBER", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Show {
    /// The id of the dead letter
    id: String,
    #[command(flatten)]
    of: Of,
    /// Print only the data, all of it
    #[arg(long, conflicts_with = "json")]
    data: bool,
    /// With --data: print it unchanged even to a terminal, though it may contain control codes
    #[arg(long, requires = "data")]
    raw: bool,
    #[command(flatten)]
    at: At,
}

/// Letters asked for at a time.
const PAGE_SIZE: usize = 100;

pub(super) fn list(arguments: &List) -> Result<(), Failure> {
    let name = arguments.of.name(&arguments.at)?;
    let client = Client::new(&arguments.at)?;
    let limit = usize::try_from(arguments.limit).unwrap_or(usize::MAX);
    let letters = letters(&client, &name, &arguments.which, &arguments.state, limit)?;
    if arguments.at.json {
        return print_json(&json!({ "deadLetters": letters }));
    }
    print(&table(&letters))
}

/// The letters of `name`, up to `limit`.
pub(super) fn letters(
    client: &Client,
    name: &Name,
    which: &Which,
    state: &str,
    limit: usize,
) -> Result<Vec<Value>, Failure> {
    client.pages("deadLetters", limit, |client, left, token| {
        let query = which.query(client, state, left.min(PAGE_SIZE), token)?;
        let path = format!("{}/deadLetters{query}", name.path());
        client.get_ours(WHAT, Ours::Of(name), &path)
    })
}

const HEADINGS: [&str; 7] =
    ["LETTER", "TIME", "STATE", "FROM", "ATTEMPTS", "CLASS", "LAST ERROR AND DATA"];

/// Characters of an error or of data that are shown in a table.
const SAID_CHARS_MAX: usize = 80;

/// Bytes of an error that are shown: enough for its end, which says what to do.
const ERROR_BYTES_MAX: usize = 160;

fn table(letters: &[Value]) -> String {
    let mut table = Table::new(&HEADINGS);
    for letter in letters {
        let error = letter["lastError"].as_str().filter(|error| !error.is_empty());
        let error = error.map(|error| quoted_error(error, ERROR_BYTES_MAX) + "  ");
        let error = error.unwrap_or_default();
        let data: String = shown(&data(&letter["message"])).chars().take(SAID_CHARS_MAX).collect();
        let from = plain(&letter["originalSubscription"]);
        table.line([
            plain(&letter["messageId"]),
            plain(&letter["publishTime"]),
            plain(&letter["state"]),
            from.rsplit('/').next().unwrap_or_default().to_owned(),
            plain(&letter["attempts"]),
            plain(&letter["errorClass"]),
            error + &data,
        ]);
    }
    table.text("no dead letters")
}

pub(super) fn show(arguments: &Show) -> Result<(), Failure> {
    let client = Client::new(&arguments.at)?;
    let topic = dead_letter_topic(&client, &arguments.of.name(&arguments.at)?)?;
    let path = format!("{topic}/deadLetters/{}", encode(&arguments.id));
    let letter = client.get_ours(WHAT, Ours::Item, &path)?;
    if arguments.at.json {
        return print_json(&letter);
    }
    if arguments.data {
        return print_data(&data(&letter["message"]), arguments.raw);
    }
    print(&describe(&letter))
}

/// The path of the topic that holds the letters: of a subscription, the one its policy names.
fn dead_letter_topic(client: &Client, name: &Name) -> Result<String, Failure> {
    if !name.as_str().contains("/subscriptions/") {
        return Ok(name.path());
    }
    let subscription = client.get(&name.path())?;
    match subscription.pointer("/deadLetterPolicy/deadLetterTopic").and_then(Value::as_str) {
        Some(topic) => Ok(path(topic)),
        None => Err(Failure::not_found(format!("{name} has no dead letter topic"))),
    }
}

const SHOWN: [(&str, &str); 11] = [
    ("Letter", "messageId"),
    ("State", "state"),
    ("Topic", "topic"),
    ("Given up at", "publishTime"),
    ("From", "originalSubscription"),
    ("Message", "originalMessageId"),
    ("Reason", "failureReason"),
    ("Attempts", "attempts"),
    ("Class", "errorClass"),
    ("Last status", "lastStatus"),
    ("Last error", "lastError"),
];

fn describe(letter: &Value) -> String {
    let mut text = String::new();
    for (what, field) in SHOWN {
        if let Some(value) = letter.get(field).filter(|value| !value.is_null()) {
            fact(&mut text, what, &plain(value));
        }
    }
    let message = &letter["message"];
    if let Some(key) = message["orderingKey"].as_str() {
        fact(&mut text, "Ordering key", key);
    }
    for (name, value) in message["attributes"].as_object().into_iter().flatten() {
        fact(&mut text, "Attribute", &format!("{name}={}", plain(value)));
    }
    fact(&mut text, "Data", &shown(&data(message)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter() -> Value {
        json!({
            "messageId": "9", "publishTime": "2026-11-15T12:00:00Z", "state": "waiting",
            "topic": "projects/p/topics/dead", "originalMessageId": "7",
            "originalSubscription": "projects/p/subscriptions/billing", "attempts": 5,
            "errorClass": "http_5xx", "lastError": "out of\npaper", "lastStatus": 500,
            "message": {"data": "aGVsbG8=", "attributes": {"kind": "order"}},
        })
    }

    #[test]
    fn letters_are_lines_of_a_table() {
        let text = table(&[letter()]);
        let cells: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        let expected = [
            "9",
            "2026-11-15T12:00:00Z",
            "waiting",
            "billing",
            "5",
            "http_5xx",
            "\"out",
            "of\\npaper\"",
            "hello",
        ];
        assert_eq!(cells, expected);
        assert_eq!(table(&[]), "no dead letters\n");
    }

    #[test]
    fn a_letter_is_shown_with_all_that_is_known() {
        let text = describe(&letter());
        for line in [
            "Letter           9\n",
            "From             projects/p/subscriptions/billing\n",
            "Last status      500\n",
            "Attribute        kind=order\n",
            "Data             hello\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("Reason"), "{text}");
    }
}
