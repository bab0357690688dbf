//! Says which commit the program is built from.
//!
//! A release looks after each commit. Other builds look when another branch is checked out: their
//! commit may be a few behind, and nothing is built again only because somebody committed.

use std::process::Command;

fn main() {
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=POSTRIDER_COMMIT");
    let watched = if is_release { "logs/HEAD" } else { "HEAD" };
    if let Some(path) = git(&["rev-parse", "--git-path", watched]) {
        println!("cargo::rerun-if-changed={path}");
    }
    let given = std::env::var("POSTRIDER_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    let commit = commit.unwrap_or_else(|| "unknown".to_owned());
    let ending = if is_release { "" } else { ".dev" };
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    println!("cargo::rustc-env=POSTRIDER_VERSION={version}+{commit}{ending}");
}

/// What git answers; `None` where there is no git, or no repository.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
