//! `cargo xtask sim` and `cargo xtask fuzz`: every target of `crates/fuzz` for a while.
//!
//! With libFuzzer, which is guided by coverage. The stable compiler can instrument for it: only
//! the sanitizers need nightly, and without `unsafe` of ours they would find little. Where no C++
//! compiler is there to build libFuzzer itself, our own driver runs instead, and says so.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread::available_parallelism;

use anyhow::{Context, Result, ensure};

use crate::process::{cargo, command, read, run};
use crate::stages::Count;
use crate::{place, process};

/// What makes the compiler count edges and comparisons for libFuzzer.
const INSTRUMENTED: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1";

/// Bytes of an input, at most.
const INPUT_BYTES_MAX: u32 = 16 << 10;
/// Seconds an input may take: 100 ms for each of its 16 KiB, and something for a busy machine.
const INPUT_SECONDS_MAX: u32 = 4;

/// Runs each target for so many seconds, as many at a time as there are cores.
pub(crate) fn run_all(seconds: &str, only: Option<&str>) -> Result<Count> {
    ensure!(seconds.parse::<u32>().is_ok(), "--fuzz-seconds {seconds}: not a number");
    run(&mut cargo(&["build", "-p", "postrider-fuzz"]))?;
    let plain = place::built("postrider-fuzz");
    let listed = read(&mut command(&plain, &["list"]))?;
    let mut targets: Vec<&str> =
        listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    if let Some(only) = only {
        targets.retain(|target| *target == only);
        ensure!(!targets.is_empty(), "no target {only:?}; there are:\n{listed}");
    }
    match build() {
        Ok(program) => {
            run(command(&plain, &["corpus"]).arg(corpus()))?;
            guided(&program, &targets, seconds)
        }
        Err(error) => {
            println!("libFuzzer cannot be built here: {error:#}");
            println!("the plain driver runs instead: it is not guided by coverage");
            run(command(&plain, &["run", "--seconds", seconds]).args(&targets))?;
            Ok(Count { passed: targets.len() as u64, failed: 0 })
        }
    }
}

fn folder() -> PathBuf {
    place::target().join("libfuzzer")
}

fn corpus() -> PathBuf {
    folder().join("corpus")
}

/// Builds the program with libFuzzer in it.
fn build() -> Result<PathBuf> {
    let version = read(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc does not say for what it compiles")?;
    // With a target named, build scripts and macros are not instrumented.
    let words = ["build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target", host];
    let mut build = cargo(&words);
    build.arg("--target-dir").arg(folder()).env("RUSTFLAGS", INSTRUMENTED);
    process::run(&mut build)?;
    Ok(folder().join(host).join("release/any"))
}

fn guided(program: &PathBuf, targets: &[&str], seconds: &str) -> Result<Count> {
    let failures = folder().join("failures");
    fs::create_dir_all(&failures)?;
    let mut count = Count::default();
    let at_once = available_parallelism().map_or(1, usize::from);
    for some in targets.chunks(at_once) {
        let started: Vec<(&str, Child)> = some
            .iter()
            .map(|target| Ok((*target, start(program, target, seconds)?)))
            .collect::<Result<_>>()?;
        for (target, mut child) in started {
            if child.wait()?.success() {
                count.passed += 1;
            } else {
                count.failed += 1;
                let log = folder().join(format!("{target}.log"));
                println!("{target} FAILED, its input is in {}", failures.display());
                println!("{}", last_lines(&fs::read_to_string(log)?));
            }
        }
        println!("{} of {} targets", count.passed + count.failed, targets.len());
    }
    Ok(count)
}

fn start(program: &PathBuf, target: &str, seconds: &str) -> Result<Child> {
    let log = fs::File::create(folder().join(format!("{target}.log")))?;
    let mut command = command(program, &[]);
    command
        .arg(corpus().join(target))
        .arg(format!("-dict={}", corpus().join(format!("{target}.dict")).display()))
        .arg(format!("-artifact_prefix={}/{target}-", folder().join("failures").display()))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={INPUT_BYTES_MAX}"))
        .arg(format!("-timeout={INPUT_SECONDS_MAX}"))
        .arg("-print_final_stats=1")
        .env("FUZZ_TARGET", target)
        .stdout(log.try_clone()?)
        .stderr(log);
    command.spawn().with_context(|| format!("cannot run {}", program.display()))
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
