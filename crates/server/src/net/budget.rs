//! A bound on the memory that requests take, in all and for one connection.
//!
//! A call takes its place when it arrives, and bytes as its body comes in and is built. Where
//! there are none left it is refused, so that a body which cannot be kept is not read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wire::allowance;

pub(crate) use wire::allowance::Exhausted;

use crate::config::Limits;

/// What a call may take that nobody counts: most take no more, and need not touch the counters
/// that all connections share.
const FREE_BYTES: usize = 8 << 10;

/// What all requests together may take.
#[derive(Debug)]
pub(crate) struct Budget {
    calls_max: usize,
    bytes_max: usize,
    connection_bytes_max: usize,
    calls: AtomicUsize,
    bytes: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        let bytes = |setting: u64| usize::try_from(setting).unwrap_or(usize::MAX);
        Arc::new(Self {
            calls_max: limits.calls_max,
            bytes_max: bytes(limits.body_memory),
            connection_bytes_max: bytes(limits.body_memory_per_connection),
            calls: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        })
    }

    /// What a new connection takes its part from.
    pub(super) fn share(self: &Arc<Self>) -> Arc<Share> {
        Arc::new(Share { budget: Arc::clone(self), bytes: AtomicUsize::new(0) })
    }
}

/// What one connection takes.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: AtomicUsize,
}

impl Share {
    /// A place for one more call.
    pub(crate) fn admit(self: &Arc<Self>) -> Result<Charge, Exhausted> {
        let budget = &self.budget;
        let taken = budget.calls.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |calls| {
            (calls < budget.calls_max).then_some(calls + 1)
        });
        taken.map_err(|_| Exhausted)?;
        Ok(Charge { share: Arc::clone(self), held: 0 })
    }

    fn left(&self) -> usize {
        let left =
            |max: usize, bytes: &AtomicUsize| max.saturating_sub(bytes.load(Ordering::Relaxed));
        let budget = &self.budget;
        left(budget.bytes_max, &budget.bytes).min(left(budget.connection_bytes_max, &self.bytes))
    }
}

/// What one call takes, until it is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    share: Arc<Share>,
    /// Bytes, those that are not counted among them.
    held: usize,
}

impl Charge {
    /// Lets the call that this is for work: what it takes meanwhile is counted. Several threads
    /// may look at what is left at the same time, so that each may take it.
    pub(crate) fn work<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let max = self.max();
        let (done, held) = allowance::with(self.held, max, work);
        self.set(held);
        done
    }

    /// Takes what is missing, so that it holds `bytes` at least.
    pub(crate) fn reach(&mut self, bytes: usize) -> Result<(), Exhausted> {
        if bytes > self.max() {
            return Err(Exhausted);
        }
        self.set(self.held.max(bytes));
        Ok(())
    }

    fn max(&self) -> usize {
        self.held.max(FREE_BYTES).saturating_add(self.share.left())
    }

    fn set(&mut self, held: usize) {
        let more = held.saturating_sub(FREE_BYTES) - self.held.saturating_sub(FREE_BYTES);
        self.held = held;
        if more > 0 {
            self.share.bytes.fetch_add(more, Ordering::Relaxed);
            self.share.budget.bytes.fetch_add(more, Ordering::Relaxed);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let counted = self.held.saturating_sub(FREE_BYTES);
        let budget = &self.share.budget;
        budget.calls.fetch_sub(1, Ordering::Relaxed);
        if counted > 0 {
            self.share.bytes.fetch_sub(counted, Ordering::Relaxed);
            budget.bytes.fetch_sub(counted, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn budget(calls_max: usize, bytes_max: usize, connection_bytes_max: usize) -> Arc<Budget> {
        let (calls, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Budget { calls_max, bytes_max, connection_bytes_max, calls, bytes })
    }

    fn taken(budget: &Budget) -> (usize, usize) {
        (budget.calls.load(Ordering::Relaxed), budget.bytes.load(Ordering::Relaxed))
    }

    #[test]
    fn calls_are_counted_and_given_back() {
        let budget = budget(2, MIB, MIB);
        let (one, other) = (budget.share(), budget.share());
        let held = (one.admit().unwrap(), other.admit().unwrap());
        assert_eq!(one.admit().unwrap_err(), Exhausted);
        drop(held);
        assert!(one.admit().is_ok());
        assert_eq!(taken(&budget), (0, 0));
    }

    #[test]
    fn bytes_are_bounded_for_a_connection_and_in_all() {
        let budget = budget(10, 10 * MIB, 6 * MIB);
        let (one, other) = (budget.share(), budget.share());
        let (mut first, mut second) = (one.admit().unwrap(), one.admit().unwrap());
        first.reach(4 * MIB).unwrap();
        assert_eq!(second.reach(4 * MIB), Err(Exhausted), "the connection has its part");
        second.reach(2 * MIB).unwrap();
        let mut third = other.admit().unwrap();
        assert_eq!(third.reach(5 * MIB), Err(Exhausted), "all have theirs");
        drop(first);
        third.reach(5 * MIB).unwrap();
        third.reach(MIB).unwrap();
        drop((second, third));
        assert_eq!(taken(&budget), (0, 0));
    }

    #[test]
    fn what_a_call_takes_while_it_works_is_counted_until_it_ends() {
        let budget = budget(10, MIB, MIB);
        let share = budget.share();
        let mut call = share.admit().unwrap();
        call.work(|| allowance::take(FREE_BYTES)).unwrap();
        assert_eq!(taken(&budget), (1, 0), "little is free");
        call.work(|| allowance::take(MIB / 2)).unwrap();
        assert_eq!(taken(&budget), (1, MIB / 2));
        let mut other = share.admit().unwrap();
        assert_eq!(other.work(|| allowance::take(MIB)), Err(Exhausted));
        other.work(|| allowance::take(MIB / 2)).unwrap();
        drop((call, other));
        assert_eq!(taken(&budget), (0, 0));
    }
}
