//! How long a message waits between attempts.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Invalid;
use crate::limits::{ATTEMPTS_MAX, BACKOFF_STEP_MAX, BACKOFF_STEPS_MAX};
use crate::policy::{RetryPolicy, jitter};

/// How long a message waits after a failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// Doubles each time, between two bounds.
    Exponential(RetryPolicy),
    /// A fixed list of waits; the last one repeats.
    Ladder(Arc<[Duration]>),
    /// Fast retries, then slow ones, then give up.
    Phases(Phases),
}

/// Fast retries followed by slow ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phases {
    /// The waits of the fast retries.
    pub fast: RetryPolicy,
    /// How many fast retries there are.
    pub fast_retries: u32,
    /// The wait before each slow retry.
    pub slow_every: Duration,
    /// How many slow retries there are.
    pub slow_retries: u32,
}

impl Phases {
    /// The first attempt and all retries.
    pub fn attempts(&self) -> u32 {
        self.fast_retries.saturating_add(self.slow_retries).saturating_add(1)
    }
}

impl Backoff {
    /// The wait after failed delivery number `attempt`, counted from 1, plus up to a tenth of it as
    /// jitter. The jitter depends on `seed` alone, so the same call always gives the same answer.
    pub fn after(&self, attempt: u32, seed: u64) -> Duration {
        match self {
            Self::Exponential(policy) => policy.backoff(attempt, seed),
            Self::Ladder(steps) => {
                let at = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
                let wait = steps.get(at).or(steps.last()).copied().unwrap_or_default();
                wait.saturating_add(jitter(wait, seed))
            }
            Self::Phases(phases) if attempt <= phases.fast_retries => {
                phases.fast.backoff(attempt, seed)
            }
            Self::Phases(phases) => {
                phases.slow_every.saturating_add(jitter(phases.slow_every, seed))
            }
        }
    }

    /// The longest wait, not counting jitter.
    pub fn longest(&self) -> Duration {
        match self {
            Self::Exponential(policy) => policy.max,
            Self::Ladder(steps) => steps.iter().max().copied().unwrap_or_default(),
            Self::Phases(phases) => phases.fast.max.max(phases.slow_every),
        }
    }

    /// How many attempts it covers; `None` = no limit.
    pub fn attempts(&self) -> Option<u32> {
        match self {
            Self::Phases(phases) => Some(phases.attempts()),
            Self::Exponential(_) | Self::Ladder(_) => None,
        }
    }

    /// Checks the waits and the number of attempts. `field` is the setting's name.
    pub fn validate(&self, field: &str) -> Result<(), Invalid> {
        match self {
            Self::Exponential(policy) => policy.validate(),
            Self::Ladder(steps) => check_ladder(field, steps),
            Self::Phases(phases) => check_phases(field, phases),
        }
    }
}

fn check_ladder(field: &str, steps: &[Duration]) -> Result<(), Invalid> {
    if steps.is_empty() || steps.len() > BACKOFF_STEPS_MAX {
        let count = steps.len();
        let problem = format!("{count} waits, 1 to {BACKOFF_STEPS_MAX} are allowed");
        return Err(Invalid::new(field, problem));
    }
    let named = steps.iter().enumerate();
    named.map(|(at, step)| (format!("{field}[{at}]"), *step)).try_for_each(check_wait)
}

fn check_phases(field: &str, phases: &Phases) -> Result<(), Invalid> {
    let Phases { fast, slow_every, .. } = *phases;
    let waits = [("fast.min", fast.min), ("fast.max", fast.max), ("slow.every", slow_every)];
    waits
        .map(|(name, wait)| (format!("{field}.{name}"), wait))
        .into_iter()
        .try_for_each(check_wait)?;
    if fast.min > fast.max {
        let (min, max) = (fast.min.as_secs_f64(), fast.max.as_secs_f64());
        let problem = format!("{min} s is longer than fast.max, {max} s");
        return Err(Invalid::new(format!("{field}.fast.min"), problem));
    }
    let attempts = phases.attempts();
    if attempts <= ATTEMPTS_MAX {
        return Ok(());
    }
    let problem =
        format!("the retries add up to {attempts} attempts, at most {ATTEMPTS_MAX} are allowed");
    Err(Invalid::new(field, problem))
}

fn check_wait((field, wait): (String, Duration)) -> Result<(), Invalid> {
    if wait <= BACKOFF_STEP_MAX {
        return Ok(());
    }
    let (given, max) = (wait.as_secs_f64(), BACKOFF_STEP_MAX.as_secs());
    Err(Invalid::new(field, format!("{given} s, 0 to {max} s are allowed")))
}

/// Parses a wait: a number, with decimals if needed, and its unit, as in `250ms`, `5.5s`, `30m`,
/// `2h`.
pub fn parse_wait(field: &str, text: &str) -> Result<Duration, Invalid> {
    read_wait(text).ok_or_else(|| {
        let shown: String = text.chars().take(64).collect();
        Invalid::new(field, format!("{shown:?} is not a time such as 250ms, 5s, 30m or 2h"))
    })
}

fn read_wait(text: &str) -> Option<Duration> {
    let unit_at = text.find(|char: char| char != '.' && !char.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(unit_at)?;
    let unit_ns: u64 = match unit {
        "ms" => 1_000_000,
        "s" => NANOS,
        "m" => 60 * NANOS,
        "h" => 3_600 * NANOS,
        _ => return None,
    };
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let is_short = !whole.is_empty() && (1..=9).contains(&decimals.len());
    if !is_short || decimals.contains('.') {
        return None;
    }
    let part = decimals.parse::<u64>().ok()?.checked_mul(unit_ns)?;
    let part = part / 10_u64.pow(u32::try_from(decimals.len()).ok()?);
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit_ns)?;
    Some(Duration::from_nanos(whole.checked_add(part)?))
}

const NANOS: u64 = 1_000_000_000;

/// Formats the wait as `parse_wait` reads it, in the largest unit that makes it a whole number.
pub fn show_wait(wait: Duration) -> String {
    let (seconds, nanos) = (wait.as_secs(), wait.subsec_nanos());
    match (seconds, nanos) {
        (0, 0) => "0s".to_owned(),
        (_, 0) if seconds % 3_600 == 0 => format!("{}h", seconds / 3_600),
        (_, 0) if seconds % 60 == 0 => format!("{}m", seconds / 60),
        (_, 0) => format!("{seconds}s"),
        (0, _) if nanos % 1_000_000 == 0 => format!("{}ms", nanos / 1_000_000),
        _ => {
            let decimals = format!("{nanos:09}");
            format!("{seconds}.{}s", decimals.trim_end_matches('0'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_read_and_shown_with_their_unit() {
        for (text, nanos) in [
            ("0s", 0),
            ("250ms", 250_000_000),
            ("5s", 5 * NANOS),
            ("5.5s", 5 * NANOS + NANOS / 2),
            ("0.000000001s", 1),
            ("30m", 1_800 * NANOS),
            ("2h", 7_200 * NANOS),
            ("86401s", 86_401 * NANOS),
        ] {
            let wait = Duration::from_nanos(nanos);
            assert_eq!(parse_wait("f", text), Ok(wait));
            assert_eq!(show_wait(wait), text);
        }
        assert_eq!(parse_wait("f", "1.5h"), Ok(secs(5_400)));
        assert_eq!(parse_wait("f", "600s"), Ok(secs(600)));
        for bad in [
            "",
            "5",
            "s",
            ".5s",
            "5.s",
            "1.2.3s",
            "-5s",
            "+5s",
            "5 s",
            "5d",
            "5S",
            "1e3s",
            "\u{e9}",
            "0.1234567891s",
            "99999999999999999999s",
            "18446744073709551615h",
        ] {
            assert_eq!(parse_wait("f", bad).unwrap_err().field, "f", "{bad}");
        }
    }

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn ladder(steps: &[u64]) -> Backoff {
        Backoff::Ladder(steps.iter().copied().map(secs).collect())
    }

    fn phases() -> Phases {
        Phases {
            fast: RetryPolicy { min: secs(5), max: secs(300) },
            fast_retries: 30,
            slow_every: secs(3_600),
            slow_retries: 30,
        }
    }

    /// The shortest wait that any seed gives, in seconds.
    fn least(backoff: &Backoff, attempt: u32) -> u64 {
        (0..1_000).map(|seed| backoff.after(attempt, seed).as_secs()).min().unwrap()
    }

    #[test]
    fn the_last_step_of_a_ladder_repeats() {
        let ladder = ladder(&[5, 300, 1_800, 7_200]);
        let waits: Vec<u64> = (1..=6).map(|attempt| least(&ladder, attempt)).collect();
        assert_eq!(waits, [5, 300, 1_800, 7_200, 7_200, 7_200]);
        assert_eq!(least(&ladder, u32::MAX), 7_200);
        assert_eq!((ladder.longest(), ladder.attempts()), (secs(7_200), None));
    }

    #[test]
    fn slow_retries_follow_the_fast_ones() {
        let backoff = Backoff::Phases(phases());
        let waits: Vec<u64> =
            [1, 2, 7, 8, 30, 31, 60].map(|attempt| least(&backoff, attempt)).into();
        assert_eq!(waits, [5, 10, 300, 300, 300, 3_600, 3_600]);
        assert_eq!((backoff.longest(), backoff.attempts()), (secs(3_600), Some(61)));
    }

    #[test]
    fn a_tenth_at_most_is_added() {
        for seed in 0..1_000 {
            let wait = ladder(&[100]).after(1, seed);
            assert!((secs(100)..=secs(110)).contains(&wait), "{wait:?}");
        }
    }

    #[test]
    fn waits_out_of_range_are_named() {
        let day = 24 * 60 * 60;
        let check = |backoff: &Backoff| backoff.validate("postrider.backoff");
        assert_eq!(check(&ladder(&[0, day])), Ok(()));
        assert_eq!(check(&Backoff::Phases(phases())), Ok(()));
        for (bad, field) in [
            (ladder(&[]), "postrider.backoff"),
            (ladder(&[1; BACKOFF_STEPS_MAX + 1]), "postrider.backoff"),
            (ladder(&[1, day + 1]), "postrider.backoff[1]"),
            (
                Backoff::Phases(Phases { slow_every: secs(day + 1), ..phases() }),
                "postrider.backoff.slow.every",
            ),
            (Backoff::Phases(Phases { slow_retries: 70, ..phases() }), "postrider.backoff"),
            (
                Backoff::Phases(Phases {
                    fast: RetryPolicy { min: secs(9), max: secs(8) },
                    ..phases()
                }),
                "postrider.backoff.fast.min",
            ),
        ] {
            assert_eq!(check(&bad).unwrap_err().field, field, "{bad:?}");
        }
    }
}
