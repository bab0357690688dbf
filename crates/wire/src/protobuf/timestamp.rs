//! `google.protobuf.Timestamp` and its RFC 3339 text.

use std::time::{Duration as Span, SystemTime, UNIX_EPOCH};

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Error, Serialize, Serializer};

use super::{NANOS_PER_SECOND, OutOfRange, digits, parse_digits, parse_fraction, write_fraction};

/// 0001-01-01T00:00:00Z, the earliest that protobuf allows.
const SECONDS_MIN: i64 = -62_135_596_800;
/// 9999-12-31T23:59:59Z, the last second that protobuf allows.
const SECONDS_MAX: i64 = 253_402_300_799;
const MICROS_PER_SECOND: i64 = 1_000_000;
/// Dates of the calendar reach a day further than `jiff::Timestamp`, and as far as protobuf.
const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);
/// `2026-01-31T08:30:00.123456789Z`
const TEXT_LENGTH_MAX: usize = 30;

/// A moment: seconds since 1970 in UTC, and nanoseconds that count forward from there.
///
/// In JSON it is text such as `"2026-01-31T08:30:00.500Z"`; reading accepts any offset.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Message)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z; negative before.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// 0 to 999,999,999.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl Timestamp {
    /// The moment so many microseconds after (or before) 1970.
    pub fn from_unix_micros(micros: i64) -> Self {
        let nanos = micros.rem_euclid(MICROS_PER_SECOND) * 1_000;
        // The remainder is below one million, so its nanoseconds always fit.
        let nanos = i32::try_from(nanos).unwrap_or_default();
        Self { seconds: micros.div_euclid(MICROS_PER_SECOND), nanos }
    }

    /// Microseconds since 1970, cut off below; refused where protobuf knows no such moment.
    pub fn unix_micros(&self) -> Result<i64, OutOfRange> {
        self.check()?;
        Ok(self.seconds * MICROS_PER_SECOND + i64::from(self.nanos) / 1_000)
    }

    fn check(&self) -> Result<(), OutOfRange> {
        let seconds = (SECONDS_MIN..=SECONDS_MAX).contains(&self.seconds);
        let nanos = (0..NANOS_PER_SECOND).contains(&self.nanos);
        if seconds && nanos { Ok(()) } else { Err(OutOfRange) }
    }

    /// The text of RFC 3339, in UTC.
    pub fn text(&self) -> Result<String, OutOfRange> {
        let mut text = String::with_capacity(TEXT_LENGTH_MAX);
        self.write_text(&mut text)?;
        Ok(text)
    }

    /// Adds the text of RFC 3339, in UTC.
    pub fn write_text(&self, text: &mut String) -> Result<(), OutOfRange> {
        self.check()?;
        let at = EPOCH.checked_add(SignedDuration::from_secs(self.seconds));
        let at = at.map_err(|_| OutOfRange)?;
        let [month, day, hour, minute, second] =
            [at.month(), at.day(), at.hour(), at.minute(), at.second()].map(i8::unsigned_abs);
        // All digits at once, then the separators between them: this is written for every message.
        let [y1, y2, y3, y4] = digits(at.year().unsigned_abs().into());
        let [[.., m1, m2], [.., d1, d2], [.., h1, h2], [.., n1, n2], [.., s1, s2]] =
            [month, day, hour, minute, second].map(|part| digits(part.into()));
        let clock =
            [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b'T', h1, h2, b':', n1, n2, b':', s1, s2];
        text.push_str(str::from_utf8(&clock).unwrap_or_default());
        write_fraction(self.nanos.unsigned_abs(), text);
        text.push('Z');
        Ok(())
    }

    /// Reads the text of RFC 3339 with any offset; `None` if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        // 2026-01-31T08:30:00 is always 19 characters; a fraction and an offset follow.
        let (clock, rest) = text.split_at_checked(19)?;
        let (rest, nanos) = split_fraction(rest)?;
        let seconds = parse_clock(clock)?.checked_sub(parse_offset(rest)?)?;
        let parsed = Self { seconds, nanos };
        parsed.check().ok()?;
        Some(parsed)
    }
}

fn parse_clock(text: &str) -> Option<i64> {
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if !separators.iter().all(|&(at, byte)| text.as_bytes().get(at) == Some(&byte)) {
        return None;
    }
    let number = |from, to| text.get(from..to).and_then(parse_digits);
    let year = i16::try_from(number(0, 4)?).ok()?;
    let part = |from| number(from, from + 2).and_then(|part| i8::try_from(part).ok());
    let at = DateTime::new(year, part(5)?, part(8)?, part(11)?, part(14)?, part(17)?, 0).ok()?;
    Some(at.duration_since(EPOCH).as_secs())
}

/// Splits `.5Z` into `Z` and the nanoseconds.
fn split_fraction(text: &str) -> Option<(&str, i32)> {
    let Some(digits) = text.strip_prefix('.') else {
        return Some((text, 0));
    };
    let end = digits.find(|c: char| !c.is_ascii_digit())?;
    let (digits, rest) = digits.split_at_checked(end)?;
    Some((rest, parse_fraction(digits)?))
}

/// `Z`, `+05:30` or `-08:00` in seconds.
fn parse_offset(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let (sign, offset) = match text.split_at_checked(1)? {
        ("+", offset) => (1, offset),
        ("-", offset) => (-1, offset),
        _ => return None,
    };
    let (hours, minutes) = offset.split_once(':')?;
    if hours.len() != 2 || minutes.len() != 2 {
        return None;
    }
    let (hours, minutes) = (parse_digits(hours)?, parse_digits(minutes)?);
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))
}

impl From<SystemTime> for Timestamp {
    /// Moments outside the years 1 to 9999 become the nearest inside.
    fn from(time: SystemTime) -> Self {
        let (span, before) = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => (after, false),
            Err(error) => (error.duration(), true),
        };
        let seconds = i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
        let nanos = i32::try_from(span.subsec_nanos()).unwrap_or_default();
        let (seconds, nanos) = match (before, nanos) {
            (false, nanos) => (seconds, nanos),
            (true, 0) => (-seconds, 0),
            (true, nanos) => (-seconds - 1, NANOS_PER_SECOND - nanos),
        };
        Self { seconds: seconds.clamp(SECONDS_MIN, SECONDS_MAX), nanos }
    }
}

impl TryFrom<Timestamp> for SystemTime {
    type Error = OutOfRange;

    fn try_from(timestamp: Timestamp) -> Result<Self, OutOfRange> {
        timestamp.check()?;
        let whole = Span::from_secs(timestamp.seconds.unsigned_abs());
        let time = if timestamp.seconds < 0 {
            UNIX_EPOCH.checked_sub(whole)
        } else {
            UNIX_EPOCH.checked_add(whole)
        };
        let nanos = Span::from_nanos(u64::from(timestamp.nanos.unsigned_abs()));
        time.and_then(|time| time.checked_add(nanos)).ok_or(OutOfRange)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.text().map_err(|_| S::Error::custom("timestamp is out of range"))?;
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TimestampVisitor)
    }
}

struct TimestampVisitor;

impl Visitor<'_> for TimestampVisitor {
    type Value = Timestamp;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a timestamp such as \"2026-01-31T08:30:00Z\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
        Timestamp::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(seconds: i64, nanos: i32) -> String {
        serde_json::to_string(&Timestamp { seconds, nanos }).unwrap()
    }

    #[test]
    fn text_ends_in_z_with_a_fraction_only_where_needed() {
        assert_eq!(json(0, 0), r#""1970-01-01T00:00:00Z""#);
        assert_eq!(json(1_769_848_200, 500_000_000), r#""2026-01-31T08:30:00.500Z""#);
        assert_eq!(json(-1, 999_999_999), r#""1969-12-31T23:59:59.999999999Z""#);
        assert_eq!(json(SECONDS_MIN, 0), r#""0001-01-01T00:00:00Z""#);
        assert_eq!(json(SECONDS_MAX, 1_000), r#""9999-12-31T23:59:59.000001Z""#);
    }

    #[test]
    fn moments_out_of_range_are_not_written() {
        for (seconds, nanos) in
            [(SECONDS_MIN - 1, 0), (SECONDS_MAX + 1, 0), (0, -1), (0, 1_000_000_000)]
        {
            let error = serde_json::to_string(&Timestamp { seconds, nanos }).unwrap_err();
            assert_eq!(error.to_string(), "timestamp is out of range");
        }
    }

    #[test]
    fn any_offset_is_read() {
        for text in [
            "2026-01-31T08:30:00Z",
            "2026-01-31T14:00:00+05:30",
            "2026-01-30T23:30:00-09:00",
            "2026-01-31T08:30:00.000Z",
        ] {
            let expected = Timestamp { seconds: 1_769_848_200, nanos: 0 };
            assert_eq!(Timestamp::parse(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn days_that_do_not_exist_are_refused() {
        for day in
            ["2025-02-29", "1900-02-29", "2025-13-01", "2025-00-01", "2025-04-31", "2025-01-00"]
        {
            assert_eq!(Timestamp::parse(&format!("{day}T00:00:00Z")), None, "{day}");
        }
    }

    #[test]
    fn known_days_have_their_numbers() {
        for (day, number) in [
            ("1970-01-01", 0),
            ("2000-02-29", 11_016),
            ("2026-11-15", 20_772),
            ("0001-01-01", -719_162),
            ("9999-12-31", 2_932_896),
        ] {
            let expected = Timestamp { seconds: number * 86_400, nanos: 0 };
            assert_eq!(Timestamp::parse(&format!("{day}T00:00:00Z")), Some(expected), "{day}");
        }
    }

    #[test]
    fn every_day_of_ten_thousand_years_follows_the_one_before() {
        let mut before = "0000-12-31T12:34:56Z".to_owned();
        for number in -719_162..=2_932_896 {
            let noon = Timestamp { seconds: number * 86_400 + 45_296, nanos: 0 };
            let text = noon.text().unwrap();
            assert_eq!(Timestamp::parse(&text), Some(noon));
            assert!(text > before, "{number}");
            before = text;
        }
        assert_eq!(before, "9999-12-31T12:34:56Z");
    }

    #[test]
    fn rubbish_is_refused() {
        for text in [
            "",
            "2026-01-31",
            "2026-01-31T08:30:00",
            "2026-01-31T08:30:00z",
            "2026-01-31 08:30:00Z",
            "2026-02-30T08:30:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T08:30:60Z",
            "2026-01-31T08:30:00.Z",
            "2026-01-31T08:30:00.1234567890Z",
            "2026-01-31T08:30:00+0530",
            "2026-01-31T08:30:00+05:3",
            "2026-01-31T08:30:00+24:00",
            "2026-01-31T08:30:00ZZ",
            "+026-01-31T08:30:00Z",
            "0000-01-01T00:00:00Z",
            "0001-01-01T00:00:00+00:01",
            "9999-12-31T23:59:59-00:01",
            "20260131T083000Zéééé",
            "2026-01-31T08:30:0éZ",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn system_time_goes_there_and_back() {
        for (seconds, nanos) in [(0, 0), (1_769_848_200, 5), (-1, 999_999_999), (-7, 0)] {
            let timestamp = Timestamp { seconds, nanos };
            let time = SystemTime::try_from(timestamp).unwrap();
            assert_eq!(Timestamp::from(time), timestamp);
        }
        assert_eq!(SystemTime::try_from(Timestamp { seconds: 0, nanos: -1 }), Err(OutOfRange));
    }

    #[test]
    fn microseconds_go_there_and_back() {
        for micros in [0, 1, -1, 1_769_848_200_000_001, -62_135_596_800_000_000] {
            assert_eq!(Timestamp::from_unix_micros(micros).unix_micros(), Ok(micros));
        }
        assert_eq!(Timestamp::from_unix_micros(i64::MAX).unix_micros(), Err(OutOfRange));
        let last = Timestamp { seconds: SECONDS_MAX, nanos: 999_999_999 };
        assert_eq!(last.unix_micros(), Ok(253_402_300_799_999_999));
    }
}
