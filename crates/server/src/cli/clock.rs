//! `postrider clock`.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::client::{At, Client, Ours};
use super::table::plain;
use super::{Failure, print, print_json};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider clock
  postrider clock confirm

Messages age and subscriptions expire by the server's clock. If it jumps forward by more than an
hour, or the server starts more than an hour after it was last seen running, both are suspended, so
that a wrong clock deletes nothing. They resume when the clock is fixed, when you confirm it is
right, or after it runs steadily for a day. Anything past its time is then removed at once.";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Confirm the clock is right, so that retention and expiry resume [default: only show it]
    act: Option<Act>,
    #[command(flatten)]
    at: At,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Act {
    Confirm,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let client = Client::new(&arguments.at)?;
    let answer = match arguments.act {
        None => client.get_ours("the clock", Ours::Whole, "/v1/clock")?,
        Some(Act::Confirm) => {
            client.post_ours("the clock", Ours::Whole, "/v1/clock:confirm", &json!({}))?
        }
    };
    if arguments.at.json {
        return print_json(&answer);
    }
    print(&match arguments.act {
        None => told(&answer),
        Some(Act::Confirm) => confirmed(&answer),
    })
}

fn is_suspended(clock: &Value) -> bool {
    clock["suspended"].as_bool().unwrap_or_default()
}

/// To the minute, and in days where there are some.
fn time(seconds: &Value) -> String {
    let minutes = (seconds.as_u64().unwrap_or_default() + 30) / 60;
    match (minutes / 1_440, minutes / 60 % 24, minutes % 60) {
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

fn told(clock: &Value) -> String {
    let now = plain(&clock["time"]);
    if !is_suspended(clock) {
        return format!("{now}: trusted; retention and expiry use it\n");
    }
    let [ahead, left] = ["aheadSeconds", "believedAfterSeconds"].map(|field| time(&clock[field]));
    let [expected, held, subscriptions, snapshots] =
        ["expectedTime", "retentionTime", "expiringSubscriptions", "expiringSnapshots"]
            .map(|field| plain(&clock[field]));
    format!(
        "{now}: {ahead} ahead of the expected {expected}\n\
         retention and expiry are suspended at {held}\n\
         if it is right: postrider clock confirm; {subscriptions} subscriptions and {snapshots} \
         snapshots then expire at once, and messages past their retention are deleted\n\
         if it is wrong: set the machine's clock, and they resume\n\
         if you do nothing and it stays steady: trusted in {left}\n"
    )
}

fn confirmed(before: &Value) -> String {
    let now = plain(&before["time"]);
    if is_suspended(before) {
        format!("{now}: confirmed; retention and expiry resume\n")
    } else {
        format!("{now}: already trusted; nothing to confirm\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumped_is_told_with_what_to_do() {
        let clock = json!({
            "suspended": true, "time": "2026-11-24T12:00:00Z", "aheadSeconds": 691_200,
            "expectedTime": "2026-11-16T12:00:00Z", "retentionTime": "2026-11-16T11:00:00Z",
            "believedAfterSeconds": 3_600, "expiringSubscriptions": 2, "expiringSnapshots": 0,
        });
        let text = told(&clock);
        assert!(text.starts_with("2026-11-24T12:00:00Z: 8 d 0 h ahead of"), "{text}");
        assert!(text.contains("2 subscriptions and 0 snapshots then expire at once"), "{text}");
        assert!(text.contains("trusted in 1 h 0 min"), "{text}");
        assert!(confirmed(&clock).contains("resume"));
        let fine = json!({"suspended": false, "time": "2026-11-24T12:00:00Z"});
        assert!(told(&fine).contains("trusted"), "{}", told(&fine));
        assert!(confirmed(&fine).contains("nothing to confirm"));
    }
}
