//! The list of rules in `alerts.md`.

use domain::alert::{Level, Measure, RULES, Rule};
use domain::backoff::show_wait;

const BEGIN: &str = "<!-- rules, generated -->\n";
const END: &str = "<!-- end of the rules -->\n";

pub(super) fn write() -> String {
    RULES.iter().map(section).collect::<Vec<_>>().join("\n")
}

fn section(rule: &Rule) -> String {
    let mut text = format!("### {}\n\n{}\n\n", rule.name, sentences(rule.meaning));
    text.push_str("| Level | Severity | Fires when |\n|---|---|---|\n");
    for level in rule.levels {
        let (part, severity) = (level.part.as_str(), level.severity);
        text.push_str(&format!("| `{part}` | {severity} | {} |\n", condition(level)));
    }
    text.push_str("\nWhat to do:\n\n");
    for (number, step) in rule.remedy.iter().enumerate() {
        text.push_str(&format!("{}. {step}\n", number + 1));
    }
    text
}

fn sentences(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn condition(level: &Level) -> String {
    let time = show_wait(level.time);
    let window = show_wait(level.window().unwrap_or_default());
    let above = level.above;
    let percent = level.bound() * 100.0;
    match level.measure {
        Measure::OldestUnackedAge => {
            format!("the oldest unacked message was published more than {time} ago")
        }
        Measure::FifoBlocked => format!("the lane has been blocked for more than {time}"),
        Measure::LaneBlocked => {
            format!("a lane of a key has been blocked for more than {time}")
        }
        Measure::LanesHalted => format!("more than {above} lanes have been halted for {time}"),
        Measure::DeadLettersWaiting => {
            format!("more than {above} dead letters have waited for {time}")
        }
        Measure::DeadLettersArrived => {
            format!("more than {above} dead letters came within {time}")
        }
        Measure::DeadLettersGrowth => {
            format!("for {time}, more dead letters waited than {window} before")
        }
        Measure::BacklogGrowth => {
            format!("for {time}, the backlog was larger than {window} before")
        }
        Measure::PushesRefused => {
            format!("for {time}, more than {percent} % of the pushes of {window} were answered 4xx")
        }
        Measure::PushesFailed => format!(
            "for {time}, more than {percent} % of the pushes of {window} were answered 5xx, or \
             not at all"
        ),
        Measure::ClockAhead => {
            "the clock is ahead by more than 1h, and retention and expiry are suspended".to_owned()
        }
        Measure::LogStuck => {
            "saving progress or freeing log space failed three times in a row".to_owned()
        }
        Measure::OutstandingUsed => {
            format!("for {time}, more than {percent} % of `limits.outstanding_max` was used")
        }
    }
}

#[test]
fn the_page_about_alerts_lists_every_rule() {
    const NAME: &str = "alerts.md";
    let text = std::fs::read_to_string(super::path(NAME)).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    super::check(NAME, &format!("{before}{BEGIN}\n{}\n{END}{after}", write()));
}
