//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Measures Postrider over its public API and prints the figures as Markdown.
///
/// Each figure stands beside its limit, measured in the same run: the lower of a server with the
/// same gRPC that stores nothing ("null") and a bare log on the same disk ("raw"). The servers run
/// as processes of their own on free local ports and are stopped at the end, whatever happens;
/// their data lies in a folder of its own that is removed.
///
/// A full run takes about fifteen minutes. Figures count on an idle machine only.
#[derive(Debug, Parser)]
#[command(name = "postrider-bench", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Run only rows whose name begins like this (publish, publish/100x, stream, drain, pull,
    /// growth, memory, subscriptions, push, push/fifo); may be given more than once
    #[arg(long, value_name = "ROW-PREFIX")]
    pub(crate) only: Vec<String>,

    /// Run everything with next to no load, in seconds: shows that the bench works, not how fast
    /// the server is
    #[arg(long)]
    pub(crate) quick: bool,

    /// The program to measure [default: `postrider` beside this program, built first if need be]
    #[arg(long, value_name = "PATH", conflicts_with = "limits_only")]
    pub(crate) server: Option<PathBuf>,

    /// Measure only the limits, null and raw
    #[arg(long)]
    pub(crate) limits_only: bool,

    /// Write all figures to this file as JSON, too
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// The folder below which data is kept while the bench runs; should be on the disk that is to
    /// be measured, never in memory [default: the folder of this program]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data_dir: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What the bench starts itself as.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serves the same gRPC and stores nothing
    #[command(hide = true)]
    NullServer {
        /// Keep published messages in memory for pulling
        #[arg(long)]
        queue: bool,
    },
}

const EXAMPLES: &str = "\
Examples:
  postrider-bench                          everything
  postrider-bench --only publish/100       the publish rows with 100 messages a call
  postrider-bench --quick                  does the bench still work?
  postrider-bench --server ./old/postrider --json old.json";
