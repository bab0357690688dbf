//! Runs the examples of the documents against a fresh server, in order, as a newcomer would.
//!
//! A fenced block marked `sh test`, `python test` or `js test` is run; the fenced block after it,
//! if it is marked `text` or `json`, is what it must print. White space does not count, and `…`
//! in the expected text stands for anything. A block marked `sh test background` is what somebody
//! does in a second terminal: it goes on while the others are run, and must have printed what is
//! expected at the end. What one block exports the later ones have. `localhost:8085` is replaced by
//! the real address, and `127.0.0.1:9000`, where pushes go, by a free one.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::place;
use crate::program::Server;
use crate::setup;
use crate::stages::Count;

const DOCUMENTS: [&str; 3] = ["README.md", "docs/api.md", "docs/live.md"];
const ADDRESS: &str = "localhost:8085";
const RECEIVER: &str = "127.0.0.1:9000";

/// How often something in the background is looked at, and how long.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS_MAX: u32 = 600;

/// Runs the examples of all documents, each document on a server of its own.
pub(crate) fn run_all() -> Result<Count> {
    let mut count = Count::default();
    for document in DOCUMENTS {
        let text = std::fs::read_to_string(place::root().join(document))
            .with_context(|| format!("cannot read {document}"))?;
        let server = Server::start("examples")?;
        let mut stage = Stage::new(server.address())?;
        for example in examples(&text) {
            count.add(document, example.line, stage.run(&example));
        }
        for (line, ended) in stage.end() {
            count.add(document, line, ended);
        }
    }
    println!("{} examples as documented, {} not", count.passed, count.failed);
    Ok(count)
}

impl Count {
    fn add(&mut self, document: &str, line: usize, ended: Result<()>) {
        match ended {
            Ok(()) => self.passed += 1,
            Err(error) => {
                println!("{document}:{line}: {error:#}");
                self.failed += 1;
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Example {
    line: usize,
    language: String,
    is_background: bool,
    code: String,
    expected: Option<String>,
}

/// Where the examples of one document are run.
struct Stage<'server> {
    address: &'server str,
    receiver: String,
    exported: String,
    background: Vec<Background>,
}

/// Something that goes on in a second terminal.
struct Background {
    line: usize,
    code: String,
    child: Child,
    output: PathBuf,
    expected: Option<String>,
}

impl<'server> Stage<'server> {
    fn new(address: &'server str) -> Result<Self> {
        let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        Ok(Self { address, receiver: free, exported: String::new(), background: Vec::new() })
    }

    fn real(&self, text: &str) -> String {
        text.replace(ADDRESS, self.address).replace(RECEIVER, &self.receiver)
    }

    fn run(&mut self, example: &Example) -> Result<()> {
        let mut code = self.real(&example.code);
        if example.language == "sh" {
            self.exported.push_str(&exports(&code));
            code = format!("{}{code}", self.exported);
        }
        if example.is_background {
            return self.begin(example, code);
        }
        let output = self.command(&example.language, &code)?.output()?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let complained = String::from_utf8_lossy(&output.stderr).into_owned();
        anyhow::ensure!(
            output.status.success(),
            "the example failed:\n{code}\n{printed}{complained}"
        );
        let Some(expected) = &example.expected else { return Ok(()) };
        let expected = self.real(expected);
        anyhow::ensure!(
            matches(&expected, &printed),
            "the example\n{code}\nprinted\n{printed}{complained}\ninstead of\n{expected}"
        );
        Ok(())
    }

    /// Starts what goes on, and waits until it says something.
    fn begin(&mut self, example: &Example, code: String) -> Result<()> {
        let folder = place::e2e().join("run");
        std::fs::create_dir_all(&folder)?;
        let output = folder.join(format!("example-{}-{}", std::process::id(), example.line));
        let file = File::create(&output)?;
        // So that ending it ends what it runs.
        let (before, last) = code.rsplit_once('\n').unwrap_or(("", &code));
        let started = format!("{before}\nexec {last}");
        let mut command = self.command("sh", &started)?;
        let child = command.stdout(file.try_clone()?).stderr(file).spawn()?;
        let expected = example.expected.as_deref().map(|expected| self.real(expected));
        let line = example.line;
        self.background.push(Background { line, code, child, output, expected });
        let begun = self.background.last().context("it was begun just now")?;
        let spoke = until(|| !begun.printed().is_empty());
        anyhow::ensure!(spoke, "{}\nsaid nothing", begun.code);
        Ok(())
    }

    /// Ends what goes on; how it went is told by line.
    fn end(mut self) -> Vec<(usize, Result<()>)> {
        let ended = self.background.iter_mut().filter(|one| one.expected.is_some());
        ended.map(|one| (one.line, one.check())).collect()
    }

    fn command(&self, language: &str, code: &str) -> Result<Command> {
        let mut command = match language {
            "python" => with(&setup::python(), &["-c", code]),
            "js" => with(Path::new("node"), &["-e", code]),
            _ => with(Path::new("bash"), &["-euo", "pipefail", "-c", code]),
        };
        let program = place::built("postrider");
        let mut path = program.parent().context("no folder of programs")?.as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        command
            .env("PATH", path)
            .env("PUBSUB_EMULATOR_HOST", self.address)
            .env("NODE_PATH", setup::node_modules())
            .current_dir(place::root());
        Ok(command)
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        for one in &mut self.background {
            // It may have ended by itself.
            drop(one.child.kill().and_then(|()| one.child.wait()));
            drop(std::fs::remove_file(&one.output));
        }
    }
}

impl Background {
    fn printed(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }

    fn check(&mut self) -> Result<()> {
        let expected = self.expected.clone().unwrap_or_default();
        let is_right = until(|| matches(&expected, &self.printed()));
        let printed = self.printed();
        let code = &self.code;
        anyhow::ensure!(is_right, "{code}\nprinted\n{printed}\ninstead of\n{expected}");
        Ok(())
    }
}

/// Looks again and again, for a while.
fn until(is_so: impl Fn() -> bool) -> bool {
    (0..LOOKS_MAX).any(|_| {
        let is_so = is_so();
        if !is_so {
            std::thread::sleep(LOOK);
        }
        is_so
    })
}

/// The lines that set something for what follows.
fn exports(code: &str) -> String {
    let lines = code.lines().filter(|line| line.starts_with("export "));
    lines.map(|line| format!("{line}\n")).collect()
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
            Some((language, kind @ ("test" | "test background"))) => {
                found.push(Example {
                    line: number + 1,
                    language: language.to_owned(),
                    is_background: kind != "test",
                    code: block,
                    expected: None,
                });
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
                    ```text\nnot expected\n```\n```python test\nprint(1)\n```\n\
                    ```sh test background\nexport A=1\nwatch\n```\n";
        let found = examples(text);
        assert_eq!(found.len(), 3);
        assert!(found[2].is_background && !found[0].is_background);
        assert_eq!(exports(&found[2].code), "export A=1\n");
        assert_eq!(found[0].code, "curl x");
        assert_eq!(found[0].expected.as_deref(), Some("{}"));
        assert_eq!(found[1].language, "python");
        assert_eq!(found[1].expected, None);
    }
}
