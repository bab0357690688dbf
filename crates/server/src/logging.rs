//! Log lines on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::config::{Format, Level, Log};

/// Sets up logging for this process. A second call changes nothing.
pub(crate) fn start(log: &Log) {
    let human = match log.format {
        Format::Auto => io::stderr().is_terminal(),
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
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(io::stderr)
        .with_ansi(human && io::stderr().is_terminal());
    let started = if human {
        lines.compact().try_init()
    } else {
        lines.json().flatten_event(true).try_init()
    };
    // Only fails where logging is set up already, as in tests that start several servers.
    drop(started);
}
