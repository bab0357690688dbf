//! Log lines on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use crate::config::{Format, Level, Log};
use crate::terminal::Harmless;

/// Sets up logging for this process. A second call changes nothing.
pub(crate) fn start(log: &Log) {
    let is_terminal = io::stderr().is_terminal();
    let human = match log.format {
        Format::Auto => is_terminal,
        Format::Human => true,
        Format::Json => false,
    };
    let level = match log.level {
        Level::Error => "error",
        Level::Warn => "warn",
        Level::Info => "info",
        Level::Debug => "debug",
        Level::Trace => "trace",
    };
    // The transport's own lines are about single frames; they are wanted only in a deep search.
    let filter = match log.level {
        Level::Trace => level.to_owned(),
        _ => format!("{level},h2=warn,hyper=warn,hyper_util=warn,tower=warn"),
    };
    // Lines for people are made harmless by who formats them, since they have colours of ours.
    let writer = match is_terminal && !human {
        true => BoxMakeWriter::new(|| Harmless(io::stderr())),
        false => BoxMakeWriter::new(io::stderr),
    };
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(writer)
        .with_ansi(human && is_terminal);
    let started = if human {
        lines.compact().try_init()
    } else {
        lines.json().flatten_event(true).try_init()
    };
    // Only fails where logging is set up already, as in tests that start several servers.
    drop(started);
}
