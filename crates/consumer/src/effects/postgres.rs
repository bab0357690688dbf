//! Effects in PostgreSQL: one transaction for the effect and the note.

use deadpool_postgres::{Pool, PoolError};
use domain::Timestamp;
use futures::future::BoxFuture;
use serde_json::Value as Json;
use tokio_postgres::Transaction;
use tokio_postgres::error::SqlState;

use super::document::{Change, Fields, change};
use super::{Applied, Effects, Note, Once, Path, StoreError, Write, json};
use crate::Failure;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS documents (
    collection text NOT NULL,
    id text NOT NULL,
    body jsonb NOT NULL,
    event_time bigint,
    PRIMARY KEY (collection, id)
);
CREATE TABLE IF NOT EXISTS dedupe (
    collection text NOT NULL,
    id text NOT NULL,
    expires bigint NOT NULL,
    PRIMARY KEY (collection, id)
);
CREATE INDEX IF NOT EXISTS dedupe_expires ON dedupe (expires);
";

/// A store in PostgreSQL. Times in it are microseconds since 1970. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Postgres {
    pool: Pool,
}

impl Postgres {
    /// Uses a pool of connections, set up with TLS or without as the server wants it.
    pub fn new(pool: Pool) -> Self {
        Self { pool }
    }

    /// Makes the tables `documents` and `dedupe` if they are not there.
    pub async fn create_tables(&self) -> Result<(), StoreError> {
        let client = self.pool.get().await.map_err(no_connection)?;
        client.batch_execute(TABLES).await.map_err(|error| failed(&error))
    }

    /// Runs `work` in a transaction that also notes the message, if it is not noted already. When
    /// `work` fails nothing happens. It must use the transaction only.
    pub async fn in_transaction<T, F>(&self, note: &Note, work: F) -> Result<Once<T>, StoreError>
    where
        T: Send,
        F: for<'a> FnOnce(&'a Transaction<'a>) -> BoxFuture<'a, Result<T, StoreError>> + Send,
    {
        let mut client = self.pool.get().await.map_err(no_connection)?;
        let transaction = client.transaction().await?;
        if !put_note(&transaction, &note.dedupe, note.until).await? {
            return Ok(Once::Duplicate);
        }
        let done = work(&transaction).await?;
        transaction.commit().await?;
        Ok(Once::Done(done))
    }

    /// The fields of a document.
    pub async fn document(&self, path: &Path) -> Result<Option<Fields>, StoreError> {
        let client = self.pool.get().await.map_err(no_connection)?;
        let query = "SELECT body FROM documents WHERE collection = $1 AND id = $2";
        let row = client.query_opt(query, &[&path.collection, &path.id]).await;
        row?.map(|row| json::read(row.get(0))).transpose()
    }

    /// Forgets dedupe records that have expired by `now`, and says how many.
    pub async fn purge(&self, now: Timestamp) -> Result<u64, StoreError> {
        let client = self.pool.get().await.map_err(no_connection)?;
        client
            .execute("DELETE FROM dedupe WHERE expires <= $1", &[&micros(now)])
            .await
            .map_err(|error| failed(&error))
    }
}

impl Effects for Postgres {
    async fn apply(&self, write: &Write) -> Result<Applied, StoreError> {
        let mut client = self.pool.get().await.map_err(no_connection)?;
        let transaction = client.transaction().await?;
        // A transaction that is dropped is rolled back.
        let applied = apply(&transaction, write).await?;
        if applied != Applied::Duplicate {
            transaction.commit().await?;
        }
        Ok(applied)
    }
}

async fn apply(transaction: &Transaction<'_>, write: &Write) -> Result<Applied, StoreError> {
    if !put_note(transaction, &write.dedupe, write.dedupe_until).await? {
        return Ok(Applied::Duplicate);
    }
    let current = lock_document(transaction, &write.document).await?;
    let Change::Put(fields) = change(current, write)? else { return Ok(Applied::Stale) };
    let body = json::write(&fields)?;
    let Path { collection, id } = &write.document;
    let event_time = write.event_time.as_ref().map(|time| micros(time.at));
    transaction
        .execute(
            "UPDATE documents SET body = $3, event_time = greatest(event_time, $4)
             WHERE collection = $1 AND id = $2",
            &[collection, id, &body, &event_time],
        )
        .await?;
    Ok(Applied::Applied)
}

/// Notes a message; `false` = it was noted already. Waits for another transaction that is about
/// to note the same.
async fn put_note(
    transaction: &Transaction<'_>,
    dedupe: &Path,
    until: Timestamp,
) -> Result<bool, StoreError> {
    let rows = transaction
        .execute(
            "INSERT INTO dedupe (collection, id, expires) VALUES ($1, $2, $3)
             ON CONFLICT DO NOTHING",
            &[&dedupe.collection, &dedupe.id, &micros(until)],
        )
        .await?;
    Ok(rows == 1)
}

/// The document, which nobody else can write until the end of the transaction. One that is not
/// there yet is made, so that there is something to lock.
async fn lock_document(
    transaction: &Transaction<'_>,
    path: &Path,
) -> Result<Option<Fields>, StoreError> {
    let Path { collection, id } = path;
    let made = transaction
        .execute(
            "INSERT INTO documents (collection, id, body) VALUES ($1, $2, '{}')
             ON CONFLICT DO NOTHING",
            &[collection, id],
        )
        .await?;
    if made == 1 {
        return Ok(None);
    }
    let row = transaction
        .query_one(
            "SELECT body FROM documents WHERE collection = $1 AND id = $2 FOR UPDATE",
            &[collection, id],
        )
        .await?;
    json::read(row.get::<_, Json>(0)).map(Some)
}

fn micros(time: Timestamp) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

fn no_connection(error: PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => failed(&error),
        error => StoreError::Transient(Failure::new("NoConnection", error.to_string())),
    }
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        failed(&error)
    }
}

/// Whether it may go well later, by the class of the error's code.
fn failed(error: &tokio_postgres::Error) -> StoreError {
    let code = error.code().map(SqlState::code);
    let message = match error.as_db_error() {
        Some(said) => said.to_string(),
        None => with_cause(error),
    };
    let failure = Failure { kind: "Postgres".to_owned(), code: code.map(str::to_owned), message };
    match code.and_then(|code| code.get(..2)) {
        // Data exceptions, and rules of the tables that the data breaks.
        Some("22" | "23") => StoreError::Refused(failure),
        // No such database or table, no right to use it, wrong password.
        Some("28" | "3D" | "3F" | "42") => StoreError::Config(failure),
        _ => StoreError::Transient(failure),
    }
}

fn with_cause(error: &tokio_postgres::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
