//! Records move to segments from memory where they still are, and from the log's files otherwise.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{Offset, OffsetRange, Record, TopicId};
use storage::disk::Options;
use storage::{Keep, Need, ReadLimit};
use testkit::SimDisk;
use testkit::disk::{Call, Traced};

use crate::bed::{Bed, Running, tiny};
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
    fn needed(&self, _: TopicId, range: OffsetRange) -> Need {
        let needed = |offset: &u64| !offset.is_multiple_of(5) && offset % 100 < 70;
        let offsets = (range.from.0..range.to.0).filter(needed);
        Need::Only(offsets.map(|offset| OffsetRange::one(Offset(offset))).collect())
    }
}

/// Needs nothing.
struct Nothing;

impl Keep for Nothing {
    fn needed(&self, _: TopicId, _: OffsetRange) -> Need {
        Need::Gone
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

/// Something of a topic.
type Place<T> = (TopicId, T);

/// All records of every topic, and the offsets that read as damaged.
async fn read_all(engine: &Running, owner: &Owner) -> (Vec<Place<Record>>, Vec<Place<Offset>>) {
    let (mut records, mut damaged) = (Vec::new(), Vec::new());
    for topic in &owner.topics {
        let mut at = topic.first;
        loop {
            let limit = ReadLimit { records: 50, bytes: 20_000 };
            let batch = engine.log.read(topic.id, at, limit).await.expect("others go on");
            if batch.covered.is_empty() {
                break;
            }
            at = batch.covered.to;
            records.extend(batch.records.into_iter().map(|record| (topic.id, record)));
            damaged.extend(batch.damaged.into_iter().map(|offset| (topic.id, offset)));
        }
    }
    (records, damaged)
}

/// The log files that are filled: all but the last.
fn filled_files(disk: &SimDisk) -> Vec<(String, Arc<Vec<u8>>)> {
    let mut log: Vec<_> =
        disk.files().into_iter().filter(|(name, _)| name.starts_with("wal/")).collect();
    log.pop();
    assert!(log.len() > 1, "several files are filled");
    log
}

/// Keeps everything.
struct All;

impl Keep for All {
    fn needed(&self, _: TopicId, range: OffsetRange) -> Need {
        Need::Only(vec![range])
    }
}

/// Flips one byte, trims, and checks that all else was moved and that what is lost is named, now
/// and after a restart. How many records were lost.
async fn trims_though_flipped(bed: &Bed, owner: &Owner, file: &str, byte: usize) -> u64 {
    let flipped = Bed::of(bed.disk.fork(), &bed.database());
    let engine = flipped.open_with(with_tail(NOTHING)).expect("the copy opens");
    let (all, _) = read_all(&engine, owner).await;
    flipped.disk.flip(file, byte, 3);
    let at = format!("byte {byte} of {file}");
    let trimmed = engine.log.trim(Arc::new(All)).await.unwrap_or_else(|e| panic!("{at}: {e}"));
    let left = flipped.disk.files().into_keys().filter(|name| name.starts_with("wal/"));
    assert_eq!(left.count(), 1, "{at}: the log was emptied");
    for reopened in [false, true] {
        let engine = if reopened {
            flipped.close();
            flipped.open_with(with_tail(NOTHING)).unwrap_or_else(|e| panic!("{at}: {e}"))
        } else {
            engine.clone()
        };
        let (records, damaged) = read_all(&engine, owner).await;
        let right =
            all.iter().filter(|(topic, record)| !damaged.contains(&(*topic, record.offset)));
        assert!(records.iter().eq(right), "{at}, {damaged:?} damaged");
        assert_eq!(damaged.len() as u64, trimmed.records_damaged, "{at}, reopened: {reopened}");
        assert_eq!(records.len() + damaged.len(), all.len(), "{at}: none is silently gone");
    }
    let set_aside = flipped.disk.files().into_keys().any(|name| name.starts_with("damaged/"));
    assert_eq!(set_aside, trimmed.records_damaged > 0, "{at}: what is unreadable is kept");
    trimmed.records_damaged
}

#[tokio::test]
async fn a_flipped_byte_of_a_synced_group_costs_its_record_and_stops_no_trim() {
    let bed = Bed::new();
    let owner = filled(&bed, NOTHING).await;
    bed.close();
    let (mut none, mut one, mut most) = (0, 0, 0);
    for (name, bytes) in filled_files(&bed.disk) {
        // Headers of groups, of frames and of records, and what is in between.
        let heads = (4_096..bytes.len())
            .step_by(4_096)
            .flat_map(|block| [3, 17, 40, 60, 90].map(|at| block + at));
        for byte in heads.chain((4_200..bytes.len()).step_by(1_777)) {
            match trims_though_flipped(&bed, &owner, &name, byte).await {
                0 => none += 1,
                1 => one += 1,
                lost => most = most.max(lost),
            }
        }
    }
    assert!(none > 5 && one > 20, "{none} flips cost nothing, {one} one record, at most {most}");
    assert!(most <= 1, "a flipped byte cost {most} records");
}

#[tokio::test]
async fn of_a_log_that_is_damaged_everywhere_every_good_record_is_moved() {
    let bed = Bed::new();
    let mut owner = filled(&bed, NOTHING).await;
    let (before, _) = read_all(&owner.engine, &owner).await;
    for (name, bytes) in filled_files(&bed.disk) {
        for block in (4_096..bytes.len()).step_by(4_096) {
            // The first record of a group, and something in the middle of a longer one.
            bed.disk.flip(&name, block + 75, 3);
        }
    }
    let (readable, damaged) = read_all(&owner.engine, &owner).await;
    assert!(readable.len() > 50 && damaged.len() > 10, "{} damaged", damaged.len());
    let trimmed = owner.engine.log.trim(Arc::new(All)).await.expect("a trim");
    assert_eq!(trimmed.records_damaged, damaged.len() as u64);
    let (records, still_damaged) = read_all(&owner.engine, &owner).await;
    assert!(records == readable && still_damaged == damaged);
    assert_eq!(records.len() + damaged.len(), before.len());
    owner.publish(0, &[100]).await.expect("life goes on");
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
