//! How the owner of a subscription adjusts the rules for it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::rules::{Level, Part, RULES, Rule, RuleName};
use crate::backoff::show_wait;
use crate::error::Invalid;

/// The shortest time of a level.
const TIME_MIN: Duration = Duration::from_secs(1);
/// The longest time of a level.
const TIME_MAX: Duration = Duration::from_secs(31 * 24 * 60 * 60);
/// The largest number of a level that counts.
const COUNT_MAX: u32 = 1_000_000;
/// A share is below the whole: nothing exceeds that.
const SHARE_MAX: u32 = 999_999;

/// Which levels differ from the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<(RuleName, Part), Adjusted>);

/// How a level differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjusted {
    /// It never fires.
    Off,
    /// What is given replaces the table's.
    To {
        /// The level's time.
        time: Option<Duration>,
        /// The level's bound, as `Level::above` has it.
        above: Option<u32>,
    },
}

impl Settings {
    /// Every level of every rule is off.
    pub fn off() -> Self {
        let mut settings = Self::default();
        RULES.iter().for_each(|rule| settings.turn_off(rule));
        settings
    }

    /// No level of `rule` fires.
    pub fn turn_off(&mut self, rule: &Rule) {
        for level in rule.levels {
            self.adjust(rule.name, level.part, Adjusted::Off);
        }
    }

    /// Adjusts one level.
    pub fn adjust(&mut self, rule: RuleName, part: Part, adjusted: Adjusted) {
        self.0.insert((rule, part), adjusted);
    }

    /// Whether nothing differs from the table.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What differs, in the order of the table.
    pub fn adjusted(&self) -> impl Iterator<Item = (RuleName, Part, Adjusted)> + '_ {
        self.0.iter().map(|(&(rule, part), &adjusted)| (rule, part, adjusted))
    }

    /// Whether no level of `rule` ever fires.
    pub fn is_off(&self, rule: &Rule) -> bool {
        rule.levels.iter().all(|level| self.level(rule.name, level).is_none())
    }

    /// `level` as it is in force; `None` = it is off.
    pub fn level(&self, rule: RuleName, level: &Level) -> Option<Level> {
        match self.0.get(&(rule, level.part)) {
            None => Some(*level),
            Some(Adjusted::Off) => None,
            Some(Adjusted::To { time, above }) => Some(Level {
                time: time.unwrap_or(level.time),
                above: above.unwrap_or(level.above),
                ..*level
            }),
        }
    }

    /// Checks that what differs is there to be adjusted and within its bounds.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.adjusted().try_for_each(|(name, part, adjusted)| {
            let field = format!("postrider.alerts.{name}.{}", part.as_str());
            let level = Rule::of(name).and_then(|rule| rule.level(part));
            match (level, adjusted) {
                (None, _) => Err(Invalid::new(field, "no such level")),
                (Some(_), Adjusted::Off) => Ok(()),
                (Some(level), Adjusted::To { time, above }) => {
                    check_time(&field, time)?;
                    check_above(&field, level, above)
                }
            }
        })
    }
}

fn check_time(field: &str, time: Option<Duration>) -> Result<(), Invalid> {
    match time {
        Some(time) if !(TIME_MIN..=TIME_MAX).contains(&time) => {
            let (time, min, max) = (show_wait(time), show_wait(TIME_MIN), show_wait(TIME_MAX));
            Err(Invalid::new(field, format!("{time}, must be {min} to {max}")))
        }
        _ => Ok(()),
    }
}

fn check_above(field: &str, level: &Level, above: Option<u32>) -> Result<(), Invalid> {
    let Some(above) = above else { return Ok(()) };
    let problem = if level.measure.is_time() {
        "only a time is allowed here"
    } else if level.measure.is_share() && above > SHARE_MAX {
        "must be at least 0 and below 100 percent"
    } else if above > COUNT_MAX {
        "must be a number from 0 to 1000000"
    } else {
        return Ok(());
    };
    Err(Invalid::new(field, problem))
}
