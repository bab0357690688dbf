//! `postrider materialize`: writes a subscription's messages into Firestore, each one once.

mod config;
mod create;
mod dry_run;
mod lines;
mod running;

use std::path::PathBuf;

use clap::Args;

use super::Failure;

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider materialize --config routes.toml
  postrider materialize --config routes.toml --dry-run              what it would write
  postrider materialize --config routes.toml --dry-run --messages messages.jsonl --json
  FIRESTORE_EMULATOR_HOST=127.0.0.1:8080 postrider materialize --config routes.toml
  postrider materialize --config routes.toml --create               makes what it reads from, too

Each message is one line of JSON on standard output; other errors go to standard error. It runs
until SIGTERM or Ctrl-C; messages being handled may then finish, and the rest are nacked. A message
takes effect once, however often it is delivered; an older event never overwrites a newer one;
messages that can never be written go to the dead letter topic.

The subscription and its topic must exist, or be created with --create. Firestore needs an emulator
(FIRESTORE_EMULATOR_HOST), a service account's key file (GOOGLE_APPLICATION_CREDENTIALS), or a
Google Cloud machine; without any of them it exits right away and says so.

See docs/materialize.md for the file, and examples/materialize/routes.toml for an example. The
server comes from the file, not from --server or POSTRIDER_SERVER.";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The file that says where messages come from and where each is written
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Show what each message would write, but write, ack and nack nothing
    #[arg(long)]
    dry_run: bool,
    /// Create source.topic and source.subscription if they do not exist, as postrider subscription
    /// create --standard does
    #[arg(long, conflicts_with = "dry_run")]
    create: bool,
    /// With --dry-run: read messages from this file, one JSON object per line, instead of the
    /// subscription's backlog
    #[arg(long, value_name = "FILE", requires = "dry_run")]
    messages: Option<PathBuf>,
    /// With --dry-run: read at most this many messages
    #[arg(long, value_name = "NUMBER", default_value_t = 100, requires = "dry_run",
          value_parser = clap::value_parser!(u32).range(1..))]
    max: u32,
    /// With --dry-run: print one JSON object per message
    #[arg(long, requires = "dry_run")]
    json: bool,
    /// Which messages get a line [default: all; only errors if standard output is a terminal]
    #[arg(long, value_name = "WHICH", conflicts_with = "dry_run")]
    lines: Option<lines::Which>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let config = config::load(&arguments.config)?;
    if arguments.dry_run {
        return dry_run::run(arguments, config);
    }
    if arguments.create {
        create::run(&config.source)?;
    }
    running::run(config, arguments.lines)
}
