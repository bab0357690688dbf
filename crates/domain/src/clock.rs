//! Decides whether to trust the wall clock with decisions that cannot be undone.
//!
//! Retention and expiry delete by wall time, and a wall clock can be set. One that jumps forward
//! would make everything old at once. So it is compared with a monotonic clock: while wall time has
//! outrun that one by more than an hour, time stands still for retention and expiry.
//!
//! ```text
//!   wall                  ┌─────────────  jumped: nothing is deleted
//!                         │
//!   bound   ╌╌╌╌╌╌╌╌╌╌╌╌╌╌│╌╌╌╌╌╌╌╌╌╌╌╌  anchor + monotonic time + 1 h
//!   anchor  ──────────────┘╌╌╌╌╌╌╌╌╌╌╌╌  anchor + monotonic time
//! ```
//!
//! Time resumes when the clock is corrected, when an operator confirms the time, or after the clock
//! has run steadily for a day. A clock that goes back deletes nothing and needs no guard; if it
//! then goes forward again, that counts as a jump too.

use std::time::Duration;

use crate::time::{Moment, Now, Timestamp};

/// A lead of wall time over monotonic time greater than this is a jump.
pub const JUMP: Duration = Duration::from_secs(60 * 60);

/// A clock that jumped is trusted again after it has run this long without another jump.
pub const STEADY: Duration = Duration::from_secs(24 * 60 * 60);

/// Watches the wall clock and supplies the time that retention and expiry use.
///
/// All times passed in must come from the same two clocks. The monotonic one should keep running
/// while the machine sleeps; otherwise each long sleep looks like a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockGuard {
    /// When both clocks were last trusted.
    anchor: Now,
    jumped: Option<Jumped>,
}

/// A jump that nobody has confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Jumped {
    /// The time at which retention and expiry are frozen.
    held: Timestamp,
    /// When it was noticed, by the clock that jumped.
    since: Timestamp,
    /// The clock has run steadily since then.
    steady: Now,
}

/// How long the machine has been up, including sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uptime {
    /// Identifies this boot of the machine; a different number after each boot.
    pub boot: u64,
    /// The time since boot.
    pub time: Moment,
}

/// The last trusted time, saved for the next process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockMark {
    /// The wall time.
    pub wall: Timestamp,
    /// The machine's uptime at that time; `None` = unknown.
    pub uptime: Option<Uptime>,
}

impl ClockMark {
    /// How much time has passed since, judging by the machine's uptime. Zero if the machine has
    /// rebooted or is a different one: uptime says nothing then.
    fn passed(&self, uptime: Option<Uptime>) -> Duration {
        match (self.uptime, uptime) {
            (Some(then), Some(now)) if then.boot == now.boot => now.time.since(then.time),
            _ => Duration::ZERO,
        }
    }
}

/// What changed when the clocks were checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockChange {
    /// Retention and expiry are suspended: the wall clock is this far ahead.
    Suspended(Duration),
    /// The wall clock is correct again.
    PutRight,
    /// The clock was steady for long enough to be trusted.
    Steady,
}

/// The state of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockView {
    /// What the wall clock shows.
    pub wall: Timestamp,
    /// What it should show, as far as we know.
    pub expected: Timestamp,
    /// The time that retention and expiry use.
    pub retention: Timestamp,
    /// Set after a jump that nobody has confirmed.
    pub suspended: Option<Suspension>,
}

/// Retention and expiry are suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspension {
    /// Since when, by the clock that jumped.
    pub since: Timestamp,
    /// How far the wall clock is ahead.
    pub ahead: Duration,
    /// How long it must still run steadily to be believed.
    pub left: Duration,
}

impl ClockGuard {
    /// Starts with no history, and trusts the clocks.
    pub fn new(now: Now) -> Self {
        Self { anchor: now, jumped: None }
    }

    /// Starts where an earlier process left off.
    pub fn resumed(
        now: Now,
        mark: &ClockMark,
        uptime: Option<Uptime>,
    ) -> (Self, Option<ClockChange>) {
        let wall = mark.wall.plus(mark.passed(uptime));
        let mut guard = Self::new(Now { wall, ..now });
        let change = guard.look(now);
        (guard, change)
    }

    /// Checks the clocks. Call it every few seconds, and before anything is deleted by a time above
    /// `bound`.
    pub fn look(&mut self, now: Now) -> Option<ClockChange> {
        let expected = self.expected(now);
        let has_jumped = now.wall > expected.plus(JUMP);
        match (&mut self.jumped, has_jumped) {
            (None, false) => {
                // The clock went back, or ran for a day: compare with its recent behavior from now
                // on.
                if now.wall < expected || now.moment.since(self.anchor.moment) >= STEADY {
                    self.anchor = now;
                }
                None
            }
            (None, true) => {
                self.jumped = Some(Jumped { held: expected, since: now.wall, steady: now });
                Some(ClockChange::Suspended(now.wall.since(expected)))
            }
            (Some(_), false) => {
                *self = Self::new(Now { wall: now.wall.min(expected), ..now });
                Some(ClockChange::PutRight)
            }
            (Some(jumped), true) => {
                if jumped.is_believed(now) {
                    *self = Self::new(now);
                    return Some(ClockChange::Steady);
                }
                None
            }
        }
    }

    /// Trusts the wall clock as it is. Returns whether it was distrusted before.
    pub fn confirm(&mut self, now: Now) -> bool {
        let was_suspended = self.jumped.is_some();
        *self = Self::new(now);
        was_suspended
    }

    /// The time that retention and expiry use: the wall clock, or while it is not trusted, the time
    /// before it jumped. Call `look` first.
    pub fn retention(&self, now: Now) -> Timestamp {
        self.jumped.map_or(now.wall, |jumped| jumped.held)
    }

    /// The time to save for the next process: the latest trusted time.
    pub fn mark(&self, now: Now) -> Timestamp {
        if self.jumped.is_some() { self.expected(now) } else { now.wall }
    }

    /// The wall-clock time above which `look` must be called, minus the monotonic time. Below it
    /// the wall clock can be used as is. `None` = use `retention`, whatever the clock shows.
    pub fn bound(&self) -> Option<u64> {
        let base = self.anchor.wall.plus(JUMP).0.saturating_sub(self.anchor.moment.0);
        self.jumped.is_none().then_some(base)
    }

    /// The state of the clock.
    pub fn view(&self, now: Now) -> ClockView {
        let expected = self.expected(now);
        let suspended = self.jumped.map(|jumped| Suspension {
            since: jumped.since,
            ahead: now.wall.since(expected),
            left: STEADY.saturating_sub(now.moment.since(jumped.steady.moment)),
        });
        let expected = if suspended.is_some() { expected } else { now.wall };
        ClockView { wall: now.wall, expected, retention: self.retention(now), suspended }
    }

    /// What the wall clock would show if it had kept pace with the monotonic one.
    fn expected(&self, now: Now) -> Timestamp {
        self.anchor.wall.plus(now.moment.since(self.anchor.moment))
    }
}

impl Jumped {
    /// Whether the clock has run steadily for long enough. Another jump, in either direction,
    /// restarts the count.
    fn is_believed(&mut self, now: Now) -> bool {
        let ran = now.moment.since(self.steady.moment);
        let expected = self.steady.wall.plus(ran);
        if now.wall.since(expected).max(expected.since(now.wall)) > JUMP {
            self.steady = now;
            return false;
        }
        ran >= STEADY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);
    const DAY: Duration = Duration::from_secs(24 * 3_600);
    const SECOND: Duration = Duration::from_secs(1);
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);

    /// Two clocks controlled by the test, and the guard that watches them.
    struct Watched {
        now: Now,
        guard: ClockGuard,
    }

    impl Watched {
        fn new() -> Self {
            let now = Now { moment: Moment(0), wall: Timestamp(1_800_000_000_000_000) };
            Self { now, guard: ClockGuard::new(now) }
        }

        /// Advances both clocks.
        fn run(&mut self, by: Duration) -> Option<ClockChange> {
            self.now.moment = self.now.moment.plus(by);
            self.now.wall = self.now.wall.plus(by);
            self.guard.look(self.now)
        }

        fn forward(&mut self, by: Duration) -> Option<ClockChange> {
            self.now.wall = self.now.wall.plus(by);
            self.guard.look(self.now)
        }

        fn back(&mut self, by: Duration) -> Option<ClockChange> {
            self.now.wall = self.now.wall.minus(by);
            self.guard.look(self.now)
        }

        fn retention(&self) -> Timestamp {
            self.guard.retention(self.now)
        }
    }

    #[test]
    fn a_jump_of_more_than_an_hour_holds_time_and_one_of_an_hour_does_not() {
        let mut clock = Watched::new();
        assert_eq!(clock.run(HOUR), None);
        assert_eq!(clock.forward(HOUR), None, "an hour is let pass");
        assert_eq!(clock.retention(), clock.now.wall);
        let before = clock.now.wall;
        assert_eq!(clock.forward(SECOND), Some(ClockChange::Suspended(HOUR + SECOND)));
        assert_eq!(clock.retention(), before.minus(HOUR));
        assert_eq!(clock.run(2 * HOUR), None);
        assert_eq!(clock.retention(), before.minus(HOUR), "it stands still");
    }

    #[test]
    fn many_small_jumps_within_a_day_are_one() {
        let mut clock = Watched::new();
        let mut changes = (0..10).filter_map(|_| {
            clock.run(SECOND);
            clock.forward(HOUR / 5)
        });
        assert!(matches!(changes.next(), Some(ClockChange::Suspended(_))));
    }

    #[test]
    fn a_clock_that_gains_little_each_day_is_believed_for_ever() {
        let mut clock = Watched::new();
        for _ in 0..1_000 {
            assert_eq!(clock.run(DAY), None);
            assert_eq!(clock.forward(HOUR / 2), None);
        }
    }

    #[test]
    fn it_goes_on_when_the_clock_is_put_right() {
        let mut clock = Watched::new();
        clock.forward(8 * DAY);
        clock.run(HOUR);
        assert_eq!(clock.back(8 * DAY), Some(ClockChange::PutRight));
        assert_eq!(clock.retention(), clock.now.wall);
        assert_eq!(clock.guard.view(clock.now).suspended, None);
    }

    #[test]
    fn it_goes_on_when_confirmed_and_guards_the_time_from_then_on() {
        let mut clock = Watched::new();
        assert!(!clock.guard.confirm(clock.now), "nothing to confirm");
        clock.forward(YEAR);
        assert!(clock.guard.confirm(clock.now));
        assert_eq!(clock.retention(), clock.now.wall);
        assert_eq!(clock.run(HOUR), None);
        assert!(matches!(clock.forward(2 * HOUR), Some(ClockChange::Suspended(_))));
    }

    #[test]
    fn a_day_of_steady_running_is_believed_and_a_further_jump_starts_it_anew() {
        let mut clock = Watched::new();
        clock.forward(YEAR);
        for _ in 0..23 {
            assert_eq!(clock.run(HOUR), None);
        }
        let view = clock.guard.view(clock.now).suspended.unwrap();
        assert_eq!((view.ahead, view.left), (YEAR, HOUR));
        assert_eq!(clock.forward(2 * HOUR), None);
        assert_eq!(clock.run(23 * HOUR), None);
        assert_eq!(clock.back(3 * HOUR), None, "back, but by far not where it was");
        assert_eq!(clock.run(23 * HOUR), None);
        assert_eq!(clock.run(HOUR), Some(ClockChange::Steady));
        assert_eq!(clock.retention(), clock.now.wall);
    }

    #[test]
    fn going_back_holds_nothing_and_going_forward_from_there_is_a_jump() {
        let mut clock = Watched::new();
        assert_eq!(clock.back(YEAR), None);
        assert_eq!(clock.retention(), clock.now.wall);
        clock.run(HOUR);
        let before = clock.now.wall;
        assert!(matches!(clock.forward(YEAR), Some(ClockChange::Suspended(_))));
        assert_eq!(clock.retention(), before);
    }

    #[test]
    fn a_clock_that_stood_still_and_is_set_right_is_a_jump() {
        let mut clock = Watched::new();
        for _ in 0..10 {
            clock.now.moment = clock.now.moment.plus(HOUR);
            assert_eq!(clock.guard.look(clock.now), None);
        }
        assert!(matches!(clock.forward(10 * HOUR), Some(ClockChange::Suspended(_))));
    }

    fn mark(wall: Timestamp) -> ClockMark {
        ClockMark { wall, uptime: None }
    }

    #[test]
    fn a_start_far_past_the_mark_is_a_jump() {
        let now = Watched::new().now;
        let old = now.wall.minus(40 * DAY);
        let (guard, change) = ClockGuard::resumed(now, &mark(old), None);
        assert_eq!(change, Some(ClockChange::Suspended(40 * DAY)));
        assert_eq!(guard.retention(now), old);
        for fine in [now.wall.minus(HOUR), now.wall.plus(YEAR)] {
            let (guard, change) = ClockGuard::resumed(now, &mark(fine), None);
            assert_eq!((change, guard.retention(now)), (None, now.wall));
        }
    }

    #[test]
    fn a_machine_that_was_up_all_the_time_knows_that_it_has_passed() {
        let now = Watched::new().now;
        let up = |boot, time| Some(Uptime { boot, time: Moment::default().plus(time) });
        let old = ClockMark { wall: now.wall.minus(4 * DAY), uptime: up(7, DAY) };
        let change = |uptime| ClockGuard::resumed(now, &old, uptime).1;
        assert_eq!(change(up(7, 5 * DAY)), None);
        assert_eq!(change(up(7, 2 * DAY)), Some(ClockChange::Suspended(3 * DAY)));
        assert_eq!(change(up(8, 5 * DAY)), Some(ClockChange::Suspended(4 * DAY)), "another boot");
        assert_eq!(change(None), Some(ClockChange::Suspended(4 * DAY)));
    }

    #[test]
    fn a_restart_does_not_make_a_jumped_clock_believed() {
        let mut clock = Watched::new();
        clock.forward(8 * DAY);
        clock.run(5 * HOUR);
        let left = mark(clock.guard.mark(clock.now));
        let (_, change) = ClockGuard::resumed(clock.now, &left, None);
        assert_eq!(change, Some(ClockChange::Suspended(8 * DAY)));
        let right = Now { wall: clock.now.wall.minus(8 * DAY), ..clock.now };
        let (_, change) = ClockGuard::resumed(right, &left, None);
        assert_eq!(change, None, "put right while it was stopped");
    }

    #[test]
    fn below_the_bound_the_wall_clock_is_the_time() {
        let mut clock = Watched::new();
        clock.run(HOUR);
        let bound = clock.guard.bound().unwrap();
        let later = Now { moment: clock.now.moment.plus(DAY / 2), wall: Timestamp(0) };
        let ahead = |wall: u64| wall - later.moment.0;
        let last = clock.now.wall.plus(DAY / 2).plus(HOUR).0;
        assert!(ahead(last) <= bound && ahead(last + 1) > bound);
        clock.forward(DAY);
        assert_eq!(clock.guard.bound(), None);
    }
}
