//! The stores for real.

use std::sync::Arc;

use postrider_consumer::effects::{
    Applied, Effects, Memory, Note, Once, Path, Sqlite, StoreError, Write, WriteKind, conformance,
};
use postrider_consumer::{Failure, Timestamp};
use tempfile::TempDir;

fn path(collection: &str, id: &str) -> Path {
    Path { collection: collection.to_owned(), id: id.to_owned() }
}

fn note(id: &str) -> Note {
    Note { dedupe: path("notes", id), until: Timestamp(u64::MAX) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_keeps_the_promises() {
    conformance::run(Arc::new(Memory::default())).await;
}

#[tokio::test]
async fn memory_is_bounded() {
    let memory = Memory::with_notes_max(1);
    let write = |id: &str, until: u64| Write {
        document: path("c", "d"),
        dedupe: path("n", id),
        dedupe_until: Timestamp(until),
        kind: WriteKind::Merge,
        fields: [].into(),
        event_time: None,
    };
    assert_eq!(memory.apply(&write("a", 5)).await, Ok(Applied::Applied));
    assert!(matches!(memory.apply(&write("b", 5)).await, Err(StoreError::Transient(_))));
    assert_eq!((memory.purge(Timestamp(4)), memory.purge(Timestamp(5))), (0, 1));
    assert_eq!(memory.apply(&write("b", 5)).await, Ok(Applied::Applied));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_keeps_the_promises_also_after_it_was_closed() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("effects.sqlite");
    conformance::run(Arc::new(Sqlite::open(&file).unwrap())).await;
    let again = Sqlite::open(&file).unwrap();
    let known = Write {
        document: path("once", "document"),
        dedupe: path("once_dedupe", "m1"),
        dedupe_until: Timestamp(0),
        kind: WriteKind::Merge,
        fields: [].into(),
        event_time: None,
    };
    assert_eq!(again.apply(&known).await, Ok(Applied::Duplicate));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_may_share_an_sqlite_file() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("effects.sqlite");
    let stores = [Sqlite::open(&file).unwrap(), Sqlite::open(&file).unwrap()];
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..20 {
        for store in stores.clone() {
            let note = note(&number.to_string());
            tasks.spawn(async move { store.in_transaction(&note, |_| Ok(())).await.unwrap() });
        }
    }
    let done = tasks.join_all().await;
    assert_eq!(done.iter().filter(|once| **once == Once::Done(())).count(), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_sql_and_the_note_are_one_transaction_in_sqlite() {
    let folder = TempDir::new().unwrap();
    let connection = rusqlite::Connection::open(folder.path().join("own.sqlite")).unwrap();
    connection.execute_batch("CREATE TABLE orders (id TEXT)").unwrap();
    let store = Sqlite::over(connection).unwrap();
    let noted = note("m1");
    let add = |id: &'static str, fails: bool| {
        store.in_transaction(&noted, move |transaction| {
            let added = transaction.execute("INSERT INTO orders VALUES (?1)", [id]);
            added.map_err(|error| {
                StoreError::Transient(Failure::new("Sqlite", error.to_string()))
            })?;
            let count = "SELECT count(*) FROM orders";
            let count: i64 = transaction.query_row(count, [], |row| row.get(0)).unwrap();
            if fails { Err(StoreError::Transient(Failure::default())) } else { Ok(count) }
        })
    };
    assert!(add("first", true).await.is_err());
    assert_eq!(add("second", false).await, Ok(Once::Done(1)), "the first left nothing behind");
    assert_eq!(add("third", false).await, Ok(Once::Duplicate));
}

#[tokio::test]
async fn a_file_that_is_no_database_is_a_fault_of_the_set_up() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("text");
    std::fs::write(&file, "this is certainly not an SQLite database, whatever its name").unwrap();
    let opened = Sqlite::open(&file);
    assert!(matches!(opened, Err(StoreError::Config(_))), "{opened:?}");
    let nowhere = Sqlite::open(&folder.path().join("no/such/folder"));
    assert!(matches!(nowhere, Err(StoreError::Config(_))), "{nowhere:?}");
}
