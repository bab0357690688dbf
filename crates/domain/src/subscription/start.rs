//! Where in its topic a new subscription begins.

use std::fmt;

use serde_json::{Value, json};

use crate::error::Invalid;
use crate::offset::Offset;
use crate::setting::read::decimal;
use crate::time::Timestamp;

/// Where in its topic a new subscription begins.
///
/// In a label, whose alphabet has neither colon nor capital, it is written `latest`, `earliest`,
/// a decimal offset, or `time-` and seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// Behind the last message published so far.
    #[default]
    Latest,
    /// At the oldest message the topic still keeps.
    Earliest,
    /// At this offset.
    Offset(Offset),
    /// At the first message published at this time or later.
    Time(Timestamp),
}

impl Start {
    /// Reads the spelling used in labels.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        let parsed = match text {
            "latest" => Some(Self::Latest),
            "earliest" => Some(Self::Earliest),
            _ => match text.strip_prefix("time-") {
                Some(seconds) => decimal(seconds).map(seconds_start),
                None => decimal(text).map(|offset| Self::Offset(Offset(offset))),
            },
        };
        parsed.ok_or_else(|| {
            let shown: String = text.chars().take(64).collect();
            Invalid::new(
                field,
                format!("{shown:?} is not latest, earliest, an offset or time-<unix seconds>"),
            )
        })
    }
}

impl Start {
    /// Reads what a document has: `"latest"`, `"earliest"`, `{"offset": 7}` or
    /// `{"time": "2026-01-31T12:00:00Z"}`.
    pub fn read(field: &str, value: &Value) -> Result<Option<Self>, Invalid> {
        let read = match value {
            Value::Null => return Ok(None),
            Value::String(text) if text == "latest" => Some(Self::Latest),
            Value::String(text) if text == "earliest" => Some(Self::Earliest),
            Value::Object(object) if object.len() == 1 => {
                match (object.get("offset"), object.get("time")) {
                    (Some(offset), None) => read_offset(offset).map(Self::Offset),
                    (None, Some(time)) => {
                        time.as_str().and_then(Timestamp::parse_rfc3339).map(Self::Time)
                    }
                    _ => None,
                }
            }
            _ => None,
        };
        match read {
            Some(start) => Ok(Some(start)),
            None => {
                let allowed = r#"expected "latest", "earliest", {"offset": …} or {"time": …}"#;
                Err(Invalid::new(field, allowed))
            }
        }
    }

    /// What a document shows.
    pub fn show(self) -> Value {
        match self {
            Self::Latest => json!("latest"),
            Self::Earliest => json!("earliest"),
            Self::Offset(offset) => json!({"offset": offset.to_string()}),
            Self::Time(time) => json!({"time": time.rfc3339()}),
        }
    }
}

/// A number, or its digits as text, as JSON writes large numbers.
fn read_offset(value: &Value) -> Option<Offset> {
    match value {
        Value::Number(number) => number.as_u64().map(Offset),
        Value::String(text) => decimal(text).map(Offset),
        _ => None,
    }
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => f.write_str("latest"),
            Self::Earliest => f.write_str("earliest"),
            Self::Offset(offset) => offset.fmt(f),
            Self::Time(time) => write!(f, "time-{}", time.seconds()),
        }
    }
}

fn seconds_start(seconds: u64) -> Start {
    Start::Time(Timestamp(seconds.saturating_mul(1_000_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_read_and_shown_in_the_spelling_of_labels() {
        for (text, start) in [
            ("latest", Start::Latest),
            ("earliest", Start::Earliest),
            ("0", Start::Offset(Offset(0))),
            ("18446744073709551615", Start::Offset(Offset(u64::MAX))),
            ("time-1726937845", Start::Time(Timestamp(1_726_937_845_000_000))),
        ] {
            assert_eq!(Start::parse("start", text), Ok(start));
            assert_eq!(start.to_string(), text);
        }
        for bad in ["", "Latest", "+1", "-1", "1.5", "time-", "time-x", "18446744073709551616"] {
            assert_eq!(Start::parse("start", bad).unwrap_err().field, "start", "{bad}");
        }
    }
}
