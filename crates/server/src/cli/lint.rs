//! `postrider lint`.

use clap::Args;
use serde_json::{Value, json};

use super::client::{At, Client, Ours};
use super::names::path;
use super::table::{Table, plain};
use super::{Failure, print, print_json};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider lint --project demo
  postrider lint --project demo --json

Looks for risky setups: subscriptions without a dead letter policy, dead letter topics nobody
reads, FIFO subscriptions that retry forever. Exits with code 1 if it finds any.";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    at: At,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let project = arguments.at.project()?;
    let asked = format!("{}/lint", path(&project));
    let answer = Client::new(&arguments.at)?.get_ours("lint", Ours::Whole, &asked)?;
    let findings = answer["findings"].as_array().cloned().unwrap_or_default();
    if arguments.at.json {
        print_json(&json!({ "findings": findings }))?;
    } else {
        print(&table(&findings))?;
    }
    match findings.len() {
        0 => Ok(()),
        1 => Err(Failure::failed(format!("1 finding in {project}"))),
        count => Err(Failure::failed(format!("{count} findings in {project}"))),
    }
}

fn table(findings: &[Value]) -> String {
    let mut table = Table::new(&["CODE", "RESOURCE", "PROBLEM", "REMEDY"]);
    for finding in findings {
        table.line(["code", "resource", "problem", "remedy"].map(|field| plain(&finding[field])));
    }
    table.text("nothing found")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_lines_of_a_table() {
        let finding = json!({"code": "c", "resource": "r", "problem": "p q", "remedy": "do"});
        let expected = "CODE  RESOURCE  PROBLEM  REMEDY\nc     r         p q      do\n";
        assert_eq!(table(&[finding]), expected);
        assert_eq!(table(&[]), "nothing found\n");
    }
}
