//! The built server, started on a free port for as long as the value lives.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::place;

/// A running server; killed and its folder removed when dropped.
pub(crate) struct Server {
    child: Child,
    folder: PathBuf,
    address: String,
}

impl Server {
    /// Starts the dev-profile build on a free port with an empty data folder.
    pub(crate) fn start(name: &str) -> Result<Self> {
        let folder = place::e2e().join("run").join(format!("{name}-{}", std::process::id()));
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let log = fs::File::create(folder.join("server.log"))?;
        let mut child = Command::new(place::built("postrider"))
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder.join("data"))
            .current_dir(&folder)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context("cannot start the built server")?;
        let screen = child.stdout.take().context("the server has no output")?;
        let mut server = Self { child, folder, address: String::new() };
        for line in BufReader::new(screen).lines() {
            let line = line?;
            let mut words = line.split_whitespace();
            if words.next() == Some("Listening") {
                server.address = words.next().unwrap_or_default().to_owned();
                return Ok(server);
            }
        }
        bail!("the server ended while starting")
    }

    /// Where it listens, as `host:port`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let ended = self.child.kill().and_then(|()| self.child.wait());
        if let Err(error) = ended.map(drop).and_then(|()| fs::remove_dir_all(&self.folder)) {
            eprintln!("warning: cannot clean up after the server: {error}");
        }
    }
}
