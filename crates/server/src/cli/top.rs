//! `postrider top`: what subscriptions do, live.

mod columns;
mod grid;
mod keys;
mod screen;

use std::time::Duration;

use clap::{Args, ValueEnum};
use domain::Moment;
use serde_json::{Value, json};

use super::client::{At, Client, Ours};
use super::names::path;
use super::table::plain;
use super::values::duration;
use super::{Failure, print, print_bytes, print_json};
use keys::{Key, Terminal, room};
use screen::{Room, screen};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider top --project demo
  postrider top --project demo --sort oldest --limit 10
  postrider top --project demo --once --json

Rates are for the last interval. With --json it prints one object per interval. On a terminal it
fits the width and has keys: q quits, s picks the next order, and b, o, r, l and n sort by backlog,
oldest message, rate, waiting letters, and name. NO_COLOR turns off colors.";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Show one interval and exit
    #[arg(long)]
    once: bool,
    /// How often to refresh
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    interval: Duration,
    /// The sort order
    #[arg(long, value_enum, default_value_t = Sort::Backlog)]
    sort: Sort,
    /// Show at most this many subscriptions
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
    /// The oldest unacked message.
    Oldest,
    /// The most deliveries per second.
    Rate,
    /// The most dead letters nobody has handled.
    Letters,
    /// The name.
    Name,
}

/// The shortest interval: looking more often shows nothing more.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

impl Sort {
    /// Each with the key that chooses it.
    const ALL: [(char, Self); 5] = [
        ('b', Self::Backlog),
        ('o', Self::Oldest),
        ('r', Self::Rate),
        ('l', Self::Letters),
        ('n', Self::Name),
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Backlog => "backlog",
            Self::Oldest => "oldest",
            Self::Rate => "rate",
            Self::Letters => "letters",
            Self::Name => "name",
        }
    }

    /// The order after a key was pressed.
    fn pressed(self, key: char) -> Self {
        let at = Self::ALL.iter().position(|(_, sort)| *sort == self).unwrap_or_default();
        let chosen = match key {
            's' => Self::ALL.get((at + 1) % Self::ALL.len()),
            _ => Self::ALL.iter().find(|(of, _)| *of == key),
        };
        chosen.map_or(self, |(_, sort)| *sort)
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let at = &arguments.at;
    let asked = format!("{}/figures", path(&at.project()?));
    let client = Client::new(at)?;
    let watch = Watch { client: &client, asked, interval: arguments.interval.max(INTERVAL_MIN) };
    if !arguments.once && !at.json {
        let first = watch.look()?;
        if let Some(terminal) = Terminal::take()? {
            return live(arguments, &watch, first, &terminal);
        }
    }
    let mut before = watch.look()?;
    loop {
        std::thread::sleep(watch.interval);
        let now = watch.look()?;
        let view = view(arguments, arguments.sort, &before, &now);
        match (at.json, arguments.once) {
            (true, true) => print_json(&view)?,
            (true, false) => print(&format!("{view}\n"))?,
            (false, is_once) => print_table(&view, is_once)?,
        }
        if arguments.once {
            return Ok(());
        }
        before = now;
    }
}

/// The table where nobody presses keys; on a terminal within its width, and as high as it is.
fn print_table(view: &Value, is_once: bool) -> Result<(), Failure> {
    let lines = screen(view, Room { height: None, ..room() });
    let text = lines.join("\n") + if is_once { "\n" } else { "\n\n" };
    // The colours are ours, and the cells are harmless already.
    print_bytes(text.as_bytes())
}

/// Shows the table until a key ends it.
fn live(
    arguments: &Arguments,
    watch: &Watch<'_>,
    mut before: Looked,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let mut sort = arguments.sort;
    let mut now = watch.look()?;
    let mut next = watch.client.now().plus(watch.interval);
    loop {
        let keys = terminal.has_keys().then_some(sort);
        let view = view(arguments, sort, &before, &now);
        terminal.show(&screen(&view, Room { keys, ..room() }))?;
        match terminal.key(next.since(watch.client.now())) {
            Some(Key::End | Key::Char('q')) => return Ok(()),
            Some(Key::Char(key)) => sort = sort.pressed(key),
            None => {}
        }
        if watch.client.now() >= next {
            before = std::mem::replace(&mut now, watch.look()?);
            next = watch.client.now().plus(watch.interval);
        }
    }
}

/// Asks again and again.
struct Watch<'client> {
    client: &'client Client,
    asked: String,
    interval: Duration,
}

/// Figures, and when they were looked at.
struct Looked {
    figures: Value,
    at: Moment,
}

impl Watch<'_> {
    fn look(&self) -> Result<Looked, Failure> {
        let figures = self.client.get_ours("figures", Ours::Whole, &self.asked)?;
        Ok(Looked { figures, at: self.client.now() })
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
fn view(arguments: &Arguments, order: Sort, before: &Looked, now: &Looked) -> Value {
    let seconds = now.at.since(before.at).max(INTERVAL_MIN).as_secs_f64();
    let (before, now) = (&before.figures, &now.figures);
    let list = |of: &Value, field: &str| of[field].as_array().cloned().unwrap_or_default();
    let mut subscriptions = list(now, "subscriptions");
    let earlier = list(before, "subscriptions");
    for one in &mut subscriptions {
        add_rates(one, &earlier, &RATES, seconds);
    }
    sort(&mut subscriptions, order);
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
        // A counter that went back was reset by a restart of the server.
        let more = if now < before { now } else { now - before };
        one[*rate] = json!((more / seconds * 10.0).round() / 10.0);
    }
}

fn sort(subscriptions: &mut [Value], sort: Sort) {
    let field = match sort {
        Sort::Backlog => "backlogMessages",
        Sort::Oldest => "oldestUnackedSeconds",
        Sort::Rate => "deliveriesPerSecond",
        Sort::Letters => "deadLettersWaiting",
        Sort::Name => return subscriptions.sort_by_key(|one| plain(&one["name"])),
    };
    let number = |one: &Value| one[field].as_f64().unwrap_or(-1.0);
    subscriptions.sort_by(|one, other| {
        let more = number(other).total_cmp(&number(one));
        more.then_with(|| plain(&one["name"]).cmp(&plain(&other["name"])))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parsing::parse;

    fn arguments(words: &[&str]) -> Arguments {
        parse(["top"].iter().chain(words)).unwrap()
    }

    fn figures(deliveries: u64, backlog: u64) -> Value {
        json!({
            "time": "t",
            "subscriptions": [
                {"name": "projects/p/subscriptions/a", "backlogMessages": 1, "deliveries": 5,
                 "oldestUnackedSeconds": 9.0},
                {"name": "projects/p/subscriptions/b", "backlogMessages": backlog,
                 "deliveries": deliveries, "nacks": deliveries / 2, "deadLetters": 2,
                 "deadLettersWaiting": 2, "fifo": {"blockedSeconds": 7}},
            ],
            "topics": [{"name": "projects/p/topics/t", "messages": deliveries}],
        })
    }

    fn viewed(words: &[&str], before: Value, now: Value, seconds: u64) -> Value {
        let arguments = arguments(words);
        let at = Moment::default();
        let before = Looked { figures: before, at };
        let now = Looked { figures: now, at: at.plus(Duration::from_secs(seconds)) };
        view(&arguments, arguments.sort, &before, &now)
    }

    fn names(view: &Value) -> Vec<String> {
        let of = |one: &Value| one["name"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        view["subscriptions"].as_array().unwrap().iter().map(of).collect()
    }

    #[test]
    fn rates_are_what_was_counted_in_between() {
        let view = viewed(&[], figures(10, 3), figures(20, 4), 2);
        assert_eq!(names(&view), ["b", "a"], "the longest backlog first");
        let first = &view["subscriptions"][0];
        assert_eq!(first["deliveriesPerSecond"], json!(5.0));
        assert_eq!(first["nacksPerSecond"], json!(2.5));
        assert_eq!(view["topics"][0]["messagesPerSecond"], json!(5.0));
        let restarted = viewed(&[], figures(100, 3), figures(20, 4), 2);
        assert_eq!(restarted["subscriptions"][0]["deliveriesPerSecond"], json!(10.0));
    }

    #[test]
    fn it_sorts_and_cuts_off_as_told() {
        let sorted = |words: &[&str]| names(&viewed(words, json!({}), figures(9, 9), 1));
        assert_eq!(sorted(&["--sort", "oldest"]), ["a", "b"]);
        assert_eq!(sorted(&["--sort", "name"]), ["a", "b"]);
        assert_eq!(sorted(&["--sort", "letters"]), ["b", "a"]);
        assert_eq!(sorted(&["--limit", "1"]), ["b"]);
    }

    #[test]
    fn keys_choose_the_order() {
        assert_eq!(Sort::Backlog.pressed('n'), Sort::Name);
        assert_eq!(Sort::Backlog.pressed('x'), Sort::Backlog);
        let mut seen = vec![Sort::Backlog];
        while seen.len() < 6 {
            seen.push(seen.last().unwrap().pressed('s'));
        }
        assert_eq!(seen[5], Sort::Backlog, "all of them in turn: {seen:?}");
        assert_eq!(seen[1..5].iter().filter(|sort| **sort == Sort::Backlog).count(), 0);
    }

    #[test]
    fn the_table_shows_every_subscription_and_topic() {
        let view = viewed(&[], figures(1, 3), figures(1, 4), 1);
        let shown = screen(&view, Room::default());
        assert_eq!(shown[0], "t  2 dead letters waiting  1 stuck");
        let cells: Vec<&str> = shown[3].split_whitespace().collect();
        let expected = ["b", "4", "-", "-", "-", "0", "0", "0", "2", "2", "-", "7s", "-", "-"];
        assert_eq!(cells, expected);
        assert!(shown.last().unwrap().starts_with("t "), "{shown:?}");
    }
}
