//! Data folders of every format there was still open, and one of a format to come is refused.

use std::path::{Path, PathBuf};

use domain::{Offset, Progress, SubscriptionId, TopicId, message};
use rusqlite::Connection;
use storage::disk::{self, Options};
use storage::{Engine, Error, Kind, ReadLimit};

use crate::bed::folder;

/// Written by the first version: thirty messages, of which the first ten are in a segment, and six
/// large ones; four of them acked by an ordered subscription with a filter.
const FIRST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v1");

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder").map(|entry| entry.expect("an entry")) {
        let to = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).expect("copied");
        }
    }
}

/// A copy that may be changed.
fn golden() -> (tempfile::TempDir, PathBuf) {
    let parent = folder();
    let data = parent.path().join("data");
    copy(Path::new(FIRST), &data);
    (parent, data)
}

fn options() -> Options {
    Options {
        wal_segment_bytes: 1 << 20,
        wal_max_bytes: 2 << 20,
        reserve_bytes: 0,
        ..Options::default()
    }
}

async fn only(engine: &Engine, kind: Kind, name: &str) -> u64 {
    engine.catalogue.get(kind, name).await.expect("a definition").id
}

#[tokio::test]
async fn a_folder_of_the_first_format_opens_with_all_that_was_in_it() {
    let (_parent, data) = golden();
    let report = disk::verify(&data, &|_| Ok(())).expect("it can be looked at");
    assert_eq!(report.faults, []);
    let opened = disk::open(&data, options()).expect("it opens");
    let engine = opened.engine;
    let topic = TopicId(only(&engine, Kind::Topic, "projects/p/topics/orders").await);
    let (mut texts, mut at) = (Vec::new(), Offset(0));
    loop {
        let limit = ReadLimit { records: 10, bytes: 1 << 20 };
        let batch = engine.log.read(topic, at, limit).await.expect("it reads");
        if batch.covered.is_empty() {
            break;
        }
        at = batch.covered.to;
        assert_eq!(batch.damaged, []);
        for record in batch.records {
            let message = message::decode(&record.body).expect("a message");
            texts.push((record.offset, String::from_utf8(message.data.to_vec()).expect("a text")));
        }
    }
    let expected = (0..20).map(|n| format!("message {n}"));
    let expected = expected.chain((0..6).map(|_| "x".repeat(200_000)));
    let expected: Vec<_> = expected.chain((20..30).map(|n| format!("message {n}"))).collect();
    assert!(texts.iter().map(|(_, text)| text).eq(&expected), "the messages differ");
    let name = "projects/p/subscriptions/billing";
    let subscription = SubscriptionId(only(&engine, Kind::Subscription, name).await);
    let start = Progress::starting_at(texts[0].0);
    let progress = engine.progress.load(subscription, start).await.expect("its progress");
    let acked = texts.iter().filter(|(offset, _)| progress.is_acked(*offset)).count();
    assert!(progress.is_acked(texts[6].0) && !progress.is_acked(texts[8].0), "{acked} acked");
    only(&engine, Kind::Snapshot, "projects/p/snapshots/before").await;
    opened.handle.close();
    disk::open(&data, options()).expect("it opens again").handle.close();
}

#[test]
fn a_folder_of_a_format_to_come_is_refused_and_left_alone() {
    let (_parent, data) = golden();
    let database = Connection::open(data.join("store.sqlite")).expect("SQLite's file");
    let raised = database.execute("UPDATE meta SET value = 7 WHERE name = 'format'", []);
    assert_eq!(raised.expect("written"), 1);
    drop(database);
    let before = std::fs::read(data.join("store.sqlite")).expect("SQLite's file");
    let opened = disk::open(&data, options()).map(drop);
    assert!(matches!(opened, Err(Error::Format { found: 7, .. })), "{opened:?}");
    assert_eq!(std::fs::read(data.join("store.sqlite")).expect("SQLite's file"), before);
}
