//! The SQLite file: the state of the log up to its checkpoint, and the definitions.
//!
//! SQLite names only log positions that are already durable. Every transaction records the log
//! position at which it was made, so a store whose log has lost its end is detected.

use std::fs::File;
use std::io::Read as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use domain::{ClockMark, Moment, Offset, SubscriptionId, Timestamp, TopicId, Uptime};
use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, params};

use super::private;
use super::rows::{self, DamagedRow, Sum};
use super::segments::{Mark, Segment, decode_marks, encode_marks};
use super::topic::Topic;
use crate::{Error, Position, Result};

/// The newest schema this version knows, and the one it writes.
pub(super) const FORMAT: u32 = 1;

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entries (
    kind INTEGER NOT NULL, name TEXT NOT NULL, id INTEGER NOT NULL, version INTEGER NOT NULL,
    value BLOB NOT NULL, PRIMARY KEY (kind, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS progress (subscription INTEGER PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS topics (
    id INTEGER PRIMARY KEY, next INTEGER NOT NULL, low INTEGER NOT NULL,
    last_time INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS segments (
    topic INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, file TEXT NOT NULL,
    length INTEGER NOT NULL, records INTEGER NOT NULL,
    time_min INTEGER NOT NULL, time_max INTEGER NOT NULL, marks BLOB NOT NULL,
    PRIMARY KEY (topic, first)
);
";

/// A number in the `meta` table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meta {
    /// The schema; present once the store is complete.
    Format,
    /// How many times the store was opened.
    Opens,
    /// Progress frames up to this group are included in the progress table.
    Checkpoint,
    /// The log was durable up to this group when the last transaction was made.
    Position,
    /// The lowest live log file.
    LowestFile,
    /// The counter for ids and versions of entries.
    Serial,
    /// Seeds the checksums of records.
    Secret,
    /// The first group that was written without its own sync; 0 = none.
    Unsynced,
    /// Nonzero in a copy that has not been put into use.
    Copy,
    /// The clock mark: the last trusted time.
    Clock,
    /// In which boot of the machine that was, and the uptime then; zero = unknown.
    ClockBoot,
    ClockUptime,
}

impl Meta {
    fn name(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::Opens => "opens",
            Self::Checkpoint => "checkpoint",
            Self::Position => "position",
            Self::LowestFile => "lowest_file",
            Self::Serial => "serial",
            Self::Secret => "secret",
            Self::Unsynced => "unsynced",
            Self::Copy => "copy",
            Self::Clock => "clock",
            Self::ClockBoot => "clock_boot",
            Self::ClockUptime => "clock_uptime",
        }
    }
}

/// A topic at some durable point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TopicRow {
    pub id: TopicId,
    pub next: Offset,
    /// The lowest offset kept.
    pub low: Offset,
    /// When the record just before `next` was published.
    pub last_time: Timestamp,
}

impl TopicRow {
    pub(super) fn of(topic: &Topic) -> Self {
        let state = topic.state();
        Self { id: topic.id, next: state.end, low: state.low(), last_time: state.last_time }
    }

    fn sum(self) -> Sum {
        let numbers = [self.id.0, self.next.0, self.low.0, self.last_time.0];
        numbers.into_iter().fold(Sum::of("topics"), Sum::number)
    }
}

/// What the database says about the log.
#[derive(Debug, Default)]
pub(super) struct Stored {
    pub checkpoint: Position,
    pub position: Position,
    pub lowest_file: u64,
    /// Seeds the checksums of records.
    pub secret: u64,
    /// The first group that was written without its own sync; 0 = none.
    pub unsynced: u64,
    pub topics: Vec<TopicRow>,
    pub segments: Vec<Segment>,
}

/// The open database. Once closed, everything answers `Unavailable`.
#[derive(Debug)]
pub(super) struct Database {
    connection: Mutex<Option<Connection>>,
    path: PathBuf,
}

/// A connection in use.
pub(super) type Guard<'db> = parking_lot::MappedMutexGuard<'db, Connection>;

impl Database {
    /// Opens or creates the file. Changes nothing in it yet except to create an empty schema.
    pub(super) fn open(path: &Path) -> Result<Self> {
        private::touch(path).map_err(super::scan::unavailable)?;
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.set_prepared_statement_cache_capacity(64);
        let database = Self::of(connection, path);
        database.check_format()?;
        {
            let connection = database.connection()?;
            connection.execute_batch(SCHEMA)?;
            rows::add_columns(&connection)?;
            rows::check_keys(&connection)?;
        }
        // A damaged page may lose rows, and a missing row's checksum is never checked.
        if !database.check("quick_check")?.is_empty() {
            let what = "SQLite finds its file damaged; `postrider verify` says where";
            return Err(super::scan::corrupt(path, 0, what));
        }
        Ok(database)
    }

    /// Opens an existing file read-only.
    pub(super) fn open_to_read(path: &Path) -> Result<Self> {
        check_can_be_written(path)?;
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        rows::pretend_columns(&connection)?;
        Ok(Self::of(connection, path))
    }

    fn of(connection: Connection, path: &Path) -> Self {
        Self { connection: Mutex::new(Some(connection)), path: path.to_owned() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn close(&self) {
        self.connection.lock().take();
    }

    pub(super) fn connection(&self) -> Result<Guard<'_>> {
        MutexGuard::try_map(self.connection.lock(), Option::as_mut).map_err(|_| closed())
    }

    /// The schema found; `None` in a store that was never completed.
    pub(super) fn format(&self) -> Result<Option<u32>> {
        let connection = self.connection()?;
        if !connection.table_exists(Some("main"), "meta")? {
            return Ok(None);
        }
        // Read before anything is changed, so without the checksum that a row may not have yet.
        let select = "SELECT value FROM main.meta WHERE name = ?1";
        let read = |row: &rusqlite::Row<'_>| get(row, 0);
        let found = connection.query_row(select, [Meta::Format.name()], read).optional()?;
        Ok(found.map(|found| u32::try_from(found).unwrap_or(u32::MAX)))
    }

    /// `Err` if this version does not know the schema.
    pub(super) fn check_format(&self) -> Result<()> {
        match self.format()? {
            Some(found) if found != FORMAT => Err(Error::Format { found, known: FORMAT }),
            _ => Ok(()),
        }
    }

    /// Completes a new store, whose log starts with file `lowest_file`.
    pub(super) fn complete(&self, lowest_file: u64, secret: u64) -> Result<()> {
        self.write(|transaction| {
            put_meta(transaction, Meta::Secret, secret)?;
            put_meta(transaction, Meta::LowestFile, lowest_file)?;
            put_meta(transaction, Meta::Format, u64::from(FORMAT))
        })
    }

    /// Increments and returns the number of opens, and notes the first group that will not have its
    /// own sync; `None` = all of them will.
    pub(super) fn raise_opens(&self, unsynced: Option<u64>) -> Result<u64> {
        self.write(|transaction| {
            let opens = get_meta(transaction, Meta::Opens)?.unwrap_or(0) + 1;
            put_meta(transaction, Meta::Opens, opens)?;
            put_meta(transaction, Meta::Unsynced, unsynced.unwrap_or(0))?;
            Ok(opens)
        })
    }

    /// Whether it is a copy that has not been put into use.
    pub(super) fn is_copy(&self) -> Result<bool> {
        Ok(get_meta(&*self.connection()?, Meta::Copy)?.unwrap_or(0) != 0)
    }

    /// Marks it as a copy that has not been put into use.
    pub(super) fn mark_copy(&self) -> Result<()> {
        self.write(|transaction| put_meta(transaction, Meta::Copy, 1))
    }

    /// Runs `change` in one transaction that is durable when this returns.
    pub(super) fn write<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let mut connection = self.connection()?;
        let transaction = connection.transaction()?;
        let answer = change(&transaction)?;
        transaction.commit()?;
        Ok(answer)
    }

    pub(super) fn stored(&self) -> Result<Stored> {
        let connection = self.connection()?;
        let meta = |name| Ok::<_, Error>(get_meta(&connection, name)?.unwrap_or(0));
        let mut topics =
            connection.prepare("SELECT id, next, low, last_time, sum FROM topics ORDER BY id")?;
        let topics = topics.query_map([], |row| {
            let topic = TopicRow {
                id: TopicId(get(row, 0)?),
                next: Offset(get(row, 1)?),
                low: Offset(get(row, 2)?),
                last_time: Timestamp(get(row, 3)?),
            };
            topic.sum().check(row, 4)?;
            Ok(topic)
        })?;
        Ok(Stored {
            checkpoint: Position(meta(Meta::Checkpoint)?),
            position: Position(meta(Meta::Position)?),
            lowest_file: meta(Meta::LowestFile)?,
            secret: meta(Meta::Secret)?,
            unsynced: meta(Meta::Unsynced)?,
            topics: topics.collect::<rusqlite::Result<_>>()?,
            segments: segments(&connection)?,
        })
    }

    /// Copies the current file to `path`, durably. A process that opens the copy gets epochs that
    /// no process continuing with this file has: ack ids from one are not mistaken for the other's.
    pub(super) fn copy_to(&self, path: &Path) -> Result<()> {
        const OPENS_AHEAD: u64 = 1_000_000;
        // SQLite treats an empty file as a new one, and keeps its mode.
        private::touch(path).map_err(super::scan::unavailable)?;
        vacuum_into(&*self.connection()?, path)?;
        let copy = Self::of(Connection::open(path)?, path);
        copy.write(|transaction| {
            let opens = get_meta(transaction, Meta::Opens)?.unwrap_or(0) + OPENS_AHEAD;
            put_meta(transaction, Meta::Opens, opens)?;
            put_meta(transaction, Meta::Copy, 1)
        })?;
        copy.close();
        sync_file(path)
    }

    /// The clock mark that was saved last.
    pub(super) fn clock_mark(&self) -> Result<Option<ClockMark>> {
        let connection = self.connection()?;
        let Some(wall) = get_meta(&connection, Meta::Clock)? else { return Ok(None) };
        let boot = get_meta(&connection, Meta::ClockBoot)?.filter(|&boot| boot != 0);
        let time = get_meta(&connection, Meta::ClockUptime)?.unwrap_or(0);
        let uptime = boot.map(|boot| Uptime { boot, time: Moment(time) });
        Ok(Some(ClockMark { wall: Timestamp(wall), uptime }))
    }

    /// The serial number of the last change of definitions.
    pub(super) fn serial(&self) -> Result<u64> {
        Ok(get_meta(&*self.connection()?, Meta::Serial)?.unwrap_or(0))
    }

    /// The checkpointed progress of each subscription that has one, still encoded.
    pub(super) fn progress(
        &self,
        subscriptions: impl Iterator<Item = SubscriptionId>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let connection = self.connection()?;
        let mut statement =
            connection.prepare_cached("SELECT value, sum FROM progress WHERE subscription = ?1")?;
        let mut find = |subscription: SubscriptionId| {
            let read = |row: &rusqlite::Row<'_>| {
                let value: Vec<u8> = row.get(0)?;
                progress_sum(subscription.0, &value).check(row, 1)?;
                Ok(value)
            };
            statement.query_row([subscription.0.cast_signed()], read).optional()
        };
        Ok(subscriptions.map(&mut find).collect::<rusqlite::Result<_>>()?)
    }

    /// The sparse index of a segment.
    pub(super) fn marks(&self, topic: TopicId, first: Offset) -> Result<Vec<Mark>> {
        let connection = self.connection()?;
        let mut statement = connection.prepare_cached(
            "SELECT marks, marks_sum FROM segments WHERE topic = ?1 AND first = ?2",
        )?;
        let key = [topic.0.cast_signed(), first.0.cast_signed()];
        let read = |row: &rusqlite::Row<'_>| {
            let marks: Vec<u8> = row.get(0)?;
            marks_sum(topic, first, &marks).check(row, 1)?;
            Ok(marks)
        };
        let marks = statement.query_row(key, read).optional()?;
        marks.map(|bytes| decode_marks(&bytes)).ok_or(Error::NotFound)
    }

    /// The subscriptions whose checkpointed progress is unreadable.
    pub(super) fn unreadable_progress(&self) -> Result<Vec<u64>> {
        let connection = self.connection()?;
        let mut statement = connection.prepare("SELECT subscription, value, sum FROM progress")?;
        let mut rows = statement.query([])?;
        let mut unreadable = Vec::new();
        while let Some(row) = rows.next()? {
            let (id, value): (u64, Vec<u8>) = (get(row, 0)?, row.get(1)?);
            let holds = progress_sum(id, &value).check(row, 2).is_ok();
            if !holds || domain::Progress::decode(&value).is_err() {
                unreadable.push(id);
            }
        }
        Ok(unreadable)
    }

    /// What SQLite itself reports about its file; empty = no problems.
    pub(super) fn integrity_check(&self) -> Result<Vec<String>> {
        let lines = self.check("integrity_check")?;
        if lines.is_empty() {
            rows::check_keys(&*self.connection()?)?;
        }
        Ok(lines)
    }

    fn check(&self, pragma: &str) -> Result<Vec<String>> {
        let connection = self.connection()?;
        let mut statement = connection.prepare(&format!("PRAGMA {pragma}"))?;
        let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
        let mut lines = lines.collect::<rusqlite::Result<Vec<_>>>()?;
        lines.retain(|line| line != "ok");
        Ok(lines)
    }
}

/// `Err` if SQLite would open the file read-only, which it reports only when it has to write: a
/// start then fails although every page is readable.
fn check_can_be_written(path: &Path) -> Result<()> {
    /// Where the header says which format version a writer must know.
    const WRITE_VERSION_AT: usize = 18;
    /// 1 is the rollback journal, 2 the write-ahead log.
    const KNOWN: RangeInclusive<u8> = 1..=2;
    let mut header = [0; WRITE_VERSION_AT + 1];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut header));
    match (read, header[WRITE_VERSION_AT]) {
        (Ok(()), version) if !KNOWN.contains(&version) => {
            let what = "SQLite's header asks for a newer SQLite to write to the file";
            Err(super::scan::corrupt(path, WRITE_VERSION_AT as u64, what))
        }
        // SQLite itself finds a file that is too short or unreadable.
        _ => Ok(()),
    }
}

fn segments(connection: &Connection) -> rusqlite::Result<Vec<Segment>> {
    let mut statement = connection.prepare(
        "SELECT topic, first, last, file, length, records, time_min, time_max, sum FROM segments
         ORDER BY topic, first",
    )?;
    let rows = statement.query_map([], |row| {
        let segment = Segment {
            topic: TopicId(get(row, 0)?),
            first: Offset(get(row, 1)?),
            last: Offset(get(row, 2)?),
            file: row.get(3)?,
            length: get(row, 4)?,
            records: get(row, 5)?,
            time_min: Timestamp(get(row, 6)?),
            time_max: Timestamp(get(row, 7)?),
            marks: std::sync::OnceLock::new(),
        };
        segment_sum(&segment).check(row, 8)?;
        Ok(segment)
    })?;
    rows.collect()
}

fn segment_sum(segment: &Segment) -> Sum {
    let places = [segment.topic.0, segment.first.0, segment.last.0, segment.length];
    let counts = [segment.records, segment.time_min.0, segment.time_max.0];
    let sum = Sum::of("segments").bytes(segment.file.as_bytes());
    places.into_iter().chain(counts).fold(sum, Sum::number)
}

fn marks_sum(topic: TopicId, first: Offset, marks: &[u8]) -> Sum {
    Sum::of("segments").number(topic.0).number(first.0).bytes(marks)
}

fn progress_sum(subscription: u64, value: &[u8]) -> Sum {
    Sum::of("progress").number(subscription).bytes(value)
}

/// Writes the progress of a subscription.
pub(super) fn put_progress(
    transaction: &Transaction<'_>,
    subscription: SubscriptionId,
    value: &[u8],
) -> rusqlite::Result<()> {
    let mut statement = transaction.prepare_cached(
        "INSERT OR REPLACE INTO progress (subscription, value, sum) VALUES (?1, ?2, ?3)",
    )?;
    let sum = progress_sum(subscription.0, value).value();
    statement.execute(params![subscription.0.cast_signed(), value, sum])?;
    Ok(())
}

/// Writes a segment's row, replacing the one it continues.
pub(super) fn put_segment(
    transaction: &Transaction<'_>,
    segment: &Segment,
    marks: &[Mark],
) -> rusqlite::Result<()> {
    let mut statement = transaction.prepare_cached(
        "INSERT OR REPLACE INTO segments
         (topic, first, last, file, length, records, time_min, time_max, marks, sum, marks_sum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?;
    let marks = encode_marks(marks);
    statement.execute(params![
        segment.topic.0.cast_signed(),
        segment.first.0.cast_signed(),
        segment.last.0.cast_signed(),
        segment.file,
        segment.length.cast_signed(),
        segment.records.cast_signed(),
        segment.time_min.0.cast_signed(),
        segment.time_max.0.cast_signed(),
        marks,
        segment_sum(segment).value(),
        marks_sum(segment.topic, segment.first, &marks).value(),
    ])?;
    Ok(())
}

/// Drops a segment's row.
pub(super) fn drop_segment(
    transaction: &Transaction<'_>,
    segment: &Segment,
) -> rusqlite::Result<()> {
    let mut statement =
        transaction.prepare_cached("DELETE FROM segments WHERE topic = ?1 AND first = ?2")?;
    statement.execute([segment.topic.0.cast_signed(), segment.first.0.cast_signed()])?;
    Ok(())
}

/// Writes a topic's row.
pub(super) fn put_topic(transaction: &Transaction<'_>, topic: TopicRow) -> rusqlite::Result<()> {
    let mut statement = transaction.prepare_cached(
        "INSERT OR REPLACE INTO topics (id, next, low, last_time, sum)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let TopicRow { id, next, low, last_time } = topic;
    let [id, next, low, last_time] = [id.0, next.0, low.0, last_time.0].map(u64::cast_signed);
    statement.execute([id, next, low, last_time, topic.sum().value()])?;
    Ok(())
}

/// Writes the clock mark.
pub(super) fn put_clock_mark(
    transaction: &Transaction<'_>,
    mark: &ClockMark,
) -> rusqlite::Result<()> {
    let (boot, time) = mark.uptime.map_or((0, 0), |uptime| (uptime.boot, uptime.time.0));
    put_meta(transaction, Meta::Clock, mark.wall.0)?;
    put_meta(transaction, Meta::ClockBoot, boot)?;
    put_meta(transaction, Meta::ClockUptime, time)
}

/// Writes a number to the `meta` table.
pub(super) fn put_meta(
    transaction: &Transaction<'_>,
    meta: Meta,
    value: u64,
) -> rusqlite::Result<()> {
    let mut statement = transaction
        .prepare_cached("INSERT OR REPLACE INTO meta (name, value, sum) VALUES (?1, ?2, ?3)")?;
    let sum = meta_sum(meta, value).value();
    statement.execute(params![meta.name(), value.cast_signed(), sum])?;
    Ok(())
}

/// Reads a number from the `meta` table.
pub(super) fn get_meta(connection: &Connection, meta: Meta) -> rusqlite::Result<Option<u64>> {
    let mut statement = connection.prepare_cached("SELECT value, sum FROM meta WHERE name = ?1")?;
    let read = |row: &rusqlite::Row<'_>| {
        let value = get(row, 0)?;
        meta_sum(meta, value).check(row, 1)?;
        Ok(value)
    };
    statement.query_row([meta.name()], read).optional()
}

fn meta_sum(meta: Meta, value: u64) -> Sum {
    Sum::of("meta").bytes(meta.name().as_bytes()).number(value)
}

/// Reads a number that is stored as the signed one with the same bits.
pub(super) fn get(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(at)?.cast_unsigned())
}

/// Writes the contents of `connection` to a new file.
pub(super) fn vacuum_into(connection: &Connection, path: &Path) -> rusqlite::Result<()> {
    connection.execute("VACUUM INTO ?1", [path.to_string_lossy()])?;
    Ok(())
}

/// Makes a file durable that SQLite wrote.
pub(super) fn sync_file(path: &Path) -> Result<()> {
    let synced = std::fs::File::open(path).and_then(|file| file.sync_all());
    synced.map_err(super::scan::unavailable)
}

fn closed() -> Error {
    super::scan::unavailable(std::io::Error::other("the store was closed"))
}

/// What SQLite said.
#[derive(Debug, thiserror::Error)]
#[error("definitions database: {0}")]
struct Sqlite(#[source] rusqlite::Error);

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match &error {
            rusqlite::Error::FromSqlConversionFailure(_, _, cause) if cause.is::<DamagedRow>() => {
                super::scan::corrupt(super::DATABASE, 0, "a row does not hold its checksum")
            }
            _ => Self::unavailable(Sqlite(error)),
        }
    }
}

/// What SQLite said, if it was SQLite.
pub(super) fn sqlite(error: &Error) -> Option<&rusqlite::Error> {
    let Error::Unavailable(cause) = error else { return None };
    cause.downcast_ref().map(|Sqlite(error)| error)
}

/// Whether SQLite found the disk full. It has a separate error code for its shared memory, which is
/// a file.
pub(super) fn is_disk_full(error: &Error) -> bool {
    sqlite(error).and_then(rusqlite::Error::sqlite_error).is_some_and(|error| {
        error.code == ErrorCode::DiskFull
            || error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE
    })
}

/// Whether SQLite may have failed to open its file for lack of space: it does not always say so.
pub(super) fn may_want_space(error: &Error) -> bool {
    let code = sqlite(error).and_then(rusqlite::Error::sqlite_error_code);
    matches!(code, Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::CannotOpen))
}
