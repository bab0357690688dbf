//! Where this crate's time comes from.

use std::time::{SystemTime, UNIX_EPOCH};

use domain::Timestamp;

/// The wall clock, for what is stored and signed.
#[expect(clippy::disallowed_methods, reason = "the one place of this crate that asks the machine")]
pub(crate) fn wall() -> Timestamp {
    Timestamp::default().plus(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}
