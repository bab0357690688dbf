//! What flags are given: durations, times, pairs.

use std::time::Duration;

use domain::Timestamp;
use serde_json::{Value, json};
use wire::protobuf;

use super::Failure;
use crate::config::parse_duration;

/// Reads `250ms`, `5s`, `10m`, `12h`, `7d`, or a plain number of seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => parse_duration(text),
    }
}

/// A duration as Google's JSON has it: `600s`, `0.250s`.
pub(super) fn seconds(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => format!("{}s", duration.as_secs()),
        millis => format!("{}.{millis:03}s", duration.as_secs()),
    }
}

/// A duration of Google's JSON as people write it: `604800s` is `7d`, `5400s` is `1h 30m`. What is
/// none stays as it is.
pub(super) fn span(text: &str) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let Some(mut left) = text.strip_suffix('s').and_then(|text| text.parse::<u64>().ok()) else {
        return text.to_owned();
    };
    let mut parts: Vec<String> = Vec::new();
    for (seconds, unit) in UNITS {
        if left >= seconds {
            parts.push(format!("{}{unit}", left / seconds));
            left %= seconds;
        }
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

/// Reads `key=value`; the value may be empty and may hold further `=`.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected key=value".to_owned()),
    }
}

/// Pairs as an object; of two with the same key the later one counts.
pub(super) fn object(pairs: &[(String, String)]) -> Value {
    pairs.iter().map(|(key, value)| (key.clone(), Value::String(value.clone()))).collect()
}

/// A time as RFC 3339 writes it: as it was given, or so long before `now` as a duration says.
pub(super) fn time(flag: &str, text: &str, now: Timestamp) -> Result<String, Failure> {
    if let Ok(ago) = duration(text) {
        return Ok(rfc3339(now.minus(ago)));
    }
    match serde_json::from_value::<protobuf::Timestamp>(json!(text)) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(Failure::usage(format!(
            "{flag}: {text:?} is not a time; write 2026-11-15T12:00:00Z, or 1h for an hour ago"
        ))),
    }
}

/// `time` as RFC 3339 writes it.
pub(super) fn rfc3339(time: Timestamp) -> String {
    let micros = i64::try_from(time.0).unwrap_or(i64::MAX);
    let text = json!(protobuf::Timestamp::from_unix_micros(micros));
    text.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_or_are_seconds() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("7d").map(seconds), Ok("604800s".to_owned()));
        assert_eq!(duration("250ms").map(seconds), Ok("0.250s".to_owned()));
        assert!(duration("soon").is_err());
    }

    #[test]
    fn spans_are_shown_in_the_units_of_people() {
        for (text, shown) in [
            ("604800s", "7d"),
            ("5400s", "1h 30m"),
            ("90s", "1m 30s"),
            ("60s", "1m"),
            ("0s", "0s"),
            ("0.250s", "0.250s"),
            ("soon", "soon"),
        ] {
            assert_eq!(span(text), shown);
        }
    }

    #[test]
    fn pairs_are_split_at_the_first_sign() {
        assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(pair("a="), Ok(("a".to_owned(), String::new())));
        assert!(pair("a").is_err() && pair("=b").is_err());
        let pairs = [pair("a=1").unwrap(), pair("a=2").unwrap()];
        assert_eq!(object(&pairs), json!({"a": "2"}));
    }

    #[test]
    fn times_are_given_or_so_long_ago() {
        let now = Timestamp(7_200_000_000);
        assert_eq!(time("--time", "1h", now).ok().as_deref(), Some("1970-01-01T01:00:00Z"));
        let given = "2026-11-15T12:00:00+01:00";
        assert_eq!(time("--time", given, now).ok().as_deref(), Some(given));
        assert!(time("--time", "noon", now).is_err());
    }
}
