//! `postrider serve`.

use std::path::Path;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Failure, Settings, print};
use crate::config::{self, Config, Loaded};
use crate::descriptors;
use crate::logging;
use crate::server::{Server, Started};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider serve                                    on 127.0.0.1:8085, data in ./postrider-data
  postrider serve --data-dir /var/lib/postrider      data elsewhere
  postrider serve --config /etc/postrider.toml       settings from a file
  postrider serve --listen 0.0.0.0:8085 --insecure   for other machines, without access control
  postrider serve --engine memory                    keeps nothing after it stops

All settings: postrider config show --default";

pub(super) fn run(settings: Settings) -> Result<(), Failure> {
    let loaded = config::load(settings.into_sources()).map_err(Failure::usage)?;
    logging::start(&loaded.config.log);
    for warning in &loaded.merged.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("postrider")
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start threads: {error}")))?;
    descriptors::raise_limit();
    let ended = runtime.block_on(serve(&loaded));
    // What still runs has been told to end and holds nothing that must be kept.
    runtime.shutdown_background();
    ended
}

async fn serve(loaded: &Loaded) -> Result<(), Failure> {
    let config = &loaded.config;
    let mut signals = Signals::new()?;
    let server = tokio::select! {
        started = Server::start(config) => started.map_err(Failure::failed)?,
        // Nothing has been promised to anyone yet, and recovery can be begun again.
        () = signals.next() => return Ok(()),
    };
    // Whoever started it may not care for its screen.
    print(&screen(loaded, &server)).or_else(Failure::unless_unread)?;
    tracing::info!(address = %server.address(), "serving");
    let failure = tokio::select! {
        () = signals.next() => None,
        error = server.failure() => Some(error),
    };
    match failure {
        None => {
            tracing::info!("stopping");
            let stopped = server.stop(signals.next()).await;
            stopped.map_err(|error| Failure::failed(format!("stopped, but {error}")))?;
            tracing::info!("stopped");
            Ok(())
        }
        Some(error) => Err(after_failure(config, server, signals, error).await),
    }
}

/// The log has failed: clients are told for the grace time, then the process must end, because
/// only a new one may trust the disk again.
async fn after_failure(
    config: &Config,
    server: Server,
    mut signals: Signals,
    error: storage::Error,
) -> Failure {
    tracing::error!(%error, "the log failed; exiting after the grace period");
    tokio::select! {
        () = tokio::time::sleep(config.shutdown_grace) => {}
        () = signals.next() => {}
    }
    if let Err(error) = server.stop(signals.next()).await {
        tracing::error!(%error, "not closed cleanly; the log will be replayed");
    }
    Failure::failed(format!("the log failed: {error}"))
}

/// The signals that ask for an end.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::failed(format!("cannot handle signals: {error}")))
        };
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The first screen: where it listens, where the data is, what to set, how to stop.
fn screen(loaded: &Loaded, server: &Server) -> String {
    let address = server.address();
    let mut text = format!("Postrider {}\n", env!("CARGO_PKG_VERSION"));
    line(&mut text, "Listening", &address.to_string());
    line(&mut text, "Data", &data(&loaded.config));
    if let Some(file) = &loaded.merged.file {
        line(&mut text, "Settings", &whole(file));
    }
    if let Some(recovered) = recovered(&server.started()) {
        line(&mut text, "Recovered", &recovered);
    }
    line(&mut text, "To use it", &format!("export PUBSUB_EMULATOR_HOST={}", reachable(address)));
    line(&mut text, "To stop it", "Ctrl-C, or SIGTERM");
    text
}

fn line(text: &mut String, what: &str, value: &str) {
    text.push_str(&format!("{what:<12}{value}\n"));
}

fn data(config: &Config) -> String {
    match config.engine {
        config::Engine::Memory => "in memory only, gone when the server stops (memory)".to_owned(),
        config::Engine::Disk => {
            let durability = config.storage.durability.as_str();
            format!("{} ({}, {durability})", whole(&config.data_dir), config.engine.as_str())
        }
    }
}

/// The absolute path, which is the same for every reader.
fn whole(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

fn recovered(started: &Started) -> Option<String> {
    let recovery = started.recovery?;
    let is_whole = recovery.torn_bytes_cut == 0 && recovery.unsynced_bytes_cut == 0;
    if recovery.groups == 0 && is_whole {
        return None;
    }
    let mut text = format!(
        "{} records in {} commits, {} bytes of log, in {} ms",
        recovery.records,
        recovery.groups,
        recovery.bytes,
        started.opening.as_millis()
    );
    if recovery.torn_bytes_cut > 0 {
        let cut = format!("; cut {} bytes of an unfinished commit", recovery.torn_bytes_cut);
        text.push_str(&cut);
    }
    if recovery.unsynced_bytes_cut > 0 {
        let (commits, bytes) = (recovery.unsynced_groups_cut, recovery.unsynced_bytes_cut);
        let cut = format!("; cut {commits} commits, {bytes} bytes, which were never synced");
        text.push_str(&cut);
    }
    Some(text)
}

/// An address a client on this machine can use: "any address" is not one.
fn reachable(mut address: std::net::SocketAddr) -> std::net::SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            std::net::IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            std::net::IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}
