//! The whole screen of `postrider top`.

use serde_json::Value;

use super::Sort;
use super::columns::{SUBSCRIPTIONS, TOPICS};
use super::grid::{Look, Tone, cut, lines};
use crate::cli::table::plain;
use crate::terminal::harmless_line;

/// How much room there is for how many lines, if there is a bound.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    pub(super) look: Look,
    /// Lines of the screen; `None` = as many as it takes.
    pub(super) height: Option<usize>,
    /// The order, where keys can change it.
    pub(super) keys: Option<Sort>,
}

/// Lines for topics, at most, where the screen is bounded: they matter less.
const TOPIC_LINES_MAX: usize = 8;

/// The lines of the screen, without ends.
pub(super) fn screen(view: &Value, room: Room) -> Vec<String> {
    let list = |field: &str| view[field].as_array().cloned().unwrap_or_default();
    let (subscriptions, topics) = (list("subscriptions"), list("topics"));
    let mut topic_lines = tabled(lines(&TOPICS, &topics, room.look), "no topics");
    let mut head = vec![title(view, &subscriptions, room)];
    head.push(String::new());
    let mut body = tabled(lines(&SUBSCRIPTIONS, &subscriptions, room.look), "no subscriptions");
    if let Some(height) = room.height {
        keep(&mut topic_lines, TOPIC_LINES_MAX);
        let taken = head.len() + topic_lines.len() + 1 + usize::from(room.keys.is_some());
        keep(&mut body, height.saturating_sub(taken).max(2));
    }
    head.append(&mut body);
    head.push(String::new());
    head.append(&mut topic_lines);
    if let Some(height) = room.height {
        head.truncate(height.saturating_sub(usize::from(room.keys.is_some())));
    }
    head.extend(room.keys.map(|sort| keys(sort, room.look)));
    head
}

/// The time, and what someone should look at.
fn title(view: &Value, subscriptions: &[Value], room: Room) -> String {
    let time = harmless_line(&plain(&view["time"])).into_owned();
    let is_paused = |one: &&Value| one["delivery"]["paused"] == true;
    let paused = subscriptions.iter().filter(is_paused).count();
    let letters: u64 =
        subscriptions.iter().filter_map(|one| one["deadLettersWaiting"].as_u64()).sum();
    let stuck = |one: &&Value| {
        one["delivery"]["lanes"]["halted"].as_u64().unwrap_or_default() > 0
            || one.get("laneBlockedSeconds").is_some()
            || one["fifo"].get("blockedSeconds").is_some()
    };
    let stuck = subscriptions.iter().filter(stuck).count();
    let mut text = time;
    for (count, what) in [
        (letters, "dead letters waiting"),
        (u64::try_from(paused).unwrap_or(u64::MAX), "paused"),
        (u64::try_from(stuck).unwrap_or(u64::MAX), "stuck"),
    ] {
        if count > 0 {
            text.push_str(&format!("  {count} {what}"));
        }
    }
    room.look.width.map_or(text.clone(), |width| cut(&text, width))
}

/// The table, or in one line that there is nothing.
fn tabled(lines: Vec<String>, none: &str) -> Vec<String> {
    if lines.len() <= 1 { vec![none.to_owned()] } else { lines }
}

/// The first lines; the last of them says how many are left out.
fn keep(lines: &mut Vec<String>, most: usize) {
    if lines.len() > most {
        let left_out = lines.len() - most + 1;
        lines.truncate(most.saturating_sub(1));
        lines.push(format!("… {left_out} more"));
    }
}

fn keys(sort: Sort, look: Look) -> String {
    let text = format!(
        "q quit  s next order ({})  b backlog  o oldest  r rate  l letters  n name",
        sort.word()
    );
    let text = look.width.map_or(text.clone(), |width| cut(&text, width));
    Tone::Dim.paint(&text, look.has_colours)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn view(count: usize) -> Value {
        let subscriptions: Vec<Value> = (0..count)
            .map(|n| {
                json!({
                    "name": format!("projects/p/subscriptions/s{n}"), "backlogMessages": n,
                    "oldestUnackedSeconds": 60.4, "deadLettersWaiting": 1, "acksPerSecond": 0.0,
                    "delivery": {"paused": n == 0, "lanes": {"blocked": n, "halted": n}},
                })
            })
            .collect();
        json!({"time": "t", "subscriptions": subscriptions, "topics": []})
    }

    #[test]
    fn letters_paused_and_stuck_ones_are_seen_at_once() {
        let shown = screen(&view(3), Room::default());
        assert_eq!(shown[0], "t  3 dead letters waiting  1 paused  2 stuck");
        let cells: Vec<&str> = shown[3].split_whitespace().collect();
        assert_eq!(cells[..4], ["s0", "0", "-", "1m"]);
        assert!(shown[3].ends_with("paused"), "{shown:?}");
        assert!(shown[4].ends_with("operator, 1 halted"), "{shown:?}");
        assert_eq!(shown.last().unwrap(), "no topics");
    }

    #[test]
    fn a_screen_is_never_higher_or_wider_than_it_may_be() {
        for height in 3..40 {
            for width in [20, 40, 80, 200] {
                let look = Look { width: Some(width), has_colours: false };
                let room = Room { look, height: Some(height), keys: Some(Sort::Backlog) };
                let shown = screen(&view(20), room);
                assert!(shown.len() <= height, "{height}: {shown:#?}");
                assert!(shown.last().unwrap().starts_with("q quit"), "{shown:#?}");
                let wide = shown.iter().find(|line| line.chars().count() > width.max(40));
                assert_eq!(wide, None, "{width}");
            }
        }
    }
}
