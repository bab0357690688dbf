//! A server under load: started as a process, measured through `/proc`, always stopped.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::clock;

/// A server that does not listen after so long has failed.
const START_TIME_MAX: Duration = Duration::from_secs(30);

/// A process that used no processor time for so long is idle.
const IDLE: Duration = Duration::from_millis(50);

/// A running server, killed when dropped.
pub(crate) struct Process {
    child: Child,
    address: SocketAddr,
}

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    /// Resident now, and at most so far.
    pub(crate) resident: u64,
    pub(crate) peak: u64,
}

impl Process {
    /// Starts a program and waits until it prints `Listening <address>`. What it logs goes to a
    /// file, which is quoted if the start fails.
    pub(crate) async fn start(mut command: Command, log: PathBuf) -> Result<Self> {
        let program = PathBuf::from(command.get_program());
        let stderr = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().with_context(|| format!("start {}", program.display()))?;
        let stdout = child.stdout.take();
        // From here on an error drops the process, which kills it.
        let mut process = Self { child, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let listening = first_address(stdout.context("no standard output")?)?;
        match timeout(START_TIME_MAX, listening).await {
            Ok(Ok(address)) => process.address = address,
            _ => bail!(
                "{} did not listen; it says: {}",
                program.display(),
                std::fs::read_to_string(log).unwrap_or_default().trim_end()
            ),
        }
        Ok(process)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Processor time used so far, in user and kernel.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        cpu_of_stat(&self.proc_file("stat")?, rustix::param::clock_ticks_per_second())
    }

    /// Memory used.
    pub(crate) fn memory(&self) -> Result<Memory> {
        let status = self.proc_file("status")?;
        let resident = status_bytes(&status, "VmRSS:")?;
        Ok(Memory { resident, peak: status_bytes(&status, "VmHWM:")? })
    }

    /// Waits, but not for ever, until the process is idle, so that what it still has to do neither
    /// is forgotten nor slows down whoever is measured next.
    pub(crate) async fn settle(&self, time_max: Duration) -> Result<()> {
        let start = clock::now();
        let mut before = None;
        while start.elapsed() < time_max {
            let now = Some(self.cpu()?);
            if now == before {
                return Ok(());
            }
            before = now;
            sleep(IDLE).await;
        }
        Ok(())
    }

    fn proc_file(&self, name: &str) -> Result<String> {
        let path = format!("/proc/{}/{name}", self.child.id());
        std::fs::read_to_string(&path).with_context(|| format!("{path}: has the server ended?"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if the process has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Reads standard output on a thread, to the end so that the program never blocks on it.
fn first_address(stdout: std::process::ChildStdout) -> Result<oneshot::Receiver<SocketAddr>> {
    let (sender, receiver) = oneshot::channel();
    let read = move || {
        let mut sender = Some(sender);
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some(address) = listening_address(&line)
                && let Some(sender) = sender.take()
                && sender.send(address).is_err()
            {
                // Nobody waits any more: the program is about to be killed.
                return;
            }
        }
    };
    drop(std::thread::Builder::new().name("stdout".to_owned()).spawn(read)?);
    Ok(receiver)
}

fn listening_address(line: &str) -> Option<SocketAddr> {
    let mut words = line.split_whitespace();
    (words.next()? == "Listening").then(|| words.next()?.parse().ok())?
}

fn cpu_of_stat(stat: &str, ticks_per_second: u64) -> Result<Duration> {
    // The second field is the program's name in brackets and may hold anything.
    let (_, fields) = stat.rsplit_once(") ").context("/proc/…/stat")?;
    // Fields 14 and 15, counted from 1, are user and kernel time; the rest begins with field 3.
    let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<u64>);
    let ticks = ticks.sum::<Result<u64, _>>().context("/proc/…/stat")?;
    Ok(Duration::from_millis(ticks * 1000 / ticks_per_second.max(1)))
}

fn status_bytes(status: &str, field: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB"));
    let kib: u64 = kib.ok_or_else(|| anyhow!("/proc/…/status has no {field}"))?.trim().parse()?;
    Ok(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_user_and_kernel_time_whatever_the_program_is_called() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 9 9 20 0 1 0 5 0 0";
        assert_eq!(cpu_of_stat(stat, 100).unwrap(), Duration::from_secs(3));
    }

    #[test]
    fn memory_is_read_in_bytes() {
        let status = "VmPeak:\t 9 kB\nVmHWM:\t  2048 kB\nVmRSS:\t   1024 kB\n";
        assert_eq!(status_bytes(status, "VmRSS:").unwrap(), 1 << 20);
        assert_eq!(status_bytes(status, "VmHWM:").unwrap(), 2 << 20);
        assert!(status_bytes(status, "VmSwap:").is_err());
    }

    #[test]
    fn the_address_is_taken_from_its_line_only() {
        let address = listening_address("Listening   127.0.0.1:8085").unwrap();
        assert_eq!(address.port(), 8085);
        assert!(listening_address("Data        /somewhere (disk, fsync)").is_none());
        assert!(listening_address("Listening").is_none());
    }
}
