//! The program's settings: read from their sources, typed, checked once.

mod alerts;
mod export;
pub(crate) mod fuzzing;
mod live;
mod push;
pub(crate) mod resources;
mod server;
mod sources;
mod transforms;
mod units;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

pub use alerts::Alerts;
pub use export::Export;
pub use live::{Live, Quota};
pub use push::{PrivateNetworks, Push};
pub use resources::DeclaredSchema;
pub use server::Server;
pub use sources::{DEFAULTS, FILE_VARIABLE, Merged, Sources};
pub use transforms::{HELPER, Transforms};
pub(crate) use units::parse_duration;

use crate::net::Pace;

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The built-in file is broken, which a test excludes.
    #[error("built-in settings: {0}")]
    BuiltIn(String),
    /// The file cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{}: {problem}", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// Where and why.
        problem: String,
    },
    /// The file names a key that does not exist.
    #[error("{}: unknown key {key}{hint}", file.display())]
    UnknownKey {
        /// The file.
        file: PathBuf,
        /// The key, with dots.
        key: String,
        /// The nearest known key, in words; may be empty.
        hint: String,
    },
    /// A value cannot be used.
    #[error("{key} (from {origin}): {problem}")]
    Value {
        /// The key, with dots.
        key: String,
        /// The file, variable or flag it comes from.
        origin: String,
        /// What is wrong.
        problem: String,
    },
}

/// The settings in force.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where gRPC and REST are served.
    #[serde(deserialize_with = "address")]
    pub listen: SocketAddr,
    /// Whether an address that others can reach is fine.
    pub insecure: bool,
    /// The folder of the disk engine.
    pub data_dir: PathBuf,
    /// Where messages are kept.
    pub engine: Engine,
    /// How long calls under way may take to end when the server stops.
    #[serde(deserialize_with = "units::duration")]
    pub shutdown_grace: Duration,
    /// How it is reached.
    pub server: Server,
    /// What calls may ask for.
    pub api: ApiSettings,
    /// How messages are kept.
    pub storage: Storage,
    /// What becomes of messages whose attempts are exhausted.
    pub dead_letter: DeadLetter,
    /// How messages are pushed.
    pub push: Push,
    /// How message transforms are run.
    pub transforms: Transforms,
    /// Where messages are exported to; boxed, since the settings travel through many futures.
    pub export: Box<Export>,
    /// How alerts are watched for.
    pub alerts: Alerts,
    /// How live subscriptions are kept.
    pub live: Live,
    /// What clients may take up.
    pub limits: Limits,
    /// What is logged.
    pub log: Log,
    /// What is measured.
    pub metrics: Metrics,
    /// Schemas to make at the start.
    #[serde(default, deserialize_with = "resources::schemas")]
    pub schemas: Vec<DeclaredSchema>,
    /// Topics to make at the start.
    #[serde(default, deserialize_with = "resources::topics")]
    pub topics: Vec<domain::Topic>,
    /// Subscriptions to make at the start.
    #[serde(default, deserialize_with = "resources::subscriptions")]
    pub subscriptions: Vec<domain::Subscription>,
}

/// Where messages are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// In a folder.
    Disk,
    /// In memory, for tests and throw-away servers.
    Memory,
}

impl Engine {
    /// Whether it keeps what it has in `data_dir`.
    pub fn has_folder(self) -> bool {
        match self {
            Self::Disk => true,
            Self::Memory => false,
        }
    }

    /// The engine's name in settings and on the first screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Memory => "memory",
        }
    }
}

/// What calls may ask for.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiSettings {
    /// What becomes of definitions of what this server does not run.
    pub unsupported: Unsupported,
}

/// What becomes of definitions of what this server does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unsupported {
    /// They are kept and shown, with a warning.
    Keep,
    /// They are refused.
    Refuse,
}

/// When a commit counts as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Once it is on stable storage.
    Fsync,
    /// Once the operating system has it.
    Os,
}

impl Durability {
    /// The name in settings and on the first screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fsync => "fsync",
            Self::Os => "os",
        }
    }
}

/// How messages are kept. Sizes in bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    /// When a publish is answered.
    pub durability: Durability,
    /// How often progress is checkpointed.
    #[serde(deserialize_with = "units::duration")]
    pub progress_flush: Duration,
    /// The write-ahead log, at most.
    #[serde(deserialize_with = "units::bytes")]
    pub wal_max: u64,
    /// One file of the write-ahead log.
    #[serde(deserialize_with = "units::bytes")]
    pub wal_segment: u64,
    /// One file of a topic.
    #[serde(deserialize_with = "units::bytes")]
    pub topic_segment: u64,
    /// Recent messages kept in memory.
    #[serde(deserialize_with = "units::bytes")]
    pub tail_memory: u64,
    /// Publishes waiting for the disk.
    #[serde(deserialize_with = "units::bytes")]
    pub queue_max: u64,
    /// One commit group.
    #[serde(deserialize_with = "units::bytes")]
    pub group_max: u64,
    /// Disk space set aside.
    #[serde(deserialize_with = "units::bytes")]
    pub reserve: u64,
    /// Messages of the memory engine.
    #[serde(deserialize_with = "units::bytes")]
    pub memory_max: u64,
    /// Where backups are made.
    pub backup_dir: PathBuf,
}

/// What becomes of messages whose attempts are exhausted.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadLetter {
    /// How long a dead letter topic keeps its messages, whoever has acked them.
    #[serde(deserialize_with = "units::duration")]
    pub retention: Duration,
}

/// What clients may take up.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Connections, all together.
    pub connections_max: usize,
    /// Connections from one address that is not loopback.
    pub connections_per_address_max: usize,
    /// Calls and streams on one HTTP/2 connection.
    pub streams_per_connection_max: u32,
    /// Until a new connection must have shown that it speaks HTTP.
    #[serde(deserialize_with = "units::duration")]
    pub first_byte_timeout: Duration,
    /// Until HTTP/1 headers must be complete.
    #[serde(deserialize_with = "units::duration")]
    pub header_timeout: Duration,
    /// Calls and streams, all together.
    pub calls_max: usize,
    /// Bodies of requests and what is built of them, all together.
    #[serde(deserialize_with = "units::bytes")]
    pub body_memory: u64,
    /// The same for one connection.
    #[serde(deserialize_with = "units::bytes")]
    pub body_memory_per_connection: u64,
    /// Answers that wait for their clients to read them, all together.
    #[serde(deserialize_with = "units::bytes")]
    pub answer_memory: u64,
    /// Messages that are leased or known to wait, all together.
    pub outstanding_max: usize,
    /// Bytes that HTTP/2 clients may send before anyone reads them, beyond 64 KiB each.
    #[serde(deserialize_with = "units::bytes")]
    pub receive_memory: u64,
    /// Until a body must have come, whole.
    #[serde(deserialize_with = "units::duration")]
    pub body_deadline: Duration,
    /// The longest pause within a body.
    #[serde(deserialize_with = "units::duration")]
    pub body_timeout: Duration,
    /// Silence after which an HTTP/2 client is asked for a sign of life.
    #[serde(deserialize_with = "units::duration")]
    pub keepalive_interval: Duration,
    /// How long that sign may take.
    #[serde(deserialize_with = "units::duration")]
    pub keepalive_timeout: Duration,
    /// How long a Pull waits for a message.
    #[serde(deserialize_with = "units::duration")]
    pub pull_wait: Duration,
}

/// What is logged.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// From which severity on.
    pub level: Level,
    /// In which form.
    pub format: Format,
    /// The name of this server in lines about deliveries.
    pub service: String,
    /// Where it runs, in lines about deliveries.
    pub env: String,
    /// Lines about failed deliveries of one subscription in a second, at most.
    pub failures_per_second: u32,
}

/// What is measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// Subscriptions, and topics, with their own series, at most.
    pub subscriptions_max: usize,
}

/// Severity of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Someone must act.
    Error,
    /// Unexpected but handled.
    Warn,
    /// What happens now and then.
    Info,
    /// What happens often.
    Debug,
    /// Everything.
    Trace,
}

/// Form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Human on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Human,
    /// For programs.
    Json,
}

/// Settings and what was noticed while reading them.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings in force.
    pub config: Config,
    /// Where each comes from.
    pub merged: Merged,
}

/// Reads, types and checks the settings.
pub fn load(sources: Sources) -> Result<Loaded, Error> {
    let mut merged = Merged::built_in()?;
    merged.take_named_file(sources.file)?;
    // The file must be valid on its own, even where a variable or flag overrides it today.
    merged.typed()?;
    merged.take_environment(&sources.environment)?;
    merged.take_flags(sources.flags);
    let config = merged.typed()?;
    config.check().map_err(|(key, problem)| merged.error_at(key, &problem))?;
    Ok(Loaded { config, merged })
}

impl Merged {
    fn typed(&self) -> Result<Config, Error> {
        serde_path_to_error::deserialize(self.table.clone()).map_err(|error| {
            let key = error.path().to_string();
            self.error_at(&key, error.into_inner().message())
        })
    }

    fn error_at(&self, key: &str, problem: &str) -> Error {
        // A path may go deeper than the key that was set: `topics[0].name` was set as `topics`.
        let set = self.origins.iter().find(|(set, _)| key.starts_with(set.as_str()));
        let origin = set.map_or_else(|| "built-in".to_owned(), |(_, origin)| origin.clone());
        Error::Value { key: key.to_owned(), origin, problem: problem.to_owned() }
    }
}

const MIB: u64 = 1 << 20;

impl Config {
    /// Rules between settings, and bounds of single ones.
    fn check(&self) -> Checked {
        if !self.listen.ip().is_loopback() && !self.insecure {
            let problem = format!(
                "{} is reachable from other machines and there is no access control yet; add \
                 --insecure if you want that",
                self.listen
            );
            return Err(("listen", problem));
        }
        at_most("shutdown_grace", self.shutdown_grace, Duration::from_secs(3_600))?;
        self.check_only_kept()?;
        self.storage.check()?;
        self.dead_letter.check()?;
        self.push.check()?;
        self.transforms.check()?;
        self.export.check()?;
        self.alerts.check()?;
        self.live.check()?;
        self.log.check()?;
        self.metrics.check()?;
        self.limits.check()
    }
}

impl Config {
    /// What is declared must not be what is refused.
    fn check_only_kept(&self) -> Checked {
        if self.api.unsupported == Unsupported::Keep {
            return Ok(());
        }
        let topic = self.topics.iter().find(|topic| topic.ingestion.is_some());
        let topic = topic.map(|topic| (topic.name.as_str(), "ingestion_data_source_settings"));
        let exports =
            |one: &domain::Subscription| one.export().map(|it| (one.name.to_string(), it));
        let subscription = self.subscriptions.iter().find_map(exports);
        let (name, setting) = match (topic, subscription) {
            (Some((name, setting)), _) => (name.to_owned(), setting),
            (None, Some(found)) => found,
            (None, None) => return Ok(()),
        };
        let problem = format!(
            "\"refuse\", but {name} has a {setting}, which this server does not run; remove it, or \
             set \"keep\""
        );
        Err(("api.unsupported", problem))
    }
}

impl Storage {
    fn check(&self) -> Checked {
        at_least("storage.progress_flush", self.progress_flush, Duration::from_millis(10))?;
        at_most("storage.progress_flush", self.progress_flush, Duration::from_secs(3_600))?;
        bytes_at_least("storage.wal_segment", self.wal_segment, MIB)?;
        if self.wal_segment > 1024 * MIB {
            return Err(("storage.wal_segment", "at most 1GiB is allowed".to_owned()));
        }
        bytes_at_least("storage.wal_max", self.wal_max, 2 * self.wal_segment)?;
        bytes_at_least("storage.topic_segment", self.topic_segment, MIB)?;
        bytes_at_least("storage.tail_memory", self.tail_memory, MIB)?;
        bytes_at_least("storage.queue_max", self.queue_max, 16 * MIB)?;
        bytes_at_least("storage.group_max", self.group_max, 64 * 1024)?;
        bytes_at_least("storage.memory_max", self.memory_max, MIB)?;
        Ok(())
    }
}

impl DeadLetter {
    fn check(&self) -> Checked {
        const KEY: &str = "dead_letter.retention";
        at_least(KEY, self.retention, Duration::from_secs(600))?;
        at_most(KEY, self.retention, Duration::from_secs(366 * 86_400))
    }
}

impl Log {
    fn check(&self) -> Checked {
        const BYTES_MAX: usize = 256;
        for (key, text) in [("log.service", &self.service), ("log.env", &self.env)] {
            if text.len() > BYTES_MAX || text.chars().any(char::is_control) {
                let problem = format!("at most {BYTES_MAX} bytes of printable text are allowed");
                return Err((key, problem));
            }
        }
        Ok(())
    }
}

impl Metrics {
    fn check(&self) -> Checked {
        const MAX: usize = 10_000;
        if self.subscriptions_max > MAX {
            return Err(("metrics.subscriptions_max", format!("at most {MAX} are allowed")));
        }
        Ok(())
    }
}

impl Limits {
    /// How bodies must come.
    pub(crate) fn pace(&self) -> Pace {
        Pace { pause_max: self.body_timeout, total_max: self.body_deadline }
    }

    fn check(&self) -> Checked {
        positive("limits.connections_max", self.connections_max as u64)?;
        let per_address = self.connections_per_address_max as u64;
        positive("limits.connections_per_address_max", per_address)?;
        let streams = u64::from(self.streams_per_connection_max);
        positive("limits.streams_per_connection_max", streams)?;
        positive("limits.calls_max", self.calls_max as u64)?;
        bytes_at_least("limits.body_memory", self.body_memory, BODY_MEMORY_MIN)?;
        let per_connection = self.body_memory_per_connection;
        bytes_at_least("limits.body_memory_per_connection", per_connection, BODY_MEMORY_MIN)?;
        let outstanding = self.outstanding_max as u64;
        number_at_least("limits.outstanding_max", outstanding, 10_000)?;
        bytes_at_least("limits.answer_memory", self.answer_memory, ANSWER_MEMORY_MIN)?;
        for (key, time) in [
            ("limits.body_deadline", self.body_deadline),
            ("limits.first_byte_timeout", self.first_byte_timeout),
            ("limits.header_timeout", self.header_timeout),
            ("limits.body_timeout", self.body_timeout),
            ("limits.keepalive_interval", self.keepalive_interval),
            ("limits.keepalive_timeout", self.keepalive_timeout),
        ] {
            at_least(key, time, Duration::from_millis(50))?;
        }
        at_most("limits.pull_wait", self.pull_wait, Duration::from_secs(600))
    }
}

/// The largest request, and what is built of it.
const BODY_MEMORY_MIN: u64 = 32 * MIB;

/// The largest answer.
const ANSWER_MEMORY_MIN: u64 = 16 * MIB;

/// The key at fault and what is wrong with it.
type Checked = Result<(), (&'static str, String)>;

fn at_least(key: &'static str, time: Duration, min: Duration) -> Checked {
    if time >= min { Ok(()) } else { Err((key, format!("at least {min:?} are needed"))) }
}

fn at_most(key: &'static str, time: Duration, max: Duration) -> Checked {
    if time <= max { Ok(()) } else { Err((key, format!("at most {max:?} are allowed"))) }
}

fn bytes_at_least(key: &'static str, bytes: u64, min: u64) -> Checked {
    if bytes >= min { Ok(()) } else { Err((key, format!("at least {min} bytes are needed"))) }
}

fn number_at_least(key: &'static str, number: u64, min: u64) -> Checked {
    if number >= min { Ok(()) } else { Err((key, format!("at least {min} are needed"))) }
}

fn positive(key: &'static str, number: u64) -> Checked {
    if number > 0 { Ok(()) } else { Err((key, "must be at least 1".to_owned())) }
}

/// `address:port`; `localhost` stands for 127.0.0.1, so that no name service is asked.
fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.clone(),
    };
    numeric
        .parse()
        .map_err(|_| D::Error::custom(format!("{text:?} is not an address such as 127.0.0.1:8085")))
}

#[cfg(test)]
mod tests;
