//! The history of attempts: its bound of bytes, and a file that is damaged.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::{Offset, SubscriptionId, Timestamp};
use storage::disk::{self, Opened};
use storage::{
    Attempt, AttemptPage, AttemptQuery, Engine, Error, Kind, NumberedAttempt, Unsettled, memory,
};

use crate::bed::{folder, tiny};

const BYTES_MAX: u64 = 256 << 10;

struct AllOpen;

impl Unsettled for AllOpen {
    fn unsettled(&self, _: SubscriptionId, offsets: &[Offset]) -> Vec<Offset> {
        offsets.to_vec()
    }
}

const SUBSCRIPTIONS: u64 = 10;

/// One of ten subscriptions, as a disk engine numbers them when they are the first definitions.
fn subscription(number: u64) -> SubscriptionId {
    SubscriptionId(1 + 2 * (number % SUBSCRIPTIONS))
}

/// A failure with an answer of 1 KiB, of one of ten subscriptions.
fn failure(number: u64) -> NumberedAttempt {
    let attempt = Attempt {
        subscription: subscription(number),
        offset: Offset(number),
        attempt: 1,
        at: Timestamp(number),
        duration: Duration::from_micros(7),
        address: None,
        status: Some(500),
        class: "http_5xx".into(),
        error: None,
        response: Bytes::from(vec![b'x'; 1_024]),
    };
    NumberedAttempt { number, attempt }
}

async fn append(engine: &Engine, numbers: std::ops::Range<u64>) {
    let attempts = numbers.map(failure).collect();
    engine.attempts.append(attempts, Arc::new(AllOpen)).await.expect("appended");
}

async fn list(engine: &Engine, number: u64) -> AttemptPage {
    let query = AttemptQuery { limit: 10_000, ..AttemptQuery::default() };
    engine.attempts.list(subscription(number), query).await.expect("listed")
}

/// The last numbers of two subscriptions.
async fn last(engine: &Engine) -> Result<Vec<u64>, Error> {
    engine.attempts.last(vec![subscription(0), subscription(1)]).await
}

/// The numbers kept of all subscriptions, ascending.
async fn kept(engine: &Engine) -> Vec<u64> {
    let mut numbers = Vec::new();
    for number in 0..SUBSCRIPTIONS {
        let page = list(engine, number).await;
        numbers.extend(page.attempts.iter().map(|numbered| numbered.number));
    }
    numbers.sort_unstable();
    numbers
}

/// Only the oldest may be gone, and not many more than must.
async fn the_newest_are_kept(engine: &Engine, end: u64) {
    let kept = kept(engine).await;
    let count = kept.len() as u64;
    assert_eq!(kept, (end - count..end).collect::<Vec<_>>());
    assert!((100..256).contains(&count), "{count} are kept in 256 KiB");
}

/// A store in which the subscriptions are defined: it forgets the attempts of all others.
async fn open(folder: &Path) -> Opened {
    let options = disk::Options { attempt_bytes_max: BYTES_MAX, ..tiny() };
    let opened = disk::open(folder, options).expect("it opens");
    for number in 0..SUBSCRIPTIONS {
        let catalogue = &opened.engine.catalogue;
        let (kind, name) = (Kind::Subscription, format!("s{number}"));
        let entry = match catalogue.put(kind, &name, Bytes::new(), None).await {
            Err(Error::Conflict) => catalogue.get(kind, &name).await,
            other => other,
        };
        assert_eq!(SubscriptionId(entry.expect("a definition").id), subscription(number));
    }
    opened
}

fn file(folder: &Path) -> PathBuf {
    folder.join("attempts.sqlite")
}

#[tokio::test]
async fn the_file_never_outgrows_its_bound() {
    let folder = folder();
    let opened = open(folder.path()).await;
    let mut end = 1;
    for count in [50, 100, 1_000, 1, 2_000, 300] {
        append(&opened.engine, end..end + count).await;
        end += count;
        if end > 300 {
            the_newest_are_kept(&opened.engine, end).await;
        }
    }
    opened.handle.close();
    let length = std::fs::metadata(file(folder.path())).expect("a file").len();
    assert!((BYTES_MAX / 2..=BYTES_MAX).contains(&length), "{length} bytes");
}

#[tokio::test]
async fn the_memory_never_outgrows_its_bound() {
    let options = memory::Options { attempt_bytes_max: BYTES_MAX, ..memory::Options::default() };
    let engine = memory::open_with(options);
    append(&engine, 1..300).await;
    append(&engine, 300..2_000).await;
    the_newest_are_kept(&engine, 2_000).await;
}

async fn begins_anew(folder: &Path) {
    let Opened { engine, handle, .. } = open(folder).await;
    assert_eq!(last(&engine).await.expect("readable"), [0, 0]);
    append(&engine, 20..21).await;
    handle.close();
    let Opened { engine, handle, .. } = open(folder).await;
    assert_eq!(list(&engine, 0).await.attempts, [failure(20)]);
    handle.close();
    assert!(folder.join("attempts.sqlite.broken").exists(), "the old file is kept");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_set_aside() {
    let folder = folder();
    std::fs::write(file(folder.path()), "rubbish ".repeat(1_000)).expect("written");
    begins_anew(folder.path()).await;
}

#[tokio::test]
async fn a_file_of_another_version_is_set_aside() {
    let folder = folder();
    let Opened { engine, handle, .. } = open(folder.path()).await;
    append(&engine, 1..10).await;
    handle.close();
    let mut bytes = std::fs::read(file(folder.path())).expect("readable");
    // Where SQLite keeps the user's version: 4 bytes, the greatest first.
    bytes[63] = 99;
    std::fs::write(file(folder.path()), bytes).expect("written");
    begins_anew(folder.path()).await;
}

#[tokio::test]
async fn damage_that_is_found_later_is_set_aside_too() {
    let folder = folder();
    let Opened { engine, handle, .. } = open(folder.path()).await;
    append(&engine, 1..150).await;
    handle.close();
    let mut bytes = std::fs::read(file(folder.path())).expect("readable");
    for byte in &mut bytes[3 * 4_096..] {
        *byte = !*byte;
    }
    std::fs::write(file(folder.path()), bytes).expect("written");
    let Opened { engine, handle, .. } = open(folder.path()).await;
    for number in 0..SUBSCRIPTIONS {
        list(&engine, number).await;
    }
    append(&engine, 1_000..1_010).await;
    assert_eq!(kept(&engine).await, (1_000..1_010).collect::<Vec<_>>());
    handle.close();
    assert!(folder.path().join("attempts.sqlite.broken").exists(), "the old file is kept");
}

#[tokio::test]
async fn a_closed_store_has_no_history() {
    let folder = folder();
    let Opened { engine, handle, .. } = open(folder.path()).await;
    append(&engine, 1..10).await;
    handle.close();
    let answer = last(&engine).await;
    assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
}
