//! Ack deadlines as the wire gives them.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use crate::error::Invalid;
use crate::limits::{ACK_DEADLINE_MAX, ACK_DEADLINE_MIN};

/// The ack deadline a subscription asks for on the wire; 0 means that none is given.
pub fn ack_deadline(field: &str, seconds: i32) -> Result<Option<Duration>, Invalid> {
    if seconds == 0 {
        return Ok(None);
    }
    stream_ack_deadline(field, seconds).map(Some)
}

/// The ack deadline that a document gives in seconds.
pub(super) fn read(field: &str, value: &Value) -> Result<Option<Duration>, Invalid> {
    if value.is_null() {
        return Ok(None);
    }
    match value.as_i64().and_then(|seconds| i32::try_from(seconds).ok()) {
        Some(seconds) => ack_deadline(field, seconds),
        None => Err(Invalid::new(field, "expected a whole number of seconds")),
    }
}

/// The ack deadline a stream asks for on the wire: it has no default.
pub fn stream_ack_deadline(field: &str, seconds: i32) -> Result<Duration, Invalid> {
    let deadline = u64::try_from(seconds).map(Duration::from_secs);
    match deadline {
        Ok(deadline) => ack_deadline_in_range(field, deadline).map(|()| deadline),
        Err(_) => Err(bad_ack_deadline(field, &seconds, ACK_DEADLINE_MIN)),
    }
}

/// The deadline a single lease is to get, counted from now; zero gives the message back.
pub fn lease_deadline(field: &str, seconds: i32) -> Result<Duration, Invalid> {
    match u64::try_from(seconds).map(Duration::from_secs) {
        Ok(deadline) if deadline <= ACK_DEADLINE_MAX => Ok(deadline),
        _ => Err(bad_ack_deadline(field, &seconds, Duration::ZERO)),
    }
}

/// Checks an ack deadline; `field` is the request's field that gives it.
pub(super) fn ack_deadline_in_range(field: &str, deadline: Duration) -> Result<(), Invalid> {
    if (ACK_DEADLINE_MIN..=ACK_DEADLINE_MAX).contains(&deadline) {
        return Ok(());
    }
    Err(bad_ack_deadline(field, &deadline.as_secs_f64(), ACK_DEADLINE_MIN))
}

fn bad_ack_deadline(field: &str, asked: &dyn fmt::Display, min: Duration) -> Invalid {
    let (min, max) = (min.as_secs(), ACK_DEADLINE_MAX.as_secs());
    Invalid::new(field, format!("{asked} s, {min} to {max} s are allowed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ack_deadlines_are_10_to_600_seconds_and_0_is_none() {
        let seconds = |s| ack_deadline("ack_deadline_seconds", s).map(|d| d.map(|d| d.as_secs()));
        assert_eq!(seconds(0), Ok(None));
        assert_eq!(seconds(10), Ok(Some(10)));
        assert_eq!(seconds(600), Ok(Some(600)));
        for bad in [-1, 1, 9, 601, i32::MIN, i32::MAX] {
            assert_eq!(seconds(bad).unwrap_err().field, "ack_deadline_seconds", "{bad}");
        }
    }

    #[test]
    fn a_stream_must_give_its_ack_deadline() {
        assert!(stream_ack_deadline("stream_ack_deadline_seconds", 0).is_err());
        assert!(stream_ack_deadline("stream_ack_deadline_seconds", 10).is_ok());
        assert!(stream_ack_deadline("stream_ack_deadline_seconds", 601).is_err());
    }

    #[test]
    fn a_lease_is_extended_by_0_to_600_seconds() {
        assert_eq!(lease_deadline("ack_deadline_seconds", 0), Ok(Duration::ZERO));
        assert_eq!(lease_deadline("ack_deadline_seconds", 1), Ok(Duration::from_secs(1)));
        assert!(lease_deadline("ack_deadline_seconds", 600).is_ok());
        assert!(lease_deadline("ack_deadline_seconds", 601).is_err());
        assert!(lease_deadline("ack_deadline_seconds", -1).is_err());
    }
}
