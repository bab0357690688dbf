//! Which engine keeps the messages. The only file that knows concrete engines.

use std::fs;
use std::path::{Path, PathBuf};

use storage::{Engine, Error, disk, memory};

use crate::config::{self, Config, Storage};

pub(crate) use storage::disk::{
    Backup as Copied, KeptBackup, Recovery, Report, backups, remove_backup,
};

/// An open store.
pub(crate) struct Opened {
    /// The store.
    pub(crate) engine: Engine,
    /// What had to be replayed; `None` if the engine never has to.
    pub(crate) recovery: Option<Recovery>,
    /// Ends the engine.
    pub(crate) closer: Closer,
}

/// Ends an engine once nothing uses it anymore.
pub(crate) enum Closer {
    /// An engine with threads and a folder to let go of.
    Disk(disk::Handle),
    /// Nothing to end.
    None,
}

impl Closer {
    /// Copies the store; `None` if there is nothing on disk.
    pub(crate) fn copier(&self) -> Option<Copier> {
        match self {
            Self::Disk(handle) => Some(Copier(handle.clone())),
            Self::None => None,
        }
    }

    /// Writes what is left and lets go of the folder. Blocks.
    pub(crate) fn close(&self) {
        match self {
            Self::Disk(handle) => handle.close(),
            Self::None => {}
        }
    }
}

/// Copies a store while it is in use.
#[derive(Clone)]
pub(crate) struct Copier(disk::Handle);

impl Copier {
    /// Copies it to the new folder `to`, with those of the files `others` that there are. Blocks.
    pub(crate) fn copy(&self, to: &Path, others: &[PathBuf]) -> Result<Copied, Error> {
        if let Some(parent) = to.parent() {
            let made = fs::create_dir_all(parent).map_err(|error| {
                std::io::Error::new(error.kind(), format!("{}: {error}", parent.display()))
            });
            made.map_err(Error::unavailable)?;
        }
        self.0.backup(to, others)
    }
}

/// Opens the store the settings name. Blocks while it is recovered.
pub(crate) fn open(config: &Config) -> Result<Opened, Error> {
    match config.engine {
        config::Engine::Memory => {
            let options = memory::Options {
                bytes_max: bytes(config.storage.memory_max),
                attempt_bytes_max: config.push.attempt_log_bytes_max,
            };
            let engine = memory::open_with(options);
            Ok(Opened { engine, recovery: None, closer: Closer::None })
        }
        config::Engine::Disk => {
            let options = disk::Options {
                attempt_bytes_max: config.push.attempt_log_bytes_max,
                ..disk_options(&config.storage)
            };
            let opened = disk::open(&config.data_dir, options)?;
            Ok(Opened {
                engine: opened.engine,
                recovery: Some(opened.recovery),
                closer: Closer::Disk(opened.handle),
            })
        }
    }
}

fn disk_options(storage: &Storage) -> disk::Options {
    disk::Options {
        wal_segment_bytes: storage.wal_segment,
        wal_max_bytes: storage.wal_max,
        tail_memory_bytes: bytes(storage.tail_memory),
        queue_bytes_max: bytes(storage.queue_max),
        group_bytes_max: bytes(storage.group_max),
        topic_segment_bytes: storage.topic_segment,
        reserve_bytes: storage.reserve,
        durability: match storage.durability {
            config::Durability::Fsync => disk::Durability::Fsync,
            config::Durability::Os => disk::Durability::Os,
        },
        ..disk::Options::default()
    }
}

/// A size that memory must hold.
fn bytes(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

/// Checks every checksum of a store on disk and reads what a start reads, changing nothing.
pub(crate) fn verify(folder: &Path) -> Result<Report, Error> {
    disk::verify(folder, &broker::check_definition)
}
