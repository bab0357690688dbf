use std::time::Duration;

use super::*;
use crate::time::{Moment, Now, Timestamp};

const STEP_S: u64 = 15;
const START: Timestamp = Timestamp(1_800_000_000_000_000);

/// One subscription, a clock in the test's hand, and what was told.
#[derive(Default)]
struct Stage {
    watch: Watch,
    settings: Settings,
    sample: Sample,
    passed_s: u64,
    told: Vec<String>,
}

impl Stage {
    fn now(&self) -> Now {
        let passed = Duration::from_secs(self.passed_s);
        Now { moment: Moment::default().plus(passed), wall: START.plus(passed) }
    }

    /// Lets minutes pass; `change` says what the figures are after each step.
    fn pass(&mut self, minutes: u64, change: impl Fn(&mut Sample)) {
        for _ in 0..minutes * 60 / STEP_S {
            change(&mut self.sample);
            self.look();
            self.passed_s += STEP_S;
        }
    }

    fn look(&mut self) {
        let transitions = self.watch.look(self.now(), &self.sample, &self.settings);
        let minute = self.passed_s as f64 / 60.0;
        self.told.extend(transitions.iter().map(|told| {
            let Alert { rule, severity, state, .. } = told.alert;
            format!("{minute} {rule} {severity} {}", state.as_str())
        }));
    }

    /// What was told since the last time.
    fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told)
    }

    /// The same without the minutes.
    fn what_was_told(&mut self) -> Vec<String> {
        let told = self.told().into_iter();
        told.filter_map(|line| Some(line.split_once(' ')?.1.to_owned())).collect()
    }

    fn alert(&self) -> Option<Alert> {
        let mut alerts = self.watch.alerts();
        let first = alerts.next().copied();
        assert!(alerts.next().is_none(), "more than one");
        first
    }
}

fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

#[test]
fn dead_letters_warn_after_five_minutes_and_are_critical_after_fifteen() {
    let mut stage = Stage::default();
    stage.settings.turn_off(Rule::of(RuleName::DeadLetterGrowth).unwrap());
    stage.pass(2, |_| {});
    stage.pass(20, |sample| {
        (sample.dead_letters_waiting, sample.dead_letters_total) = (1, 1);
    });
    assert_eq!(
        stage.told(),
        [
            "2 dead_letters warning pending",
            "7 dead_letters warning firing",
            "17 dead_letters critical firing",
        ]
    );
    let alert = stage.alert().unwrap();
    assert_eq!((alert.since, alert.value), (START.plus(minutes(2)), 1.0));
    assert_eq!(alert.summary(), "dead letters nobody has handled: 1");
    stage.pass(3, |sample| sample.dead_letters_waiting = 0);
    assert_eq!(stage.told(), ["23 dead_letters critical resolved"]);
    assert_eq!(stage.alert(), None);
}

#[test]
fn more_than_ten_dead_letters_in_ten_minutes_are_critical_at_once() {
    let mut stage = Stage::default();
    stage.pass(1, |_| {});
    // Each is handled at once, so that only their number tells.
    stage.pass(5, |sample| sample.dead_letters_total = 10);
    assert_eq!(stage.told(), [""; 0]);
    stage.pass(1, |sample| sample.dead_letters_total = 11);
    assert_eq!(stage.told(), ["6 dead_letters critical firing"]);
    assert_eq!(stage.alert().unwrap().summary(), "new dead letters within 10m: 11, more than 10");
    stage.pass(14, |_| {});
    assert_eq!(stage.told(), ["12 dead_letters critical resolved"]);
}

#[test]
fn dead_letters_that_come_faster_than_they_go_are_critical_after_half_an_hour() {
    let mut stage = Stage::default();
    stage.settings.turn_off(Rule::of(RuleName::DeadLetters).unwrap());
    stage.pass(1, |_| {});
    stage.pass(40, |sample| sample.dead_letters_waiting += 1);
    assert_eq!(
        stage.told(),
        ["1 dead_letter_growth critical pending", "31 dead_letter_growth critical firing"]
    );
    // As many go as come.
    stage.pass(15, |_| {});
    assert_eq!(stage.what_was_told(), ["dead_letter_growth critical resolved"]);
}

#[test]
fn a_share_of_failing_pushes_warns_and_a_larger_one_is_critical() {
    let mut stage = Stage::default();
    let pushed = |failed: u64| {
        move |sample: &mut Sample| {
            sample.pushes.all += 1_000;
            sample.pushes.failed += failed;
        }
    };
    stage.settings.adjust(RuleName::Push5xx, Part::Sustained, Adjusted::Off);
    stage.pass(10, pushed(10));
    assert_eq!(stage.told(), [""; 0], "one per cent is allowed");
    stage.pass(10, pushed(20));
    assert_eq!(stage.told(), ["10 push_5xx warning pending", "15 push_5xx warning firing"]);
    stage.pass(15, pushed(100));
    // The share of the last five minutes passes five per cent some time after the change.
    assert_eq!(stage.what_was_told(), ["push_5xx critical firing"]);
    let summary = stage.alert().unwrap().summary();
    let expected = "10 % of the pushes of 5m were answered 5xx or not at all, more than 5 %";
    assert_eq!(summary, expected);
    stage.pass(15, pushed(0));
    let told = ["push_5xx warning firing", "push_5xx warning resolved"];
    assert_eq!(stage.what_was_told(), told);
    assert_eq!(stage.alert(), None);
}

#[test]
fn any_failing_pushes_for_a_quarter_of_an_hour_are_critical() {
    let mut stage = Stage::default();
    stage.pass(1, |_| {});
    stage.pass(20, |sample| {
        sample.pushes.all += 1_000;
        sample.pushes.failed += 1;
    });
    assert_eq!(stage.told(), ["1 push_5xx critical pending", "16 push_5xx critical firing"]);
    stage.pass(8, |sample| sample.pushes.all += 1_000);
    assert_eq!(stage.what_was_told(), ["push_5xx critical resolved"]);
}

#[test]
fn a_single_failed_push_rings_no_bell() {
    let mut stage = Stage::default();
    stage.pass(1, |_| {});
    stage.pass(20, |sample| sample.pushes = Counts { all: 1, refused: 0, failed: 1 });
    let told = ["push_5xx warning pending", "push_5xx warning resolved"];
    assert_eq!(stage.what_was_told(), told);
}

#[test]
fn a_share_of_refused_pushes_warns_and_a_larger_one_is_critical() {
    let mut stage = Stage::default();
    let pushed = |refused: u64| {
        move |sample: &mut Sample| {
            sample.pushes.all += 1_000;
            sample.pushes.refused += refused;
        }
    };
    stage.pass(10, pushed(1));
    assert_eq!(stage.told(), [""; 0], "a thousandth is allowed");
    stage.pass(12, pushed(3));
    assert_eq!(stage.told(), ["10 push_4xx warning pending", "20 push_4xx warning firing"]);
    stage.pass(20, pushed(50));
    assert_eq!(stage.what_was_told(), ["push_4xx critical firing"]);
    stage.pass(12, pushed(0));
    let told = stage.told();
    assert!(told.last().unwrap().ends_with("resolved"), "{told:?}");
    assert_eq!(stage.alert(), None);
}

#[test]
fn the_oldest_unacked_message_warns_at_five_minutes_and_is_critical_at_fifteen() {
    let mut stage = Stage::default();
    stage.pass(20, |sample| {
        let age = sample
            .oldest_unacked_age
            .map_or(Duration::ZERO, |age| age + Duration::from_secs(STEP_S));
        sample.oldest_unacked_age = Some(age);
    });
    assert_eq!(
        stage.told(),
        ["5.25 oldest_unacked_age warning firing", "15.25 oldest_unacked_age critical firing"]
    );
    let summary = stage.alert().unwrap().summary();
    assert!(summary.starts_with("the oldest unacked message is 1"), "{summary}");
    assert!(summary.ends_with("old, more than 15m"), "{summary}");
    stage.pass(5, |sample| sample.oldest_unacked_age = Some(minutes(10)));
    assert_eq!(stage.told(), ["21 oldest_unacked_age warning firing"]);
    stage.pass(5, |sample| sample.oldest_unacked_age = None);
    assert_eq!(stage.told(), ["26 oldest_unacked_age warning resolved"]);
}

#[test]
fn a_figure_around_its_bound_rings_once() {
    let mut stage = Stage::default();
    for _ in 0..10 {
        stage.pass(1, |sample| sample.oldest_unacked_age = Some(Duration::from_secs(301)));
        stage.sample.oldest_unacked_age = Some(Duration::from_secs(299));
        stage.look();
        stage.passed_s += 45;
    }
    assert_eq!(stage.told(), ["0 oldest_unacked_age warning firing"]);
}

#[test]
fn a_growing_backlog_warns_after_a_quarter_and_is_critical_after_half_an_hour() {
    let mut stage = Stage::default();
    stage.pass(1, |_| {});
    stage.pass(40, |sample| sample.backlog_messages += 3);
    assert_eq!(
        stage.told(),
        [
            "1 backlog_growing warning pending",
            "16 backlog_growing warning firing",
            "31 backlog_growing critical firing",
        ]
    );
    let summary = stage.alert().unwrap().summary();
    assert!(summary.starts_with("backlog growth within 5m: "), "{summary}");
    stage.pass(8, |sample| sample.backlog_messages -= 1);
    assert_eq!(stage.what_was_told(), ["backlog_growing critical resolved"]);
}

#[test]
fn a_backlog_that_is_large_but_falls_is_no_alert() {
    let mut stage = Stage::default();
    stage.sample.backlog_messages = 1_000_000;
    stage.pass(60, |sample| sample.backlog_messages -= 1);
    assert_eq!(stage.told(), [""; 0]);
}

#[test]
fn a_fifo_subscription_that_is_blocked_warns_after_five_minutes() {
    let mut stage = Stage::default();
    stage.pass(10, |sample| {
        let blocked = sample
            .fifo_blocked_for
            .map_or(Duration::ZERO, |blocked| blocked + Duration::from_secs(STEP_S));
        sample.fifo_blocked_for = Some(blocked);
    });
    assert_eq!(stage.told(), ["5.25 fifo_blocked warning firing"]);
    stage.pass(2, |sample| sample.fifo_blocked_for = None);
    assert_eq!(stage.told(), ["11 fifo_blocked warning resolved"]);
}

#[test]
fn a_lane_of_a_key_that_is_blocked_warns_after_five_minutes() {
    let mut stage = Stage::default();
    stage.sample.lane_blocked_for = Some(minutes(5));
    stage.look();
    assert_eq!(stage.told(), Vec::<String>::new());
    stage.sample.lane_blocked_for = Some(minutes(5) + Duration::from_secs(1));
    stage.look();
    assert_eq!(stage.what_was_told(), ["lane_blocked warning firing"]);
    let summary = stage.alert().unwrap().summary();
    assert_eq!(summary, "a lane has been blocked for 301s, more than 5m");
}

#[test]
fn halted_lanes_warn_after_a_minute_and_are_critical_after_fifteen() {
    let mut stage = Stage::default();
    stage.pass(2, |sample| sample.lanes_halted = 2);
    assert_eq!(stage.told(), ["0 lane_halted warning pending", "1 lane_halted warning firing"]);
    assert_eq!(stage.alert().unwrap().summary(), "lanes waiting for an operator: 2");
    stage.pass(15, |sample| sample.lanes_halted = 1);
    assert_eq!(stage.told(), ["15 lane_halted critical firing"]);
    stage.pass(2, |sample| sample.lanes_halted = 0);
    assert_eq!(stage.what_was_told(), ["lane_halted critical resolved"]);
}

#[test]
fn levels_are_adjusted_and_turned_off() {
    let mut stage = Stage::default();
    let longer = Adjusted::To { time: Some(minutes(10)), above: None };
    stage.settings.adjust(RuleName::OldestUnackedAge, Part::Warning, longer);
    stage.settings.adjust(RuleName::OldestUnackedAge, Part::Critical, Adjusted::Off);
    stage.pass(2, |sample| sample.oldest_unacked_age = Some(minutes(9)));
    assert_eq!(stage.told(), [""; 0]);
    stage.pass(2, |sample| sample.oldest_unacked_age = Some(minutes(60)));
    assert_eq!(stage.told(), ["2 oldest_unacked_age warning firing"]);
    stage.settings = Settings::off();
    stage.pass(2, |_| {});
    assert_eq!(stage.what_was_told(), ["oldest_unacked_age warning resolved"]);
}

#[test]
fn the_end_of_a_subscription_ends_its_alerts() {
    let mut stage = Stage::default();
    stage.pass(1, |sample| {
        sample.oldest_unacked_age = Some(minutes(6));
        sample.dead_letters_waiting = 1;
    });
    let ended = stage.watch.end();
    let states: Vec<_> =
        ended.iter().map(|told| (told.alert.rule, told.alert.state, told.before)).collect();
    assert_eq!(
        states,
        [
            (RuleName::DeadLetters, State::Resolved, Some(State::Pending)),
            (RuleName::OldestUnackedAge, State::Resolved, Some(State::Firing)),
        ]
    );
    assert!(stage.watch.end().is_empty());
}

#[test]
fn every_rule_and_level_of_the_table_is_sound() {
    for (at, rule) in RULES.iter().enumerate() {
        assert_eq!(RuleName::parse("f", rule.name.as_str()), Ok(rule.name));
        assert!(RULES.iter().skip(at + 1).all(|other| other.name > rule.name), "{}", rule.name);
        assert!(!rule.levels.is_empty() && !rule.remedy.is_empty());
        for level in rule.levels {
            assert_eq!(rule.level(level.part), Some(level), "{} twice", level.part.as_str());
            assert_eq!(rule.parse_part("f", level.part.as_str()), Ok(level.part));
            if level.time.is_zero() {
                continue; // Of the server itself, at once: no subscription sets it so.
            }
            let same = Adjusted::To {
                time: Some(level.time),
                above: (!level.measure.is_time()).then_some(level.above),
            };
            let mut settings = Settings::default();
            settings.adjust(rule.name, level.part, same);
            assert_eq!(settings.validate(), Ok(()));
            assert_eq!(settings.level(rule.name, level), Some(*level));
        }
    }
}

#[test]
fn settings_out_of_bounds_are_named() {
    use Adjusted::To;
    let time = |seconds| To { time: Some(Duration::from_secs(seconds)), above: None };
    let above = |above| To { time: None, above: Some(above) };
    for (rule, part, adjusted, field) in [
        (RuleName::DeadLetters, Part::Warning, time(0), "dead_letters.warning"),
        (RuleName::DeadLetters, Part::Burst, above(1_000_001), "dead_letters.burst"),
        (RuleName::Push4xx, Part::Critical, above(1_000_000), "push_4xx.critical"),
        (RuleName::Push4xx, Part::Burst, time(60), "push_4xx.burst"),
        (RuleName::FifoBlocked, Part::Warning, above(1), "fifo_blocked.warning"),
        (RuleName::FifoBlocked, Part::Warning, time(32 * 86_400), "fifo_blocked.warning"),
    ] {
        let mut settings = Settings::default();
        settings.adjust(rule, part, adjusted);
        assert_eq!(settings.validate().unwrap_err().field, format!("postrider.alerts.{field}"));
    }
    assert_eq!(Settings::off().validate(), Ok(()));
    assert!(RULES.iter().all(|rule| Settings::off().is_off(rule)));
    assert!(RuleName::parse("f", "colour").unwrap_err().problem.contains("push_4xx"));
}

#[test]
fn pushes_are_summed_up_by_class() {
    let classes = [("ok", 10), ("http_4xx", 2), ("permanent", 1), ("http_5xx", 3), ("timeout", 4)];
    assert_eq!(Counts::of(classes), Counts { all: 20, refused: 3, failed: 7 });
}
