//! The rules for programs that write Firestore (`postrider materialize`): their own group in
//! the rule file, because another program shows their metric.

use std::fmt::Write;

use consumer::firestore::figures::{CONFIG_CODES, ERRORS, TRANSIENT_CODES};

use super::rule_file::quoted;

const HEAD: &str = "  - name: postrider-consumer\n    rules:\n";
const PAGE: &str = "docs/operating/alerts.md";
/// Over how long the rate of errors is taken.
const WINDOW: &str = "2m";
/// How long the rate must stay so high.
const LASTING: &str = "10m";

struct ConsumerRule {
    name: &'static str,
    alert: &'static str,
    severity: &'static str,
    expression: String,
    lasting: Option<&'static str>,
    summary: &'static str,
    description: &'static str,
}

pub(super) fn write(text: &mut String) -> std::fmt::Result {
    text.push_str(HEAD);
    for rule in rules() {
        writeln!(text, "      - alert: {}", rule.alert)?;
        writeln!(text, "        expr: {}", quoted(&rule.expression))?;
        if let Some(lasting) = rule.lasting {
            writeln!(text, "        for: {lasting}")?;
        }
        writeln!(text, "        keep_firing_for: 1m")?;
        writeln!(text, "        labels:")?;
        writeln!(text, "          severity: {}", rule.severity)?;
        writeln!(text, "          rule: {}", rule.name)?;
        writeln!(text, "          level: {}", rule.severity)?;
        writeln!(text, "        annotations:")?;
        let summary = format!("{}: {{{{ $labels.job }}}}", rule.summary);
        writeln!(text, "          summary: {}", quoted(&summary))?;
        writeln!(text, "          description: {}", quoted(rule.description))?;
        writeln!(text, "          runbook: {PAGE}#{}", rule.name)?;
    }
    Ok(())
}

fn rules() -> [ConsumerRule; 3] {
    let transient = |severity, least: u32| ConsumerRule {
        name: "firestore_transient",
        alert: "PostriderFirestoreTransient",
        severity,
        expression: format!(
            "sum by (job) (rate({ERRORS}{{code=~\"{}\"}}[{WINDOW}])) * 60 >= {least}",
            TRANSIENT_CODES.join("|")
        ),
        lasting: Some(LASTING),
        summary: "Firestore is overloaded or unreachable",
        description: "transient errors per minute: {{ $value | humanize }}",
    };
    let permission = ConsumerRule {
        name: "firestore_permission",
        alert: "PostriderFirestorePermission",
        severity: "critical",
        expression: format!(
            "sum by (job) (increase({ERRORS}{{code=~\"{}\"}}[{WINDOW}])) > 0",
            CONFIG_CODES.join("|")
        ),
        lasting: None,
        summary: "Firestore refuses the consumer's writes",
        description: "refusals that last until someone fixes the setup: {{ $value | humanize }}",
    };
    [transient("warning", 5), transient("critical", 20), permission]
}

#[test]
fn the_page_about_alerts_tells_of_every_rule_for_consumers() {
    let page = std::fs::read_to_string(super::path("alerts.md")).unwrap();
    for rule in rules() {
        assert!(page.contains(&format!("### {}\n", rule.name)), "{}", rule.name);
    }
}
