//! The one way to standard output and standard error.
//!
//! What is printed may hold what others wrote, so nothing that steers a terminal gets through,
//! wherever the output goes: who reads it later has a terminal too. Only data that was asked for
//! as data goes to a file or a pipe as it is, and to a terminal with `--raw`.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::Failure;
use crate::terminal::{Harmless, harmless, harmless_bytes, harmless_line};

/// Whether what is said beside the result is JSON too, as `--json` asks.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// From now on notes, warnings and errors are lines of JSON.
pub(super) fn speak_json() {
    IS_JSON.store(true, Ordering::Relaxed);
}

/// Writes text for people or programs to standard output, all at once.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(harmless(text).as_bytes())
}

/// Writes a value for programs to standard output.
pub(super) fn print_json(value: &Value) -> Result<(), Failure> {
    print(&format!("{value:#}\n"))
}

/// Writes the data of a message and the end of its line. A terminal is spared what steers it,
/// unless `is_raw`.
pub(super) fn print_data(data: &[u8], is_raw: bool) -> Result<(), Failure> {
    if is_terminal() && !is_raw {
        return print_bytes(format!("{}\n", harmless_bytes(data)).as_bytes());
    }
    print_bytes(&[data, b"\n"].concat())
}

/// Writes bytes of our own as they are.
pub(super) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    match written {
        // Whoever reads has seen enough, as `head` does; there is nothing left to do for them.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::unread()),
        other => other.map_err(|error| Failure::failed(format!("cannot write: {error}"))),
    }
}

/// Lets nobody else write to standard output for as long as this is held.
pub(super) fn hold_output() -> io::StdoutLock<'static> {
    io::stdout().lock()
}

/// Whether standard output is a terminal.
pub(super) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// The columns and rows of the terminal that standard output is.
pub(super) fn terminal_size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    let size = (usize::from(size.ws_col), usize::from(size.ws_row));
    (size.0 > 0 && size.1 > 0).then_some(size)
}

/// Standard output for lines that are made elsewhere.
pub(super) fn harmless_lines() -> Harmless<io::Stdout> {
    Harmless(io::stdout())
}

/// Tells something beside the result, on standard error; it may be lost.
pub(super) fn note(text: &str) {
    say(text, &json!({ "note": text }));
}

/// Tells of something legal that may surprise.
pub(super) fn warn(text: &str) {
    say(&format!("warning: {text}"), &json!({ "warning": text }));
}

/// Tells why a command ended badly.
pub(super) fn tell_failure(failure: &Failure) {
    if failure.problem.is_empty() {
        return;
    }
    let Failure { code, problem } = failure;
    let error = json!({"message": problem, "kind": failure.kind(), "exitCode": code});
    say(&format!("postrider: {problem}"), &json!({ "error": error }));
}

/// Shows help where that was asked for, and otherwise says what is wrong with the command line.
pub(super) fn tell_usage(told: &clap::Error) -> Failure {
    if !told.use_stderr() {
        // Whoever asked for help may be gone.
        drop(told.print());
        return Failure::unread();
    }
    if !IS_JSON.load(Ordering::Relaxed) {
        drop(told.print());
        return Failure { code: 2, problem: String::new() };
    }
    let text = told.render().to_string();
    Failure::usage(text.trim().trim_start_matches("error: "))
}

fn say(text: &str, value: &Value) {
    let line = if IS_JSON.load(Ordering::Relaxed) { value.to_string() } else { text.to_owned() };
    // Nothing is left to be done if standard error is gone.
    drop(writeln!(io::stderr(), "{}", harmless(&line)));
}

/// Asks something, on standard error, so that standard output holds results only.
pub(super) fn ask(question: &str) {
    let mut out = io::stderr().lock();
    drop(write!(out, "{}", harmless(question)).and_then(|()| out.flush()));
}

/// A line on standard error that is written over again and again, on a terminal only.
pub(super) struct StatusLine {
    is_shown: bool,
}

impl StatusLine {
    pub(super) fn new() -> Self {
        Self { is_shown: io::stderr().is_terminal() }
    }

    /// Whether anyone sees it.
    pub(super) fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// Shows `text` instead of what was shown before; nothing takes the line away.
    pub(super) fn show(&self, text: &str) {
        if self.is_shown {
            let mut out = io::stderr().lock();
            // A line that cannot be shown harms nothing.
            drop(write!(out, "\r\x1b[2K{}", harmless_line(text)).and_then(|()| out.flush()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Whether a file of the command line writes somewhere on its own.
    fn writes(file: &Path) -> bool {
        let text = std::fs::read_to_string(file).unwrap();
        ["stdout()", "stderr()", "println!", "print!("].iter().any(|word| text.contains(word))
    }

    fn check(folder: &Path, wrong: &mut Vec<String>) {
        for item in std::fs::read_dir(folder).unwrap() {
            let path = item.unwrap().path();
            if path.is_dir() {
                check(&path, wrong);
            } else if !path.ends_with("cli/output.rs") && writes(&path) {
                wrong.push(path.display().to_string());
            }
        }
    }

    #[test]
    fn nothing_else_writes_to_a_terminal() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli");
        assert!(writes(&folder.join("output.rs")), "it looks for the right words");
        let mut wrong = Vec::new();
        check(&folder, &mut wrong);
        assert!(wrong.is_empty(), "print through output.rs, which spares the terminal: {wrong:?}");
    }
}
