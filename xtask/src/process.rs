//! Running other programs: echoed, and where wanted with their output kept.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result, bail};

use crate::place;

/// A command to be run in the workspace's root.
pub(crate) fn command(program: impl AsRef<Path>, words: &[&str]) -> Command {
    let mut command = Command::new(program.as_ref());
    command.args(words).current_dir(place::root());
    command
}

/// A cargo command, with the cargo that runs us.
pub(crate) fn cargo(words: &[&str]) -> Command {
    command(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()), words)
}

/// Runs to the end, output as it comes; an error if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {}", name(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", name(command));
    }
    Ok(())
}

/// What a finished command said, both streams in the order the lines came.
pub(crate) struct Said {
    /// Whether it exited with 0.
    pub(crate) success: bool,
    /// All lines of both streams.
    pub(crate) lines: Vec<String>,
}

/// Runs to the end, prints the output as it comes and keeps it.
pub(crate) fn run_and_keep(command: &mut Command) -> Result<Said> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", name(command)))?;
    let (sender, lines) = mpsc::channel();
    let readers = [
        child.stdout.take().map(|stream| forward(stream, sender.clone())),
        child.stderr.take().map(|stream| forward(stream, sender)),
    ];
    let mut kept = Vec::new();
    for line in lines {
        println!("{line}");
        kept.push(line);
    }
    for reader in readers.into_iter().flatten() {
        if reader.join().is_err() {
            bail!("reading from {} failed", name(command));
        }
    }
    let status = child.wait()?;
    Ok(Said { success: status.success(), lines: kept })
}

/// Runs quietly and gives back the standard output; the error carries the other stream.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {}", name(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed ({}): {}", name(command), output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a program of this name can be run.
pub(crate) fn exists(program: &str, probe: &[&str]) -> bool {
    Command::new(program)
        .args(probe)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn forward(
    stream: impl Read + Send + 'static,
    sender: mpsc::Sender<String>,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n') {
            let Ok(line) = line else { return };
            let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
            if sender.send(line).is_err() {
                return;
            }
        }
    })
}

fn name(command: &Command) -> String {
    let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
    let program = command.get_program().to_string_lossy().into_owned();
    std::iter::once(program).chain(words).take(6).collect::<Vec<_>>().join(" ")
}
