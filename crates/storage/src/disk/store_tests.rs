//! The whole engine on a real disk, with everything running at once.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::{Message, NodeId, Offset, OffsetRange, Timestamp, TopicId, message};

use super::super::{Handle, Opened, Options, open, verify};
use super::SHARD;
use crate::{
    Append, Checkpoint, Commit, Error, Keep, Listener, Need, NewRecord, ReadLimit, Result, Shard,
    Urgency,
};

fn block_on<T>(future: impl std::future::Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

const TOPICS: [TopicId; 2] = [TopicId(1), TopicId(2)];
const RECORDS: u64 = 6_000;

fn tiny() -> Options {
    Options {
        wal_segment_bytes: 256 << 10,
        wal_max_bytes: 1 << 20,
        tail_memory_bytes: 64 << 10,
        topic_segment_bytes: 300 << 10,
        reserve_bytes: 1 << 20,
        ..Options::default()
    }
}

/// Keeps every record except each seventh.
struct MostOf;

impl Keep for MostOf {
    fn needed(&self, _: TopicId, range: OffsetRange) -> Need {
        let offsets = (range.from.0..range.to.0).filter(|offset| offset % 7 != 0);
        Need::Only(offsets.map(|offset| OffsetRange::one(Offset(offset))).collect())
    }
}

/// Wants to be told nothing.
struct Deaf;

impl Listener for Deaf {
    fn visible(&self, _: &[(TopicId, Offset)]) {}
    fn pressed(&self) {}
    fn stalled(&self, _: bool) {}
    fn failed(&self, _: &Error) {}
}

fn content(topic: TopicId, offset: u64) -> Vec<u8> {
    let length = usize::try_from(100 + offset % 400).unwrap();
    format!("{}/{offset} ", topic.0).repeat(100).into_bytes()[..length].to_vec()
}

fn publish(shard: &Shard, topic: TopicId) {
    block_on(shard.log.begin(topic, Offset(0))).unwrap();
    let mut next = 0;
    while next < RECORDS {
        block_on(shard.log.room()).unwrap();
        let count = 1 + next % 20;
        let records = (next..next + count).map(|offset| NewRecord {
            message: Message { data: content(topic, offset).into(), ..Message::default() },
            publish_time: Timestamp(offset * 10),
            addressee: None,
        });
        let append = Append { topic, first: Offset(next), records: records.collect() };
        let (appends, progress) = (vec![append], Vec::new());
        shard.log.commit(Commit { appends, progress, urgency: Urgency::Durable }).wait().unwrap();
        next += count;
    }
}

/// Reads the whole topic; every record must be the right one, and no kept one may be missing.
fn read_through(shard: &Shard, topic: TopicId, bytes: usize) {
    let end = shard.log.end(topic);
    let mut next = Offset(0);
    while next < end {
        let limit = ReadLimit { records: 500, bytes };
        let batch = block_on(shard.log.read(topic, next, limit)).unwrap();
        assert!(batch.damaged.is_empty(), "{:?}", batch.damaged);
        assert_eq!(batch.covered.from, next);
        let mut expected = next.0;
        for record in &batch.records {
            let missing = expected..record.offset.0;
            assert!(missing.clone().all(|offset| offset % 7 == 0), "{missing:?} of {topic:?}");
            let message = message::decode(&record.body).unwrap();
            assert_eq!(message.data, content(topic, record.offset.0));
            assert_eq!(record.publish_time.0, record.offset.0 * 10);
            expected = record.offset.0 + 1;
        }
        assert!((expected..batch.covered.to.0).all(|offset| offset % 7 == 0));
        next = batch.covered.to;
    }
}

fn trim(shard: &Shard) -> Result<()> {
    let position = shard.log.position();
    block_on(shard.progress.checkpoint(Checkpoint { position, ..Checkpoint::default() }))?;
    block_on(shard.log.trim(Arc::new(MostOf))).map(drop)
}

fn opened(folder: &Path) -> Opened {
    open(folder, tiny()).unwrap()
}

fn shard(opened: &Opened) -> Shard {
    block_on(opened.engine.shards.open(SHARD, NodeId(1), Arc::new(Deaf))).unwrap()
}

fn opened_shard(folder: &Path, options: Options) -> (Shard, Handle) {
    let opened = open(folder, options).unwrap();
    (shard(&opened), opened.handle)
}

#[test]
fn readers_see_the_right_records_while_files_are_moved_and_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let (shard, handle) = opened_shard(folder.path(), tiny());
    let published = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let publishers = TOPICS.map(|topic| {
            let shard = &shard;
            scope.spawn(move || publish(shard, topic))
        });
        for (topic, bytes) in TOPICS.into_iter().zip([900, 1 << 20]) {
            let (shard, published) = (&shard, &published);
            scope.spawn(move || {
                while !published.load(Ordering::Relaxed) {
                    read_through(shard, topic, bytes);
                }
            });
        }
        let trimmer = scope.spawn(|| {
            while !published.load(Ordering::Relaxed) {
                trim(&shard).unwrap();
            }
        });
        let done = publishers.map(|publisher| publisher.join().is_ok());
        published.store(true, Ordering::Relaxed);
        trimmer.join().unwrap();
        assert_eq!(done, [true, true]);
    });
    trim(&shard).unwrap();
    handle.close();
    assert!(matches!(trim(&shard), Err(Error::Unavailable(_))));
    let report = verify(folder.path(), &|_| Ok(())).unwrap();
    assert!(report.faults.is_empty() && report.segments > 4, "{report:?}");

    let (reopened, _handle) = opened_shard(folder.path(), tiny());
    for topic in TOPICS {
        assert!(reopened.log.end(topic).0 >= RECORDS);
        read_through(&reopened, topic, 1 << 20);
        let at = block_on(reopened.log.offset_at(topic, Timestamp(12_320))).unwrap();
        assert_eq!(at, Offset(1_233), "1232 was not needed");
        assert_eq!(block_on(reopened.log.offset_at(topic, Timestamp(0))).unwrap(), Offset(1));
    }
}

#[test]
fn a_folder_can_be_opened_again_once_everything_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let first = opened(folder.path());
    assert!(matches!(open(folder.path(), tiny()), Err(Error::InUse(_))));
    assert!(matches!(verify(folder.path(), &|_| Ok(())), Err(Error::InUse(_))));
    drop(first);
    drop(opened(folder.path()));
    assert!(verify(folder.path(), &|_| Ok(())).unwrap().faults.is_empty());
}

/// A window of the log that is read only in part must not count as read, wherever the part ends: a
/// record in the rest would be mistaken for a gap.
#[test]
fn every_record_comes_from_every_offset_under_every_limit() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { wal_segment_bytes: 4 << 20, wal_max_bytes: 16 << 20, ..tiny() };
    let (shard, handle) = opened_shard(folder.path(), options);
    std::thread::scope(|scope| {
        for topic in TOPICS {
            let shard = &shard;
            scope.spawn(move || publish(shard, topic));
        }
    });
    handle.close();
    let (shard, _handle) = opened_shard(folder.path(), options);
    check_limits(&shard);
    let position = shard.log.position();
    block_on(shard.progress.checkpoint(Checkpoint { position, ..Checkpoint::default() })).unwrap();
    block_on(shard.log.trim(Arc::new(MostOf))).unwrap();
    check_limits(&shard);
}

fn check_limits(shard: &Shard) {
    for records in [1, 7, 1_000] {
        // The larger limits span several windows, of which the last is read in part.
        for bytes in [1, 1 << 10, 64 << 10, 200 << 10, 300 << 10, 1 << 20] {
            for topic in TOPICS {
                let end = shard.log.end(topic).0;
                for from in (0..end).step_by(37) {
                    check_read(shard, topic, from, ReadLimit { records, bytes });
                }
            }
        }
    }
}

/// One read: no kept record may be missing from what it covers.
fn check_read(shard: &Shard, topic: TopicId, from: u64, limit: ReadLimit) {
    let batch = block_on(shard.log.read(topic, Offset(from), limit)).unwrap();
    assert!(batch.damaged.is_empty() && !batch.covered.is_empty());
    let found: std::collections::BTreeSet<_> =
        batch.records.iter().map(|record| record.offset.0).collect();
    for offset in from..batch.covered.to.0 {
        let kept = found.contains(&offset) || offset % 7 == 0;
        assert!(kept, "{offset} is missing from {:?} under {limit:?}", batch.covered);
    }
}
