//! `postrider seek`.

use clap::Args;
use domain::Timestamp;
use serde_json::{Value, json};

use super::client::{At, Client};
use super::table::plain;
use super::values::{rfc3339, time};
use super::{Failure, print, print_json};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider seek billing --earliest --project demo   redeliver everything still kept
  postrider seek billing --latest                    mark everything published so far as acked
  postrider seek billing --time 2026-11-15T12:00:00Z
  postrider seek billing --time 2h                   to what was published two hours ago
  postrider seek billing --snapshot before-deploy

Acked messages are redelivered only if the subscription or its topic keeps them.";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The subscription
    name: String,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Default, Args)]
#[group(required = true, multiple = false)]
struct Target {
    /// To a time: RFC 3339, or how long ago
    #[arg(long)]
    time: Option<String>,
    /// To a snapshot
    #[arg(long)]
    snapshot: Option<String>,
    /// To the oldest message kept
    #[arg(long)]
    earliest: bool,
    /// To now: mark everything published so far as acked
    #[arg(long)]
    latest: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let name = arguments.at.subscription(&arguments.name)?;
    let client = Client::new(&arguments.at)?;
    let body = target(arguments, client.wall())?;
    client.post(&format!("{}:seek", name.path()), &body)?;
    if arguments.at.json {
        return print_json(&json!({"subscription": name.as_str(), "target": body}));
    }
    print(&format!("{name} goes on {}\n", arguments.target.words(&body)))
}

impl Target {
    /// Where to, in words.
    fn words(&self, body: &Value) -> String {
        if self.earliest {
            return "from the oldest message kept for it".to_owned();
        }
        if self.latest {
            return "from now: what was published so far counts as acked".to_owned();
        }
        match &self.snapshot {
            Some(_) => format!("from snapshot {}", plain(&body["snapshot"])),
            None => format!("from what was published at {}", plain(&body["time"])),
        }
    }
}

fn target(arguments: &Arguments, now: Timestamp) -> Result<Value, Failure> {
    let Target { time: given, snapshot, earliest, .. } = &arguments.target;
    if let Some(snapshot) = snapshot {
        return Ok(json!({"snapshot": arguments.at.snapshot(snapshot)?.as_str()}));
    }
    let time = match given {
        Some(text) => time("--time", text, now)?,
        None if *earliest => rfc3339(Timestamp::default()),
        None => rfc3339(now),
    };
    Ok(json!({ "time": time }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parsing::parse;

    #[test]
    fn each_target_becomes_one_of_googles() {
        let body = |words: &[&str]| {
            let words = ["seek", "s", "--project", "p"].iter().chain(words);
            let arguments = parse(words).ok()?;
            target(&arguments, Timestamp(7_200_000_000)).ok()
        };
        assert_eq!(body(&["--earliest"]), Some(json!({"time": "1970-01-01T00:00:00Z"})));
        assert_eq!(body(&["--latest"]), Some(json!({"time": "1970-01-01T02:00:00Z"})));
        assert_eq!(body(&["--time", "1h"]), Some(json!({"time": "1970-01-01T01:00:00Z"})));
        let snapshot = json!({"snapshot": "projects/p/snapshots/monday"});
        assert_eq!(body(&["--snapshot", "monday"]), Some(snapshot));
        for bad in [&[][..], &["--earliest", "--latest"], &["--time", "noon"]] {
            assert_eq!(body(bad), None, "{bad:?}");
        }
    }
}
