//! The time of day, as text too. The only place that asks the machine.

use std::time::{SystemTime, UNIX_EPOCH};

use domain::Timestamp;

/// Now, on the wall clock.
#[expect(clippy::disallowed_methods, reason = "the clock's one home in this crate")]
pub(crate) fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::default().plus(since)
}

/// `time` as RFC 3339 has it, in UTC; empty after the year 9999.
pub(crate) fn text(time: Timestamp) -> String {
    let mut text = String::new();
    write_text(time, &mut text);
    text
}

/// Adds what `text` returns.
pub(crate) fn write_text(time: Timestamp, text: &mut String) {
    let micros = i64::try_from(time.0).unwrap_or(i64::MAX);
    let time = wire::protobuf::Timestamp::from_unix_micros(micros);
    // Out of range is the only way to fail, and adds nothing.
    let _in_range = time.write_text(text).is_ok();
}

/// Reads what RFC 3339 writes; `None` for anything else, and for times before 1970.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    from_wire(&wire::protobuf::Timestamp::parse(text)?)
}

/// A time as it comes on the wire; `None` where it is out of range.
pub(crate) fn from_wire(time: &wire::protobuf::Timestamp) -> Option<Timestamp> {
    Some(Timestamp(u64::try_from(time.unix_micros().ok()?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        let time = Timestamp(1_800_000_000_123_456);
        assert_eq!(text(time), "2027-01-15T08:00:00.123456Z");
        assert_eq!(parse(&text(time)), Some(time));
        assert_eq!(parse("2027-01-15T09:00:00.123456+01:00"), Some(time));
        for broken in ["", "yesterday", "2027-01-15", "1969-12-31T23:59:59Z"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }
}
