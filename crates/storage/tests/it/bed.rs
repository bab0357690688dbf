//! A store on a simulated disk: the ground the fault tests stand on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use storage::disk::{self, Handle, Options, Recovery};
use storage::{Engine, Error};
use tempfile::TempDir;
use testkit::SimDisk;
use testkit::disk::Cut;

/// A simulated disk, and a folder for the definitions database, which is real.
pub(crate) struct Bed {
    pub(crate) disk: SimDisk,
    folder: TempDir,
    open: Mutex<Vec<Handle>>,
}

impl Bed {
    /// An empty store.
    pub(crate) fn new() -> Self {
        Self::on(SimDisk::new())
    }

    fn on(disk: SimDisk) -> Self {
        Self { disk, folder: folder(), open: Mutex::default() }
    }

    /// A store of this disk and a copy of that database. A missing database stays missing.
    pub(crate) fn of(disk: SimDisk, database: &Path) -> Self {
        let bed = Self::on(disk);
        let attempts = |database: &Path| database.with_file_name("attempts.sqlite");
        copy(database, &bed.database());
        copy(&attempts(database), &attempts(&bed.database()));
        bed
    }

    /// This store as it is found after a power cut. Nobody may have it open.
    pub(crate) fn after(&self, cut: Cut) -> Self {
        Self::of(self.disk.power_cut_with(cut), &self.database())
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.folder.path().join("definitions")
    }

    pub(crate) fn open(&self) -> Result<Engine, Error> {
        self.open_with(tiny())
    }

    pub(crate) fn open_with(&self, options: Options) -> Result<Engine, Error> {
        self.recover_with(options).map(|(engine, _)| engine)
    }

    /// Opens the store, and says what that found.
    pub(crate) fn recover_with(&self, options: Options) -> Result<(Engine, Recovery), Error> {
        let opened = disk::open_on(Arc::new(self.disk.clone()), &self.database(), options)?;
        self.open.lock().push(opened.handle);
        Ok((opened.engine, opened.recovery))
    }

    /// Of the store that was opened last.
    pub(crate) fn handle(&self) -> Handle {
        self.open.lock().last().expect("an open store").clone()
    }

    /// Closes what was opened: when this returns no thread of it touches the disk any more.
    pub(crate) fn close(&self) {
        for handle in self.open.lock().drain(..) {
            handle.close();
        }
    }
}

/// Copies a SQLite file with its log. A missing one stays missing.
fn copy(from: &Path, to: &Path) {
    for suffix in ["", "-wal"] {
        let from = with_suffix(from, suffix);
        if from.exists() {
            std::fs::copy(from, with_suffix(to, suffix)).expect("copied");
        }
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// A folder in memory where there is one: the database is not what is tested here.
pub(crate) fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.or_else(|_| tempfile::tempdir()).expect("a temporary folder")
}

/// How many of something are tried: `usual` in a test run, more where more cases are asked for.
pub(crate) fn scaled(usual: u64) -> u64 {
    const CASES_USUAL: u64 = 256;
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse::<u64>().ok());
    usual * (cases.unwrap_or(CASES_USUAL) / CASES_USUAL).max(1)
}

/// Everything so small that a short script fills, rolls and recycles it.
pub(crate) fn tiny() -> Options {
    Options {
        wal_segment_bytes: 64 << 10,
        wal_max_bytes: 512 << 10,
        tail_memory_bytes: 32 << 10,
        queue_bytes_max: 1 << 20,
        group_bytes_max: 8 << 10,
        topic_segment_bytes: 48 << 10,
        reserve_bytes: 64 << 10,
        ride_delay: Duration::from_millis(5),
        ..Options::default()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // The folder goes away with the bed.
        self.close();
    }
}
