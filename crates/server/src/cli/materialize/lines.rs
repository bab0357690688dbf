//! What is shown while it runs: a line for each message, and on a terminal how far it is.

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use consumer::Metrics;
use consumer::log::{ErrorsTo, Lines, Stdout, Written};

use crate::cli::output::{StatusLine, harmless_lines, is_terminal};

/// How often the progress line is updated.
const EVERY: Duration = Duration::from_secs(1);
const WAYS: [&str; 2] = ["pull", "push"];
const OUTCOMES: [&str; 5] = ["applied", "duplicate", "stale_ignored", "poison", "retry"];

/// Which messages have a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Which {
    /// Every message.
    All,
    /// Those that someone must look at.
    Errors,
}

/// Lines on standard output.
pub(super) fn lines(which: Option<Which>) -> Arc<dyn Lines> {
    let is_seen = is_terminal();
    let usual = if is_seen { Which::Errors } else { Which::All };
    match (which.unwrap_or(usual), is_seen) {
        (Which::All, false) => Arc::new(Stdout::default()),
        (Which::Errors, false) => Arc::new(ErrorsTo(Stdout::default())),
        (Which::All, true) => Arc::new(Written::new(harmless_lines())),
        (Which::Errors, true) => Arc::new(ErrorsTo(Written::new(harmless_lines()))),
    }
}

/// Writes progress to standard error, each second, forever; nothing unless that is a terminal.
pub(super) async fn show_progress(metrics: &Metrics) {
    let status = StatusLine::new();
    if !status.is_shown() {
        return std::future::pending().await;
    }
    let mut before = 0;
    loop {
        tokio::time::sleep(EVERY).await;
        let counts = OUTCOMES.map(|outcome| count(metrics, outcome));
        let all = counts.iter().sum::<u64>();
        status.show(&line(counts, all - before));
        before = all;
    }
}

fn count(metrics: &Metrics, outcome: &str) -> u64 {
    WAYS.iter().map(|way| metrics.messages(way, outcome)).sum()
}

fn line(counts: [u64; 5], each_second: u64) -> String {
    let mut text = format!("{} messages, {each_second}/s", counts.iter().sum::<u64>());
    for (outcome, count) in OUTCOMES.iter().zip(counts) {
        text.push_str(&format!("  {} {count}", outcome.replace('_', " ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_line_tells_what_became_of_the_messages() {
        let expected =
            "7 messages, 3/s  applied 3  duplicate 2  stale ignored 1  poison 1  retry 0";
        assert_eq!(line([3, 2, 1, 1, 0], 3), expected);
    }
}
