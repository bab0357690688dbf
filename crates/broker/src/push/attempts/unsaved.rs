//! Attempts that are not saved yet.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use domain::SubscriptionId;
use storage::{FAILURES_MAX, NumberedAttempt, RECENT_MAX};

/// Assigns each attempt its number.
pub(super) struct Numbers(AtomicU64);

impl Numbers {
    pub(super) fn from(next: u64) -> Self {
        Self(AtomicU64::new(next))
    }

    pub(super) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// From now on assigns only numbers greater than `last`.
    pub(super) fn raise_above(&self, last: u64) {
        self.0.fetch_max(last.saturating_add(1), Ordering::Relaxed);
    }
}

/// The unsaved attempts of some subscriptions.
#[derive(Default)]
pub(super) struct Shard {
    of_subscription: HashMap<SubscriptionId, Unsaved>,
}

/// The unsaved attempts of one subscription, oldest first.
#[derive(Default)]
struct Unsaved {
    recent: VecDeque<NumberedAttempt>,
    /// Failures that newer attempts pushed out of `recent`.
    failures: VecDeque<NumberedAttempt>,
}

impl Shard {
    pub(super) fn is_empty(&self) -> bool {
        self.of_subscription.is_empty()
    }

    /// Adds an attempt. While all shards together exceed `bytes_max`, the subscription's own oldest
    /// are dropped: whoever makes many attempts pays for them.
    pub(super) fn add(&mut self, numbered: NumberedAttempt, bytes: &AtomicUsize, bytes_max: usize) {
        let unsaved = self.of_subscription.entry(numbered.attempt.subscription).or_default();
        bytes.fetch_add(size(&numbered), Ordering::Relaxed);
        if let Some(dropped) = unsaved.push(numbered) {
            bytes.fetch_sub(size(&dropped), Ordering::Relaxed);
        }
        while bytes.load(Ordering::Relaxed) > bytes_max
            && let Some(oldest) = unsaved.pop_oldest()
        {
            bytes.fetch_sub(size(&oldest), Ordering::Relaxed);
        }
    }

    pub(super) fn take(
        &mut self,
        subscription: SubscriptionId,
        bytes: &AtomicUsize,
    ) -> Vec<NumberedAttempt> {
        let taken = self.of_subscription.remove(&subscription);
        let taken: Vec<_> = taken.into_iter().flat_map(Unsaved::into_all).collect();
        bytes.fetch_sub(taken.iter().map(size).sum(), Ordering::Relaxed);
        taken
    }

    pub(super) fn take_all(&mut self, bytes: &AtomicUsize) -> Vec<NumberedAttempt> {
        let taken = std::mem::take(&mut self.of_subscription);
        let taken: Vec<_> = taken.into_values().flat_map(Unsaved::into_all).collect();
        bytes.fetch_sub(taken.iter().map(size).sum(), Ordering::Relaxed);
        taken
    }
}

impl Unsaved {
    /// Adds an attempt; returns the one it evicts, if any.
    fn push(&mut self, numbered: NumberedAttempt) -> Option<NumberedAttempt> {
        self.recent.push_back(numbered);
        if self.recent.len() <= RECENT_MAX {
            return None;
        }
        let oldest = self.recent.pop_front()?;
        if !oldest.attempt.is_failure() {
            return Some(oldest);
        }
        self.failures.push_back(oldest);
        if self.failures.len() > FAILURES_MAX { self.failures.pop_front() } else { None }
    }

    /// The oldest attempt, unless it is the only one.
    fn pop_oldest(&mut self) -> Option<NumberedAttempt> {
        if let Some(failure) = self.failures.pop_front() {
            return Some(failure);
        }
        if self.recent.len() > 1 { self.recent.pop_front() } else { None }
    }

    fn into_all(self) -> impl Iterator<Item = NumberedAttempt> {
        self.failures.into_iter().chain(self.recent)
    }
}

fn size(numbered: &NumberedAttempt) -> usize {
    numbered.attempt.memory_bytes()
}
