//! The command line.

mod attempts;
mod client;
mod config;
mod describe;
mod lanes;
mod serve;
mod verify;

use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use toml::Value;

use crate::config::{FILE_VARIABLE, Sources};

const EXIT_CODES: &str = "\
Exit codes:
  0  done; for serve: stopped as asked
  1  failed: the store cannot be used, verify found faults, a server said no
  2  the command line or the settings are wrong; nothing was started";

const EXAMPLES: &str = "\
Examples:
  postrider serve
  postrider serve --listen 127.0.0.1:0 --engine memory
  postrider subscription describe projects/my-project/subscriptions/billing
  postrider verify --data-dir ./postrider-data";

/// A Pub/Sub server in one program: Google's API over gRPC and REST, durable, on one port.
#[derive(Debug, Parser)]
#[command(name = "postrider", version, after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server until SIGTERM or Ctrl-C.
    #[command(after_help = format!("{}\n\n{EXIT_CODES}", serve::EXAMPLES))]
    Serve(Settings),
    /// Check every checksum of a data folder that no server is using; change nothing.
    #[command(after_help = format!("{}\n\n{EXIT_CODES}", verify::EXAMPLES))]
    Verify(verify::Arguments),
    /// Look at subscriptions of a running server, and act on their lanes.
    #[command(subcommand)]
    Subscription(Subscription),
    /// Look at settings.
    #[command(subcommand)]
    Config(Config),
}

#[derive(Debug, Subcommand)]
enum Subscription {
    /// Show a subscription's settings and its saved cursor.
    #[command(after_help = format!("{}\n\n{EXIT_CODES}", describe::EXAMPLES))]
    Describe(describe::Arguments),
    /// Show the lanes that are blocked; release one, or skip what blocks it.
    #[command(after_help = format!("{}\n\n{EXIT_CODES}", lanes::EXAMPLES))]
    Lanes(lanes::Arguments),
    /// Show what became of the attempts to push messages, the newest first.
    #[command(after_help = format!("{}\n\n{EXIT_CODES}", attempts::EXAMPLES))]
    Attempts(attempts::Arguments),
}

#[derive(Debug, Subcommand)]
enum Config {
    /// Print the settings in force, with the source of each that is not at its default.
    #[command(after_help = format!("{}\n\n{EXIT_CODES}", config::EXAMPLES))]
    Show {
        /// Print the built-in settings with their comments instead: the manual of all keys.
        #[arg(long)]
        default: bool,
        #[command(flatten)]
        settings: Settings,
    },
}

/// Flags that set something; they win over the environment and the file.
#[derive(Clone, Debug, Default, Args)]
struct Settings {
    /// The file with the settings [default: ./postrider.toml where it exists]
    #[arg(long, value_name = "FILE", env = FILE_VARIABLE)]
    config: Option<PathBuf>,
    /// The address to serve on; port 0 takes any free port [default: 127.0.0.1:8085]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// The folder that holds the messages [default: ./postrider-data]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// Where messages are kept [default: disk]
    #[arg(long)]
    engine: Option<Engine>,
    /// Serve on an address that others can reach although everybody may do everything
    #[arg(long)]
    insecure: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Engine {
    /// In a folder; survives a power cut.
    Disk,
    /// In memory; gone when the server ends.
    Memory,
}

impl Settings {
    /// These flags together with the process's environment.
    fn into_sources(self) -> Sources {
        let mut flags = Vec::new();
        if let Some(listen) = self.listen {
            flags.push(("listen", Value::String(listen), "--listen"));
        }
        if let Some(folder) = self.data_dir {
            let folder = folder.to_string_lossy().into_owned();
            flags.push(("data_dir", Value::String(folder), "--data-dir"));
        }
        if let Some(engine) = self.engine {
            let name = match engine {
                Engine::Disk => "disk",
                Engine::Memory => "memory",
            };
            flags.push(("engine", Value::String(name.to_owned()), "--engine"));
        }
        if self.insecure {
            flags.push(("insecure", Value::Boolean(true), "--insecure"));
        }
        // A variable that is not text cannot be meant for us.
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Sources { file: self.config, environment, flags }
    }
}

/// Why a command ended badly: the exit code and the words for standard error.
struct Failure {
    code: u8,
    problem: String,
}

impl Failure {
    /// The command could not do what it is for.
    fn failed(problem: impl fmt::Display) -> Self {
        Self { code: 1, problem: problem.to_string() }
    }

    /// The command was not understood, or the settings are wrong.
    fn usage(problem: impl fmt::Display) -> Self {
        Self { code: 2, problem: problem.to_string() }
    }
}

/// Runs the program with the arguments of this process.
pub fn run() -> ExitCode {
    let ended = match Cli::parse().command {
        Command::Serve(settings) => serve::run(settings),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Subscription(Subscription::Describe(arguments)) => describe::run(&arguments),
        Command::Subscription(Subscription::Lanes(arguments)) => lanes::run(&arguments),
        Command::Subscription(Subscription::Attempts(arguments)) => attempts::run(&arguments),
        Command::Config(Config::Show { default, settings }) => config::show(default, settings),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nothing is left to be done if standard error is gone too.
            drop(writeln!(std::io::stderr(), "postrider: {}", failure.problem));
            ExitCode::from(failure.code)
        }
    }
}

/// Writes text for people or programs to standard output, all at once.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        // Whoever reads has seen enough, as `head` does.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| Failure::failed(format!("cannot write: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_of_serve_is_a_known_setting() {
        let settings = Settings {
            config: None,
            listen: Some("127.0.0.1:0".to_owned()),
            data_dir: Some(PathBuf::from("data")),
            engine: Some(Engine::Memory),
            insecure: true,
        };
        let flags = settings.into_sources().flags;
        assert_eq!(flags.len(), 4);
        let sources =
            Sources { file: Some(PathBuf::from("/dev/null")), environment: vec![], flags };
        let config = crate::config::load(sources).unwrap().config;
        assert_eq!(config.engine, crate::config::Engine::Memory);
        assert!(config.insecure);
        assert_eq!(config.listen.port(), 0);
        assert_eq!(config.data_dir, PathBuf::from("data"));
    }
}
