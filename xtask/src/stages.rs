//! Stages of a run: each is announced, timed and counted.

use std::time::Instant;

use anyhow::{Result, bail};

/// How many tests passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Count {
    /// One thing that passed.
    pub(crate) const ONE: Self = Self { passed: 1, failed: 0 };
}

/// The stages run so far and what they counted.
#[derive(Default)]
pub(crate) struct Stages {
    total: Count,
    lines: Vec<String>,
}

impl Stages {
    /// Runs one stage; a stage that breaks down counts as one failure.
    pub(crate) fn run(&mut self, name: &str, stage: impl FnOnce() -> Result<Count>) -> bool {
        println!("\n=== {name}");
        let started = now();
        let count = stage().unwrap_or_else(|error| {
            println!("error: {error:#}");
            Count { passed: 0, failed: 1 }
        });
        self.total.passed += count.passed;
        self.total.failed += count.failed;
        let took = started.elapsed().as_secs_f64();
        let outcome = if count.failed == 0 { "ok" } else { "FAILED" };
        let line = format!(
            "{name:<12} {outcome:<6} {:>5} passed {:>3} failed {took:>7.1} s",
            count.passed, count.failed
        );
        println!("--- {line}");
        self.lines.push(line);
        count.failed == 0
    }

    /// Prints the summary, its last line `N passed, M failed`; an error if anything failed.
    pub(crate) fn finish(self) -> Result<()> {
        println!("\n=== summary");
        for line in &self.lines {
            println!("{line}");
        }
        println!("{} passed, {} failed", self.total.passed, self.total.failed);
        if self.total.failed > 0 {
            bail!("there were failures");
        }
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "stages are timed for the reader, nothing else")]
fn now() -> Instant {
    Instant::now()
}
