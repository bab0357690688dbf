//! Lock-free counters of attempts to push.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::push::Class;
use storage::{Histogram, HistogramSnapshot, TIME_BOUNDS_US};

/// The attempts of one subscription.
#[derive(Debug)]
pub(crate) struct Pushed {
    /// In the order of `Class::ALL`.
    attempts: [AtomicU64; Class::ALL.len()],
    latency: Histogram,
}

impl Default for Pushed {
    fn default() -> Self {
        Self { attempts: Default::default(), latency: Histogram::new(TIME_BOUNDS_US) }
    }
}

impl Pushed {
    /// Counts a request that took `time`, with this many messages as attempts of `class`.
    pub(crate) fn note(&self, class: Class, messages: u64, time: Duration) {
        if let Some(attempts) = self.attempts.get(class as usize) {
            attempts.fetch_add(messages, Ordering::Relaxed);
        }
        self.latency.note_time(time);
    }

    pub(crate) fn attempts(&self) -> Vec<(&'static str, u64)> {
        let counts = self.attempts.iter().map(|count| count.load(Ordering::Relaxed));
        Class::ALL.iter().map(|class| class.as_str()).zip(counts).collect()
    }

    pub(crate) fn latency(&self) -> HistogramSnapshot {
        self.latency.snapshot()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_counted_in_its_place() {
        let pushed = Pushed::default();
        for (times, class) in Class::ALL.into_iter().enumerate() {
            pushed.note(class, times as u64, Duration::from_millis(1));
        }
        for (times, (word, count)) in pushed.attempts().into_iter().enumerate() {
            assert_eq!((word, count), (Class::ALL[times].as_str(), times as u64));
        }
        assert_eq!(pushed.latency().count(), Class::ALL.len() as u64);
    }
}
