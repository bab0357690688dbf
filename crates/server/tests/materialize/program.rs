//! The built program, as server and as consumer.

use std::io::{BufRead, BufReader, Lines};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// The program with these arguments, and nothing from the environment that would change it.
pub(crate) fn postrider(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    command.args(arguments);
    for variable in ["POSTRIDER_CONFIG", "PUBSUB_EMULATOR_HOST", "FIRESTORE_EMULATOR_HOST"] {
        command.env_remove(variable);
    }
    command
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    postrider(arguments).output().unwrap()
}

/// A running program; killed if a test forgets to end it.
pub(crate) struct Running {
    child: Child,
    lines: Option<Lines<BufReader<ChildStdout>>>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines: Some(lines) }
    }

    /// A server with a folder of its own, and its address.
    pub(crate) fn server(folder: &Path) -> (Self, SocketAddr) {
        let mut command = postrider(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
        command.arg(folder.join("data"));
        let mut server = Self::start(command);
        let lines = server.lines.as_mut().unwrap();
        let address = lines.map(Result::unwrap).find_map(|line| {
            line.strip_prefix("Listening").map(|rest| rest.trim().parse().unwrap())
        });
        (server, address.expect("the server ended before it listened"))
    }

    /// A consumer with this file.
    pub(crate) fn consumer(config: &Path) -> Self {
        let mut command = postrider(&["materialize", "--config"]);
        command.arg(config);
        Self::start(command)
    }

    /// What it prints, once: whoever takes it must read on, or it stands still.
    pub(crate) fn lines(&mut self) -> Lines<BufReader<ChildStdout>> {
        self.lines.take().unwrap()
    }

    /// Kills it as `kill -9` does.
    pub(crate) fn kill(&self) {
        kill_process(Pid::from_child(&self.child), Signal::KILL).unwrap();
    }

    /// Asks it to end; its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        if let Some(lines) = self.lines.take() {
            lines.for_each(drop);
        }
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
