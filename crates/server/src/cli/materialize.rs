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

Each message is one line of JSON on standard output, and what goes wrong before there is a message
is said on standard error. It runs until SIGTERM or Ctrl-C; what is being handled may then finish,
and the rest is given back. A message takes effect once, however often it comes; an older event
never overwrites a newer one; what can never be written goes to the dead letter topic.

The subscription must exist, and its topic, or be made with --create. Firestore needs an emulator
(FIRESTORE_EMULATOR_HOST), a service account's key file (GOOGLE_APPLICATION_CREDENTIALS), or a
machine of Google's; without any of them it ends at once and says so.

The file is explained in docs/materialize.md, and examples/materialize/routes.toml is one. It is
the server of the file that is asked, not --server or POSTRIDER_SERVER.";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The file that says where messages come from and which is written where
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Say for each message what would be written, and write, ack and nack nothing
    #[arg(long)]
    dry_run: bool,
    /// Make source.topic and source.subscription where they do not exist yet, as postrider
    /// subscription create --standard does
    #[arg(long, conflicts_with = "dry_run")]
    create: bool,
    /// With --dry-run: look at the messages of this file, one JSON object a line, in place of the
    /// subscription's backlog
    #[arg(long, value_name = "FILE", requires = "dry_run")]
    messages: Option<PathBuf>,
    /// With --dry-run: messages, at most
    #[arg(long, value_name = "NUMBER", default_value_t = 100, requires = "dry_run",
          value_parser = clap::value_parser!(u32).range(1..))]
    max: u32,
    /// With --dry-run: print one JSON object for each message
    #[arg(long, requires = "dry_run")]
    json: bool,
    /// Which messages have a line [default: all; errors where standard output is a terminal]
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
