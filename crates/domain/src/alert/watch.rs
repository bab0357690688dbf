//! Watching one subscription: samples in, beginnings and ends of alerts out.

use std::time::Duration;

use super::Severity;
use super::history::History;
use super::measure::Sample;
use super::rules::{Level, RULES, Rule, RuleName};
use super::settings::Settings;
use crate::time::{Moment, Now, Timestamp};

/// A firing alert becomes less, or ends, once that was so for this long: a figure that moves
/// around its bound does not ring a bell each time.
const CALM: Duration = Duration::from_secs(60);

/// Where an alert stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The condition holds, but not for long enough.
    Pending,
    /// It has held for long enough.
    Firing,
    /// It holds no more.
    Resolved,
}

impl State {
    /// The word for it in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Firing => "firing",
            Self::Resolved => "resolved",
        }
    }
}

/// What is wrong with one subscription, or with the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alert {
    /// By which rule.
    pub rule: RuleName,
    /// How bad it is.
    pub severity: Severity,
    /// Where it stands.
    pub state: State,
    /// Since when the condition holds.
    pub since: Timestamp,
    /// The value last seen, in the unit of the level's bound.
    pub value: f64,
    /// The level that makes it what it is.
    pub level: Level,
}

impl Alert {
    /// What is so, in words.
    pub fn summary(&self) -> String {
        self.level.describe(self.value)
    }
}

/// An alert that began, became another, or ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transition {
    /// The alert as it is now.
    pub alert: Alert,
    /// Where it stood before; `None` = there was none.
    pub before: Option<State>,
}

/// What is known about one subscription. Takes a few hundred bytes, and some kilobytes while its
/// figures move.
#[derive(Debug, Default)]
pub struct Watch {
    rules: Vec<RuleWatch>,
}

#[derive(Debug, Default)]
struct RuleWatch {
    levels: Vec<LevelWatch>,
    alert: Option<Alert>,
    /// Since when it is less than what fires.
    calm_since: Option<Moment>,
}

#[derive(Debug, Default)]
struct LevelWatch {
    /// Since when the measure is above its bound.
    since: Option<Moment>,
    history: History,
}

impl Watch {
    /// Looks at a sample; what begins or ends with it.
    pub fn look(&mut self, now: Now, sample: &Sample, settings: &Settings) -> Vec<Transition> {
        self.rules.resize_with(RULES.len(), RuleWatch::default);
        let watches = self.rules.iter_mut().zip(&RULES);
        watches.filter_map(|(watch, rule)| watch.look(rule, now, sample, settings)).collect()
    }

    /// Everything ends, as when the subscription does.
    pub fn end(&mut self) -> Vec<Transition> {
        self.rules.iter_mut().filter_map(RuleWatch::resolve).collect()
    }

    /// What is wrong now.
    pub fn alerts(&self) -> impl Iterator<Item = &Alert> {
        self.rules.iter().filter_map(|rule| rule.alert.as_ref())
    }
}

/// What the levels of a rule come to with one sample.
struct Judgement {
    state: State,
    level: Level,
    value: f64,
    /// How long it has held.
    held: Duration,
}

impl RuleWatch {
    fn look(
        &mut self,
        rule: &Rule,
        now: Now,
        sample: &Sample,
        settings: &Settings,
    ) -> Option<Transition> {
        self.levels.resize_with(rule.levels.len(), LevelWatch::default);
        let mut calm = CALM;
        let mut outcome: Option<Judgement> = None;
        for (watch, level) in self.levels.iter_mut().zip(rule.levels) {
            let Some(level) = settings.level(rule.name, level) else {
                watch.forget();
                continue;
            };
            calm = calm.min(level.time);
            if let Some(found) = watch.look(now.moment, sample, level)
                && outcome.as_ref().is_none_or(|outcome| found.weighs_more(outcome))
            {
                outcome = Some(found);
            }
        }
        self.settle(rule.name, now, outcome, calm)
    }

    fn settle(
        &mut self,
        rule: RuleName,
        now: Now,
        outcome: Option<Judgement>,
        calm: Duration,
    ) -> Option<Transition> {
        let firing = self.alert.as_ref().filter(|alert| alert.state == State::Firing);
        let is_less = firing.is_some_and(|alert| {
            outcome.as_ref().is_none_or(|outcome| {
                outcome.state != State::Firing || outcome.level.severity < alert.severity
            })
        });
        if is_less {
            let since = *self.calm_since.get_or_insert(now.moment);
            if now.moment.since(since) < calm {
                return None;
            }
        }
        self.calm_since = None;
        match outcome {
            Some(outcome) if !is_less || outcome.state == State::Firing => {
                self.take(rule, now, &outcome)
            }
            _ => self.resolve(),
        }
    }

    /// The outcome is what the alert is from now on.
    fn take(&mut self, rule: RuleName, now: Now, outcome: &Judgement) -> Option<Transition> {
        let Judgement { state, level, value, held } = *outcome;
        let severity = level.severity;
        let before = self.alert;
        let since = before.map_or_else(|| now.wall.minus(held), |before| before.since);
        let alert = Alert { rule, severity, state, since, value, level };
        self.alert = Some(alert);
        let is_same =
            before.is_some_and(|before| before.state == state && before.severity == severity);
        // Of what is only pending nobody needs to know how bad it would be.
        let is_pending =
            before.is_some_and(|before| before.state == State::Pending) && state == State::Pending;
        let is_news = !is_same && !is_pending;
        is_news.then_some(Transition { alert, before: before.map(|before| before.state) })
    }

    fn resolve(&mut self) -> Option<Transition> {
        self.calm_since = None;
        let alert = self.alert.take()?;
        let before = Some(alert.state);
        Some(Transition { alert: Alert { state: State::Resolved, ..alert }, before })
    }
}

impl Judgement {
    /// What fires weighs more than what is pending. Of what fires, the worst; of what is pending,
    /// that which fires first.
    fn weighs_more(&self, other: &Self) -> bool {
        match (self.state, other.state) {
            (State::Firing, State::Firing) => self.level.severity > other.level.severity,
            (State::Firing, _) => true,
            (_, State::Firing) => false,
            _ => self.left() < other.left(),
        }
    }

    fn left(&self) -> Duration {
        self.level.lasting().saturating_sub(self.held)
    }
}

impl LevelWatch {
    fn look(&mut self, now: Moment, sample: &Sample, level: Level) -> Option<Judgement> {
        let value = level.value(now, sample, &mut self.history);
        if value <= level.bound() {
            self.since = None;
            return None;
        }
        let held = now.since(*self.since.get_or_insert(now));
        let state = if held >= level.lasting() { State::Firing } else { State::Pending };
        Some(Judgement { state, level, value, held })
    }

    fn forget(&mut self) {
        self.since = None;
        self.history.clear();
    }
}
