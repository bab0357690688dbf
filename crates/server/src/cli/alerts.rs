//! `postrider alerts`.

use clap::Args;
use serde_json::{Value, json};

use super::client::{At, Client, Ours};
use super::table::{Table, plain};
use super::{Failure, print, print_json};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider alerts
  postrider alerts --state firing --json
  postrider alerts --subscription billing --project demo
  postrider alerts --exit-code > /dev/null || echo 'something is wrong'

Shows what is wrong and since when. What to do about each: docs/operating/alerts.md.
With --exit-code it exits with 1 if any alert shown is firing, for scripts and probes.";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Only alerts in this state, such as firing or pending
    #[arg(long)]
    state: Option<String>,
    /// Only alerts of this severity, such as critical or warning
    #[arg(long)]
    severity: Option<String>,
    /// Only alerts of this subscription
    #[arg(long)]
    subscription: Option<String>,
    /// Exit with code 1 if any of them is firing
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    at: At,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let subscription = match &arguments.subscription {
        Some(name) => Some(arguments.at.subscription(name)?.as_str().to_owned()),
        None => None,
    };
    let answer = Client::new(&arguments.at)?.get_ours("alerts", Ours::Whole, "/alerts")?;
    let mut alerts = answer["alerts"].as_array().cloned().unwrap_or_default();
    let is_asked = |alert: &Value, field: &str, wanted: Option<&str>| {
        wanted.is_none_or(|wanted| alert[field] == wanted)
    };
    alerts.retain(|alert| {
        is_asked(alert, "state", arguments.state.as_deref())
            && is_asked(alert, "severity", arguments.severity.as_deref())
            && is_asked(alert, "subscription", subscription.as_deref())
    });
    if arguments.at.json {
        print_json(&json!({ "alerts": alerts }))?;
    } else {
        print(&table(&alerts))?;
    }
    if arguments.exit_code { verdict(&alerts) } else { Ok(()) }
}

/// Whether someone must look at one of them now.
fn verdict(alerts: &[Value]) -> Result<(), Failure> {
    match alerts.iter().filter(|alert| alert["state"] == "firing").count() {
        0 => Ok(()),
        1 => Err(Failure::failed("1 alert is firing")),
        firing => Err(Failure::failed(format!("{firing} alerts are firing"))),
    }
}

const HEADINGS: [&str; 8] =
    ["STATE", "SEVERITY", "RULE", "SUBSCRIPTION", "SINCE", "VALUE", "OVER", "WHAT IT MEANS"];

const FIELDS: [&str; 8] =
    ["state", "severity", "rule", "subscription", "since", "value", "threshold", "summary"];

fn table(alerts: &[Value]) -> String {
    let mut table = Table::new(&HEADINGS);
    for alert in alerts {
        table.line(FIELDS.map(|field| plain(&alert[field])));
    }
    table.text("no alerts")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_tells_whether_one_is_firing() {
        let of = |states: &[&str]| {
            let alerts: Vec<Value> = states.iter().map(|state| json!({"state": state})).collect();
            verdict(&alerts).err().map(|failure| (failure.code, failure.problem))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["pending"]), None);
        assert_eq!(of(&["pending", "firing"]), Some((1, "1 alert is firing".to_owned())));
        assert_eq!(of(&["firing", "firing"]), Some((1, "2 alerts are firing".to_owned())));
    }

    #[test]
    fn alerts_are_lines_of_a_table() {
        let alert = json!({
            "rule": "dead_letters", "severity": "critical", "state": "firing",
            "subscription": "projects/p/subscriptions/s", "since": "2026-11-15T12:00:00Z",
            "value": 3, "threshold": 0, "summary": "3 dead letters", "runbook": "r",
        });
        let text = table(&[alert]);
        let cells: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        let expected = ["firing", "critical", "dead_letters", "projects/p/subscriptions/s"];
        assert_eq!(cells[..4], expected);
        assert_eq!(cells[5..], ["3", "0", "3", "dead", "letters"]);
        assert_eq!(table(&[]), "no alerts\n");
    }
}
