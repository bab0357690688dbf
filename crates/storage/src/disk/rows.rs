//! Checksums for the rows in SQLite, which has none of its own: a flipped bit in a value would go
//! unnoticed.

use rusqlite::types::Type;
use rusqlite::{Connection, Row};

use super::database::get;

/// The tables whose rows have a checksum, and the columns that hold it. A row from before checksums
/// has none, and is trusted.
const SUMS: [(&str, &str); 6] = [
    ("meta", "sum"),
    ("entries", "sum"),
    ("progress", "sum"),
    ("topics", "sum"),
    ("segments", "sum"),
    ("segments", "marks_sum"),
];

/// A row, or a value, that differs from what was written.
#[derive(Debug, thiserror::Error)]
#[error("a row of the table {0} is damaged")]
pub(super) struct DamagedRow(pub &'static str);

/// A row's checksum being computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    table: &'static str,
    crc: u32,
}

impl Sum {
    pub(super) fn of(table: &'static str) -> Self {
        Self { table, crc: crc32c::crc32c(table.as_bytes()) }
    }

    /// Adds a number.
    pub(super) fn number(self, value: u64) -> Self {
        Self { crc: crc32c::crc32c_append(self.crc, &value.to_le_bytes()), ..self }
    }

    /// Adds bytes, and their length.
    pub(super) fn bytes(self, value: &[u8]) -> Self {
        let counted = self.number(value.len() as u64);
        Self { crc: crc32c::crc32c_append(counted.crc, value), ..self }
    }

    /// The sum as it is stored.
    pub(super) fn value(self) -> i64 {
        i64::from(self.crc)
    }

    /// `Err` unless the column at `place` of `row` holds this sum.
    pub(super) fn check(self, row: &Row<'_>, place: usize) -> rusqlite::Result<()> {
        match row.get::<_, Option<i64>>(place)? {
            Some(stored) if stored != self.value() => {
                let damaged = Box::new(DamagedRow(self.table));
                Err(rusqlite::Error::FromSqlConversionFailure(place, Type::Integer, damaged))
            }
            _ => Ok(()),
        }
    }
}

/// Adds the columns where they are missing.
pub(super) fn add_columns(connection: &Connection) -> rusqlite::Result<()> {
    for (table, column) in SUMS {
        if !connection.column_exists(None, table, column)? {
            connection
                .execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {column} INTEGER"))?;
        }
    }
    Ok(())
}

/// Makes a read-only file look as if it had the columns.
pub(super) fn pretend_columns(connection: &Connection) -> rusqlite::Result<()> {
    for table in ["meta", "entries", "progress", "topics", "segments"] {
        let columns = SUMS.iter().filter(|(of, _)| *of == table);
        let mut missing = String::new();
        for (_, column) in columns {
            if connection.table_exists(None, table)?
                && !connection.column_exists(None, table, column)?
            {
                missing.push_str(&format!(", NULL AS {column}"));
            }
        }
        if !missing.is_empty() {
            let view = format!("CREATE TEMP VIEW {table} AS SELECT *{missing} FROM main.{table}");
            connection.execute_batch(&view)?;
        }
    }
    Ok(())
}

/// Checks every row that is looked up by its key: a lookup would not notice a damaged key.
pub(super) fn check_keys(connection: &Connection) -> rusqlite::Result<()> {
    each(connection, "SELECT name, value, sum FROM meta", |row| {
        let name: String = row.get(0)?;
        Sum::of("meta").bytes(name.as_bytes()).number(get(row, 1)?).check(row, 2)
    })?;
    each(connection, "SELECT kind, name, id, version, value, sum FROM entries", |row| {
        let (name, value): (String, Vec<u8>) = (row.get(1)?, row.get(4)?);
        let sum = Sum::of("entries").number(get(row, 0)?).bytes(name.as_bytes());
        sum.number(get(row, 2)?).number(get(row, 3)?).bytes(&value).check(row, 5)
    })?;
    each(connection, "SELECT subscription, value, sum FROM progress", |row| {
        let value: Vec<u8> = row.get(1)?;
        Sum::of("progress").number(get(row, 0)?).bytes(&value).check(row, 2)
    })
}

fn each(
    connection: &Connection,
    select: &str,
    check: impl Fn(&Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(select)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        check(row)?;
    }
    Ok(())
}
