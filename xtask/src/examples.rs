//! Runs the examples of the documents against a fresh server.
//!
//! A fenced block marked `sh test`, `python test` or `js test` is run; the fenced block after it,
//! if it is marked `text` or `json`, is what it must print. White space does not count, and `…`
//! in the expected text stands for anything. `localhost:8085` is replaced by the real address.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::place;
use crate::program::Server;
use crate::setup;
use crate::stages::Count;

const DOCUMENTS: [&str; 3] = ["README.md", "docs/api.md", "docs/live.md"];
const ADDRESS: &str = "localhost:8085";

/// Runs the examples of all documents, each document on a server of its own.
pub(crate) fn run_all() -> Result<Count> {
    let mut count = Count::default();
    for document in DOCUMENTS {
        let text = std::fs::read_to_string(place::root().join(document))
            .with_context(|| format!("cannot read {document}"))?;
        let server = Server::start("examples")?;
        for example in examples(&text) {
            match example.run(server.address()) {
                Ok(()) => count.passed += 1,
                Err(error) => {
                    println!("{document}:{}: {error:#}", example.line);
                    count.failed += 1;
                }
            }
        }
    }
    println!("{} examples as documented, {} not", count.passed, count.failed);
    Ok(count)
}

#[derive(Debug, PartialEq, Eq)]
struct Example {
    line: usize,
    language: String,
    code: String,
    expected: Option<String>,
}

impl Example {
    fn run(&self, address: &str) -> Result<()> {
        let code = self.code.replace(ADDRESS, address);
        let mut command = match self.language.as_str() {
            "python" => with(&setup::python(), &["-c", &code]),
            "js" => with(Path::new("node"), &["-e", &code]),
            _ => with(Path::new("bash"), &["-euo", "pipefail", "-c", &code]),
        };
        let output = command
            .env("PUBSUB_EMULATOR_HOST", address)
            .env("NODE_PATH", setup::node_modules())
            .current_dir(place::root())
            .output()?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let complained = String::from_utf8_lossy(&output.stderr).into_owned();
        anyhow::ensure!(
            output.status.success(),
            "the example failed:\n{code}\n{printed}{complained}"
        );
        let Some(expected) = &self.expected else { return Ok(()) };
        let expected = expected.replace(ADDRESS, address);
        anyhow::ensure!(
            matches(&expected, &printed),
            "the example\n{code}\nprinted\n{printed}{complained}\ninstead of\n{expected}"
        );
        Ok(())
    }
}

fn with(program: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(words);
    command
}

/// The examples of one document, in order.
fn examples(text: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let mut lines = text.lines().enumerate();
    let mut expects = false;
    while let Some((number, line)) = lines.next() {
        let Some(mark) = line.strip_prefix("```") else { continue };
        let block: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        let block = block.join("\n");
        match mark.split_once(' ') {
            Some((language, "test")) => {
                let language = language.to_owned();
                found.push(Example { line: number + 1, language, code: block, expected: None });
                expects = true;
            }
            _ => {
                if expects
                    && matches!(mark, "text" | "json")
                    && let Some(example) = found.last_mut()
                {
                    example.expected = Some(block);
                }
                expects = false;
            }
        }
    }
    found
}

/// Whether `printed` is `expected`, white space aside, `…` standing for anything.
fn matches(expected: &str, printed: &str) -> bool {
    let expected = squeezed(expected);
    let printed = squeezed(printed);
    let mut parts = expected.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(place) = rest.find(part) else { return false };
        rest = rest.get(place + part.len()..).unwrap_or_default();
    }
    true
}

fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ellipsis_stands_for_anything() {
        assert!(matches("{\"id\": \"…\"}", "{\"id\":\"17\"}\n"));
        assert!(matches("a … b … c", "a 1 b 2 c"));
        assert!(!matches("a … b … c", "a 1 b 2 d"));
        assert!(!matches("{\"id\": \"…\"}", "{\"name\":\"17\"}"));
        assert!(matches("same", " sa me\n"));
        assert!(!matches("same", "same and more"));
    }

    #[test]
    fn examples_are_found_with_what_they_must_print() {
        let text = "# t\n```sh test\ncurl x\n```\nIt says\n```json\n{}\n```\n```sh\nnot run\n```\n\
                    ```text\nnot expected\n```\n```python test\nprint(1)\n```\n";
        let found = examples(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].code, "curl x");
        assert_eq!(found[0].expected.as_deref(), Some("{}"));
        assert_eq!(found[1].language, "python");
        assert_eq!(found[1].expected, None);
    }
}
