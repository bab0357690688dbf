//! `cargo xtask check`: what can be judged without running anything.

use anyhow::Result;

use crate::process::{self, cargo};
use crate::stages::{Count, Stages};
use crate::tidy;

/// Runs every check, also after one has failed.
pub(crate) fn run_all(stages: &mut Stages) {
    stages.run("format", || done(process::run(&mut cargo(&["fmt", "--all", "--check"]))));
    let clippy = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    stages.run("clippy", || done(process::run(&mut cargo(&clippy))));
    stages.run("docs", || {
        let mut docs = cargo(&["doc", "--no-deps", "--workspace", "--quiet"]);
        done(process::run(docs.env("RUSTDOCFLAGS", "-D warnings")))
    });
    stages.run("tidy", || done(tidy::run()));
}

/// The command.
pub(crate) fn run() -> Result<()> {
    let mut stages = Stages::default();
    run_all(&mut stages);
    stages.finish()
}

fn done(result: Result<()>) -> Result<Count> {
    result.map(|()| Count::ONE)
}
