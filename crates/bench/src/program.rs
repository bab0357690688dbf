//! Finds the program to measure.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::args::Args;
use crate::report::progress;

/// The server's program; none if only the limits are measured.
pub(crate) fn find(args: &Args) -> Result<Option<PathBuf>> {
    if args.limits_only {
        return Ok(None);
    }
    if let Some(path) = &args.server {
        ensure!(path.is_file(), "{}: no such file", path.display());
        return Ok(Some(path.clone()));
    }
    let own = std::env::current_exe()?;
    let folder = own.parent().context("this program lies in no folder")?;
    let beside = folder.join("postrider");
    // Cargo sets this for what it runs: then the server can be brought up to date, and should be,
    // because an old one would be measured without anyone noticing.
    let cargo = std::env::var_os("CARGO");
    if cargo.is_some() || !beside.is_file() {
        build(&cargo.map_or_else(|| PathBuf::from("cargo"), PathBuf::from), folder)?;
    }
    ensure!(beside.is_file(), "{}: no such file; give --server", beside.display());
    Ok(Some(beside))
}

/// Builds the server into the folder that this program lies in, `<target>/<profile>`.
fn build(cargo: &Path, folder: &Path) -> Result<()> {
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => "release",
    };
    progress("building the server");
    let mut command = Command::new(cargo);
    command.args([
        "build",
        "--quiet",
        "-p",
        "postrider",
        "--bin",
        "postrider",
        "--profile",
        profile,
    ]);
    command.arg("--target-dir").arg(folder.parent().unwrap_or(folder));
    command.arg("--manifest-path").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"));
    let status = command.status().context("run cargo to build the server, or give --server")?;
    ensure!(status.success(), "the server does not build");
    Ok(())
}
