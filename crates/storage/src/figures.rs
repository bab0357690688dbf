//! Statistics of an engine, counted as it works: for metrics, never for decisions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bucket bounds for times, in microseconds: from a memory access to longer than anyone waits.
pub const TIME_BOUNDS_US: &[u64] = &[
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
];

/// Bucket bounds for counts.
const COUNT_BOUNDS: &[u64] = &[0, 1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 10_000];

/// Bucket bounds for sizes, in bytes.
const BYTES_BOUNDS: &[u64] =
    &[4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];

/// Counts of values between fixed bounds. Never allocates after it is created.
#[derive(Debug)]
pub struct Histogram {
    /// Ascending; a value is counted in the first bucket whose bound it does not exceed.
    bounds: &'static [u64],
    /// One for each bound, and one for anything beyond the last.
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    /// An empty histogram with these ascending bounds.
    pub fn new(bounds: &'static [u64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, buckets, sum: AtomicU64::new(0) }
    }

    /// Counts a value.
    pub fn note(&self, value: u64) {
        let place = self.bounds.partition_point(|bound| *bound < value);
        if let Some(bucket) = self.buckets.get(place) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Counts a time, in microseconds.
    pub fn note_time(&self, time: Duration) {
        self.note(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// The current counts.
    pub fn snapshot(&self) -> HistogramSnapshot {
        HistogramSnapshot {
            bounds: self.bounds,
            counts: self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect(),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

/// A histogram at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistogramSnapshot {
    /// The upper bounds of all buckets but the last, which has none.
    pub bounds: &'static [u64],
    /// How many values fell into each bucket.
    pub counts: Vec<u64>,
    /// The sum of all values.
    pub sum: u64,
}

impl HistogramSnapshot {
    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The values of both; they have the same bounds.
    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum += other.sum;
        self
    }
}

/// Statistics of an engine's log.
#[derive(Debug)]
pub struct LogFigures {
    /// How long it took to write and sync a group.
    pub commit_time: Histogram,
    /// Messages in a group; zero if it only carried acks.
    pub group_messages: Histogram,
    /// Bytes of a group.
    pub group_bytes: Histogram,
    /// Current size of the log in bytes: the write-ahead log, or all messages in memory.
    pub log_bytes: AtomicU64,
}

impl Default for LogFigures {
    fn default() -> Self {
        Self {
            commit_time: Histogram::new(TIME_BOUNDS_US),
            group_messages: Histogram::new(COUNT_BOUNDS),
            group_bytes: Histogram::new(BYTES_BOUNDS),
            log_bytes: AtomicU64::new(0),
        }
    }
}

impl LogFigures {
    /// A group with this many messages and bytes was made durable in `time`, and the log now holds
    /// `log_bytes`.
    pub(crate) fn note_group(&self, time: Duration, messages: u64, bytes: u64, log_bytes: u64) {
        self.commit_time.note_time(time);
        self.group_messages.note(messages);
        self.group_bytes.note(bytes);
        self.log_bytes.store(log_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_counted_below_the_first_bound_that_holds_it() {
        let histogram = Histogram::new(&[1, 10]);
        for value in [0, 1, 2, 10, 11, 1_000] {
            histogram.note(value);
        }
        let snapshot = histogram.snapshot();
        assert_eq!(snapshot.counts, [2, 2, 2]);
        assert_eq!((snapshot.count(), snapshot.sum), (6, 1_024));
    }

    #[test]
    fn histograms_of_several_logs_add_up() {
        let (one, other) = (Histogram::new(&[1, 10]), Histogram::new(&[1, 10]));
        one.note(1);
        [7, 70].iter().for_each(|value| other.note(*value));
        let both = one.snapshot().plus(other.snapshot());
        assert_eq!((both.counts, both.sum), (vec![1, 1, 1], 78));
    }

    #[test]
    fn bounds_ascend() {
        for bounds in [TIME_BOUNDS_US, COUNT_BOUNDS, BYTES_BOUNDS] {
            assert!(bounds.is_sorted_by(|one, other| one < other));
        }
    }
}
