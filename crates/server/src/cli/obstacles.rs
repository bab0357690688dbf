//! What keeps a subscription from delivering, as commands show it.

use serde_json::Value;

use super::table::plain;

/// The facts that stand in the way, each with its heading; none = nothing does.
///
/// `delivery` is what the server's answers have under that name.
pub(super) fn facts(delivery: &Value) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if delivery["paused"] == Value::Bool(true) {
        facts.push(("Paused", since("yes", &delivery["pausedSince"])));
    }
    if delivery["detached"] == Value::Bool(true) {
        facts.push(("Detached", "yes".to_owned()));
    }
    if let Some(endpoint) = delivery.get("endpoint") {
        facts.push(("Left alone", left_alone(endpoint)));
    }
    if let Some(backoff) = delivery.get("backoff") {
        let count = plain(&backoff["waiting"]);
        facts.push(("Backing off", until(&format!("{count} waiting"), &backoff["until"])));
    }
    if let Some(lanes) = delivery.get("lanes") {
        let (blocked, halted) = (plain(&lanes["blocked"]), plain(&lanes["halted"]));
        let text = format!("{blocked} blocked, {halted} of them halted");
        facts.push(("Lanes", since(&text, &lanes["failingSince"])));
    }
    facts
}

/// The same in a line each, in lower case; `None` = nothing stands in the way.
pub(super) fn lines(delivery: &Value) -> Option<String> {
    let facts = facts(delivery);
    let line = |(what, fact): &(&str, String)| format!("{}: {fact}", what.to_lowercase());
    (!facts.is_empty()).then(|| facts.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// The first of them in a few words, for a column of a table: what an operator would do first.
pub(super) fn brief(delivery: &Value) -> String {
    if delivery["paused"] == Value::Bool(true) {
        return "paused".to_owned();
    }
    let halted = delivery["lanes"]["halted"].as_u64().unwrap_or_default();
    if halted > 0 {
        return format!("operator, {halted} halted");
    }
    if let Some(endpoint) = delivery.get("endpoint") {
        return match endpoint["leftAloneUntil"].as_str() {
            Some(until) => format!("endpoint {}", time_of_day(until)),
            None => "endpoint, probing".to_owned(),
        };
    }
    match delivery["backoff"]["until"].as_str() {
        Some(until) => format!("backoff {}", time_of_day(until)),
        None => String::new(),
    }
}

fn left_alone(endpoint: &Value) -> String {
    let why = match endpoint["leftAloneFor"].as_str() {
        Some("retry_after") => "the endpoint asked for it".to_owned(),
        Some("probe") => "the endpoint, while one request checks whether it works again".to_owned(),
        Some("failures") => "the endpoint, it failed too often".to_owned(),
        other => other.unwrap_or("the endpoint").to_owned(),
    };
    until(&why, &endpoint["leftAloneUntil"])
}

fn since(text: &str, time: &Value) -> String {
    time.as_str().map_or_else(|| text.to_owned(), |time| format!("{text}, since {time}"))
}

fn until(text: &str, time: &Value) -> String {
    time.as_str().map_or_else(|| text.to_owned(), |time| format!("{text}, until {time}"))
}

/// Hours, minutes and seconds of a time as RFC 3339 has it.
fn time_of_day(time: &str) -> &str {
    let behind = time.split_once('T').map_or(time, |(_, behind)| behind);
    behind.get(..8).unwrap_or(behind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_fact_has_a_line_and_nothing_has_none() {
        assert_eq!(lines(&json!({"paused": false, "consumers": 1})), None);
        assert_eq!(lines(&Value::Null), None);
        let all = json!({
            "paused": true, "pausedSince": "2026-11-16T09:00:00Z", "detached": true,
            "endpoint": {"leftAloneFor": "failures", "leftAloneUntil": "2026-11-16T09:01:00Z"},
            "backoff": {"waiting": 2, "until": "2026-11-16T09:02:00.500Z"},
            "lanes": {"blocked": 3, "halted": 1},
        });
        let expected = "\
            paused: yes, since 2026-11-16T09:00:00Z\n\
            detached: yes\n\
            left alone: the endpoint, it failed too often, until 2026-11-16T09:01:00Z\n\
            backing off: 2 waiting, until 2026-11-16T09:02:00.500Z\n\
            lanes: 3 blocked, 1 of them halted";
        assert_eq!(lines(&all).as_deref(), Some(expected));
    }

    #[test]
    fn a_column_shows_what_comes_first() {
        let mut delivery = json!({
            "paused": true, "lanes": {"blocked": 2, "halted": 1},
            "endpoint": {"leftAloneFor": "probe"},
            "backoff": {"waiting": 1, "until": "2026-11-16T09:02:00.500Z"},
        });
        let mut seen = Vec::new();
        for gone in ["paused", "lanes", "endpoint", "backoff"] {
            seen.push(brief(&delivery));
            delivery.as_object_mut().unwrap().remove(gone);
        }
        seen.push(brief(&delivery));
        let expected =
            ["paused", "operator, 1 halted", "endpoint, probing", "backoff 09:02:00", ""];
        assert_eq!(seen, expected);
    }
}
