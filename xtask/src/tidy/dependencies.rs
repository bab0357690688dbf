//! Dependencies point one way, and one file names the engines.

use anyhow::Result;

use super::File;
use crate::process::{cargo, read};

/// Which of our crates a crate may depend on, tests aside.
const ALLOWED: [(&str, &[&str]); 16] = [
    ("postrider-domain", &[]),
    ("postrider-clock", &["postrider-domain"]),
    ("postrider-schemas", &["postrider-domain"]),
    ("postrider-transforms", &["postrider-domain"]),
    ("postrider-export", &["postrider-domain"]),
    ("postrider-storage", &["postrider-clock", "postrider-domain"]),
    (
        "postrider-broker",
        &[
            "postrider-storage",
            "postrider-schemas",
            "postrider-transforms",
            "postrider-export",
            "postrider-clock",
            "postrider-domain",
        ],
    ),
    ("postrider-wire", &[]),
    ("postrider-consumer", &["postrider-domain", "postrider-wire"]),
    (
        "postrider",
        &[
            "postrider-broker",
            "postrider-storage",
            "postrider-schemas",
            "postrider-transforms",
            "postrider-domain",
            "postrider-wire",
            "postrider-consumer",
        ],
    ),
    ("postrider-testkit", &["postrider-storage", "postrider-clock", "postrider-domain"]),
    (
        "postrider-simulation",
        &[
            "postrider-broker",
            "postrider-storage",
            "postrider-testkit",
            "postrider-clock",
            "postrider-domain",
        ],
    ),
    ("postrider-bench", &["postrider-wire", "postrider-consumer"]),
    (
        "postrider-fuzz",
        &[
            "postrider",
            "postrider-broker",
            "postrider-consumer",
            "postrider-domain",
            "postrider-schemas",
            "postrider-storage",
            "postrider-testkit",
            "postrider-transforms",
            "postrider-wire",
        ],
    ),
    ("postrider-clients", &[]),
    ("xtask", &[]),
];

/// The only file of the server and the broker that may name a concrete engine.
const ENGINE_HOME: &str = "crates/server/src/engine.rs";
const ENGINES: [&str; 2] = ["storage::disk", "storage::memory"];

/// Checks both rules.
pub(super) fn check(files: &[File], faults: &mut Vec<String>) -> Result<()> {
    for (package, allowed) in ALLOWED {
        let edges = ["tree", "-p", package, "--depth", "1", "--prefix", "none", "--edges"];
        let tree = read(cargo(&edges).args(["normal,build", "--format", "{p}"]))?;
        for dependency in ours(&tree) {
            if !allowed.contains(&dependency) {
                faults.push(format!("{package} must not depend on {dependency}"));
            }
        }
    }
    for file in files.iter().filter(|file| is_code(&file.path)) {
        for line in before_tests(&file.text).filter(|line| names_engine(line)) {
            faults.push(format!("{}: only {ENGINE_HOME} names an engine: {line}", file.path));
        }
    }
    Ok(())
}

/// Our own crates among the direct dependencies; the first line is the crate itself.
fn ours(tree: &str) -> impl Iterator<Item = &str> {
    tree.lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| name.starts_with("postrider"))
}

fn is_code(path: &str) -> bool {
    let inside = path.starts_with("crates/server/src/") || path.starts_with("crates/broker/src/");
    inside && path.ends_with(".rs") && !path.ends_with("tests.rs") && path != ENGINE_HOME
}

fn before_tests(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|line| line.trim() != "#[cfg(test)]")
}

fn names_engine(line: &str) -> bool {
    !line.trim_start().starts_with("//") && ENGINES.iter().any(|engine| line.contains(engine))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_direct_dependencies_are_looked_at() {
        let tree = "postrider-broker v0.1.0\npostrider-domain v0.1.0\nbytes v1.0\n";
        assert_eq!(ours(tree).collect::<Vec<_>>(), ["postrider-domain"]);
    }

    #[test]
    fn an_engine_is_named_only_at_its_home() {
        assert!(names_engine("    let log = storage::disk::open(folder)?;"));
        assert!(!names_engine("/// As `storage::disk` does."));
        assert!(!is_code(ENGINE_HOME));
    }
}
