//! Where in its topic a new subscription begins.

use std::fmt;

use crate::error::Invalid;
use crate::offset::Offset;
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

/// Digits only: `parse` alone would also take a sign.
pub(super) fn decimal(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
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
