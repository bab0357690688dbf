//! The two kinds of time: the wall clock for what is stored, the monotonic clock for leases.

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

    /// This time moved later, saturating.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(micros(by)))
    }

    /// How long after `earlier` this is; zero if it is not.
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

    /// How long after `earlier` this is; zero if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// The present on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For what ends while the process runs.
    pub moment: Moment,
    /// For what is stored.
    pub wall: Timestamp,
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
