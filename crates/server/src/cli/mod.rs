//! The command line.

mod alerts;
mod apply;
mod attempts;
mod backup;
pub(crate) mod changes;
pub(crate) mod client;
mod clock;
mod completions;
mod config;
mod create;
mod dead_letter;
mod demo;
mod endpoint;
mod export;
mod lane;
mod lint;
mod live;
mod materialize;
mod messages;
mod names;
mod obstacles;
mod output;
#[cfg(test)]
mod parsing;
mod progress_bar;
mod publish;
mod pull;
mod receive;
#[cfg(test)]
mod reference;
mod schema;
mod seek;
mod serve;
pub(crate) mod settings;
mod setup;
mod snapshot;
mod subscription;
mod table;
mod tail;
mod top;
mod topic;
mod transform;
mod values;
mod verify;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use toml::Value;

use crate::config::{FILE_VARIABLE, Sources};
use client::At;
use output::{ask, note, print, print_bytes, print_data, print_json, warn};

const EXIT_CODES: &str = "\
Exit codes:
  0  done; for serve: stopped as asked
  1  failed: the store cannot be used, something was found, a server said no
  2  the command line or the settings are wrong; nothing was started
  3  what was named does not exist
  4  the server cannot be reached, or does not answer";

const EXAMPLES: &str = "\
Examples:
  postrider serve
  postrider demo
  postrider topic create orders --project my-project
  postrider subscription create billing --topic orders --standard --project my-project
  postrider publish orders 'order 1' --project my-project
  postrider pull billing --ack --project my-project
  postrider top --project my-project
  postrider dead-letter replay --subscription billing --all --project my-project

All commands but serve, verify, config and receive ask a running server: --server or
POSTRIDER_SERVER, else PUBSUB_EMULATOR_HOST, else http://127.0.0.1:8085. Short names are completed
with --project or POSTRIDER_PROJECT.";

/// A Pub/Sub server in one program: Google's API over gRPC and REST, durable, on one port.
#[derive(Debug, Parser)]
#[command(name = "postrider", version, after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
struct Cli {
    #[command(subcommand)]
    command: Command,
    // Every command that asks a server has these too; here they may stand before its name.
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server until SIGTERM or Ctrl-C.
    #[command(after_help = help(serve::EXAMPLES))]
    Serve(Settings),
    /// Create, list, show, change and delete topics.
    #[command(subcommand, visible_alias = "topics", after_help = help(topic::EXAMPLES))]
    Topic(topic::Command),
    /// Create, list, show, change and delete subscriptions.
    #[command(subcommand, visible_aliases = ["sub", "subs", "subscriptions"],
              after_help = help(subscription::EXAMPLES))]
    Subscription(subscription::Command),
    /// Create, list, show, revise and delete schemas; check definitions and messages.
    #[command(subcommand, visible_alias = "schemas", after_help = help(schema::EXAMPLES))]
    Schema(schema::Command),
    /// Check message transforms, and show what they make of a message.
    #[command(subcommand, visible_alias = "transforms", after_help = help(transform::EXAMPLES))]
    Transform(transform::Command),
    /// Create, list, show, change and delete snapshots.
    #[command(subcommand, visible_alias = "snapshots", after_help = help(snapshot::EXAMPLES))]
    Snapshot(snapshot::Command),
    /// Create, change and delete what differs from a setup file.
    #[command(after_help = help(apply::EXAMPLES))]
    Apply(apply::Arguments),
    /// Print schemas, topics and subscriptions as a setup file.
    #[command(after_help = help(export::EXAMPLES))]
    Export(export::Arguments),
    /// Publish messages: arguments, files, or the lines of standard input.
    #[command(after_help = help(publish::EXAMPLES))]
    Publish(publish::Arguments),
    /// Pull messages, and ack them if asked to.
    #[command(after_help = help(pull::EXAMPLES))]
    Pull(pull::Arguments),
    /// Look at messages without leasing them or changing anything.
    #[command(after_help = help(tail::EXAMPLES))]
    Tail(tail::Arguments),
    /// Show push attempts and their results, newest first.
    #[command(after_help = help(attempts::EXAMPLES))]
    Attempts(attempts::Arguments),
    /// List, show, replay and delete dead letters.
    #[command(subcommand, visible_aliases = ["dead-letters", "letters"],
              after_help = help(dead_letter::EXAMPLES))]
    DeadLetter(dead_letter::Command),
    /// Show blocked lanes; release one, or skip what blocks it.
    #[command(subcommand, visible_alias = "lanes", after_help = help(lane::EXAMPLES))]
    Lane(lane::Command),
    /// Move a subscription back or forward: to a time, a snapshot, the earliest or the latest.
    #[command(after_help = help(seek::EXAMPLES))]
    Seek(seek::Arguments),
    /// Watch messages like a gateway, and list live subscriptions.
    #[command(subcommand, after_help = help(live::EXAMPLES))]
    Live(live::Command),
    /// Show pending and firing alerts.
    #[command(visible_alias = "alert", after_help = help(alerts::EXAMPLES))]
    Alerts(alerts::Arguments),
    /// Show what subscriptions are doing, live.
    #[command(after_help = help(top::EXAMPLES))]
    Top(top::Arguments),
    /// Look for risky setups.
    #[command(after_help = help(lint::EXAMPLES))]
    Lint(lint::Arguments),
    /// Run an endpoint that prints what is pushed to it and checks signatures and order.
    #[command(after_help = help(receive::EXAMPLES))]
    Receive(receive::Arguments),
    /// See what Postrider does, in a minute.
    #[command(after_help = help(demo::EXAMPLES))]
    Demo(demo::Arguments),
    /// Write a subscription's messages to Firestore, each one once, as configured in a file.
    #[command(after_help = help(materialize::EXAMPLES))]
    Materialize(materialize::Arguments),
    /// Back up the server's store while it runs.
    #[command(after_help = help(backup::EXAMPLES))]
    Backup(backup::Arguments),
    /// Show whether the server trusts its clock; confirm that it is right.
    #[command(after_help = help(clock::EXAMPLES))]
    Clock(clock::Arguments),
    /// Check every checksum of a data folder not in use by a server; change nothing.
    #[command(after_help = help(verify::EXAMPLES))]
    Verify(verify::Arguments),
    /// Look at settings.
    #[command(subcommand)]
    Config(Config),
    /// Print a script that completes commands and flags in a shell.
    #[command(after_help = help(completions::EXAMPLES))]
    Completions(completions::Arguments),
}

fn help(examples: &str) -> String {
    format!("{examples}\n\n{EXIT_CODES}")
}

#[derive(Debug, Subcommand)]
enum Config {
    /// Print the current settings, with the source of each that is not the default.
    #[command(after_help = help(config::EXAMPLES))]
    Show {
        /// Print the built-in settings with comments instead: the manual for all keys.
        #[arg(long, conflicts_with = "json")]
        default: bool,
        /// Print JSON: {"listen": {"value": …, "source": …}, …}
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        settings: Settings,
    },
}

/// Flags that set something; they override the environment and the file.
#[derive(Clone, Debug, Default, Args)]
struct Settings {
    /// The settings file [default: ./postrider.toml if it exists]
    #[arg(long, value_name = "FILE", env = FILE_VARIABLE, hide_env_values = true)]
    config: Option<PathBuf>,
    /// The address to listen on; port 0 picks any free port [default: 127.0.0.1:8085]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// The folder for messages [default: ./postrider-data]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// Where messages are kept [default: disk]
    #[arg(long)]
    engine: Option<Engine>,
    /// Listen on an address other machines can reach, without access control
    #[arg(long)]
    insecure: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Engine {
    /// In a folder; survives a power cut.
    Disk,
    /// In memory; gone when the server stops.
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
#[derive(Debug)]
pub(crate) struct Failure {
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

    /// What was named does not exist.
    fn not_found(problem: impl fmt::Display) -> Self {
        Self { code: 3, problem: problem.to_string() }
    }

    /// Whoever reads our output has seen enough: an end, and not a bad one.
    fn unread() -> Self {
        Self { code: 0, problem: String::new() }
    }

    /// Lets a command go on that is for more than its output.
    fn unless_unread(self) -> Result<(), Self> {
        if self.code == 0 { Ok(()) } else { Err(self) }
    }

    /// The exit code in a word.
    fn kind(&self) -> &'static str {
        match self.code {
            0 => "unread",
            2 => "usage",
            3 => "not_found",
            4 => "unreachable",
            _ => "failed",
        }
    }

    /// The server cannot be reached.
    fn unreachable(problem: impl fmt::Display) -> Self {
        Self { code: 4, problem: problem.to_string() }
    }
}

/// Commands that ask no server, or the one of a file of theirs.
const LOCAL: [&str; 6] = ["serve", "receive", "materialize", "verify", "config", "completions"];

/// The whole command line. Those who ask no server do not show the flags that say which, but know
/// them, so that they can say that they mean nothing there.
fn command() -> clap::Command {
    // All at once: one changed by its name would move to the end of the list.
    Cli::command().mut_subcommands(|command| match LOCAL.contains(&command.get_name()) {
        true => hide_at(command),
        false => command,
    })
}

fn hide_at(command: clap::Command) -> clap::Command {
    let ids = ["server", "project", "json"];
    let has = |id: &str| command.get_arguments().any(|argument| argument.get_id() == id);
    let missing: Vec<&'static str> = ids.into_iter().filter(|id| !has(id)).collect();
    missing.into_iter().fold(command, |command, id| {
        let action = if id == "json" { ArgAction::SetTrue } else { ArgAction::Set };
        command.arg(Arg::new(id).long(id).action(action).global(true).hide(true))
    })
}

/// Runs the program with the arguments of this process.
pub fn run() -> ExitCode {
    // Messages, secrets and keys may be in whatever is written: it is for who runs this alone.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let words: Vec<OsString> = std::env::args_os().collect();
    // Those behind `--` are not flags.
    let mut flags = words.iter().take_while(|word| *word != "--");
    if flags.any(|word| word == "--json") {
        output::speak_json();
    }
    match parse(words).and_then(dispatch) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.code == 0 => ExitCode::SUCCESS,
        Err(failure) => {
            output::tell_failure(&failure);
            ExitCode::from(failure.code)
        }
    }
}

fn parse(words: Vec<OsString>) -> Result<Command, Failure> {
    let matches = match command().try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(told) => return Err(output::tell_usage(&told)),
    };
    check_at(&matches)?;
    let cli = Cli::from_arg_matches(&matches);
    cli.map(|cli| cli.command).map_err(|told| output::tell_usage(&told))
}

/// Refuses flags that say which server, where none is asked.
fn check_at(matches: &ArgMatches) -> Result<(), Failure> {
    let Some(name) = matches.subcommand_name().filter(|name| LOCAL.contains(name)) else {
        return Ok(());
    };
    for id in ["server", "project"] {
        if matches.value_source(id) == Some(ValueSource::CommandLine) {
            let problem = format!("--{id}: {name} asks no server, so this means nothing here");
            return Err(Failure::usage(problem));
        }
    }
    Ok(())
}

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(settings) => serve::run(settings),
        Command::Topic(command) => topic::run(&command),
        Command::Subscription(command) => subscription::run(&command),
        Command::Schema(command) => schema::run(&command),
        Command::Transform(command) => transform::run(&command),
        Command::Snapshot(command) => snapshot::run(&command),
        Command::Apply(arguments) => apply::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Publish(arguments) => publish::run(&arguments),
        Command::Pull(arguments) => pull::run(&arguments),
        Command::Tail(arguments) => tail::run(&arguments),
        Command::Attempts(arguments) => attempts::run(&arguments),
        Command::DeadLetter(command) => dead_letter::run(&command),
        Command::Lane(command) => lane::run(&command),
        Command::Seek(arguments) => seek::run(&arguments),
        Command::Live(command) => live::run(&command),
        Command::Alerts(arguments) => alerts::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Lint(arguments) => lint::run(&arguments),
        Command::Receive(arguments) => receive::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Materialize(arguments) => materialize::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Clock(arguments) => clock::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Config(Config::Show { default, json, settings }) => {
            config::show(default, json, settings)
        }
        Command::Completions(arguments) => completions::run(&arguments),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
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
