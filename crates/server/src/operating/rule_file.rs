//! `prometheus-rules.yml`: the rules of alerts in the words of Prometheus.

use std::fmt::Write;
use std::time::Duration;

use domain::alert::{Counts, Level, Measure, RULES, Rule};
use domain::backoff::show_wait;

use super::consumer_rules;
use crate::metrics::table::{
    BACKLOG_MESSAGES, CLOCK_AHEAD, DEAD_LETTERS, DEAD_LETTERS_WAITING, FIFO_BLOCKED, LANE_BLOCKED,
    LANES_HALTED, LOG_STUCK, OLDEST_UNACKED_AGE, OUTSTANDING_USED, PUSH_ATTEMPTS,
};

const HEAD: &str = "\
# The server's alert rules, for Prometheus. Generated from the table in the program: change that.
# docs/operating/alerts.md says what each means and what to do.
groups:
  - name: postrider
    rules:
";

/// As the server does: what moves around its bound does not ring a bell each time.
const CALM: Duration = Duration::from_secs(60);

pub(super) fn write() -> String {
    let mut text = HEAD.to_owned();
    for rule in &RULES {
        for level in rule.levels {
            write_level(&mut text, rule, level).unwrap();
        }
    }
    consumer_rules::write(&mut text).unwrap();
    text
}

fn write_level(text: &mut String, rule: &Rule, level: &Level) -> std::fmt::Result {
    writeln!(text, "      - alert: {}", alert_name(rule))?;
    writeln!(text, "        expr: {}", quoted(&expression(level)))?;
    if !level.lasting().is_zero() {
        writeln!(text, "        for: {}", show_wait(level.lasting()))?;
    }
    writeln!(text, "        keep_firing_for: {}", show_wait(CALM.min(level.time)))?;
    writeln!(text, "        labels:")?;
    writeln!(text, "          severity: {}", level.severity)?;
    writeln!(text, "          rule: {}", rule.name)?;
    writeln!(text, "          level: {}", level.part.as_str())?;
    writeln!(text, "        annotations:")?;
    let summary = format!("{}: {{{{ $labels.{} }}}}", rule.title, label(level));
    writeln!(text, "          summary: {}", quoted(&summary))?;
    writeln!(text, "          description: {}", quoted(&description(level)))?;
    writeln!(text, "          runbook: {}", rule.name.runbook())
}

/// `PostriderDeadLetters` of `dead_letters`.
fn alert_name(rule: &Rule) -> String {
    let mut name = "Postrider".to_owned();
    for word in rule.name.as_str().split('_') {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.extend(letters);
    }
    name
}

fn label(level: &Level) -> &'static str {
    match level.measure {
        Measure::FifoBlocked => "subscription_id",
        Measure::ClockAhead | Measure::LogStuck | Measure::OutstandingUsed => "instance",
        _ => "subscription",
    }
}

fn expression(level: &Level) -> String {
    let bound = level.bound();
    let window = show_wait(level.window().unwrap_or_default());
    let refused = Counts::REFUSED_CLASSES.join("|");
    let left = match level.measure {
        Measure::OldestUnackedAge => OLDEST_UNACKED_AGE.full_name(),
        Measure::FifoBlocked => FIFO_BLOCKED.full_name(),
        Measure::LaneBlocked => LANE_BLOCKED.full_name(),
        Measure::LanesHalted => LANES_HALTED.full_name(),
        Measure::DeadLettersWaiting => DEAD_LETTERS_WAITING.full_name(),
        Measure::DeadLettersArrived => format!("increase({}[{window}])", DEAD_LETTERS.full_name()),
        Measure::DeadLettersGrowth => {
            format!("delta({}[{window}])", DEAD_LETTERS_WAITING.full_name())
        }
        Measure::BacklogGrowth => format!("delta({}[{window}])", BACKLOG_MESSAGES.full_name()),
        Measure::PushesRefused => share(&format!("class=~\"{refused}\""), &window),
        Measure::PushesFailed => {
            share(&format!("class!~\"{}|{refused}\"", Counts::ACKED_CLASS), &window)
        }
        Measure::ClockAhead => CLOCK_AHEAD.full_name(),
        Measure::LogStuck => LOG_STUCK.full_name(),
        Measure::OutstandingUsed => OUTSTANDING_USED.full_name(),
    };
    format!("{left} > {bound}")
}

fn share(part: &str, window: &str) -> String {
    let attempts = PUSH_ATTEMPTS.full_name();
    let sum = |part: &str| format!("sum by (subscription) (rate({attempts}{part}[{window}]))");
    format!("{} / {}", sum(&format!("{{{part}}}")), sum(""))
}

fn description(level: &Level) -> String {
    let window = show_wait(level.window().unwrap_or_default());
    match level.measure {
        Measure::OldestUnackedAge => {
            "the oldest unacked message is {{ $value | humanizeDuration }} old".to_owned()
        }
        Measure::FifoBlocked => {
            "its lane has been blocked for {{ $value | humanizeDuration }}".to_owned()
        }
        Measure::LaneBlocked => {
            "a lane has been blocked for {{ $value | humanizeDuration }}".to_owned()
        }
        Measure::LanesHalted => "lanes waiting for an operator: {{ $value }}".to_owned(),
        Measure::DeadLettersWaiting => "dead letters nobody has handled: {{ $value }}".to_owned(),
        Measure::DeadLettersArrived => {
            format!("new dead letters within {window}: {{{{ $value | humanize }}}}")
        }
        Measure::DeadLettersGrowth => {
            format!("growth in unhandled dead letters within {window}: {{{{ $value | humanize }}}}")
        }
        Measure::BacklogGrowth => {
            format!("backlog growth within {window}: {{{{ $value | humanize }}}}")
        }
        Measure::PushesRefused => format!(
            "{{{{ $value | humanizePercentage }}}} of the pushes of {window} were answered 4xx"
        ),
        Measure::PushesFailed => format!(
            "{{{{ $value | humanizePercentage }}}} of the pushes of {window} were answered 5xx or \
             not at all"
        ),
        Measure::ClockAhead => "the clock is {{ $value | humanizeDuration }} ahead of the time \
                                that has passed: retention and expiry are suspended"
            .to_owned(),
        Measure::LogStuck => "the log could not be emptied for {{ $value | humanizeDuration }}: \
                              when it is full, publishing is refused"
            .to_owned(),
        Measure::OutstandingUsed => {
            "{{ $value | humanizePercentage }} of the room for outstanding \
                                     messages is used"
                .to_owned()
        }
    }
}

/// A text as YAML has it in single quotes.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[test]
fn the_rule_file_is_made_from_the_table() {
    super::check("prometheus-rules.yml", &write());
}
