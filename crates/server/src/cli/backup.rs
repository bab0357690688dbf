//! `postrider backup`.

use std::time::Duration;

use clap::Args;
use domain::Timestamp;
use http::Method;
use serde_json::{Value, json};
use wire::protobuf;

use super::client::{At, Client, encode};
use super::table::plain;
use super::{Failure, note, print, print_json};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider backup
  postrider backup before-the-migration --json

The server copies its store, while it goes on, to a new folder of that name below its setting
storage.backup_dir. To restore: stop the server, put a copy of that folder in the place of its data
folder, start it.";

/// How long the server may copy. It goes on if this is over.
const TIMEOUT: Duration = Duration::from_secs(6 * 60 * 60);

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// What to call it [default: the time, as in 2026-11-15T18-43-26Z]
    name: Option<String>,
    #[command(flatten)]
    at: At,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let client = Client::new(&arguments.at)?;
    let name = arguments.name.clone().unwrap_or_else(|| time_name(client.wall()));
    note(&format!("{} copies its store; this may take a while", client.host()));
    let path = format!("/v1/backups/{}", encode(&name));
    let made = client.call_within(TIMEOUT, Method::PUT, &path, Some(&json!({})));
    let made = made.map_err(|problem| client.failure(problem))?;
    if arguments.at.json {
        return print_json(&made);
    }
    print(&told(&made))
}

fn told(made: &Value) -> String {
    let [folder, files, bytes] = ["folder", "files", "bytes"].map(|field| plain(&made[field]));
    let seconds = made["seconds"].as_f64().unwrap_or_default();
    format!("{folder}: {files} files, {bytes} bytes, in {seconds:.1} s\n")
}

/// As a name, times have no colons, and no more than seconds.
fn time_name(now: Timestamp) -> String {
    let seconds = i64::try_from(now.seconds()).unwrap_or(i64::MAX);
    let time = protobuf::Timestamp::from_unix_micros(seconds.saturating_mul(1_000_000));
    let text = json!(time);
    text.as_str().map_or_else(|| seconds.to_string(), |text| text.replace(':', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_name_it_is_the_time() {
        let time = Timestamp(1_794_768_206_123_456);
        assert_eq!(time_name(time), "2026-11-15T18-43-26Z");
    }

    #[test]
    fn what_was_made_is_one_line() {
        let made = json!({"folder": "/b/x", "files": 4, "bytes": "1000", "seconds": 0.25});
        assert_eq!(told(&made), "/b/x: 4 files, 1000 bytes, in 0.2 s\n");
    }
}
