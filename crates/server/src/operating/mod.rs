//! What is made from the tables of alerts and metrics for those who operate the server: the rule
//! file and the dashboard of `docs/operating/`, and the list of rules in its page about alerts.
//!
//! The tests compare what is committed with what the tables say. With `UPDATE_GENERATED=1` they
//! write it.

mod consumer_rules;
mod dashboard;
mod page;
mod rule_file;

use std::path::PathBuf;

/// Compares a file of `docs/operating/` with what it should be, or writes it.
fn check(name: &str, expected: &str) {
    let file = path(name);
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(&file, expected).unwrap();
        return;
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(written, expected, "run this test with UPDATE_GENERATED=1 and commit {name}");
}

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../docs/operating", name].iter().collect()
}
