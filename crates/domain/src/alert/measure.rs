//! What the levels of a rule look at.

use std::time::Duration;

use super::history::History;
use super::rules::Level;
use crate::backoff::show_wait;
use crate::time::Moment;

/// Over how long a share of pushes or the growth of a backlog is taken.
const WINDOW: Duration = Duration::from_secs(5 * 60);
/// Over how long the growth of dead letters is taken: they come seldom.
const LETTERS_WINDOW: Duration = Duration::from_secs(10 * 60);
/// Shares are counted in millionths.
const MILLION: u32 = 1_000_000;

/// The figures of one subscription at one time, or of the server itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Its dead letters that nobody has handled.
    pub dead_letters_waiting: u64,
    /// Dead letters that came from it since the server started.
    pub dead_letters_total: u64,
    /// Pushes that ended since the server started.
    pub pushes: Counts,
    /// How long ago the oldest message was published that is not acked; `None` = there is none.
    pub oldest_unacked_age: Option<Duration>,
    /// Messages not acked.
    pub backlog_messages: u64,
    /// How long its lane has been blocked, if it is FIFO and blocked.
    pub fifo_blocked_for: Option<Duration>,
    /// Of the server itself: how far its clock is ahead, if it is not believed.
    pub clock_ahead: Option<Duration>,
    /// Of the server itself: for how long its log could not be emptied, if that fails.
    pub log_stuck_for: Option<Duration>,
    /// Of the server itself: how much of the room for outstanding messages is used, in millionths.
    pub outstanding_used: u32,
    /// How long the lane has failed that has failed longest, if it has lanes of keys.
    pub lane_blocked_for: Option<Duration>,
    /// Lanes that wait for an operator.
    pub lanes_halted: u64,
}

/// How pushes ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All of them.
    pub all: u64,
    /// Those that were answered with 4xx.
    pub refused: u64,
    /// Those that were answered with 5xx, or not at all.
    pub failed: u64,
}

impl Counts {
    /// The class of pushes that were acked.
    pub const ACKED_CLASS: &'static str = "ok";
    /// The classes of pushes that were refused: trying again does not help.
    pub const REFUSED_CLASSES: [&'static str; 3] = ["http_3xx", "http_4xx", "permanent"];

    /// Sums up how many pushes ended in each class.
    pub fn of<'class>(classes: impl IntoIterator<Item = (&'class str, u64)>) -> Self {
        let mut counts = Self::default();
        for (class, count) in classes {
            counts.all += count;
            if Self::REFUSED_CLASSES.contains(&class) {
                counts.refused += count;
            } else if class != Self::ACKED_CLASS {
                counts.failed += count;
            }
        }
        counts
    }
}

/// What a level looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Seconds since the oldest unacked message was published; the level's time is the bound.
    OldestUnackedAge,
    /// Seconds a FIFO subscription has been blocked; the level's time is the bound.
    FifoBlocked,
    /// Seconds the worst lane of a key has been blocked; the level's time is the bound.
    LaneBlocked,
    /// Lanes that wait for an operator.
    LanesHalted,
    /// Dead letters nobody has handled.
    DeadLettersWaiting,
    /// Dead letters that came within the level's time.
    DeadLettersArrived,
    /// How many more dead letters arrived than were handled, over a window.
    DeadLettersGrowth,
    /// By how many messages the backlog grew, over a window.
    BacklogGrowth,
    /// The share of pushes answered with 4xx, over a window.
    PushesRefused,
    /// The share of pushes answered with 5xx or not at all, over a window.
    PushesFailed,
    /// Seconds the server's clock is ahead while it is not believed; the level's time is the bound.
    ClockAhead,
    /// Seconds for which the server's log could not be emptied; the level's time is the bound.
    LogStuck,
    /// The share of the room for outstanding messages that is used.
    OutstandingUsed,
}

impl Measure {
    /// Whether the level's time is the bound itself.
    pub fn is_time(self) -> bool {
        matches!(
            self,
            Self::OldestUnackedAge
                | Self::FifoBlocked
                | Self::LaneBlocked
                | Self::ClockAhead
                | Self::LogStuck
        )
    }

    /// Whether the level's bound is a share, in millionths.
    pub fn is_share(self) -> bool {
        matches!(self, Self::PushesRefused | Self::PushesFailed | Self::OutstandingUsed)
    }
}

impl Level {
    /// How long the measure must be above its bound before the level fires.
    pub fn lasting(&self) -> Duration {
        match self.measure {
            Measure::DeadLettersArrived => Duration::ZERO,
            measure if measure.is_time() => Duration::ZERO,
            _ => self.time,
        }
    }

    /// Over how long changes are taken, if they are; never longer than what must last.
    pub fn window(&self) -> Option<Duration> {
        match self.measure {
            Measure::OldestUnackedAge
            | Measure::FifoBlocked
            | Measure::ClockAhead
            | Measure::LogStuck
            | Measure::OutstandingUsed
            | Measure::LaneBlocked
            | Measure::LanesHalted
            | Measure::DeadLettersWaiting => None,
            Measure::DeadLettersArrived => Some(self.time),
            Measure::DeadLettersGrowth => Some(LETTERS_WINDOW.min(self.time)),
            Measure::BacklogGrowth | Measure::PushesRefused | Measure::PushesFailed => {
                Some(WINDOW.min(self.time))
            }
        }
    }

    /// What the value must exceed: seconds, a number, or a share from 0 to 1.
    pub fn bound(&self) -> f64 {
        if self.measure.is_time() {
            self.time.as_secs_f64()
        } else if self.measure.is_share() {
            f64::from(self.above) / f64::from(MILLION)
        } else {
            f64::from(self.above)
        }
    }

    /// The value now, in the unit of the bound.
    pub(super) fn value(&self, now: Moment, sample: &Sample, history: &mut History) -> f64 {
        let seconds = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64();
        let window = self.window().unwrap_or_default();
        let mut change = |figures: [u64; 2]| {
            let before = history.before(now, figures, window);
            let [first, second] = figures;
            let [first_before, second_before] = before;
            (
                number(first.saturating_sub(first_before)),
                number(second.saturating_sub(second_before)),
            )
        };
        let pushes = &sample.pushes;
        match self.measure {
            Measure::OldestUnackedAge => seconds(sample.oldest_unacked_age),
            Measure::FifoBlocked => seconds(sample.fifo_blocked_for),
            Measure::LaneBlocked => seconds(sample.lane_blocked_for),
            Measure::LanesHalted => number(sample.lanes_halted),
            Measure::DeadLettersWaiting => number(sample.dead_letters_waiting),
            Measure::DeadLettersArrived => change([sample.dead_letters_total, 0]).0,
            Measure::DeadLettersGrowth => change([sample.dead_letters_waiting, 0]).0,
            Measure::BacklogGrowth => change([sample.backlog_messages, 0]).0,
            Measure::PushesRefused => share(change([pushes.refused, pushes.all])),
            Measure::PushesFailed => share(change([pushes.failed, pushes.all])),
            Measure::ClockAhead => seconds(sample.clock_ahead),
            Measure::LogStuck => seconds(sample.log_stuck_for),
            Measure::OutstandingUsed => f64::from(sample.outstanding_used) / f64::from(MILLION),
        }
    }

    /// What is so, in words, when the measure has this value.
    pub fn describe(&self, value: f64) -> String {
        let window = show_wait(self.window().unwrap_or_default());
        let than = match self.measure {
            measure if measure.is_time() => show_wait(self.time),
            measure if measure.is_share() => format!("{} %", percent(self.bound())),
            _ => self.above.to_string(),
        };
        let what = match self.measure {
            Measure::OldestUnackedAge => {
                format!("the oldest unacked message is {} old", time(value))
            }
            Measure::FifoBlocked => format!("its lane has been blocked for {}", time(value)),
            Measure::LaneBlocked => format!("a lane has been blocked for {}", time(value)),
            Measure::LanesHalted => {
                return format!("lanes waiting for an operator: {value:.0}");
            }
            Measure::DeadLettersWaiting => {
                return format!("dead letters nobody has handled: {value:.0}");
            }
            Measure::DeadLettersArrived => {
                format!("new dead letters within {window}: {value:.0}")
            }
            Measure::DeadLettersGrowth => {
                let more = "growth in unhandled dead letters";
                return format!("{more} within {window}: {value:.0}");
            }
            Measure::BacklogGrowth => {
                return format!("backlog growth within {window}: {value:.0}");
            }
            Measure::PushesRefused => {
                format!("{} % of the pushes of {window} were answered 4xx", percent(value))
            }
            Measure::PushesFailed => {
                let of = format!("{} % of the pushes of {window}", percent(value));
                format!("{of} were answered 5xx or not at all")
            }
            Measure::ClockAhead => {
                let ahead =
                    format!("the clock is {} ahead of the time that has passed", time(value));
                return format!("{ahead}: retention and expiry are suspended");
            }
            Measure::LogStuck => {
                let stuck = format!("the log could not be emptied for {}", time(value));
                return format!("{stuck}: when it is full, publishing is refused");
            }
            Measure::OutstandingUsed => {
                format!("{} % of the room for outstanding messages is used", percent(value))
            }
        };
        format!("{what}, more than {than}")
    }
}

/// A part of the whole; of nothing there is no share.
fn share((part, whole): (f64, f64)) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Counts beyond 2^53 would lose their last digits, which no bound asks for.
#[expect(clippy::cast_precision_loss, reason = "bounds are far below")]
fn number(count: u64) -> f64 {
    count as f64
}

fn time(seconds: f64) -> String {
    show_wait(Duration::from_secs(Duration::from_secs_f64(seconds.max(0.0)).as_secs()))
}

/// At most two decimals, and none that are zero.
fn percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
