//! The columns of `postrider top`: one line here is a column there.

use serde_json::Value;

use super::grid::{Cell, Column, Side, Tone};
use crate::cli::obstacles;
use crate::cli::table::{bytes, plain};
use crate::cli::values::span;

/// What is shown of a subscription, from left to right. Where there is no room, those of the
/// highest rank go first; those of rank 0 stay.
pub(super) const SUBSCRIPTIONS: [Column; 14] = [
    column("SUBSCRIPTION", Side::Left, 0, id),
    column("BACKLOG", Side::Right, 0, |one| plain_cell(&one["backlogMessages"])),
    column("SIZE", Side::Right, 5, |one| Cell::plain(bytes(&one["backlogBytes"]))),
    column("OLDEST", Side::Right, 0, |one| age(&one["oldestUnackedSeconds"])),
    column("LEASED", Side::Right, 3, |one| plain_cell(&one["outstanding"])),
    column("OUT/S", Side::Right, 1, |one| plain_cell(&one["deliveriesPerSecond"])),
    column("ACKED/S", Side::Right, 2, |one| plain_cell(&one["acksPerSecond"])),
    column("FAILED/S", Side::Right, 1, failed),
    column("LETTERS", Side::Right, 0, |one| counted(&one["deadLettersWaiting"], Tone::Warn)),
    column("GIVEN UP", Side::Right, 4, |one| plain_cell(&one["deadLetters"])),
    column("DROPPED", Side::Right, 3, |one| counted(&one["dropped"], Tone::Warn)),
    column("BLOCKED", Side::Right, 1, blocked),
    column("LANES", Side::Left, 2, lanes),
    column("WAITS FOR", Side::Left, 0, waits_for),
];

/// What is shown of a topic.
pub(super) const TOPICS: [Column; 3] = [
    column("TOPIC", Side::Left, 0, id),
    column("PUBLISHED", Side::Right, 0, |one| plain_cell(&one["messages"])),
    column("PUBLISHED/S", Side::Right, 0, |one| plain_cell(&one["messagesPerSecond"])),
];

const fn column(heading: &'static str, side: Side, rank: u8, cell: fn(&Value) -> Cell) -> Column {
    Column { heading, side, rank, cell }
}

fn plain_cell(value: &Value) -> Cell {
    let text = plain(value);
    match text.as_str() {
        "0" => Cell { text, tone: Tone::Dim },
        _ => Cell::plain(text),
    }
}

/// A number that someone should look at once it is not zero.
fn counted(value: &Value, tone: Tone) -> Cell {
    let cell = plain_cell(value);
    if value.as_u64().unwrap_or_default() > 0 { Cell { tone, ..cell } } else { cell }
}

fn id(one: &Value) -> Cell {
    Cell::plain(plain(&one["name"]).rsplit('/').next().unwrap_or_default().to_owned())
}

/// Seconds as people say them.
fn age(seconds: &Value) -> Cell {
    let seconds = seconds.as_f64().map(|seconds| format!("{}s", seconds.round()));
    Cell::plain(seconds.map(|text| span(&text)).unwrap_or_default())
}

fn failed(one: &Value) -> Cell {
    let rate = |name: &str| one[name].as_f64().unwrap_or_default();
    let failed = rate("nacksPerSecond") + rate("expiriesPerSecond");
    let tone = if failed > 0.0 { Tone::Warn } else { Tone::Dim };
    Cell { text: plain(&Value::from(failed)), tone }
}

/// How long the lane has stood that has stood longest.
fn blocked(one: &Value) -> Cell {
    let since = one.get("laneBlockedSeconds").unwrap_or(&one["fifo"]["blockedSeconds"]);
    Cell { tone: Tone::Bad, ..age(since) }
}

/// How many lanes stand still, and how many of these wait for an operator.
fn lanes(one: &Value) -> Cell {
    let lanes = &one["delivery"]["lanes"];
    match (lanes["blocked"].as_u64(), lanes["halted"].as_u64()) {
        (None | Some(0), _) => Cell::plain(String::new()),
        (Some(blocked), None | Some(0)) => {
            Cell { text: format!("{blocked} blocked"), tone: Tone::Warn }
        }
        (Some(blocked), Some(halted)) => {
            Cell { text: format!("{blocked} blocked, {halted} halted"), tone: Tone::Bad }
        }
    }
}

/// What keeps it from delivering.
fn waits_for(one: &Value) -> Cell {
    let delivery = &one["delivery"];
    let is_halted = delivery["lanes"]["halted"].as_u64().unwrap_or_default() > 0;
    let is_paused = delivery["paused"] == true;
    let tone = if is_halted && !is_paused { Tone::Bad } else { Tone::Warn };
    Cell { text: obstacles::brief(delivery), tone }
}
