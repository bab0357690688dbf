//! `postrider demo`: what Postrider does, in a minute and one terminal.

mod letters;
mod load;
mod receiver;
mod stage;
mod story;

use std::time::Duration;

use clap::Args;

use super::Failure;
use super::client::At;
use super::values::duration;
use stage::Stage;

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider demo                                     on a temporary server
  postrider demo --fast
  postrider demo --server http://127.0.0.1:8085 --project demo --keep --load 60s

It publishes and pulls, pushes in order to a failing endpoint, gives up on a message, and replays
the dead letter. With --server, that server must be able to reach this machine.";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Do not pause for reading
    #[arg(long)]
    fast: bool,
    /// Keep the topics and subscriptions at the end
    #[arg(long)]
    keep: bool,
    /// Then publish at a steady rate for this long, with some failures
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    load: Duration,
    #[command(flatten)]
    at: At,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let stage = Stage::set(&arguments.at, arguments.fast)?;
    let played = play(&stage, arguments);
    let cleared = if arguments.keep { Ok(()) } else { stage.clear() };
    stage.close();
    played.and(cleared)
}

fn play(stage: &Stage, arguments: &Arguments) -> Result<(), Failure> {
    stage.open()?;
    story::publish_and_pull(stage)?;
    story::push_in_order(stage)?;
    story::push_fifo(stage)?;
    letters::give_up_and_replay(stage)?;
    if !arguments.load.is_zero() {
        load::run(stage, arguments.load)?;
    }
    stage.end()
}
