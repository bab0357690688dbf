//! The engine for one machine: a write-ahead log, topic segments, SQLite.
//!
//! ```text
//! commit ─▶ front ─▶ committer ─▶ wal/00000000000000000007 ─▶ tail in memory ─▶ readers
//!          (encodes)  (one write, one sync per group)             │
//!                                                                 ▼ trim, what is still needed
//!                     free/3 ◀── log file used again ◀── topics/<topic>-<first offset>
//! ```
//!
//! State is the fold of synced groups in log order; SQLite (`store.sqlite`: definitions, progress
//! checkpoints, the list of segments), the segments and the memory are caches of a prefix of it.
//! SQLite and segments name only what is synced already.
//!
//! | File | For |
//! |---|---|
//! | `format`, `scan` | the bytes on disk; walking through them |
//! | `committer` | makes the groups durable that `front` forms |
//! | `wal`, `preallocator` | log files, files made ahead, the reserve for a full disk |
//! | `topic`, `index`, `segments`, `read` | where a topic's records are; reading them |
//! | `trimmer`, `outgoing`, `blocks`, `write_behind` | moving what is needed out of a log file |
//! | `salvage` | what is still good in a damaged stretch of the log |
//! | `database`, `definitions` | SQLite |
//! | `rows` | checksums of its rows |
//! | `attempts` | the history of attempts, a SQLite file of its own |
//! | `recovery`, `verify` | opening a store; checking one |
//! | `backup`, `backups` | copying a store in use; the copies there are |
//! | `store`, `engine` | the open store; the traits on it |
//! | `seam`, `real` | the disk, so that tests can put a faulty one there |
//! | `descriptors`, `private` | file descriptors kept for the log; who may read the files |
//!
//! Its queue, its groups, its topics and what of them is in memory are `front`'s. In a simulation,
//! which is known when the store is opened, there are no threads: committer, preallocator and trims
//! are tasks, everything else happens where it is called, and nothing blocks.

mod attempts;
mod backup;
mod backups;
mod blocks;
mod blocks_memory;
mod committer;
mod database;
mod definitions;
mod descriptors;
mod engine;
mod files;
mod format;
#[doc(hidden)]
pub mod fuzzing;
mod index;
mod outgoing;
mod preallocator;
mod private;
mod read;
mod read_ahead;
mod real;
mod recovery;
mod rows;
mod salvage;
mod scan;
mod seam;
mod segments;
mod store;
mod topic;
mod trimmer;
mod verify;
mod wal;
mod write_behind;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use backup::Backup;
pub use backups::{KeptBackup, backups, remove_backup};
pub use seam::{Disk, File};
pub use verify::{EntryCheck, Fault, Report, verify, verify_on};

use crate::{Engine, Error, HISTORY_BYTES_DEFAULT, Kind, Result};

/// The SQLite file in a data folder.
const DATABASE: &str = "store.sqlite";

/// Leave a file with this name in a folder that was restored from something other than a backup:
/// the store is then treated as a copy, like a backup.
pub const RESTORED: &str = "restored";

/// When a commit counts as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When the disk says that it is on stable storage.
    Fsync,
    /// When the operating system has it: survives a crash of this process but not a power cut.
    Os,
}

/// How the engine uses the machine.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of one log file; at most 1 GiB.
    pub wal_segment_bytes: u64,
    /// Log size at which appends wait for a trim; at least two log files.
    pub wal_max_bytes: u64,
    /// Bytes of the newest records kept in memory.
    pub tail_memory_bytes: usize,
    /// Queue size at which appends wait.
    pub queue_bytes_max: usize,
    /// Group size after which another commit goes into the next group.
    pub group_bytes_max: usize,
    /// Segment size after which a topic's records go into the next segment.
    pub topic_segment_bytes: u64,
    /// Bytes set aside for trims and checkpoints on a full disk; another log file's worth is added
    /// for acks.
    pub reserve_bytes: u64,
    /// When a commit counts as durable.
    pub durability: Durability,
    /// Size limit of the history of attempts.
    pub attempt_bytes_max: u64,
    /// How long a commit nobody waits for may be delayed to ride along.
    pub ride_delay: Duration,
    /// What the store's secret and the salts of its log files are drawn from; `None` = the system.
    /// Only for simulations: two runs with the same seed write the same bytes.
    pub seed: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            wal_segment_bytes: 64 << 20,
            wal_max_bytes: 1 << 30,
            tail_memory_bytes: 32 << 20,
            queue_bytes_max: 64 << 20,
            group_bytes_max: 4 << 20,
            topic_segment_bytes: 64 << 20,
            reserve_bytes: 64 << 20,
            durability: Durability::Fsync,
            attempt_bytes_max: HISTORY_BYTES_DEFAULT,
            ride_delay: Duration::from_millis(20),
            seed: None,
        }
    }
}

impl Options {
    /// The options, clamped to what the format can hold.
    fn within_bounds(self) -> Self {
        let block = format::BLOCK_BYTES;
        let wal_segment_bytes =
            self.wal_segment_bytes.clamp(4 * block, 1 << 30).next_multiple_of(block);
        Self {
            wal_segment_bytes,
            wal_max_bytes: self.wal_max_bytes.max(2 * wal_segment_bytes),
            group_bytes_max: self.group_bytes_max.clamp(1, 1 << 30),
            ..self
        }
    }
}

/// What opening a store found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Groups replayed from the log.
    pub groups: u64,
    /// Bytes of these groups.
    pub bytes: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of a group that was being written when the process died or the power failed.
    pub torn_bytes_cut: u64,
    /// At least this many groups after the last good one were lost or cut off by a power cut. Only
    /// if groups were not synced one by one.
    pub unsynced_groups_cut: u64,
    /// Bytes of these groups.
    pub unsynced_bytes_cut: u64,
}

/// An open store.
pub struct Opened {
    /// Its traits.
    pub engine: Engine,
    /// What opening it found.
    pub recovery: Recovery,
    /// Closes it.
    pub handle: Handle,
}

/// Closes a store before its last user drops it.
///
/// A store is also closed when all clones of its engine and its handle are dropped.
#[derive(Clone)]
pub struct Handle(Arc<store::Store>);

impl Handle {
    /// Writes what is queued, ends the engine's threads and unlocks the folder. Every later call of
    /// the engine answers `Unavailable`. Blocks, but never in a simulation; closing twice does
    /// nothing.
    pub fn close(&self) {
        self.0.close();
    }

    /// Copies the store, while it is in use, to the folder `to`, which must not exist: it appears
    /// once the copy is complete and durable. Everything answered before the call is included,
    /// along with any of the files `others` that exist. Blocks; meanwhile the log grows, and
    /// appends wait once it has reached its limit.
    pub fn backup(&self, to: &Path, others: &[PathBuf]) -> Result<Backup> {
        backup::backup(&self.0.shared, to, others)
    }
}

/// Opens the store in `folder`, creating one if there is none. `InUse` if it is already open, here
/// or in another process; `Corrupt`, with nothing changed, if its files are damaged.
pub fn open(folder: &Path, options: Options) -> Result<Opened> {
    let lock = real::FolderLock::take(folder)?;
    private::repair(folder);
    let disk = Arc::new(real::RealDisk::new(folder));
    take_for_copy(folder)?;
    open_with(disk, &folder.join(DATABASE), options, Some(lock))
        .map_err(|error| within(folder, error))
}

/// Marks the store in `folder` as a copy if someone left the file that says so.
fn take_for_copy(folder: &Path) -> Result<()> {
    let (word, database) = (folder.join(RESTORED), folder.join(DATABASE));
    if !word.exists() || !database.exists() {
        return Ok(());
    }
    let database = database::Database::open(&database)?;
    if database.format()?.is_some() {
        database.mark_copy()?;
    }
    database.close();
    std::fs::remove_file(&word).map_err(scan::unavailable)
}

/// Opens a store whose log and segments are on `disk`, without a lock. For tests.
pub fn open_on(disk: Arc<dyn Disk>, database: &Path, options: Options) -> Result<Opened> {
    open_with(disk, database, options, None)
}

fn open_with(
    disk: Arc<dyn Disk>,
    database: &Path,
    options: Options,
    lock: Option<real::FolderLock>,
) -> Result<Opened> {
    let options = options.within_bounds();
    let room = Arc::new(tokio::sync::Notify::new());
    let preallocator = Arc::new(preallocator::Preallocator::new(
        Arc::clone(&disk),
        options.wal_segment_bytes,
        options.reserve_bytes,
        Arc::clone(&room),
    ));
    let attempts = database.with_file_name(attempts::FILE);
    let attempts = attempts::History::new(attempts, options.attempt_bytes_max);
    let database = open_database(database, &preallocator)?;
    let mut recovered = recovery::recover(disk.as_ref(), &database, &preallocator, options.seed)?;
    let is_copy = database.is_copy()?;
    if is_copy {
        recovery::begin_file(disk.as_ref(), &preallocator, options.seed, &mut recovered)?;
    }
    let unsynced = (options.durability == Durability::Os).then_some(recovered.number + 1);
    let opens = preallocator.for_database(|| database.raise_opens(unsynced))?;
    let (recovery, serial) = (recovered.report, database.serial()?);
    sweep(&attempts, &database);
    let parts = store::Parts {
        options,
        disk,
        database,
        attempts,
        preallocator,
        room,
        lock,
        opens,
        serial,
        is_copy,
    };
    let store = Arc::new(store::Store::start(parts, recovered)?);
    let engine = Engine {
        shards: Arc::new(engine::OneShard(Arc::clone(&store))),
        catalogue: Arc::clone(&store) as _,
        attempts: Arc::clone(&store) as _,
        members: None,
    };
    Ok(Opened { engine, recovery, handle: Handle(store) })
}

/// Drops the attempts of subscriptions that are gone. Nothing depends on the history, so nor does
/// the start.
fn sweep(attempts: &attempts::History, database: &database::Database) {
    let swept = database.ids(Kind::Subscription).and_then(|known| attempts.sweep(&known));
    if let Err(error) = swept {
        tracing::warn!(%error, "cannot drop the attempts of subscriptions that are gone");
    }
}

/// SQLite needs some space to open its files. On a full disk it gets what an earlier process set
/// aside for that.
fn open_database(
    path: &Path,
    preallocator: &preallocator::Preallocator,
) -> Result<database::Database> {
    match database::Database::open(path) {
        Err(error) if database::may_want_space(&error) => {
            if !preallocator.clear().map_err(scan::unavailable)? {
                return Err(error);
            }
            tracing::warn!(%error, "the definitions were opened with space from the reserve");
            preallocator.for_database(|| database::Database::open(path))
        }
        other => other,
    }
}

/// Adds the full path of the damaged file, or of a database that cannot be written.
fn within(folder: &Path, error: Error) -> Error {
    if let Some(denied) = database::sqlite(&error).filter(|error| is_denied(error)) {
        let problem = format!("{}: {denied}", folder.join(DATABASE).display());
        return scan::unavailable(std::io::Error::other(problem));
    }
    match error {
        Error::Corrupt { place, what } => {
            let (file, offset) = scan::place_of(&place);
            scan::corrupt(path_within(folder, file), offset, what)
        }
        other => other,
    }
}

/// Whether permissions on the file, or on its folder, are missing.
fn is_denied(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, PermissionDenied, ReadOnly};
    matches!(error.sqlite_error_code(), Some(CannotOpen | PermissionDenied | ReadOnly))
}

fn path_within(folder: &Path, file: &Path) -> PathBuf {
    if file.starts_with(folder) { file.to_owned() } else { folder.join(file) }
}
