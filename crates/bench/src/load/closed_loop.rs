//! Callers that each make the next call when the last one is answered.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::clock;

/// How long calls under way may take once a slice is over.
const LAST_CALLS_TIME_MAX: Duration = Duration::from_secs(30);

/// One caller of a closed loop.
pub(crate) trait Call: Send + 'static {
    /// Makes one call and waits for its answer; breaks, without a call, when nothing is left to do.
    fn call(&mut self) -> impl Future<Output = Result<ControlFlow<()>>> + Send;
}

/// When a slice of load is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    /// At least so many calls, and at least so long.
    pub(crate) calls_min: u64,
    pub(crate) time_min: Duration,
    /// At most so many calls, and at most so long.
    pub(crate) calls_max: u64,
    pub(crate) time_max: Duration,
}

impl Goal {
    /// Exactly so many calls, unless time runs out.
    pub(crate) fn calls(calls: u64, time_max: Duration) -> Self {
        Self { calls_min: calls, time_min: Duration::ZERO, calls_max: calls, time_max }
    }

    fn reached(&self, calls: u64, elapsed: Duration) -> bool {
        let enough = calls >= self.calls_min && elapsed >= self.time_min;
        enough || calls >= self.calls_max || elapsed >= self.time_max
    }
}

/// What a slice of load did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slice {
    pub(crate) calls: u64,
    pub(crate) elapsed: Duration,
}

/// Runs the callers until the goal is reached and every call is answered. The first error ends it.
pub(crate) async fn run<C: Call>(callers: Vec<C>, goal: Goal) -> Result<Slice> {
    let shared = Arc::new(Shared { goal, begun: AtomicU64::new(0), start: clock::now() });
    let mut tasks = JoinSet::new();
    for caller in callers {
        tasks.spawn(run_one(caller, Arc::clone(&shared)));
    }
    let time_max = goal.time_max.saturating_add(LAST_CALLS_TIME_MAX);
    let calls = timeout(time_max, sum(&mut tasks)).await.context("calls were not answered")??;
    Ok(Slice { calls, elapsed: shared.start.elapsed() })
}

struct Shared {
    goal: Goal,
    begun: AtomicU64,
    start: Instant,
}

async fn run_one<C: Call>(mut caller: C, shared: Arc<Shared>) -> Result<u64> {
    let mut calls = 0;
    loop {
        let begun = shared.begun.fetch_add(1, Ordering::Relaxed);
        if shared.goal.reached(begun, shared.start.elapsed()) || caller.call().await?.is_break() {
            return Ok(calls);
        }
        calls += 1;
    }
}

async fn sum(tasks: &mut JoinSet<Result<u64>>) -> Result<u64> {
    let mut calls = 0;
    while let Some(done) = tasks.join_next().await {
        calls += done??;
    }
    Ok(calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Instantly;

    impl Call for Instantly {
        async fn call(&mut self) -> Result<ControlFlow<()>> {
            tokio::task::yield_now().await;
            Ok(ControlFlow::Continue(()))
        }
    }

    #[tokio::test]
    async fn a_goal_of_calls_is_met_exactly() {
        let goal = Goal::calls(1000, Duration::from_secs(60));
        let slice = run((0..8).map(|_| Instantly).collect(), goal).await.unwrap();
        assert_eq!(slice.calls, 1000);
    }

    #[test]
    fn a_goal_needs_calls_and_time_but_never_passes_its_bounds() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        let goal = Goal { calls_min: 10, time_min: second, calls_max: 100, time_max: minute };
        assert!(!goal.reached(10, Duration::ZERO));
        assert!(!goal.reached(9, second));
        assert!(goal.reached(10, second));
        assert!(goal.reached(100, Duration::ZERO));
        assert!(goal.reached(0, minute));
    }

    struct Failing;

    impl Call for Failing {
        async fn call(&mut self) -> Result<ControlFlow<()>> {
            anyhow::bail!("no")
        }
    }

    struct Twice(u32);

    impl Call for Twice {
        async fn call(&mut self) -> Result<ControlFlow<()>> {
            tokio::task::yield_now().await;
            self.0 += 1;
            Ok(if self.0 > 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        }
    }

    #[tokio::test]
    async fn a_slice_ends_when_no_caller_has_more_to_do() {
        let goal = Goal::calls(1000, Duration::from_secs(60));
        assert_eq!(run(vec![Twice(0), Twice(0)], goal).await.unwrap().calls, 4);
    }

    #[tokio::test]
    async fn a_failed_call_fails_the_slice() {
        let goal = Goal::calls(10, Duration::from_secs(60));
        assert!(run(vec![Failing], goal).await.is_err());
    }
}
