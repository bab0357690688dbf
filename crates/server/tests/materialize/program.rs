//! The built program, as server and as consumer.

use std::io::{BufRead, BufReader, Lines};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};

use rustix::process::Signal;

use crate::built::{self, postrider};

/// A running program.
pub(crate) struct Running(built::Running);

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stderr(Stdio::null());
        Self(built::Running::start(command))
    }

    /// A server with a folder of its own, and its address.
    pub(crate) fn server(folder: &Path) -> (Self, SocketAddr) {
        let mut command = postrider(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
        command.arg(folder.join("data"));
        let mut server = Self::start(command);
        let address = server.0.read_address();
        (server, address)
    }

    /// A consumer with this file.
    pub(crate) fn consumer(config: &Path) -> Self {
        let mut command = postrider(&["materialize", "--config"]);
        command.arg(config);
        Self::start(command)
    }

    /// What it prints, once: whoever takes it must read on, or it stands still.
    pub(crate) fn lines(&mut self) -> Lines<BufReader<ChildStdout>> {
        self.0.stdout.take().unwrap().lines()
    }

    /// Kills it as `kill -9` does.
    pub(crate) fn kill(&self) {
        self.0.signal(Signal::KILL);
    }

    /// Asks it to end; its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.0.signal(Signal::TERM);
        if let Some(stdout) = self.0.stdout.take() {
            stdout.lines().for_each(drop);
        }
        self.0.child.wait().unwrap().code()
    }
}
