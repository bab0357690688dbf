//! Latencies and their quantiles.

use std::time::Duration;

use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;

use crate::clock;

/// Latencies in nanoseconds, to three digits.
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    /// Latencies above this count as this.
    const MAX: Duration = Duration::from_secs(60);

    /// None yet.
    pub(crate) fn new() -> Result<Self> {
        let bounds = Histogram::new_with_bounds(1, clock::nanos(Self::MAX), 3);
        Ok(Self(bounds.map_err(|error| anyhow!("histogram: {error}"))?))
    }

    /// Counts one.
    pub(crate) fn add(&mut self, latency: Duration) {
        self.0.saturating_record(clock::nanos(latency.min(Self::MAX)));
    }

    /// The latency that this part of all did not exceed.
    pub(crate) fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(quantile))
    }

    /// How many were counted.
    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Adds those of another run.
    pub(crate) fn merge(&mut self, other: &Self) -> Result<()> {
        self.0.add(&other.0).map_err(|error| anyhow!("histogram: {error}"))
    }
}
