//! `postrider dead-letter`.

mod list;
mod remove;
mod replay;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::Failure;
use super::client::{At, Client, query};
use super::names::Name;
use super::values::time;

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider dead-letter list --subscription billing --project demo
  postrider dead-letter list --topic billing.dlq --class http_5xx --since 1h --json
  postrider dead-letter show 1794750000000000 --topic billing.dlq
  postrider dead-letter show 1794750000000000 --topic billing.dlq --data > letter
  postrider dead-letter replay --subscription billing --all
  postrider dead-letter replay 1794750000000000 --topic billing.dlq --to topic
  postrider dead-letter replay --subscription billing --class timeout --per-second 50
  postrider dead-letter replays
  postrider dead-letter delete --topic billing.dlq --until 30d

--subscription selects the letters from that subscription, --topic those in that topic. Looking at
them leases and consumes nothing. A replay runs in the server, in order, and resumes after a crash;
Ctrl-C only stops watching. A letter is replayed once, unless you give --again.";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List dead letters.
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show one dead letter in full.
    Show(list::Show),
    /// Redeliver dead letters in order, and wait until it is done.
    Replay(replay::Replay),
    /// List the replays of a project.
    Replays(replay::Replays),
    /// Wait for a running replay.
    Watch(replay::Named),
    /// Stop a running replay.
    Cancel(replay::Named),
    /// Delete dead letters for good.
    #[command(visible_alias = "rm")]
    Delete(remove::Delete),
}

/// Where the letters are.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Of {
    /// The letters from this subscription
    #[arg(long)]
    subscription: Option<String>,
    /// The letters in this dead letter topic
    #[arg(long)]
    topic: Option<String>,
}

/// Which of them.
#[derive(Debug, Default, Args)]
struct Which {
    /// Only letters whose attributes match this filter
    #[arg(long)]
    filter: Option<String>,
    /// Only letters whose last attempt failed this way, such as http_5xx, timeout or nack
    #[arg(long)]
    class: Option<String>,
    /// Only letters from this time on: RFC 3339, or how long ago
    #[arg(long)]
    since: Option<String>,
    /// Only letters before this time: RFC 3339, or how long ago
    #[arg(long)]
    until: Option<String>,
}

/// What letters are called where a server does not know them.
const WHAT: &str = "dead letters";

pub(super) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::List(arguments) => list::list(arguments),
        Command::Show(arguments) => list::show(arguments),
        Command::Replay(arguments) => replay::start(arguments),
        Command::Replays(arguments) => replay::list(arguments),
        Command::Watch(arguments) => replay::watch(arguments),
        Command::Cancel(arguments) => replay::cancel(arguments),
        Command::Delete(arguments) => remove::delete(arguments),
    }
}

impl Of {
    fn name(&self, at: &At) -> Result<Name, Failure> {
        match (&self.subscription, &self.topic) {
            (Some(subscription), _) => at.subscription(subscription),
            (None, topic) => at.topic(topic.as_deref().unwrap_or_default()),
        }
    }
}

impl Which {
    fn is_given(&self) -> bool {
        [&self.filter, &self.class, &self.since, &self.until].iter().any(|given| given.is_some())
    }

    /// What was given, by its name in the API.
    fn parts(&self, client: &Client) -> Result<[(&'static str, String); 4], Failure> {
        let moment = |flag: &str, given: &Option<String>| match given {
            Some(text) => time(flag, text, client.wall()),
            None => Ok(String::new()),
        };
        Ok([
            ("filter", self.filter.clone().unwrap_or_default()),
            ("class", self.class.clone().unwrap_or_default()),
            ("since", moment("--since", &self.since)?),
            ("until", moment("--until", &self.until)?),
        ])
    }

    /// The query of a page.
    fn query(
        &self,
        client: &Client,
        state: &str,
        size: usize,
        token: &str,
    ) -> Result<String, Failure> {
        let parts = self.parts(client)?;
        let size = size.to_string();
        let mut all: Vec<(&str, &str)> =
            parts.iter().map(|(name, value)| (*name, value.as_str())).collect();
        all.extend([("state", state), ("pageSize", size.as_str()), ("pageToken", token)]);
        Ok(query(&all))
    }
}

/// A choice of letters to act on: by id, by what they are, or all. One way must be chosen.
fn selection(
    ids: &[String],
    which: &Which,
    is_all: bool,
    client: &Client,
) -> Result<Map<String, Value>, Failure> {
    let chosen = [!ids.is_empty(), which.is_given(), is_all];
    if chosen.iter().filter(|chosen| **chosen).count() != 1 {
        return Err(Failure::usage(
            "which letters? Give their ids, or --filter, --class, --since, --until, or --all",
        ));
    }
    if !ids.is_empty() {
        return Ok(Map::from_iter([("messageIds".to_owned(), json!(ids))]));
    }
    if is_all {
        return Ok(Map::from_iter([("all".to_owned(), true.into())]));
    }
    let parts = which.parts(client)?.into_iter().filter(|(_, value)| !value.is_empty());
    Ok(parts.map(|(name, value)| (name.to_owned(), value.into())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        let at = At { server: Some("127.0.0.1:1".to_owned()), ..At::default() };
        Client::new(&at).ok().unwrap()
    }

    #[test]
    fn letters_are_chosen_in_one_way() {
        let client = client();
        let none = Which::default();
        let some = Which { class: Some("nack".to_owned()), ..Which::default() };
        let ids = ["7".to_owned()];
        let chosen = |ids: &[String], which: &Which, is_all| {
            selection(ids, which, is_all, &client).ok().map(Value::Object)
        };
        assert_eq!(chosen(&ids, &none, false), Some(json!({"messageIds": ["7"]})));
        assert_eq!(chosen(&[], &some, false), Some(json!({"class": "nack"})));
        assert_eq!(chosen(&[], &none, true), Some(json!({"all": true})));
        assert_eq!(chosen(&[], &none, false), None);
        assert_eq!(chosen(&ids, &none, true), None);
        assert_eq!(chosen(&[], &some, true), None);
    }

    #[test]
    fn the_query_holds_what_was_given() {
        let which = Which {
            filter: Some("attributes:a".to_owned()),
            since: Some("2026-11-15T12:00:00Z".to_owned()),
            ..Which::default()
        };
        let query = which.query(&client(), "all", 9, "t").ok().unwrap();
        let since = "2026-11-15T12%3A00%3A00Z";
        let expected =
            format!("?filter=attributes%3Aa&since={since}&state=all&pageSize=9&pageToken=t");
        assert_eq!(query, expected);
        let bad = Which { until: Some("noon".to_owned()), ..Which::default() };
        assert!(bad.query(&client(), "", 1, "").is_err());
    }
}
