//! Data folders of every format there was still open, and one of a format to come is refused.

use std::path::{Path, PathBuf};

use domain::{Offset, Progress, SubscriptionId, TopicId, message};
use rusqlite::Connection;
use storage::disk::{self, Options};
use storage::{AttemptQuery, Error, Kind, ReadLimit};

use crate::bed::{Running, folder};

/// Written by the first version: thirty messages, of which the first ten are in a segment, and six
/// large ones; four of them acked by an ordered subscription with a filter.
const FIRST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/v1");

/// Left by the last version without shards when it was killed, with two starts behind it: sixteen
/// orders and three mails, of which ten and two are in segments; ten orders acked, six of them
/// after the last checkpoint; attempts to push of two subscriptions, one deleted since then.
const BEFORE_SHARDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/before-shards");

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
fn golden(of: &str) -> (tempfile::TempDir, PathBuf) {
    let parent = folder();
    let data = parent.path().join("data");
    copy(Path::new(of), &data);
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

async fn only(engine: &Running, kind: Kind, name: &str) -> u64 {
    engine.catalogue.get(kind, name).await.expect("a definition").id
}

/// The messages of a topic.
async fn texts(engine: &Running, topic: TopicId) -> Vec<(Offset, String)> {
    let (mut texts, mut at) = (Vec::new(), Offset(0));
    loop {
        let limit = ReadLimit { records: 10, bytes: 1 << 20 };
        let batch = engine.log.read(topic, at, limit).await.expect("it reads");
        if batch.covered.is_empty() {
            return texts;
        }
        at = batch.covered.to;
        assert_eq!(batch.damaged, []);
        for record in batch.records {
            let message = message::decode(&record.body).expect("a message");
            texts.push((record.offset, String::from_utf8(message.data.to_vec()).expect("a text")));
        }
    }
}

#[tokio::test]
async fn a_folder_of_the_first_format_opens_with_all_that_was_in_it() {
    let (_parent, data) = golden(FIRST);
    let report = disk::verify(&data, &|_| Ok(())).expect("it can be looked at");
    assert_eq!(report.faults, []);
    let (engine, handle) = Running::in_folder(&data, options());
    let topic = TopicId(only(&engine, Kind::Topic, "projects/p/topics/orders").await);
    let texts = texts(&engine, topic).await;
    let expected = (0..20).map(|n| format!("message {n}"));
    let expected = expected.chain((0..6).map(|_| "x".repeat(200_000)));
    let expected: Vec<_> = expected.chain((20..30).map(|n| format!("message {n}"))).collect();
    assert!(texts.iter().map(|(_, text)| text).eq(&expected), "the messages differ");
    let name = "projects/p/subscriptions/billing";
    let subscription = SubscriptionId(only(&engine, Kind::Subscription, name).await);
    let start = Progress::starting_at(texts[0].0);
    let progress = engine.progress.load_one(subscription, start).await.expect("its progress");
    let acked = texts.iter().filter(|(offset, _)| progress.is_acked(*offset)).count();
    assert!(progress.is_acked(texts[6].0) && !progress.is_acked(texts[8].0), "{acked} acked");
    only(&engine, Kind::Snapshot, "projects/p/snapshots/before").await;
    handle.close();
    disk::open(&data, options()).expect("it opens again").handle.close();
}

#[test]
fn a_folder_of_a_format_to_come_is_refused_and_left_alone() {
    let (_parent, data) = golden(FIRST);
    let database = Connection::open(data.join("store.sqlite")).expect("SQLite's file");
    let raised = database.execute("UPDATE meta SET value = 7 WHERE name = 'format'", []);
    assert_eq!(raised.expect("written"), 1);
    drop(database);
    let before = std::fs::read(data.join("store.sqlite")).expect("SQLite's file");
    let opened = disk::open(&data, options()).map(drop);
    assert!(matches!(opened, Err(Error::Format { found: 7, .. })), "{opened:?}");
    assert_eq!(std::fs::read(data.join("store.sqlite")).expect("SQLite's file"), before);
}

#[tokio::test]
async fn a_folder_from_before_shards_opens_with_all_that_was_in_it() {
    let (_parent, data) = golden(BEFORE_SHARDS);
    let report = disk::verify(&data, &|_| Ok(())).expect("it can be looked at");
    assert_eq!(report.faults, []);
    let (mut engine, mut handle) = Running::in_folder(&data, options());
    assert!(engine.shard.epoch.0 >= 3 << 20, "above all that were given: {:?}", engine.shard.epoch);
    assert_eq!(engine.catalogue.serial().await.expect("a number"), 23);
    // What a start changes must not change what the next one finds.
    for _ in 0..2 {
        check_before_shards(&engine).await;
        handle.close();
        (engine, handle) = Running::in_folder(&data, options());
    }
}

async fn check_before_shards(engine: &Running) {
    let orders = TopicId(only(engine, Kind::Topic, "projects/p/topics/orders").await);
    let found = texts(engine, orders).await;
    let expected: Vec<_> = (0..16).map(|n| format!("order {n}")).collect();
    assert!(found.iter().map(|(_, text)| text).eq(&expected), "{found:?}");
    let mails = TopicId(only(engine, Kind::Topic, "projects/p/topics/mails").await);
    let mails: Vec<_> = texts(engine, mails).await.into_iter().map(|(_, text)| text).collect();
    assert_eq!(mails, ["mail 0", "mail 1", "mail 2"]);

    let claim = engine.log.begin(orders, Offset(7)).await.expect("a claim");
    assert_eq!(claim.next, found[15].0.next());
    let name = "projects/p/subscriptions/billing";
    let billing = SubscriptionId(only(engine, Kind::Subscription, name).await);
    let start = Progress::starting_at(found[0].0);
    let progress = engine.progress.load_one(billing, start).await.expect("its progress");
    assert_eq!(progress.cursor(), found[10].0, "four by the checkpoint, six by the log");

    let name = "projects/p/subscriptions/pushed";
    let pushed = SubscriptionId(only(engine, Kind::Subscription, name).await);
    let deleted = SubscriptionId(15);
    let query = AttemptQuery { limit: 100, ..AttemptQuery::default() };
    let attempts = engine.attempts.list(pushed, query).await.expect("its attempts").attempts;
    let counts: Vec<_> = attempts.iter().map(|one| one.attempt.attempt).collect();
    assert_eq!(counts, [4, 3, 3, 2, 2, 1, 1]);
    assert!(attempts.is_sorted_by(|one, other| one.number > other.number), "{attempts:?}");
    let last = engine.attempts.last(vec![pushed, deleted]).await.expect("numbers");
    assert_eq!(last, [attempts[0].number, 0], "nothing is kept of what was deleted");
}
