//! Installs what the end-to-end tests need: the official clients, and what runs them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::place;
use crate::process::{command, exists, read, run};

/// The oldest Node.js that the pinned client library supports.
const NODE_MAJOR_MIN: u32 = 18;

/// The Python interpreter that sees the pinned packages.
pub(crate) fn python() -> PathBuf {
    place::e2e().join("venv/bin/python")
}

/// The folder that `NODE_PATH` must name for the pinned packages.
pub(crate) fn node_modules() -> PathBuf {
    place::e2e().join("node/node_modules")
}

/// Makes everything ready; does nothing where it already is.
pub(crate) fn run_all() -> Result<()> {
    fs::create_dir_all(place::e2e())?;
    if !exists("python3", &["--version"]) {
        install(&["python3"], "the end-to-end tests with the official Python client")?;
    }
    if !exists("curl", &["--version"]) {
        install(&["curl"], "the examples of docs/api.md")?;
    }
    if !exists("promtool", &["--version"]) || !exists("prometheus", &["--version"]) {
        install(&["prometheus"], "the tests of the rule file and of the dashboard")?;
    }
    if !has_postgresql() {
        install(&["postgresql"], "the tests of the consumer's PostgreSQL store")?;
    }
    if !exists("faketime", &["--version"]) {
        install(&["faketime"], "the tests with a clock that is set")?;
    }
    python_packages()?;
    node_packages()
}

/// Debian keeps the server out of the search path.
fn has_postgresql() -> bool {
    let is_apart = fs::read_dir("/usr/lib/postgresql").is_ok_and(|mut any| any.next().is_some());
    is_apart || exists("postgres", &["--version"])
}

fn python_packages() -> Result<()> {
    let wanted = fs::read_to_string(place::root().join("tests/e2e/python/requirements.txt"))?;
    let folder = place::e2e().join("venv");
    let stamp = folder.join("installed.txt");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    make_venv(&folder)?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
    let requirements = "tests/e2e/python/requirements.txt";
    run(command(python(), &pip).arg(requirements))
        .context("cannot install the official Python client (is a package index reachable?)")?;
    fs::write(&stamp, wanted)?;
    Ok(())
}

fn make_venv(folder: &PathBuf) -> Result<()> {
    let make = || read(command("python3", &["-m", "venv", "--clear"]).arg(folder));
    if make().is_err() {
        // Debian ships `python3 -m venv` apart from Python itself.
        install(&["python3-venv"], "a virtual environment for the official Python client")?;
        make()?;
    }
    Ok(())
}

fn node_packages() -> Result<()> {
    if !exists("node", &["--version"]) || !exists("npm", &["--version"]) {
        install(&["nodejs", "npm"], "the end-to-end tests with the official Node.js client")?;
    }
    let version = read(&mut command("node", &["--version"]))?;
    let major = version.trim().trim_start_matches('v').split('.').next().unwrap_or_default();
    if major.parse::<u32>().is_ok_and(|major| major < NODE_MAJOR_MIN) {
        bail!("Node.js {} is too old: {NODE_MAJOR_MIN} or newer is needed", version.trim());
    }
    let from = place::root().join("tests/e2e/node");
    let folder = place::e2e().join("node");
    let wanted = fs::read_to_string(from.join("package-lock.json"))?;
    let stamp = folder.join("installed.json");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    fs::create_dir_all(&folder)?;
    for file in ["package.json", "package-lock.json"] {
        fs::copy(from.join(file), folder.join(file))?;
    }
    let mut npm =
        command("npm", &["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]);
    run(npm.current_dir(&folder))
        .context("cannot install the official Node.js client (is a package index reachable?)")?;
    fs::write(&stamp, wanted)?;
    Ok(())
}

/// Installs Debian packages where we may; otherwise says which are missing and how to get them.
fn install(packages: &[&str], purpose: &str) -> Result<()> {
    let list = packages.join(" ");
    let Some(prefix) = privilege() else {
        bail!(
            "missing: {list} (for {purpose}); this user may not install packages. \
             Install it with: sudo apt-get install {list}"
        );
    };
    println!("installing {list} (for {purpose})");
    let apt = |words: &[&str]| {
        let mut line: Vec<&str> = prefix.to_vec();
        line.extend(["apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]);
        line.extend(words);
        let (program, rest) = line.split_first().context("an empty command")?;
        let mut command = Command::new(program);
        // A run level of one: no service that a package brings along is started.
        command.args(rest).env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
        run(&mut command)
    };
    apt(&["update"])?;
    apt(&[&["install", "-y", "--no-install-recommends"], packages].concat())
        .with_context(|| format!("cannot install {list}: install it by hand and run this again"))
}

/// The words before `apt-get` that let us install; none where we may not.
fn privilege() -> Option<&'static [&'static str]> {
    if !exists("apt-get", &["--version"]) {
        return None;
    }
    let user = read(Command::new("id").arg("-u")).unwrap_or_default();
    if user.trim() == "0" {
        return Some(&[]);
    }
    exists("sudo", &["-n", "true"]).then_some(&["sudo", "-n"])
}
