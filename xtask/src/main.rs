//! The project's own commands: `cargo xtask check`, `test`, `tidy`, `kill`, `sim`, `fuzz`, `soak`.
//!
//! Only the standard library and `anyhow`, so that it is built in a moment.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool speaks on its standard output"
)]

mod arguments;
mod check;
mod count;
mod examples;
mod fuzz;
mod place;
mod process;
mod program;
mod setup;
mod stages;
mod test;
mod tidy;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::arguments::Arguments;

const HELP: &str = "\
cargo xtask <command>

  check                 format, clippy with warnings denied, documentation, tidy
  tidy                  house rules: columns, words, leftovers, direction of dependencies
  test [--only STAGE]   everything: Rust tests, then the built program with the official clients
  kill [--rounds N] [--seed S]
                        kill -9 rounds under load, plain, pull and push (100 each)
  sim [--seeds N] [--seed S] [--cases N] [--pairs N] [--fuzz-seconds N]
                        the model of delivery from many more seeds (20,000), or from one alone;
                        the property and fault tests with many more cases (20,000); the index of
                        live filters against the naive evaluator with more pairs (10 million);
                        every fuzz target for a minute
  sim --cluster [--seeds N] [--seed S]
                        the whole program in simulation from many seeds (10,000): one node whose
                        power goes, and three nodes on one store; or from one seed alone
  fuzz [--seconds N] [--target T]
                        every fuzz target for so long (60 s), or one of them
  soak [--minutes N]    mixed load for a long time (8 hours): memory, descriptors and latency
                        must stay as they are
  power [--rounds N]    power cuts of the built program under load (500)

Stages of `test`: setup build unit descriptors python node examples kill power bench
";

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    match run(&command, words.collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &str, words: Vec<String>) -> Result<()> {
    let mut arguments = Arguments::new(words);
    match command {
        "check" => {
            arguments.finish()?;
            check::run()
        }
        "tidy" => {
            arguments.finish()?;
            tidy::run()
        }
        "test" => {
            let mut only = Vec::new();
            while let Some(stage) = arguments.take("--only")? {
                only.push(stage);
            }
            arguments.finish()?;
            test::run(&only)
        }
        "kill" => kill(arguments, "100"),
        "power" => {
            let rounds = arguments.take("--rounds")?.unwrap_or_else(|| "500".to_owned());
            arguments.finish()?;
            test::power(&rounds)
        }
        "soak" => {
            let minutes = arguments.take("--minutes")?.unwrap_or_else(|| "480".to_owned());
            arguments.finish()?;
            test::soak(&minutes)
        }
        "sim" if arguments.has("--cluster") => {
            let (seeds, seed) = (arguments.take("--seeds")?, arguments.take("--seed")?);
            arguments.finish()?;
            test::simulate_whole(seeds, seed)
        }
        "sim" => {
            let simulation = test::Simulation {
                seeds: arguments.take("--seeds")?,
                seed: arguments.take("--seed")?,
                cases: arguments.take("--cases")?,
                pairs: arguments.take("--pairs")?,
                fuzz_seconds: arguments.take("--fuzz-seconds")?,
            };
            arguments.finish()?;
            test::simulate(simulation)
        }
        "fuzz" => {
            let seconds = arguments.take("--seconds")?.unwrap_or_else(|| "60".to_owned());
            let target = arguments.take("--target")?;
            arguments.finish()?;
            test::fuzz(&seconds, target.as_deref())
        }
        "" | "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        other => bail!("unknown command {other:?}\n\n{HELP}"),
    }
}

fn kill(mut arguments: Arguments, rounds: &str) -> Result<()> {
    let rounds = arguments.take("--rounds")?.unwrap_or_else(|| rounds.to_owned());
    let seed = arguments.take("--seed")?;
    arguments.finish()?;
    test::kill(&rounds, seed.as_deref())
}
