//! `postrider-fuzz run [--seconds N] [--seed S] [TARGET…]` drives targets without libFuzzer;
//! `postrider-fuzz corpus FOLDER` writes what libFuzzer begins with; `postrider-fuzz list` names
//! them.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use fuzz::driver::drive;
use fuzz::{TARGETS, Target, find};

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.split_first() {
        Some((&"run", rest)) => run(rest),
        Some((&"corpus", [folder])) => corpus(Path::new(folder)),
        Some((&"list", [])) => {
            TARGETS.iter().for_each(|target| println!("{:<18}{}", target.name, target.what));
            Ok(())
        }
        _ => Err("expected run [--seconds N] [--seed S] [TARGET…], corpus FOLDER or list".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<(), Failure> {
    let (mut seconds, mut seed) = (60, 1);
    let mut targets: Vec<&Target> = Vec::new();
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        let mut number =
            || words.next().ok_or("a number is missing")?.parse().map_err(Failure::from);
        match word {
            "--seconds" => seconds = number()?,
            "--seed" => seed = number()?,
            name => targets.push(find(name).ok_or_else(|| format!("no target {name:?}"))?),
        }
    }
    if targets.is_empty() {
        targets = TARGETS.iter().collect();
    }
    for target in targets {
        let driven = drive(target, seed, Duration::from_secs(seconds));
        println!("{:<18}{} inputs, {} answers", target.name, driven.inputs, driven.answers);
    }
    Ok(())
}

/// For each target a folder of seeds, and beside it a list of words as libFuzzer reads it.
fn corpus(folder: &Path) -> Result<(), Failure> {
    for target in &TARGETS {
        let seeds = folder.join(target.name);
        std::fs::create_dir_all(&seeds)?;
        for (number, seed) in target.seeds.iter().enumerate() {
            std::fs::write(seeds.join(format!("seed-{number}")), seed)?;
        }
        let words = target.words.iter().filter(|word| !word.is_empty());
        let lines: String = words.map(|word| format!("\"{}\"\n", escaped(word))).collect();
        std::fs::write(folder.join(format!("{}.dict", target.name)), lines)?;
    }
    Ok(())
}

/// Letters and digits as they are, all else as `\xAB`.
fn escaped(word: &str) -> String {
    let escape = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("\\x{byte:02X}"),
    };
    word.bytes().map(escape).collect()
}
