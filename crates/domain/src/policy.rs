//! What happens to a message whose delivery failed: how long it waits, how often it is tried, and
//! where it ends up.

use std::fmt;
use std::time::Duration;

use crate::error::Invalid;
use crate::limits::{
    BACKOFF_MAX, BACKOFF_MAX_DEFAULT, BACKOFF_MIN_DEFAULT, DELIVERY_ATTEMPTS_DEFAULT,
    DELIVERY_ATTEMPTS_MAX, DELIVERY_ATTEMPTS_MIN,
};
use crate::name::TopicName;

/// How long a message waits after a nack or an expired lease. Without a policy it does not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The wait after the first failed attempt.
    pub min: Duration,
    /// The longest wait, not counting jitter.
    pub max: Duration,
}

impl Default for RetryPolicy {
    /// Google's defaults.
    fn default() -> Self {
        Self { min: BACKOFF_MIN_DEFAULT, max: BACKOFF_MAX_DEFAULT }
    }
}

impl RetryPolicy {
    /// Checks both bounds.
    pub fn validate(&self) -> Result<(), Invalid> {
        check_backoff("retry_policy.minimum_backoff", self.min)?;
        check_backoff("retry_policy.maximum_backoff", self.max)?;
        if self.min <= self.max {
            return Ok(());
        }
        let (min, max) = (self.min.as_secs_f64(), self.max.as_secs_f64());
        let problem = format!("{min} s is longer than the maximum_backoff of {max} s");
        Err(Invalid::new("retry_policy.minimum_backoff", problem))
    }

    /// The backoff after failed delivery number `attempt`, counted from 1: `min`, doubled with each
    /// further attempt up to `max`, plus up to a tenth of that as jitter.
    ///
    /// The jitter depends on `seed` alone, so the same call always gives the same answer.
    pub fn backoff(&self, attempt: u32, seed: u64) -> Duration {
        let mut backoff = self.min.min(self.max);
        for _ in 1..attempt {
            if backoff.is_zero() || backoff == self.max {
                break;
            }
            backoff = backoff.saturating_mul(2).min(self.max);
        }
        backoff.saturating_add(jitter(backoff, seed))
    }
}

fn check_backoff(field: &str, backoff: Duration) -> Result<(), Invalid> {
    if backoff <= BACKOFF_MAX {
        return Ok(());
    }
    let (given, max) = (backoff.as_secs_f64(), BACKOFF_MAX.as_secs());
    Err(Invalid::new(field, format!("{given} s, 0 to {max} s are allowed")))
}

/// Up to a tenth of `backoff`, so that messages that failed together do not all return together.
pub(crate) fn jitter(backoff: Duration, seed: u64) -> Duration {
    const PARTS: u32 = 1 << 16;
    let part = u32::try_from(mixed(seed) % u64::from(PARTS)).unwrap_or_default();
    (backoff / 10 / PARTS).saturating_mul(part)
}

/// Spreads neighboring seeds, such as offsets, far apart (the finalizer of `SplitMix64`).
fn mixed(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Where messages go that keep failing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterPolicy {
    /// The dead letter topic. It need not exist: a message that cannot go there stays where it is.
    pub topic: TopicName,
    /// After this many failed attempts a message goes there.
    pub max_delivery_attempts: u32,
}

impl DeadLetterPolicy {
    /// A policy. Without its own `attempts` it uses the `attempts_max` of our setting, or else
    /// Google's default.
    pub fn new(topic: TopicName, attempts: Option<u32>, attempts_max: Option<u32>) -> Self {
        let attempts = attempts.or(attempts_max).unwrap_or(DELIVERY_ATTEMPTS_DEFAULT);
        Self { topic, max_delivery_attempts: attempts }
    }

    /// Checks the attempts. `attempts_max` is our own setting, which allows fewer: a policy with
    /// the same number is fine.
    pub fn validate(&self, attempts_max: Option<u32>) -> Result<(), Invalid> {
        const FIELD: &str = "dead_letter_policy.max_delivery_attempts";
        self.topic.check_not_own("dead_letter_policy.dead_letter_topic")?;
        let attempts = self.max_delivery_attempts;
        match attempts_max {
            Some(other) if other == attempts => Ok(()),
            Some(other) => Err(Invalid::new(
                FIELD,
                format!("{attempts}, but postrider.maxAttempts is {other}; give one, or the same"),
            )),
            None if (DELIVERY_ATTEMPTS_MIN..=DELIVERY_ATTEMPTS_MAX).contains(&attempts) => Ok(()),
            None => Err(Invalid::new(
                FIELD,
                format!(
                    "{attempts}, {DELIVERY_ATTEMPTS_MIN} to {DELIVERY_ATTEMPTS_MAX} are allowed"
                ),
            )),
        }
    }
}

/// What a lane does when its first message has used up its attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Poison {
    /// The message is dead-lettered and the lane continues.
    #[default]
    Skip,
    /// The lane stops until an operator releases or skips its first message.
    Halt,
}

impl Poison {
    /// Parses `skip` or `halt`.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        match text {
            "skip" => Ok(Self::Skip),
            "halt" => Ok(Self::Halt),
            _ => {
                let shown: String = text.chars().take(64).collect();
                Err(Invalid::new(field, format!("{shown:?} is not skip or halt")))
            }
        }
    }
}

impl fmt::Display for Poison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Skip => "skip",
            Self::Halt => "halt",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn policy(min: u64, max: u64) -> RetryPolicy {
        RetryPolicy { min: Duration::from_secs(min), max: Duration::from_secs(max) }
    }

    #[test]
    fn bounds_are_0_to_600_seconds_and_in_order() {
        for good in [(0, 0), (0, 600), (10, 10), (600, 600)] {
            assert!(policy(good.0, good.1).validate().is_ok(), "{good:?}");
        }
        for (min, max, field) in [
            (601, 601, "retry_policy.minimum_backoff"),
            (1, 601, "retry_policy.maximum_backoff"),
            (11, 10, "retry_policy.minimum_backoff"),
        ] {
            assert_eq!(policy(min, max).validate().unwrap_err().field, field, "{min} {max}");
        }
        let just_over = Duration::new(600, 1);
        assert!(RetryPolicy { min: just_over, max: just_over }.validate().is_err());
        assert_eq!(RetryPolicy::default(), policy(10, 600));
    }

    #[test]
    fn the_backoff_doubles_up_to_its_maximum() {
        let least = |attempt| {
            let backoffs = (0..1_000).map(|seed| policy(10, 600).backoff(attempt, seed).as_secs());
            backoffs.min().unwrap()
        };
        let doubled: Vec<u64> = (0..=9).map(least).collect();
        assert_eq!(doubled, [10, 10, 20, 40, 80, 160, 320, 600, 600, 600]);
        for attempt in [32, 33, 34, 64, 65, 1_000, u32::MAX] {
            assert_eq!(least(attempt), 600, "{attempt}");
        }
    }

    #[test]
    fn no_backoff_stays_none() {
        for attempt in [0, 1, 50, u32::MAX] {
            assert_eq!(policy(0, 600).backoff(attempt, 7), Duration::ZERO);
            assert_eq!(policy(0, 0).backoff(attempt, u64::MAX), Duration::ZERO);
        }
    }

    #[test]
    fn seeds_spread_the_backoff_over_the_whole_tenth() {
        let backoffs: Vec<Duration> =
            (0..1_000).map(|seed| policy(100, 600).backoff(1, seed)).collect();
        let below = |limit| backoffs.iter().filter(|one| one.as_secs_f64() < limit).count();
        assert_eq!((below(100.0), below(110.0)), (0, 1_000));
        assert!((400..600).contains(&below(105.0)), "{}", below(105.0));
    }

    proptest! {
        #[test]
        fn a_backoff_is_within_its_bounds(
            min in 0_u64..=600_000_000,
            more in 0_u64..=600_000_000,
            attempt: u32,
            seed: u64,
        ) {
            let max = (min + more).min(600_000_000);
            let policy =
                RetryPolicy { min: Duration::from_micros(min), max: Duration::from_micros(max) };
            let backoff = policy.backoff(attempt, seed);
            prop_assert!(backoff >= policy.min);
            prop_assert!(backoff <= policy.max + policy.max / 10);
            prop_assert_eq!(backoff, policy.backoff(attempt, seed));
            let next = policy.backoff(attempt.saturating_add(1), seed);
            prop_assert!(next >= backoff, "{next:?} after {backoff:?}");
        }
    }

    #[test]
    fn dead_letter_attempts_are_5_to_100_unless_ours_says_the_same() {
        let dead = |max_delivery_attempts| DeadLetterPolicy {
            topic: TopicName::parse("topic", "projects/p/topics/dead").unwrap(),
            max_delivery_attempts,
        };
        for good in [5, 100] {
            assert!(dead(good).validate(None).is_ok(), "{good}");
        }
        for bad in [0, 4, 101, u32::MAX] {
            let error = dead(bad).validate(None).unwrap_err();
            assert_eq!(error.field, "dead_letter_policy.max_delivery_attempts");
            assert_eq!(error.problem, format!("{bad}, 5 to 100 are allowed"));
        }
        assert!(dead(3).validate(Some(3)).is_ok());
        let torn = dead(5).validate(Some(7)).unwrap_err();
        assert!(torn.problem.contains("postrider.maxAttempts is 7"), "{torn}");
    }

    #[test]
    fn poison_is_skip_or_halt() {
        for poison in [Poison::Skip, Poison::Halt] {
            assert_eq!(Poison::parse("poison", &poison.to_string()), Ok(poison));
        }
        assert_eq!(Poison::default(), Poison::Skip);
        for bad in ["", "Halt", "stop", &"x".repeat(1_000)] {
            let error = Poison::parse("poison", bad).unwrap_err();
            assert_eq!(error.field, "poison");
            assert!(error.problem.len() < 100, "{error}");
        }
    }
}
