//! Records move to segments from memory where they still are, and from the log's files otherwise.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{Offset, OffsetRange, TopicId};
use storage::disk::Options;
use storage::{Error, Keep};
use testkit::SimDisk;
use testkit::disk::{Call, Traced};

use crate::bed::{Bed, tiny};
use crate::owner::Owner;
use crate::script;

/// A tail that holds everything these tests publish, or next to nothing.
fn with_tail(tail_memory_bytes: usize) -> Options {
    Options { tail_memory_bytes, ..tiny() }
}

const ALL: usize = 8 << 20;
const NOTHING: usize = 1;

/// Keeps all but every fifth record, and nothing at all of some stretches.
struct Most;

impl Keep for Most {
    fn needed(&self, _: TopicId, range: OffsetRange) -> Vec<OffsetRange> {
        let needed = |offset: &u64| !offset.is_multiple_of(5) && offset % 100 < 70;
        let offsets = (range.from.0..range.to.0).filter(needed);
        offsets.map(|offset| OffsetRange::one(Offset(offset))).collect()
    }
}

/// Needs nothing.
struct Nothing;

impl Keep for Nothing {
    fn needed(&self, _: TopicId, _: OffsetRange) -> Vec<OffsetRange> {
        Vec::new()
    }
}

/// A store whose log has several filled files, with a checkpoint behind them.
async fn filled(bed: &Bed, tail_memory_bytes: usize) -> Owner {
    let engine = bed.open_with(with_tail(tail_memory_bytes)).expect("a fresh store");
    let mut owner = Owner::new(engine);
    script::set_up(&mut owner).await.expect("a working store");
    for number in 0..60 {
        owner.publish(number % 3, &[700 + number, 90, 2_000]).await.expect("published");
    }
    owner.checkpoint().await.expect("a checkpoint");
    owner
}

fn segments(disk: &SimDisk) -> BTreeMap<String, Arc<Vec<u8>>> {
    let mut files = disk.files();
    files.retain(|name, _| name.starts_with("topics/"));
    files
}

/// Damages every group of every log file but the one that is being written.
fn damage_log(disk: &SimDisk) {
    let files = disk.files();
    let log: Vec<_> = files.iter().filter(|(name, _)| name.starts_with("wal/")).collect();
    assert!(log.len() > 2, "several files are filled");
    for (name, bytes) in log.iter().take(log.len() - 1) {
        for block in (4_096..bytes.len()).step_by(4_096) {
            disk.flip(name, block + 50, 3);
        }
    }
}

#[tokio::test]
async fn from_memory_and_from_the_log_the_same_segments_are_made() {
    let bed = Bed::new();
    let owner = filled(&bed, ALL).await;
    // The same store as another process would find it: nothing of it is in memory.
    let copy = Bed::of(bed.disk.fork(), &bed.database());
    let reopened = copy.open_with(with_tail(NOTHING)).expect("the copy opens");

    let from_memory = owner.engine.log.trim(Arc::new(Most)).await.expect("a trim");
    let from_log = reopened.log.trim(Arc::new(Most)).await.expect("a trim");

    assert!(from_memory.records_moved > 50 && from_memory.records_dropped > 20);
    assert_eq!(from_memory, from_log);
    let made = segments(&bed.disk);
    assert!(made.len() > 2);
    assert!(made == segments(&copy.disk), "the segments differ");
}

#[tokio::test]
async fn what_is_in_memory_is_moved_whatever_became_of_the_log_file() {
    let bed = Bed::new();
    let mut owner = filled(&bed, ALL).await;
    damage_log(&bed.disk);
    let trimmed = owner.trim().await.expect("a trim");
    assert!(trimmed.records_moved > 50);
    let history = Arc::clone(&owner.history);
    drop(owner);
    bed.close();
    // Every record has its own checksum in the segments, and nothing else is left of the files.
    let reopened = bed.open().expect("the damaged files are gone");
    history.check(&reopened, history.mark()).await;
}

#[tokio::test]
async fn what_is_not_in_memory_is_checked_before_it_is_moved() {
    let bed = Bed::new();
    let mut owner = filled(&bed, NOTHING).await;
    damage_log(&bed.disk);
    let refused = owner.trim().await;
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    assert!(bed.disk.files().keys().filter(|name| name.starts_with("wal/")).count() > 2);
}

#[tokio::test]
async fn a_file_of_which_nothing_is_needed_is_not_even_read() {
    let bed = Bed::new();
    let owner = filled(&bed, NOTHING).await;
    let before = bed.disk.trace().len();
    let trimmed = owner.engine.log.trim(Arc::new(Nothing)).await.expect("a trim");
    assert!(trimmed.records_dropped > 100 && trimmed.records_moved == 0, "{trimmed:?}");
    let calls = bed.disk.trace();
    let read = |call: &&Traced| call.call == Call::Read;
    assert_eq!(calls[before..].iter().filter(read).count(), 0);
}
