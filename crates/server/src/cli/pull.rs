//! `postrider pull`.

use std::time::Duration;

use clap::Args;
use domain::limits::PULL_MESSAGES_MAX;
use http::Method;
use serde_json::{Value, json};

use super::client::{At, Client, Problem};
use super::messages::DataOnly;
use super::names::Name;
use super::values::duration;
use super::{Failure, messages, note, print, print_json};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider pull billing --project demo              look at up to 10; they come again later
  postrider pull billing --ack --max 100             take up to 100 for good
  postrider pull billing --ack --follow              go on until Ctrl-C
  postrider pull billing --ack --max 1 --data        the data alone, for scripts
  postrider pull billing --wait 30s --json

Without --ack, messages stay leased until their ack deadline and are then redelivered, which counts
as a failed attempt. postrider tail looks at messages without touching them. With --json it prints
{\"receivedMessages\": […]}; with --follow as well, one such message on each line.";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The subscription
    name: String,
    /// Take at most this many messages [default: 10; no limit with --follow]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    max: Option<u32>,
    /// Ack what was printed
    #[arg(long, overrides_with = "no_ack")]
    ack: bool,
    /// Ack nothing (the default)
    #[arg(long, overrides_with = "ack")]
    no_ack: bool,
    /// Keep going with new messages
    #[arg(long)]
    follow: bool,
    /// How long to wait for the first message
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    wait: Duration,
    #[command(flatten)]
    only: DataOnly,
    #[command(flatten)]
    at: At,
}

const MAX_DEFAULT: usize = 10;

/// Between two looks at an empty subscription.
const POLL: Duration = Duration::from_millis(100);

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let name = arguments.at.subscription(&arguments.name)?;
    let client = Client::new(&arguments.at)?;
    let max = arguments.max.map(|max| usize::try_from(max).unwrap_or(usize::MAX));
    let puller = Puller { client, name, arguments };
    if arguments.follow {
        return puller.follow(max.unwrap_or(usize::MAX));
    }
    puller.some(max.unwrap_or(MAX_DEFAULT))
}

struct Puller<'arguments> {
    client: Client,
    name: Name,
    arguments: &'arguments Arguments,
}

impl Puller<'_> {
    /// What is there, up to `max`.
    fn some(&self, max: usize) -> Result<(), Failure> {
        let end = self.client.now().plus(self.arguments.wait);
        let mut received: Vec<Value> = Vec::new();
        loop {
            let more = self.pull(max - received.len(), true)?;
            let is_dry = more.is_empty();
            received.extend(more);
            if received.len() >= max || (is_dry && !received.is_empty()) {
                break;
            }
            if is_dry {
                if self.client.now() >= end {
                    break;
                }
                std::thread::sleep(POLL);
            }
        }
        if self.arguments.at.json {
            print_json(&json!({ "receivedMessages": received }))?;
        } else {
            self.arguments.only.print(&received, line)?;
        }
        self.settle(&received)?;
        self.tell(received.len());
        Ok(())
    }

    /// Whatever comes, until `max` have come.
    fn follow(&self, max: usize) -> Result<(), Failure> {
        let mut count = 0;
        while count < max {
            let received = self.pull(max - count, false)?;
            count += received.len();
            if self.arguments.at.json {
                print(&received.iter().map(|one| format!("{one}\n")).collect::<String>())?;
            } else {
                self.arguments.only.print(&received, line)?;
            }
            self.settle(&received)?;
        }
        Ok(())
    }

    fn pull(&self, max: usize, is_immediate: bool) -> Result<Vec<Value>, Failure> {
        let mut body = json!({"maxMessages": max.min(PULL_MESSAGES_MAX)});
        if is_immediate {
            body["returnImmediately"] = true.into();
        }
        let path = format!("{}:pull", self.name.path());
        match self.client.call(Method::POST, &path, Some(&body)) {
            Ok(answer) => Ok(answer["receivedMessages"].as_array().cloned().unwrap_or_default()),
            // A server may wait for news longer than we do.
            Err(Problem::Late) if !is_immediate => Ok(Vec::new()),
            Err(problem) => Err(self.client.failure(problem)),
        }
    }

    /// Acks after printing: what was not printed is not acked.
    fn settle(&self, received: &[Value]) -> Result<(), Failure> {
        if !self.arguments.ack || received.is_empty() {
            return Ok(());
        }
        let ids: Vec<&Value> = received.iter().map(|one| &one["ackId"]).collect();
        for ids in ids.chunks(PULL_MESSAGES_MAX) {
            let path = format!("{}:acknowledge", self.name.path());
            self.client.post(&path, &json!({ "ackIds": ids }))?;
        }
        Ok(())
    }

    fn tell(&self, count: usize) {
        match count {
            0 => note("no messages"),
            count if !self.arguments.ack => note(&format!(
                "{count} leased and not acked: they are redelivered after their ack deadline"
            )),
            _ => {}
        }
    }
}

fn line(received: &Value) -> String {
    let attempt = match received["deliveryAttempt"].as_u64() {
        Some(attempt) if attempt > 0 => format!("attempt {attempt}"),
        _ => String::new(),
    };
    messages::line(&received["message"], &attempt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parsing::parse;

    #[test]
    fn the_later_of_two_contrary_flags_counts() {
        let ack = |words: &[&str]| {
            let words = ["pull", "s"].iter().chain(words);
            parse::<Arguments>(words).unwrap().ack
        };
        assert!(!ack(&[]) && !ack(&["--no-ack"]) && !ack(&["--ack", "--no-ack"]));
        assert!(ack(&["--ack"]) && ack(&["--no-ack", "--ack"]));
        assert!(parse::<Arguments>(["pull", "s", "--max", "0"]).is_err());
        assert!(parse::<Arguments>(["pull", "s", "--data", "--json"]).is_err());
    }

    #[test]
    fn attempts_are_shown_where_they_are_counted() {
        let message = json!({"messageId": "1", "publishTime": "t", "data": "eA=="});
        let received = json!({"ackId": "a", "message": message});
        assert_eq!(line(&received), "1  t  x\n");
        let counted = json!({"message": message, "deliveryAttempt": 3});
        assert_eq!(line(&counted), "1  t  attempt 3  x\n");
    }
}
