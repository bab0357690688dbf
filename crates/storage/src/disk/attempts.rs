//! The history of attempts: a separate SQLite file that nothing else depends on.
//!
//! A file that is damaged, or of another version, is set aside and replaced by a new one. Commits
//! are not synced one by one, so a power cut may lose the last ones.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::{Offset, SubscriptionId, Timestamp};
use parking_lot::Mutex;
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, Row, Transaction, params};

use super::database::{get, sync_file, vacuum_into};
use super::private;
use super::scan::unavailable;
use crate::attempts::{Head, surplus};
use crate::{Attempt, AttemptPage, AttemptQuery, CLASS_OK, NumberedAttempt, Result, Unsettled};

/// The file, next to the other database.
pub(super) const FILE: &str = "attempts.sqlite";

/// The newest schema this version knows, and the one it writes.
const FORMAT: u64 = 2;

/// In the order in which they came, so new attempts go to the end of the file and the oldest ones
/// are adjacent. The indexes alone answer every query except for what is displayed.
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS attempts (
    id INTEGER PRIMARY KEY, subscription INTEGER NOT NULL, offset INTEGER NOT NULL,
    class TEXT NOT NULL, attempt INTEGER NOT NULL, at INTEGER NOT NULL,
    duration_us INTEGER NOT NULL, address TEXT, status INTEGER, error TEXT, response BLOB NOT NULL,
    number INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX IF NOT EXISTS by_number ON attempts (subscription, number);
CREATE INDEX IF NOT EXISTS by_message ON attempts (subscription, offset, class, number);
";

/// Numbers were unique in the whole history, and its order.
const FROM_FORMAT_1: &str = "
DROP INDEX IF EXISTS by_message;
ALTER TABLE attempts RENAME COLUMN number TO id;
ALTER TABLE attempts ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
UPDATE attempts SET number = id;
";

/// SQLite's own log is truncated to this many bytes.
const JOURNAL_BYTES: u32 = 4 << 20;

/// How many attempts are dropped at a time to make room.
const DROPPED_AT_ONCE: u32 = 32;

/// The history in its file, which is opened when first needed.
pub(super) struct History {
    file: Mutex<File>,
    path: PathBuf,
    bytes_max: u64,
}

enum File {
    NotOpen,
    Open(Connection),
    Closed,
}

impl History {
    pub(super) fn new(path: PathBuf, bytes_max: u64) -> Self {
        Self { file: Mutex::new(File::NotOpen), path, bytes_max }
    }

    pub(super) fn close(&self) {
        *self.file.lock() = File::Closed;
    }

    /// Copies the current file to `path`.
    pub(super) fn copy_to(&self, path: &Path) -> Result<()> {
        private::touch(path).map_err(unavailable)?;
        self.with(|connection| vacuum_into(connection, path))?;
        sync_file(path)
    }

    /// Drops the attempts of every subscription that is not in `known`, if there is a history.
    pub(super) fn sweep(&self, known: &BTreeSet<u64>) -> Result<()> {
        if !self.path.exists() {
            return Ok(());
        }
        let found = self.with(|connection| subscriptions(connection))?;
        let gone = found.into_iter().filter(|subscription| !known.contains(&subscription.0));
        let gone: Vec<_> = gone.collect();
        if gone.is_empty() { Ok(()) } else { self.forget(&gone) }
    }

    pub(super) fn last(&self, subscriptions: &[SubscriptionId]) -> Result<Vec<u64>> {
        self.with(|connection| {
            let mut last = connection.prepare_cached(
                "SELECT coalesce(max(number), 0) FROM attempts WHERE subscription = ?1",
            )?;
            let mut find = |subscription: &SubscriptionId| {
                last.query_row([subscription.0.cast_signed()], |row| get(row, 0))
            };
            subscriptions.iter().map(&mut find).collect()
        })
    }

    pub(super) fn append(
        &self,
        attempts: &[NumberedAttempt],
        unsettled: &dyn Unsettled,
    ) -> Result<()> {
        // Keep room for one piece, which takes more in the file than in memory, so that the file
        // itself never exceeds its limit.
        let piece_bytes = self.bytes_max / 8;
        let kept_bytes = self.bytes_max - 2 * piece_bytes;
        for piece in pieces(attempts, piece_bytes) {
            self.with(|connection| {
                let transaction = connection.transaction()?;
                let changed: BTreeSet<SubscriptionId> =
                    piece.iter().map(|numbered| numbered.attempt.subscription).collect();
                insert(&transaction, piece)?;
                for subscription in changed {
                    prune(&transaction, subscription, unsettled)?;
                }
                shrink(&transaction, kept_bytes)?;
                transaction.commit()
            })?;
        }
        Ok(())
    }

    pub(super) fn list(
        &self,
        subscription: SubscriptionId,
        query: &AttemptQuery,
    ) -> Result<AttemptPage> {
        let found = self.with(|connection| select(connection, subscription, query))?;
        Ok(AttemptPage::of(found, query.limit))
    }

    pub(super) fn forget(&self, subscriptions: &[SubscriptionId]) -> Result<()> {
        self.with(|connection| {
            let transaction = connection.transaction()?;
            for subscription in subscriptions {
                let id = subscription.0.cast_signed();
                transaction.execute("DELETE FROM attempts WHERE subscription = ?1", [id])?;
            }
            transaction.commit()
        })
    }

    /// Runs `work` on the file; if it finds the file damaged, runs it once more on a new one.
    fn with<T>(&self, work: impl Fn(&mut Connection) -> rusqlite::Result<T>) -> Result<T> {
        let mut file = self.file.lock();
        match self.try_with(&mut file, &work)? {
            Err(error) if is_damage(&error) => {
                self.set_aside(&mut file, &error)?;
                Ok(self.try_with(&mut file, &work)??)
            }
            done => Ok(done?),
        }
    }

    fn try_with<T>(
        &self,
        file: &mut File,
        work: impl Fn(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<rusqlite::Result<T>> {
        if let File::NotOpen = file {
            match open(&self.path) {
                Ok(connection) => *file = File::Open(connection),
                Err(error) => return Ok(Err(error)),
            }
        }
        match file {
            File::Open(connection) => Ok(work(connection)),
            _ => Err(unavailable(io::Error::other("the store was closed"))),
        }
    }

    fn set_aside(&self, file: &mut File, error: &rusqlite::Error) -> Result<()> {
        *file = File::NotOpen;
        let aside = with_suffix(&self.path, ".broken");
        tracing::warn!(%error, file = %self.path.display(), kept_as = %aside.display(),
            "the history of attempts cannot be read; beginning a new one");
        std::fs::rename(&self.path, aside).map_err(unavailable)?;
        for suffix in ["-wal", "-shm"] {
            match std::fs::remove_file(with_suffix(&self.path, suffix)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(unavailable(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path: OsString = path.into();
    path.push(suffix);
    path.into()
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    if let Err(error) = private::touch(path) {
        // SQLite reports the problem in its own words.
        tracing::debug!(%error, file = %path.display(), "cannot make a file");
    }
    let mut connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "journal_size_limit", JOURNAL_BYTES)?;
    let found = pragma(&connection, "user_version")?;
    if found > FORMAT {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_NOTADB);
        let why = format!("it has format {found}, this version reads up to {FORMAT}");
        return Err(rusqlite::Error::SqliteFailure(code, Some(why)));
    }
    let transaction = connection.transaction()?;
    if found == 1 {
        transaction.execute_batch(FROM_FORMAT_1)?;
    }
    transaction.execute_batch(SCHEMA)?;
    if found != FORMAT {
        transaction.pragma_update(None, "user_version", FORMAT.cast_signed())?;
    }
    transaction.commit()?;
    Ok(connection)
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<u64> {
    connection.pragma_query_value(None, name, |row| get(row, 0))
}

/// Whether the error means that the file is damaged.
fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType};
    let is_misread = matches!(
        error,
        InvalidColumnType(..) | IntegralValueOutOfRange(..) | FromSqlConversionFailure(..)
    );
    let code = error.sqlite_error_code();
    is_misread || matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Splits `attempts` into parts of about `bytes` each, or of a single attempt.
fn pieces(attempts: &[NumberedAttempt], bytes: u64) -> impl Iterator<Item = &[NumberedAttempt]> {
    let mut rest = attempts;
    std::iter::from_fn(move || {
        let mut taken = 0;
        let mut left = bytes;
        while let Some(next) = rest.get(taken) {
            let size = next.attempt.memory_bytes() as u64;
            if taken > 0 && size > left {
                break;
            }
            left = left.saturating_sub(size);
            taken += 1;
        }
        let (piece, after) = rest.split_at(taken);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

fn insert(transaction: &Transaction<'_>, attempts: &[NumberedAttempt]) -> rusqlite::Result<()> {
    let mut put = transaction.prepare_cached(
        "INSERT OR REPLACE INTO attempts (number, subscription, offset, class, attempt, at,
         duration_us, address, status, error, response)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?;
    for NumberedAttempt { number, attempt } in attempts {
        put.execute(params![
            number.cast_signed(),
            attempt.subscription.0.cast_signed(),
            attempt.offset.0.cast_signed(),
            attempt.class,
            attempt.attempt,
            attempt.at.0.cast_signed(),
            i64::try_from(attempt.duration.as_micros()).unwrap_or(i64::MAX),
            attempt.address.map(|address| address.to_string()),
            attempt.status,
            attempt.error.as_deref(),
            &attempt.response[..],
        ])?;
    }
    Ok(())
}

/// Drops whatever exceeds the limits of one subscription.
fn prune(
    transaction: &Transaction<'_>,
    subscription: SubscriptionId,
    unsettled: &dyn Unsettled,
) -> rusqlite::Result<()> {
    let mut heads = transaction.prepare_cached(
        "SELECT number, offset, class FROM attempts INDEXED BY by_message WHERE subscription = ?1",
    )?;
    let heads = heads.query_map([subscription.0.cast_signed()], |row| {
        let is_failure = row.get_ref(2)?.as_str()? != CLASS_OK;
        Ok(Head { number: get(row, 0)?, offset: Offset(get(row, 1)?), is_failure })
    })?;
    let heads = heads.collect::<rusqlite::Result<Vec<_>>>()?;
    let gone = surplus(heads, |offsets| unsettled.unsettled(subscription, offsets));
    let mut drop = transaction
        .prepare_cached("DELETE FROM attempts WHERE subscription = ?1 AND number = ?2")?;
    for number in gone {
        drop.execute([subscription.0.cast_signed(), number.cast_signed()])?;
    }
    Ok(())
}

/// Drops the oldest until the rest takes at most `bytes_max` bytes in the file.
fn shrink(transaction: &Transaction<'_>, bytes_max: u64) -> rusqlite::Result<()> {
    let page_bytes = pragma(transaction, "page_size")?;
    loop {
        let pages = pragma(transaction, "page_count")?;
        let free = pragma(transaction, "freelist_count")?;
        if pages.saturating_sub(free) * page_bytes <= bytes_max {
            return Ok(());
        }
        let mut drop = transaction.prepare_cached(
            "DELETE FROM attempts
             WHERE id IN (SELECT id FROM attempts ORDER BY id LIMIT ?1)",
        )?;
        if drop.execute([DROPPED_AT_ONCE])? == 0 {
            return Ok(());
        }
    }
}

/// Skips from one subscription to the next in the index.
fn subscriptions(connection: &Connection) -> rusqlite::Result<Vec<SubscriptionId>> {
    let mut next = connection.prepare_cached(
        "SELECT min(subscription) FROM attempts INDEXED BY by_number WHERE subscription > ?1",
    )?;
    let mut found = Vec::new();
    let mut last = i64::MIN;
    while let Some(id) = next.query_row([last], |row| row.get::<_, Option<i64>>(0))? {
        found.push(SubscriptionId(id.cast_unsigned()));
        last = id;
    }
    Ok(found)
}

/// The matches of `query` plus one more. The index alone answers the inner query.
fn select(
    connection: &Connection,
    subscription: SubscriptionId,
    query: &AttemptQuery,
) -> rusqlite::Result<Vec<NumberedAttempt>> {
    // Messages have few attempts each; without one, the newest come first in the other index.
    let by_message = query.offset.is_some() || query.class.is_some();
    let index = if by_message { "by_message" } else { "by_number" };
    let mut conditions = "subscription = ?1 AND number < ?2".to_owned();
    let before = query.before.and_then(|before| i64::try_from(before).ok()).unwrap_or(i64::MAX);
    let limit = i64::try_from(query.limit.saturating_add(1)).unwrap_or(i64::MAX);
    let mut values: Vec<Value> =
        vec![subscription.0.cast_signed().into(), before.into(), limit.into()];
    if let Some(offset) = query.offset {
        values.push(offset.0.cast_signed().into());
        conditions.push_str(&format!(" AND offset = ?{}", values.len()));
    }
    if let Some(class) = &query.class {
        values.push(class.clone().into());
        conditions.push_str(&format!(" AND class = ?{}", values.len()));
    }
    let mut statement = connection.prepare_cached(&format!(
        "SELECT number, subscription, offset, class, attempt, at, duration_us, address, status,
         error, response FROM attempts WHERE id IN (
             SELECT id FROM attempts INDEXED BY {index}
             WHERE {conditions} ORDER BY number DESC LIMIT ?3
         ) ORDER BY number DESC"
    ))?;
    let rows = statement.query_map(rusqlite::params_from_iter(values), read)?;
    rows.collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<NumberedAttempt> {
    let address: Option<String> = row.get(7)?;
    let error: Option<String> = row.get(9)?;
    let response: Vec<u8> = row.get(10)?;
    let attempt = Attempt {
        subscription: SubscriptionId(get(row, 1)?),
        offset: Offset(get(row, 2)?),
        class: Cow::Owned(row.get(3)?),
        attempt: row.get(4)?,
        at: Timestamp(get(row, 5)?),
        duration: Duration::from_micros(get(row, 6)?),
        address: address.and_then(|address| address.parse().ok()),
        status: row.get(8)?,
        error: error.map(Into::into),
        response: response.into(),
    };
    Ok(NumberedAttempt { number: get(row, 0)?, attempt })
}
