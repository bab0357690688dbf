//! The bench's one clock.

use std::time::{Duration, Instant};

/// The present moment.
#[expect(clippy::disallowed_methods, reason = "a bench measures real time; this is its one clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Nanoseconds of a duration; 584 years and more count as `u64::MAX`.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How many per second.
pub(crate) fn rate(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64().max(1e-9)
}
