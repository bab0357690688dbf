//! Effects in an SQLite file: one transaction for the effect and the note.

use std::path::Path as File;
use std::sync::Arc;

use domain::Timestamp;
use parking_lot::Mutex;
use rusqlite::{
    Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params,
};

use super::document::{Change, Fields, change};
use super::{Applied, Effects, Note, Once, Path, StoreError, Write, json};
use crate::Failure;

/// How long another process may hold the file before a write is transient.
const BUSY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS documents (
    collection TEXT NOT NULL,
    id TEXT NOT NULL,
    body TEXT NOT NULL,
    event_time INTEGER,
    PRIMARY KEY (collection, id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS dedupe (
    collection TEXT NOT NULL,
    id TEXT NOT NULL,
    expires INTEGER NOT NULL,
    PRIMARY KEY (collection, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS dedupe_expires ON dedupe (expires);
";

/// A store in an SQLite file. Times in it are microseconds since 1970. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sqlite {
    connection: Arc<Mutex<Connection>>,
}

impl Sqlite {
    /// Opens the file, and makes it and its tables if they are not there. A commit is on the disk
    /// when it is answered.
    pub fn open(file: &File) -> Result<Self, StoreError> {
        Self::over(Connection::open(file)?)
    }

    /// Uses a connection that was opened elsewhere, and makes the tables.
    pub fn over(connection: Connection) -> Result<Self, StoreError> {
        let prepare = || {
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.execute_batch(TABLES)
        };
        prepare()?;
        Ok(Self { connection: Arc::new(Mutex::new(connection)) })
    }

    /// Runs `work` in a transaction that also notes the message, if it is not noted already. When
    /// `work` fails nothing happens. It must use the transaction only.
    pub async fn in_transaction<T, F>(&self, note: &Note, work: F) -> Result<Once<T>, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        let note = note.clone();
        self.transact(move |transaction| {
            if !put_note(transaction, &note.dedupe, note.until)? {
                return Ok(Once::Duplicate);
            }
            work(transaction).map(Once::Done)
        })
        .await
    }

    /// The fields of a document.
    pub async fn document(&self, path: &Path) -> Result<Option<Fields>, StoreError> {
        let path = path.clone();
        self.transact(move |transaction| fields(transaction, &path)).await
    }

    /// Forgets dedupe records that have expired by `now`, and says how many.
    pub async fn purge(&self, now: Timestamp) -> Result<u64, StoreError> {
        self.transact(move |transaction| {
            let purged =
                transaction.execute("DELETE FROM dedupe WHERE expires <= ?1", [micros(now)])?;
            Ok(purged as u64)
        })
        .await
    }

    /// One transaction, off the async threads. It begins as a writer, so that nobody writes
    /// between what it reads and what it writes.
    async fn transact<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        let connection = Arc::clone(&self.connection);
        let done = tokio::task::spawn_blocking(move || {
            let mut connection = connection.lock();
            let behavior = TransactionBehavior::Immediate;
            let transaction = connection.transaction_with_behavior(behavior)?;
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        });
        done.await.unwrap_or_else(|error| {
            let failure = Failure::new("Panic", format!("the transaction panicked: {error}"));
            Err(StoreError::Transient(failure))
        })
    }
}

impl Effects for Sqlite {
    async fn apply(&self, write: &Write) -> Result<Applied, StoreError> {
        let write = write.clone();
        self.transact(move |transaction| apply(transaction, &write)).await
    }
}

fn apply(transaction: &Transaction<'_>, write: &Write) -> Result<Applied, StoreError> {
    if !put_note(transaction, &write.dedupe, write.dedupe_until)? {
        return Ok(Applied::Duplicate);
    }
    let current = fields(transaction, &write.document)?;
    let Change::Put(fields) = change(current, write)? else { return Ok(Applied::Stale) };
    let body = json::write(&fields)?.to_string();
    let Path { collection, id } = &write.document;
    let event_time = write.event_time.as_ref().map(|time| micros(time.at));
    transaction
        .prepare_cached(
            "INSERT INTO documents (collection, id, body, event_time) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET body = excluded.body,
                 event_time = max(coalesce(event_time, excluded.event_time),
                     coalesce(excluded.event_time, event_time))",
        )
        .and_then(|mut put| put.execute(params![collection, id, body, event_time]))?;
    Ok(Applied::Applied)
}

/// Notes a message; `false` = it was noted already.
fn put_note(
    transaction: &Transaction<'_>,
    dedupe: &Path,
    until: Timestamp,
) -> Result<bool, StoreError> {
    let Path { collection, id } = dedupe;
    transaction
        .prepare_cached(
            "INSERT INTO dedupe (collection, id, expires) VALUES (?1, ?2, ?3)
             ON CONFLICT DO NOTHING",
        )
        .and_then(|mut put| put.execute(params![collection, id, micros(until)]))
        .map(|rows| rows == 1)
        .map_err(failed)
}

fn fields(transaction: &Transaction<'_>, path: &Path) -> Result<Option<Fields>, StoreError> {
    let Path { collection, id } = path;
    let body: Option<String> = transaction
        .prepare_cached("SELECT body FROM documents WHERE collection = ?1 AND id = ?2")
        .and_then(|mut get| get.query_row(params![collection, id], |row| row.get(0)).optional())?;
    let Some(body) = body else { return Ok(None) };
    let body = serde_json::from_str(&body).map_err(|error| {
        let problem = format!("the body of {collection}/{id} is not JSON: {error}");
        StoreError::Config(Failure::new("BrokenDocument", problem))
    })?;
    json::read(body).map(Some)
}

fn micros(time: Timestamp) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        failed(error)
    }
}

fn failed(error: rusqlite::Error) -> StoreError {
    let code = error.sqlite_error_code();
    let failure = Failure {
        kind: "Sqlite".to_owned(),
        code: code.map(|code| format!("{code:?}")),
        message: error.to_string(),
    };
    match code {
        Some(ErrorCode::TooBig | ErrorCode::TypeMismatch | ErrorCode::ConstraintViolation) => {
            StoreError::Refused(failure)
        }
        Some(
            ErrorCode::PermissionDenied
            | ErrorCode::ReadOnly
            | ErrorCode::CannotOpen
            | ErrorCode::NotADatabase
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::AuthorizationForStatementDenied,
        ) => StoreError::Config(failure),
        _ => StoreError::Transient(failure),
    }
}
