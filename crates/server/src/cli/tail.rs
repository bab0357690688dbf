//! `postrider tail`: looks at messages without touching them.

use clap::Args;
use serde_json::{Value, json};

use super::client::{At, Client, Ours, query};
use super::messages::DataOnly;
use super::names::Name;
use super::table::plain;
use super::values::time;
use super::{Failure, messages, note, obstacles, print, print_json};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider tail orders --project demo               what the topic keeps, oldest first
  postrider tail orders --follow                     what is published from now on
  postrider tail orders --time 10m --filter 'attributes.kind = \"order\"'
  postrider tail --subscription billing              what billing has not settled yet
  postrider tail orders --from 1794750000000000 --max 1 --json

It leases nothing, counts no attempt and moves no cursor. With --json it prints {\"messages\": […]},
for a subscription with what keeps it from delivering; with --follow, one message per line.";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    of: Of,
    /// Where to start: earliest, latest, or an offset [default: earliest; latest with --follow]
    #[arg(long, conflicts_with = "time")]
    from: Option<String>,
    /// Start with messages published at this time: RFC 3339, or how long ago
    #[arg(long)]
    time: Option<String>,
    /// Only messages that match this filter
    #[arg(long)]
    filter: Option<String>,
    /// Show at most this many messages [default: 100; no limit with --follow]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    max: Option<u32>,
    /// Keep going with new messages, until Ctrl-C
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    only: DataOnly,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Of {
    /// The topic
    topic: Option<String>,
    /// Show this subscription's backlog instead of a topic
    #[arg(long)]
    subscription: Option<String>,
}

const MAX_DEFAULT: usize = 100;

/// Messages asked for at a time.
const PAGE_SIZE: usize = 100;

/// How long the server may wait for news before it answers, in seconds.
const WAIT_S: &str = "20";

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let name = match (&arguments.of.topic, &arguments.of.subscription) {
        (_, Some(subscription)) => arguments.at.subscription(subscription)?,
        (topic, None) => arguments.at.topic(topic.as_deref().unwrap_or_default())?,
    };
    let client = Client::new(&arguments.at)?;
    let place = PageStart::first(arguments, &client)?;
    let max = arguments.max.map(|max| usize::try_from(max).unwrap_or(usize::MAX));
    let tail = Tail { client, name, arguments };
    if arguments.follow {
        return tail.follow(place, max.unwrap_or(usize::MAX));
    }
    tail.some(place, max.unwrap_or(MAX_DEFAULT))
}

/// Where the next page begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PageStart {
    from: String,
    time: String,
    token: String,
}

impl PageStart {
    fn first(arguments: &Arguments, client: &Client) -> Result<Self, Failure> {
        let time = match &arguments.time {
            Some(text) => time("--time", text, client.wall())?,
            None => String::new(),
        };
        let from = match &arguments.from {
            Some(from) => from.clone(),
            None if !time.is_empty() => String::new(),
            None if arguments.follow => "latest".to_owned(),
            None => "earliest".to_owned(),
        };
        Ok(Self { from, time, token: String::new() })
    }

    /// Behind `page`: where its token says, else behind its last message.
    fn behind(&mut self, page: &Value) {
        match page["nextPageToken"].as_str() {
            Some(token) if !token.is_empty() => token.clone_into(&mut self.token),
            _ => {
                self.token.clear();
                let last = page["messages"].as_array().and_then(|messages| messages.last());
                let last = last.and_then(|last| plain(&last["offset"]).parse::<u64>().ok());
                if let Some(last) = last {
                    self.from = (last + 1).to_string();
                    self.time.clear();
                }
            }
        }
    }
}

struct Tail<'arguments> {
    client: Client,
    name: Name,
    arguments: &'arguments Arguments,
}

impl Tail<'_> {
    fn page(&self, place: &PageStart, left: usize, wait: &str) -> Result<Value, Failure> {
        let size = left.min(PAGE_SIZE).to_string();
        let query = query(&[
            ("from", &place.from),
            ("time", &place.time),
            ("filter", self.arguments.filter.as_deref().unwrap_or_default()),
            ("pageSize", &size),
            ("pageToken", &place.token),
            ("wait", wait),
        ]);
        let path = format!("{}/messages{query}", self.name.path());
        self.client.get_ours("messages", Ours::Of(&self.name), &path)
    }

    fn some(&self, mut place: PageStart, max: usize) -> Result<(), Failure> {
        let mut found: Vec<Value> = Vec::new();
        let mut delivery = Value::Null;
        while found.len() < max {
            let page = self.page(&place, max - found.len(), "")?;
            let before = place.clone();
            place.behind(&page);
            page["delivery"].clone_into(&mut delivery);
            found.extend(page["messages"].as_array().cloned().unwrap_or_default());
            if place.token.is_empty() || place == before {
                break;
            }
        }
        found.truncate(max);
        if self.arguments.at.json {
            let mut shown = json!({ "messages": found });
            if !delivery.is_null() {
                shown["delivery"] = delivery;
            }
            return print_json(&shown);
        }
        if found.is_empty() {
            note("no messages");
        }
        if let Some(lines) = obstacles::lines(&delivery) {
            note(&lines);
        }
        self.arguments.only.print(&found, line)
    }

    fn follow(&self, mut place: PageStart, max: usize) -> Result<(), Failure> {
        let mut count = 0;
        while count < max {
            let page = self.page(&place, max - count, WAIT_S)?;
            place.behind(&page);
            let found = page["messages"].as_array().cloned().unwrap_or_default();
            count += found.len();
            if self.arguments.at.json {
                print(&found.iter().map(|one| format!("{one}\n")).collect::<String>())?;
            } else {
                self.arguments.only.print(&found, line)?;
            }
        }
        Ok(())
    }
}

/// One line; of a backlog with what is known about the message's delivery.
fn line(found: &Value) -> String {
    let mut more = plain(&found["state"]);
    if let Some(attempt) = found["attempt"].as_u64().filter(|attempt| *attempt > 0) {
        more.push_str(&format!(" (attempt {attempt})"));
    }
    if let Some(at) = found["nextAttemptAt"].as_str() {
        more.push_str(&format!(" until {at}"));
    }
    messages::line(&found["message"], more.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parsing;

    fn parse(words: &[&str]) -> Option<Arguments> {
        parsing::parse(["tail"].iter().chain(words)).ok()
    }

    #[test]
    fn it_begins_at_the_oldest_or_follows_the_newest() {
        let at = At { server: Some("127.0.0.1:1".to_owned()), ..At::default() };
        let client = Client::new(&at).ok().unwrap();
        let first =
            |words: &[&str]| PageStart::first(&parse(words).unwrap(), &client).ok().unwrap();
        assert_eq!(first(&["t"]).from, "earliest");
        assert_eq!(first(&["t", "--follow"]).from, "latest");
        assert_eq!(first(&["t", "--follow", "--from", "7"]).from, "7");
        let timed = first(&["t", "--time", "2026-11-15T12:00:00Z"]);
        assert_eq!((&*timed.from, &*timed.time), ("", "2026-11-15T12:00:00Z"));
        for bad in [&[][..], &["t", "--subscription", "s"], &["t", "--from", "1", "--time", "1h"]] {
            assert!(parse(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn the_next_page_is_behind_the_token_or_the_last_message() {
        let mut place = PageStart { from: "latest".to_owned(), ..PageStart::default() };
        place.behind(&json!({"messages": [], "nextPageToken": ""}));
        assert_eq!(place.from, "latest");
        place.behind(&json!({"messages": [{"offset": "7"}], "nextPageToken": "t"}));
        assert_eq!((&*place.from, &*place.token), ("latest", "t"));
        place.behind(&json!({"messages": [{"offset": "8"}, {"offset": "9"}]}));
        assert_eq!((&*place.from, &*place.token), ("10", ""));
    }

    #[test]
    fn a_backlog_shows_what_becomes_of_each_message() {
        let message = json!({"messageId": "1", "publishTime": "t", "data": "eA=="});
        assert_eq!(line(&json!({"offset": "1", "message": message})), "1  t  x\n");
        let leased = json!({"message": message, "state": "leased", "attempt": 2});
        assert_eq!(line(&leased), "1  t  leased (attempt 2)  x\n");
        let waiting = json!({
            "message": message, "state": "backing off", "attempt": 2, "nextAttemptAt": "t2",
        });
        assert_eq!(line(&waiting), "1  t  backing off (attempt 2) until t2  x\n");
    }
}
