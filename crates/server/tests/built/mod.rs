//! The built program, run by the tests of both test programs.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// The program with these arguments, and nothing from the environment that would change it.
pub(crate) fn postrider(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    command.args(arguments);
    unchanged(&mut command);
    command
}

/// Takes from a command what would make the program another one.
pub(crate) fn unchanged(command: &mut Command) {
    for variable in ["POSTRIDER_CONFIG", "PUBSUB_EMULATOR_HOST", "FIRESTORE_EMULATOR_HOST"] {
        command.env_remove(variable);
    }
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    postrider(arguments).output().unwrap()
}

/// What a program wrote.
pub(crate) fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

/// A running program; killed if a test forgets to end it.
pub(crate) struct Running {
    pub(crate) child: Child,
    /// What it prints and nobody has read; `None` once somebody has taken it.
    pub(crate) stdout: Option<BufReader<ChildStdout>>,
    /// What was read of it while waiting for its address.
    pub(crate) screen: String,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().map(BufReader::new);
        Self { child, stdout, screen: String::new() }
    }

    /// Reads on until it says where it listens.
    pub(crate) fn read_address(&mut self) -> SocketAddr {
        let stdout = self.stdout.as_mut().unwrap();
        loop {
            let from = self.screen.len();
            let read = stdout.read_line(&mut self.screen).unwrap();
            assert_ne!(read, 0, "it ended: {}", self.screen);
            if let Some(rest) = self.screen[from..].strip_prefix("Listening") {
                return rest.trim().parse().unwrap();
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
