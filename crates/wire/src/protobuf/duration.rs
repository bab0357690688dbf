//! `google.protobuf.Duration` and its text.

use std::time::Duration as Span;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Error, Serialize, Serializer};

use super::{NANOS_PER_SECOND, OutOfRange, parse_digits, parse_fraction, write_fraction};

/// About ten thousand years, the most that protobuf allows in either direction.
const SECONDS_MAX: i64 = 315_576_000_000;

/// A span of time, which may be negative: seconds and nanoseconds of the same sign.
///
/// In JSON it is text such as `"600s"` or `"1.500s"`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Message)]
pub struct Duration {
    /// Whole seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// -999,999,999 to 999,999,999, never of the other sign than the seconds.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl Duration {
    /// A span of whole seconds.
    pub const fn from_secs(seconds: i64) -> Self {
        Self { seconds, nanos: 0 }
    }

    fn check(&self) -> Result<(), OutOfRange> {
        let seconds = (-SECONDS_MAX..=SECONDS_MAX).contains(&self.seconds);
        let nanos = (1 - NANOS_PER_SECOND..NANOS_PER_SECOND).contains(&self.nanos);
        let signs = self.seconds.signum() * i64::from(self.nanos.signum()) >= 0;
        if seconds && nanos && signs { Ok(()) } else { Err(OutOfRange) }
    }

    fn text(&self) -> Result<String, OutOfRange> {
        self.check()?;
        let sign = if self.seconds < 0 || self.nanos < 0 { "-" } else { "" };
        let mut text = format!("{sign}{}", self.seconds.unsigned_abs());
        write_fraction(self.nanos.unsigned_abs(), &mut text);
        text.push('s');
        Ok(text)
    }

    fn parse(text: &str) -> Option<Self> {
        let number = text.strip_suffix('s')?;
        let (sign, number) = match number.strip_prefix('-') {
            Some(number) => (-1, number),
            None => (1, number),
        };
        let (seconds, nanos) = match number.split_once('.') {
            Some((seconds, fraction)) => (seconds, parse_fraction(fraction)?),
            None => (number, 0),
        };
        let parsed = Self {
            seconds: sign * parse_digits(seconds)?,
            nanos: nanos * i32::try_from(sign).ok()?,
        };
        parsed.check().ok()?;
        Some(parsed)
    }
}

impl From<Span> for Duration {
    /// Spans longer than protobuf allows become the longest it does.
    fn from(span: Span) -> Self {
        let seconds = i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
        if seconds >= SECONDS_MAX {
            return Self::from_secs(SECONDS_MAX);
        }
        Self { seconds, nanos: i32::try_from(span.subsec_nanos()).unwrap_or_default() }
    }
}

impl TryFrom<Duration> for Span {
    type Error = OutOfRange;

    /// Refuses negative and malformed spans.
    fn try_from(duration: Duration) -> Result<Self, OutOfRange> {
        duration.check()?;
        let seconds = u64::try_from(duration.seconds).map_err(|_| OutOfRange)?;
        let nanos = u32::try_from(duration.nanos).map_err(|_| OutOfRange)?;
        Ok(Self::new(seconds, nanos))
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.text().map_err(|_| S::Error::custom("duration is out of range"))?;
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(DurationVisitor)
    }
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a duration such as \"600s\" or \"1.5s\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        Duration::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_goes_there_and_back() {
        for (seconds, nanos, text) in [
            (0, 0, "0s"),
            (600, 0, "600s"),
            (1, 500_000_000, "1.500s"),
            (0, -67_088, "-0.000067088s"),
            (-90, -2_456_000, "-90.002456s"),
            (SECONDS_MAX, 0, "315576000000s"),
            (-SECONDS_MAX, 0, "-315576000000s"),
        ] {
            let duration = Duration { seconds, nanos };
            assert_eq!(duration.text().as_deref(), Ok(text));
            assert_eq!(Duration::parse(text), Some(duration));
        }
        assert_eq!(Duration::parse("1.5s"), Some(Duration { seconds: 1, nanos: 500_000_000 }));
    }

    #[test]
    fn rubbish_is_refused() {
        for text in [
            "",
            "s",
            "600",
            "600 s",
            "+5s",
            "--5s",
            "--9223372036854775808s",
            "1.s",
            ".5s",
            "1.1234567890s",
            "1.+5s",
            "1e3s",
            "315576000001s",
            "99999999999999999999s",
            "1ms",
        ] {
            assert_eq!(Duration::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn malformed_spans_are_not_written() {
        for (seconds, nanos) in [(1, -1), (-1, 1), (0, NANOS_PER_SECOND), (SECONDS_MAX + 1, 0)] {
            assert!(serde_json::to_string(&Duration { seconds, nanos }).is_err());
            assert_eq!(Span::try_from(Duration { seconds, nanos }), Err(OutOfRange));
        }
    }

    #[test]
    fn spans_go_there_and_back_unless_negative() {
        let span = Span::new(12, 34);
        assert_eq!(Span::try_from(Duration::from(span)), Ok(span));
        assert_eq!(Span::try_from(Duration::from_secs(-1)), Err(OutOfRange));
        assert_eq!(Duration::from(Span::MAX), Duration::from_secs(SECONDS_MAX));
    }
}
