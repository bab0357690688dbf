//! The catalogue's entries in SQLite.

use std::collections::BTreeSet;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::database::{Database, Meta, get, get_meta, put_meta};
use super::rows::Sum;
use crate::{Entry, Error, Kind, Page, Result};

const COLUMNS: &str = "SELECT name, id, version, value, sum FROM entries";

impl Database {
    /// The entry with that name; `NotFound` otherwise.
    pub(super) fn entry(&self, kind: Kind, name: &str) -> Result<Entry> {
        find(&*self.connection()?, kind, name)?.ok_or(Error::NotFound)
    }

    /// Whether an entry of `kind` has that id.
    pub(super) fn has_entry(&self, kind: Kind, id: u64) -> Result<bool> {
        let connection = self.connection()?;
        let mut statement =
            connection.prepare_cached("SELECT 1 FROM entries WHERE kind = ?1 AND id = ?2")?;
        Ok(statement.exists(params![code(kind), id.cast_signed()])?)
    }

    /// The ids of all entries of `kind`.
    pub(super) fn ids(&self, kind: Kind) -> Result<BTreeSet<u64>> {
        let connection = self.connection()?;
        let mut statement = connection.prepare("SELECT id FROM entries WHERE kind = ?1")?;
        let ids = statement.query_map([code(kind)], |row| get(row, 0))?;
        Ok(ids.collect::<rusqlite::Result<_>>()?)
    }

    /// Every entry of every kind.
    pub(super) fn all_entries(&self) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for kind in KINDS {
            entries.extend(self.entries(kind, None, usize::MAX)?.entries);
        }
        Ok(entries)
    }

    /// Entries in name order.
    pub(super) fn entries(&self, kind: Kind, after: Option<&str>, limit: usize) -> Result<Page> {
        let connection = self.connection()?;
        let sql = format!("{COLUMNS} WHERE kind = ?1 AND name > ?2 ORDER BY name LIMIT ?3");
        let mut statement = connection.prepare_cached(&sql)?;
        let asked = i64::try_from(limit.saturating_add(1)).unwrap_or(i64::MAX);
        let rows = statement
            .query_map(params![code(kind), after.unwrap_or(""), asked], |row| entry(kind, row))?;
        let mut entries = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        let more = entries.len() > limit;
        entries.truncate(limit);
        let next = entries.last().filter(|_| more).map(|last| last.name.clone());
        Ok(Page { entries, next })
    }
}

/// Creates or replaces.
pub(super) fn put(
    transaction: &Transaction<'_>,
    kind: Kind,
    name: &str,
    value: &Bytes,
    version: Option<u64>,
) -> rusqlite::Result<Result<Entry>> {
    let found = find(transaction, kind, name)?;
    let mut serial = get_meta(transaction, Meta::Serial)?.unwrap_or(0);
    let id = match (&found, version) {
        (None, None) => {
            serial += 1;
            serial
        }
        (Some(found), Some(version)) if found.version == version => found.id,
        (None, Some(_)) => return Ok(Err(Error::NotFound)),
        (Some(_), _) => return Ok(Err(Error::Conflict)),
    };
    serial += 1;
    let entry = Entry { kind, name: name.to_owned(), id, version: serial, value: value.clone() };
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO entries (kind, name, id, version, value, sum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            code(kind),
            name,
            entry.id.cast_signed(),
            entry.version.cast_signed(),
            &value[..],
            sum(&entry).value(),
        ])?;
    put_meta(transaction, Meta::Serial, serial)?;
    Ok(Ok(entry))
}

/// Deletes; returns the serial number of the change, and the entry's id.
pub(super) fn delete(
    transaction: &Transaction<'_>,
    kind: Kind,
    name: &str,
    version: u64,
) -> rusqlite::Result<Result<(u64, u64)>> {
    let Some(found) = find(transaction, kind, name)? else { return Ok(Err(Error::NotFound)) };
    if found.version != version {
        return Ok(Err(Error::Conflict));
    }
    transaction
        .prepare_cached("DELETE FROM entries WHERE kind = ?1 AND name = ?2")?
        .execute(params![code(kind), name])?;
    let serial = get_meta(transaction, Meta::Serial)?.unwrap_or(0) + 1;
    put_meta(transaction, Meta::Serial, serial)?;
    Ok(Ok((serial, found.id)))
}

fn find(connection: &Connection, kind: Kind, name: &str) -> rusqlite::Result<Option<Entry>> {
    let sql = format!("{COLUMNS} WHERE kind = ?1 AND name = ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_row(params![code(kind), name], |row| entry(kind, row)).optional()
}

fn entry(kind: Kind, row: &Row<'_>) -> rusqlite::Result<Entry> {
    let entry = Entry {
        kind,
        name: row.get(0)?,
        id: get(row, 1)?,
        version: get(row, 2)?,
        value: row.get::<_, Vec<u8>>(3)?.into(),
    };
    sum(&entry).check(row, 4)?;
    Ok(entry)
}

fn sum(entry: &Entry) -> Sum {
    let sum = Sum::of("entries").number(code(entry.kind).cast_unsigned());
    let sum = sum.bytes(entry.name.as_bytes()).number(entry.id).number(entry.version);
    sum.bytes(&entry.value)
}

/// All kinds.
const KINDS: [Kind; 8] = [
    Kind::Topic,
    Kind::Subscription,
    Kind::Snapshot,
    Kind::Schema,
    Kind::Bookkeeping,
    Kind::HandledLetters,
    Kind::Replay,
    Kind::Mark,
];

/// The number for a kind in the file; never changes.
fn code(kind: Kind) -> i64 {
    match kind {
        Kind::Topic => 1,
        Kind::Subscription => 2,
        Kind::Snapshot => 3,
        Kind::Schema => 4,
        Kind::Bookkeeping => 5,
        Kind::HandledLetters => 6,
        Kind::Replay => 7,
        Kind::Mark => 8,
    }
}
