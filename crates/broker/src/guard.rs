//! The time that retention and expiry use, for anything that deletes by it.
//!
//! The rule is `ClockGuard` in the domain. Here it is applied to the machine's clocks: a lease
//! costs one atomic load, and only a clock that seems to have jumped is checked more closely.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clock::Clock;
use domain::clock::{ClockChange, ClockView};
use domain::{ClockGuard, ClockMark, Now, Timestamp, Uptime};
use parking_lot::Mutex;

/// Stands for `suspended` instead of a bound.
const SUSPENDED: u64 = 0;

/// Watches the wall clock.
pub(crate) struct Guard {
    clock: Arc<dyn Clock>,
    /// The wall clock is used as long as it is ahead of the monotonic one by no more than this.
    bound: AtomicU64,
    /// The time used while suspended.
    held: AtomicU64,
    state: Mutex<State>,
}

struct State {
    guard: ClockGuard,
    /// When this started, on both monotonic clocks.
    began: (Now, Option<Uptime>),
    /// How long the machine has slept since then; the clock for leases stood still meanwhile.
    slept: Duration,
}

impl Guard {
    /// Trusts the clock as it is.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let now = present(&*clock);
        let began = (now, clock.uptime());
        let state = State { guard: ClockGuard::new(now), began, slept: Duration::ZERO };
        let guard = Self {
            clock,
            bound: AtomicU64::new(SUSPENDED),
            held: AtomicU64::new(0),
            state: Mutex::new(state),
        };
        guard.publish(&guard.state.lock(), now);
        guard
    }

    /// Continues where the previous process left off.
    pub(crate) fn resume(&self, mark: &ClockMark) {
        let mut state = self.state.lock();
        let (now, uptime) = state.present(&*self.clock);
        let (guard, change) = ClockGuard::resumed(now, mark, uptime);
        state.guard = guard;
        self.publish(&state, now);
        tell(change);
    }

    /// The time that retention and expiry use at `now`: it stands still while the wall clock is not
    /// trusted. Anything that deletes or settles by time must use this one.
    pub(crate) fn retention_at(&self, now: Now) -> Timestamp {
        let bound = self.bound.load(Ordering::Acquire);
        if now.wall.0.saturating_sub(now.moment.0) <= bound {
            return now.wall;
        }
        if bound != SUSPENDED {
            self.look();
            if self.bound.load(Ordering::Acquire) != SUSPENDED {
                return now.wall;
            }
        }
        Timestamp(self.held.load(Ordering::Acquire))
    }

    /// The same, now.
    pub(crate) fn retention_now(&self) -> Timestamp {
        self.retention_at(present(&*self.clock))
    }

    /// Checks the clocks; returns what changed.
    pub(crate) fn look(&self) -> Option<ClockChange> {
        let mut state = self.state.lock();
        let (now, _) = state.present(&*self.clock);
        let change = state.guard.look(now);
        self.publish(&state, now);
        tell(change);
        change
    }

    /// Trusts the wall clock as it is; returns whether it was distrusted before.
    pub(crate) fn confirm(&self) -> bool {
        let mut state = self.state.lock();
        let (now, _) = state.present(&*self.clock);
        let was_suspended = state.guard.confirm(now);
        self.publish(&state, now);
        was_suspended
    }

    pub(crate) fn is_suspended(&self) -> bool {
        self.bound.load(Ordering::Acquire) == SUSPENDED
    }

    /// The time to save for the next process.
    pub(crate) fn mark(&self) -> ClockMark {
        let mut state = self.state.lock();
        let (now, uptime) = state.present(&*self.clock);
        ClockMark { wall: state.guard.mark(now), uptime }
    }

    pub(crate) fn view(&self) -> ClockView {
        let mut state = self.state.lock();
        let (now, _) = state.present(&*self.clock);
        state.guard.view(now)
    }

    /// Publishes the state to callers that take no lock.
    fn publish(&self, state: &State, now: Now) {
        let slept = u64::try_from(state.slept.as_micros()).unwrap_or(u64::MAX);
        // In this order: a caller that sees `suspended` also sees the held time.
        self.held.store(state.guard.retention(now).0, Ordering::Release);
        let bound = state.guard.bound().map(|bound| bound.saturating_add(slept).max(1));
        self.bound.store(bound.unwrap_or(SUSPENDED), Ordering::Release);
    }
}

impl State {
    /// The current time, with a monotonic clock that keeps running while the machine sleeps.
    fn present(&mut self, clock: &dyn Clock) -> (Now, Option<Uptime>) {
        let (now, uptime) = (present(clock), clock.uptime());
        let (began, began_up) = self.began;
        if let (Some(then), Some(up)) = (began_up, uptime)
            && then.boot == up.boot
        {
            let awake = now.moment.since(began.moment);
            self.slept = self.slept.max(up.time.since(then.time).saturating_sub(awake));
        }
        (Now { moment: now.moment.plus(self.slept), ..now }, uptime)
    }
}

fn present(clock: &dyn Clock) -> Now {
    Now { moment: clock.now(), wall: clock.wall() }
}

fn tell(change: Option<ClockChange>) {
    match change {
        None => {}
        Some(ClockChange::Suspended(ahead)) => tracing::error!(
            ahead_seconds = ahead.as_secs(),
            "the clock is ahead of the time that has passed: retention and expiry are suspended; \
             see `postrider clock`, and if the time is right, `postrider clock confirm`"
        ),
        Some(ClockChange::PutRight) => {
            tracing::info!("the clock is right again: retention and expiry resume");
        }
        Some(ClockChange::Steady) => {
            tracing::warn!(
                "the clock was steady for a day: it is trusted, and retention and \
                            expiry resume"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::FakeClock;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn guarding(clock: &Arc<FakeClock>) -> Guard {
        Guard::new(Arc::clone(clock) as _)
    }

    #[test]
    fn whoever_asks_after_a_jump_gets_the_time_before_it() {
        let clock = Arc::new(FakeClock::new());
        let guard = guarding(&clock);
        clock.advance(HOUR);
        assert_eq!(guard.retention_now(), clock.wall());
        let before = clock.wall();
        clock.set_forward(24 * HOUR);
        assert_eq!(guard.retention_now(), before, "nobody has looked before");
        assert!(guard.is_suspended());
        clock.advance(HOUR);
        assert_eq!(guard.retention_now(), before);
        assert!(guard.confirm());
        assert_eq!(guard.retention_now(), clock.wall());
    }

    #[test]
    fn a_machine_that_slept_has_not_jumped() {
        let clock = Arc::new(FakeClock::new());
        let guard = guarding(&clock);
        for _ in 0..3 {
            clock.suspend(10 * HOUR);
            assert_eq!(guard.retention_now(), clock.wall());
            assert!(!guard.is_suspended());
            clock.advance(HOUR);
        }
        clock.set_forward(2 * HOUR);
        assert!(guard.retention_now() < clock.wall());
    }

    #[test]
    fn what_is_left_behind_is_taken_up() {
        let clock = Arc::new(FakeClock::new());
        let mark = guarding(&clock).mark();
        clock.suspend(48 * HOUR);
        let guard = guarding(&clock);
        guard.resume(&mark);
        assert!(!guard.is_suspended(), "the machine was up for as long");
        clock.set_forward(2 * HOUR);
        let guard = guarding(&clock);
        guard.resume(&mark);
        assert_eq!(guard.retention_now(), clock.wall().minus(2 * HOUR));
    }
}
