//! `postrider top`: what subscriptions do, live.

use std::io::IsTerminal;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::client::{At, Client, Ours};
use super::names::path;
use super::table::{Table, plain};
use super::values::duration;
use super::{Failure, obstacles, print, print_json};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider top --project demo
  postrider top --project demo --sort oldest --limit 10
  postrider top --project demo --once --json

Rates are those of the last interval. With --json it prints one object for each interval.";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Show one table, of one interval, and end
    #[arg(long)]
    once: bool,
    /// How often it looks
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    interval: Duration,
    /// What comes first
    #[arg(long, value_enum, default_value_t = Sort::Backlog)]
    sort: Sort,
    /// Show at most so many subscriptions
    #[arg(long, value_name = "NUMBER", default_value_t = 40,
          value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    at: At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// The longest backlog.
    Backlog,
    /// The oldest message that is not acked.
    Oldest,
    /// The most deliveries a second.
    Rate,
    /// The name.
    Name,
}

/// The shortest interval: looking more often shows nothing more.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let at = &arguments.at;
    let asked = format!("{}/figures", path(&at.project()?));
    let client = Client::new(at)?;
    let look = || client.get_ours("figures", Ours::Whole, &asked);
    let interval = arguments.interval.max(INTERVAL_MIN);
    let mut before = look()?;
    let mut looked = client.now();
    loop {
        client.sleep(interval);
        let now = look()?;
        let seconds = client.now().since(looked).as_secs_f64();
        looked = client.now();
        let view = view(arguments, &before, &now, seconds);
        if at.json && arguments.once {
            return print_json(&view);
        } else if at.json {
            print(&format!("{view}\n"))?;
        } else {
            print(&screen(&view, !arguments.once && std::io::stdout().is_terminal()))?;
        }
        if arguments.once {
            return Ok(());
        }
        before = now;
    }
}

/// What is counted, and what it is called a second.
const RATES: [(&str, &str); 4] = [
    ("deliveries", "deliveriesPerSecond"),
    ("acks", "acksPerSecond"),
    ("nacks", "nacksPerSecond"),
    ("expiries", "expiriesPerSecond"),
];

/// The figures of now with their rates since before, sorted and cut off.
fn view(arguments: &Arguments, before: &Value, now: &Value, seconds: f64) -> Value {
    let list = |of: &Value, field: &str| of[field].as_array().cloned().unwrap_or_default();
    let mut subscriptions = list(now, "subscriptions");
    let earlier = list(before, "subscriptions");
    for one in &mut subscriptions {
        add_rates(one, &earlier, &RATES, seconds);
    }
    sort(&mut subscriptions, arguments.sort);
    subscriptions.truncate(usize::try_from(arguments.limit).unwrap_or(usize::MAX));
    let mut topics = list(now, "topics");
    let earlier = list(before, "topics");
    for one in &mut topics {
        add_rates(one, &earlier, &[("messages", "messagesPerSecond")], seconds);
    }
    json!({"time": now["time"], "subscriptions": subscriptions, "topics": topics})
}

fn add_rates(one: &mut Value, earlier: &[Value], rates: &[(&str, &str)], seconds: f64) {
    let before = earlier.iter().find(|before| before["name"] == one["name"]);
    for (counter, rate) in rates {
        let now = one[*counter].as_f64().unwrap_or_default();
        let before = before.and_then(|before| before[*counter].as_f64()).unwrap_or(now);
        // A counter that went back began anew with the server.
        let more = if now < before { now } else { now - before };
        one[*rate] = json!((more / seconds * 10.0).round() / 10.0);
    }
}

fn sort(subscriptions: &mut [Value], sort: Sort) {
    let field = match sort {
        Sort::Backlog => "backlogMessages",
        Sort::Oldest => "oldestUnackedSeconds",
        Sort::Rate => "deliveriesPerSecond",
        Sort::Name => return subscriptions.sort_by_key(|one| plain(&one["name"])),
    };
    let number = |one: &Value| one[field].as_f64().unwrap_or(-1.0);
    subscriptions.sort_by(|one, other| {
        let more = number(other).total_cmp(&number(one));
        more.then_with(|| plain(&one["name"]).cmp(&plain(&other["name"])))
    });
}

const HEADINGS: [&str; 13] = [
    "SUBSCRIPTION",
    "BACKLOG",
    "BYTES",
    "OLDEST S",
    "LEASED",
    "OUT/S",
    "ACKED/S",
    "FAILED/S",
    "DEAD",
    "DROPPED",
    "BLOCKED S",
    "LANES",
    "WAITS FOR",
];

fn screen(view: &Value, is_live: bool) -> String {
    let mut table = Table::new(&HEADINGS);
    for one in view["subscriptions"].as_array().into_iter().flatten() {
        let rate = |name: &str| one[name].as_f64().unwrap_or_default();
        let failed = rate("nacksPerSecond") + rate("expiriesPerSecond");
        table.line([
            id(one),
            plain(&one["backlogMessages"]),
            plain(&one["backlogBytes"]),
            plain(&one["oldestUnackedSeconds"]),
            plain(&one["outstanding"]),
            plain(&one["deliveriesPerSecond"]),
            plain(&one["acksPerSecond"]),
            format!("{failed:.1}"),
            plain(&one["deadLetters"]),
            plain(&one["dropped"]),
            plain(&one["laneBlockedSeconds"]),
            lanes(&one["delivery"]["lanes"]),
            obstacles::brief(&one["delivery"]),
        ]);
    }
    let mut topics = Table::new(&["TOPIC", "PUBLISHED", "PUBLISHED/S"]);
    for one in view["topics"].as_array().into_iter().flatten() {
        topics.line([id(one), plain(&one["messages"]), plain(&one["messagesPerSecond"])]);
    }
    // Home, and everything below it wiped.
    let clear = if is_live { "\x1b[H\x1b[J" } else { "" };
    let tables = [table.text("no subscriptions"), topics.text("no topics")].join("\n");
    format!("{clear}{}\n\n{tables}", plain(&view["time"]))
}

/// How many lanes stand still, and how many of these wait for an operator.
fn lanes(lanes: &Value) -> String {
    match (lanes["blocked"].as_u64(), lanes["halted"].as_u64()) {
        (None | Some(0), _) => String::new(),
        (Some(blocked), None | Some(0)) => format!("{blocked} blocked"),
        (Some(blocked), Some(halted)) => format!("{blocked} blocked, {halted} halted"),
    }
}

fn id(one: &Value) -> String {
    plain(&one["name"]).rsplit('/').next().unwrap_or_default().to_owned()
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

    fn arguments(words: &[&str]) -> Arguments {
        Cli::try_parse_from(["top"].iter().chain(words)).unwrap().arguments
    }

    fn figures(deliveries: u64, backlog: u64) -> Value {
        json!({
            "time": "t",
            "subscriptions": [
                {"name": "projects/p/subscriptions/a", "backlogMessages": 1, "deliveries": 5,
                 "oldestUnackedSeconds": 9.0},
                {"name": "projects/p/subscriptions/b", "backlogMessages": backlog,
                 "deliveries": deliveries, "nacks": deliveries / 2, "deadLetters": 2,
                 "laneBlockedSeconds": 7,
                 "delivery": {"paused": false, "lanes": {"blocked": 3, "halted": 2}}},
            ],
            "topics": [{"name": "projects/p/topics/t", "messages": deliveries}],
        })
    }

    fn names(view: &Value) -> Vec<String> {
        view["subscriptions"].as_array().unwrap().iter().map(id).collect()
    }

    #[test]
    fn rates_are_what_was_counted_in_between() {
        let view = view(&arguments(&[]), &figures(10, 3), &figures(20, 4), 2.0);
        assert_eq!(names(&view), ["b", "a"], "the longest backlog first");
        let first = &view["subscriptions"][0];
        assert_eq!(first["deliveriesPerSecond"], json!(5.0));
        assert_eq!(first["nacksPerSecond"], json!(2.5));
        assert_eq!(view["topics"][0]["messagesPerSecond"], json!(5.0));
        let restarted = super::view(&arguments(&[]), &figures(100, 3), &figures(20, 4), 2.0);
        assert_eq!(restarted["subscriptions"][0]["deliveriesPerSecond"], json!(10.0));
    }

    #[test]
    fn it_sorts_and_cuts_off_as_told() {
        let sorted =
            |words: &[&str]| names(&view(&arguments(words), &json!({}), &figures(9, 9), 1.0));
        assert_eq!(sorted(&["--sort", "oldest"]), ["a", "b"]);
        assert_eq!(sorted(&["--sort", "name"]), ["a", "b"]);
        assert_eq!(sorted(&["--limit", "1"]), ["b"]);
    }

    #[test]
    fn the_screen_is_wiped_only_when_live() {
        let view = view(&arguments(&[]), &figures(1, 3), &figures(1, 4), 1.0);
        let text = screen(&view, false);
        assert!(text.starts_with("t\n\nSUBSCRIPTION"), "{text}");
        let cells: Vec<&str> = text.lines().nth(3).unwrap().split("  ").map(str::trim).collect();
        let cells: Vec<&str> = cells.into_iter().filter(|cell| !cell.is_empty()).collect();
        let stuck = ["7", "3 blocked, 2 halted", "operator, 2 halted"];
        assert_eq!(cells[..10], ["b", "4", "-", "-", "-", "0.0", "0.0", "0.0", "2", "-"]);
        assert_eq!(cells[10..], stuck);
        assert!(screen(&view, true).starts_with("\x1b[H"));
    }
}
