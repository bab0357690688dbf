//! `postrider-bench`: how fast Postrider is, beside the fastest it could be.
//!
//! It speaks only the public API, so that any server of it can be measured.

mod args;
mod clock;
mod grpc;
mod lean;
mod load;
mod machine;
mod null;
mod plan;
mod process;
mod program;
mod raw_log;
mod receiver;
mod report;
mod rest;
mod rows;
mod target;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

use args::{Args, Command};
use plan::Plan;
use report::progress;
use rows::Selection;
use target::Workshop;

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match args.command {
        Some(Command::NullServer { queue }) => null::serve(queue),
        None => bench(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            progress(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs everything on this one thread: the servers need the other cores more.
fn bench(args: &Args) -> Result<()> {
    open_files()?;
    let plan = if args.quick { Plan::quick() } else { Plan::full() };
    let server = program::find(args)?;
    let data_dir = match &args.data_dir {
        Some(folder) => folder.clone(),
        None => own_folder()?,
    };
    let workshop = Workshop::new(plan, server, &data_dir)?;
    let selection = Selection::new(args.only.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Leaving this block drops all that runs in it, which stops every server.
    let mut report = runtime.block_on(async {
        tokio::select! {
            report = rows::run(&workshop, &selection) => report,
            stopped = stopped() => { stopped?; bail!("stopped") }
        }
    })?;
    report.judge();
    if let Some(path) = &args.json {
        let json = serde_json::to_vec_pretty(&report)?;
        std::fs::write(path, json).with_context(|| path.display().to_string())?;
    }
    Ok(std::io::stdout().write_all(report.markdown().as_bytes())?)
}

/// Allows this process, and the servers that it starts, as many open files as may be: there are
/// rows with very many connections.
fn open_files() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).context("open files")
}

async fn stopped() -> Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = terminated.recv() => Ok(()),
        interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
    }
}

fn own_folder() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    Ok(program.parent().context("this program lies in no folder")?.to_owned())
}
