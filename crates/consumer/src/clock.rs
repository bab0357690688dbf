//! Where this crate's time comes from.

use std::time::{SystemTime, UNIX_EPOCH};

use domain::Timestamp;

/// The wall clock, for what is stored and signed.
#[expect(clippy::disallowed_methods, reason = "the one place of this crate that asks the machine")]
pub(crate) fn wall() -> Timestamp {
    Timestamp::default().plus(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Reads what RFC 3339 writes; `None` for anything else, and for times before 1970.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let text = serde_json::Value::String(text.to_owned());
    let time: wire::protobuf::Timestamp = serde_json::from_value(text).ok()?;
    Some(Timestamp(u64::try_from(time.unix_micros().ok()?).ok()?))
}

/// `time` as RFC 3339 has it, in UTC; empty after the year 9999.
pub(crate) fn text(time: Timestamp) -> String {
    let micros = i64::try_from(time.0).unwrap_or(i64::MAX);
    let time = wire::protobuf::Timestamp::from_unix_micros(micros);
    match serde_json::to_value(time) {
        Ok(serde_json::Value::String(text)) => text,
        _ => String::new(),
    }
}
