//! The two kinds of time: the wall clock for what is stored, the monotonic clock for leases.

use std::io::Write;
use std::time::Duration;

/// A point on the wall clock, in microseconds since 1970-01-01T00:00:00Z.
///
/// Stored with records and attempts; may jump when the machine's clock is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Whole seconds since 1970.
    pub fn seconds(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The part below a second, in nanoseconds.
    pub fn subsecond_nanos(self) -> u32 {
        // Below 10^9 by construction, so the cast keeps the value.
        #[expect(clippy::cast_possible_truncation, reason = "below 10^9")]
        {
            ((self.0 % 1_000_000) * 1_000) as u32
        }
    }

    /// Parses an RFC 3339 time. Times before 1970 become 1970.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let time: jiff::Timestamp = text.parse().ok()?;
        Some(Self(u64::try_from(time.as_microsecond()).unwrap_or(0)))
    }

    /// The time in RFC 3339, in UTC, with no fraction, milliseconds or microseconds.
    pub fn rfc3339(self) -> String {
        let digits = match self.0 {
            whole if whole % 1_000_000 == 0 => 0,
            thousandths if thousandths % 1_000 == 0 => 3,
            _ => 6,
        };
        format!("{:.digits$}", self.calendar())
    }

    /// The time in RFC 3339, in UTC, always with microseconds: `2027-01-15T08:00:00.000001Z`.
    pub fn rfc3339_micros(self) -> String {
        format!("{:.6}", self.calendar())
    }

    /// Appends what `rfc3339_micros` says.
    pub fn put_rfc3339_micros(self, out: &mut Vec<u8>) {
        let written = write!(out, "{:.6}", self.calendar());
        debug_assert!(written.is_ok(), "a vector takes everything");
    }

    fn calendar(self) -> jiff::Timestamp {
        let micros = i64::try_from(self.0).unwrap_or(i64::MAX);
        jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX)
    }

    /// This time moved later, saturating.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(micros(by)))
    }

    /// How long this is after `earlier`; zero if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// This time moved earlier, stopping at 1970.
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(micros(by)))
    }
}

/// A point on the monotonic clock, in microseconds since the process started. Never stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// This moment moved later, saturating.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(micros(by)))
    }

    /// How long this is after `earlier`; zero if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// The current time on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For anything that ends while the process runs.
    pub moment: Moment,
    /// For anything that is stored.
    pub wall: Timestamp,
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_to_text_and_back() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399_000_001, "2000-02-28T23:59:59.000001Z"),
            (1_709_251_199_500_000, "2024-02-29T23:59:59.500Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(Timestamp(micros).rfc3339(), text);
            assert_eq!(Timestamp::parse_rfc3339(text), Some(Timestamp(micros)));
        }
        let elsewhere = Timestamp::parse_rfc3339("2026-11-15T12:00:00+01:00");
        assert_eq!(elsewhere, Timestamp::parse_rfc3339("2026-11-15T11:00:00Z"));
        assert_eq!(Timestamp::parse_rfc3339("1969-01-01T00:00:00Z"), Some(Timestamp(0)));
        assert_eq!(Timestamp::parse_rfc3339("noon"), None);
        assert!(Timestamp(u64::MAX).rfc3339().starts_with("9999-12-30T"));
    }

    #[test]
    fn microseconds_are_written_even_if_they_are_zero() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399_000_001, "2000-02-28T23:59:59.000001Z"),
            (1_709_251_199_500_000, "2024-02-29T23:59:59.500000Z"),
        ] {
            let mut out = b"at ".to_vec();
            Timestamp(micros).put_rfc3339_micros(&mut out);
            assert_eq!(out, format!("at {text}").into_bytes());
            assert_eq!(Timestamp(micros).rfc3339_micros(), text);
        }
    }
}
