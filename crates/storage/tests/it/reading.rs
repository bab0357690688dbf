//! Reads find every record, wherever it is: in the log's files, in topic segments, on its way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use domain::{Offset, OffsetRange, Record, TopicId};
use parking_lot::Mutex;
use storage::disk::Options;
use storage::{Batch, Checkpoint, Keep, Need, ReadLimit, TailRead, Urgency};
use testkit::Random;
use testkit::disk::Call;

use crate::bed::{Bed, Running, tiny};
use crate::history::as_kept;
use crate::owner::Owner;
use crate::script;

/// Log files larger than anything that is read at once, and next to no memory.
fn large() -> Options {
    Options {
        wal_segment_bytes: 8 << 20,
        wal_max_bytes: 128 << 20,
        group_bytes_max: 2 << 20,
        queue_bytes_max: 64 << 20,
        topic_segment_bytes: 3 << 20,
        tail_memory_bytes: 4 << 10,
        ..tiny()
    }
}

/// What was published to each topic, in offset order.
type Published = BTreeMap<TopicId, Vec<Record>>;

/// Publishes batches of all kinds to three topics in turns, some sharing groups.
async fn publish_all_kinds(owner: &mut Owner) -> Published {
    let mut batches: Vec<(usize, Vec<usize>)> = Vec::new();
    for n in 0..40 {
        batches.push((n % 3, vec![n * 3; 1 + n % 7]));
        // Around the end of a block, so that some groups fill their blocks exactly.
        batches.extend((0..12).map(|k| (n % 2, vec![3_850 + n * 12 + k])));
        if n % 8 == 3 {
            batches.push((n % 3, vec![150; 700]));
            batches.push((2, vec![40_000; 5]));
            batches.push(((n + 1) % 3, vec![300_000]));
        }
    }
    batches.push((0, vec![1_300_000]));
    batches.push((1, vec![900; 1_600]));
    batches.push((1, vec![5, 1_100_000, 5]));
    let mut published = Published::new();
    let mut queued = Vec::new();
    for (number, (topic, sizes)) in batches.iter().enumerate() {
        queued.push(owner.queue(&[(*topic, sizes)], Vec::new(), Urgency::Durable));
        for append in &owner.history.last_commit().appends {
            published.entry(append.topic).or_default().extend(as_kept(append));
        }
        if number % 5 == 0 {
            for pending in queued.drain(..) {
                owner.settle(pending).await.expect("published");
            }
        }
    }
    for pending in queued {
        owner.settle(pending).await.expect("published");
    }
    published
}

/// Checks one read: it starts where it was asked to, goes forward, keeps to its limit, and inside
/// of what it covers every needed record comes, as it was published.
fn check(
    batch: &Batch,
    from: Offset,
    limit: ReadLimit,
    all: &[Record],
    needed: &dyn Fn(Offset) -> bool,
) {
    let first = all[0].offset;
    let at = format!("from {} within {limit:?}: covers {:?}", from.0 - first.0, batch.covered);
    assert_eq!((batch.covered.from, batch.damaged.len()), (from, 0), "{at}");
    assert!(batch.covered.to > from, "no way forward {at}");
    let bytes: usize = batch.records.iter().map(|record| record.body.len()).sum();
    assert!(batch.records.len() <= limit.records, "{} records {at}", batch.records.len());
    assert!(bytes <= limit.bytes || batch.records.len() == 1, "{bytes} bytes {at}");
    let place = |offset: Offset| usize::try_from(offset.0 - first.0).expect("a small number");
    let mut found = batch.records.iter().peekable();
    for expected in &all[place(from)..place(batch.covered.to)] {
        match found.next_if(|record| record.offset == expected.offset) {
            Some(record) => assert!(record == expected, "record {} {at}", expected.offset),
            None => assert!(!needed(expected.offset), "{} is skipped {at}", expected.offset),
        }
    }
    assert!(found.next().is_none(), "records out of order or outside {at}");
}

const BYTES: [usize; 4] = [1, 1 << 10, 64 << 10, 1 << 20];
const RECORDS: [usize; 3] = [1, 7, 1_000];

/// Reads from every `step`-th offset with every limit, and once from start to end with each.
async fn check_reads(
    engine: &Running,
    published: &Published,
    needed: &dyn Fn(Offset) -> bool,
    random: &mut Random,
) {
    for (&topic, all) in published {
        for (bytes, records) in BYTES.into_iter().flat_map(|b| RECORDS.map(|r| (b, r))) {
            let limit = ReadLimit { records, bytes };
            // Wide reads are slow, so they start at fewer places.
            let step = 1 + (records.min(40) * bytes.min(1 << 18)) as u64 / 4_000;
            let mut at = all[0].offset.0 + random.below(step);
            while at < all[0].offset.0 + all.len() as u64 {
                let batch = engine.log.read(topic, Offset(at), limit).await.expect("a read");
                check(&batch, Offset(at), limit, all, needed);
                at += 1 + random.below(2 * step);
            }
            if records * bytes > 100_000 {
                walk(engine, topic, all, limit, needed).await;
            }
        }
    }
}

async fn walk(
    engine: &Running,
    topic: TopicId,
    all: &[Record],
    limit: ReadLimit,
    needed: &dyn Fn(Offset) -> bool,
) {
    let mut at = all[0].offset;
    while at < engine.log.end(topic) {
        let batch = engine.log.read(topic, at, limit).await.expect("a read");
        check(&batch, at, limit, all, needed);
        at = batch.covered.to;
    }
}

/// A read goes on from one stretch of the log to the next with what its limit has left, so every
/// limit makes it stop at another byte: also at the very end of a block or of a record.
#[tokio::test]
async fn a_read_that_stops_at_any_byte_skips_nothing() {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open_with(large()).expect("a fresh store"));
    script::set_up(&mut owner).await.expect("a working store");
    let mut all = Vec::new();
    for number in 0..300 {
        // Blocks that are nearly full, then blocks that are nearly empty, so that what the limit
        // has left spans many groups.
        let size = if number % 150 < 48 { 3_100 } else { 500 };
        let pending = owner.queue(&[(0, &[size])], Vec::new(), Urgency::Durable);
        all.extend(owner.history.last_commit().appends.iter().flat_map(as_kept));
        owner.settle(pending).await.expect("published");
    }
    let (topic, first) = (owner.topics[0].id, owner.topics[0].first);
    for (from, bytes) in [(0, 200_000), (20, 160_000), (120, 220_000)] {
        for more in 0..2_100 {
            let limit = ReadLimit { records: 1_000, bytes: bytes + more };
            let batch = owner.engine.log.read(topic, first.plus(from), limit).await;
            check(&batch.expect("a read"), first.plus(from), limit, &all, &|_| true);
        }
    }
}

/// Needs what the function says.
struct Needed(fn(Offset) -> bool);

impl Keep for Needed {
    fn needed(&self, _: TopicId, range: OffsetRange) -> Need {
        let offsets = (range.from.0..range.to.0).map(Offset).filter(|offset| self.0(*offset));
        let mut needed: Vec<OffsetRange> = Vec::new();
        for offset in offsets {
            match needed.last_mut() {
                Some(last) if last.to == offset => last.to = offset.next(),
                _ => needed.push(OffsetRange::one(offset)),
            }
        }
        Need::Only(needed)
    }
}

async fn filled() -> (Bed, Owner, Published) {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open_with(large()).expect("a fresh store"));
    script::set_up(&mut owner).await.expect("a working store");
    let published = publish_all_kinds(&mut owner).await;
    (bed, owner, published)
}

#[tokio::test]
async fn every_record_is_read_from_the_log_from_every_offset() {
    let (bed, owner, published) = filled().await;
    let mut random = Random::seeded(1);
    check_reads(&owner.engine, &published, &|_| true, &mut random).await;
    bed.close();
    let again = bed.open_with(large()).expect("it opens again");
    check_reads(&again, &published, &|_| true, &mut random).await;
}

#[tokio::test]
async fn every_needed_record_is_read_from_segments_from_every_offset() {
    let needed = |offset: Offset| offset.0 % 5 < 3 || (offset.0 / 100).is_multiple_of(4);
    let (bed, owner, published) = filled().await;
    let position = owner.engine.log.position();
    let checkpoint = Checkpoint { position, ..Checkpoint::default() };
    owner.engine.progress.checkpoint(checkpoint).await.expect("a checkpoint");
    let trimmed = owner.engine.log.trim(Arc::new(Needed(needed))).await.expect("a trim");
    assert!(trimmed.records_moved > 500 && trimmed.records_dropped > 300, "{trimmed:?}");
    let mut random = Random::seeded(2);
    check_reads(&owner.engine, &published, &needed, &mut random).await;
    bed.close();
    let again = bed.open_with(large()).expect("it opens again");
    check_reads(&again, &published, &needed, &mut random).await;
}

/// What is read ahead for one reader is had by the next one, who may need more of it.
#[tokio::test]
async fn records_of_any_length_are_read_whole_whatever_was_read_before() {
    const SIZES: [usize; 6] = [500, 60_000, 200_000, 270_000, 300_000, 500_000];
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open_with(large()).expect("a fresh store"));
    script::set_up(&mut owner).await.expect("a working store");
    let mut random = Random::seeded(4);
    let mut all = Vec::new();
    for _ in 0..80 {
        let size = SIZES[random.index(SIZES.len())];
        let pending = owner.queue(&[(0, &[size])], Vec::new(), Urgency::Durable);
        all.extend(owner.history.last_commit().appends.iter().flat_map(as_kept));
        owner.settle(pending).await.expect("published");
    }
    let topic = owner.topics[0].id;
    owner.checkpoint().await.expect("a checkpoint");
    let trimmed = owner.engine.log.trim(Arc::new(Needed(|_| true))).await.expect("a trim");
    assert_eq!(trimmed.records_dropped, 0, "{trimmed:?}");
    for _ in 0..40 {
        bed.close();
        let engine = bed.open_with(large()).expect("it opens again");
        let mut from = all[0].offset;
        while from < engine.log.end(topic) {
            let bytes = 1 + usize::try_from(random.below(600_000)).expect("a small number");
            let limit = ReadLimit { records: RECORDS[random.index(3)], bytes };
            let batch = engine.log.read(topic, from, limit).await.expect("a read");
            check(&batch, from, limit, &all, &|_| true);
            from = batch.covered.to;
        }
    }
}

/// Reads on and on, in steps from random places, until told to stop. Every record is needed.
async fn keep_reading(engine: Running, topic: TopicId, all: Arc<Mutex<Vec<Record>>>, stop: Stop) {
    let mut random = Random::seeded(3);
    let mut steps = 0;
    while !stop.load(Ordering::SeqCst) || steps < 1_000 {
        let mut from = {
            let all = all.lock();
            all[0].offset.plus(random.below(all.len() as u64))
        };
        let limit = ReadLimit { records: RECORDS[random.index(3)], bytes: BYTES[random.index(4)] };
        for _ in 0..5 {
            let batch = match engine.log.read_tail(topic, from, limit) {
                TailRead::Records(batch) => batch,
                TailRead::AtEnd | TailRead::NotInMemory => {
                    engine.log.read(topic, from, limit).await.expect("a read")
                }
            };
            if batch.covered.is_empty() {
                break;
            }
            check(&batch, from, limit, &all.lock(), &|_| true);
            from = batch.covered.to;
            steps += 1;
        }
    }
}

type Stop = Arc<AtomicBool>;

#[tokio::test]
async fn no_needed_record_is_skipped_while_trims_move_it() {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open().expect("a fresh store"));
    script::set_up(&mut owner).await.expect("a working store");
    let all: Arc<Mutex<Vec<Record>>> = Arc::default();
    let stop = Stop::default();
    let mut reader = None;
    for number in 0..250_usize {
        let sizes = vec![number * 13 % 2_900; 1 + number % 4];
        let pending = {
            // Locked, so that the reader knows of every record before it can see one.
            let mut all = all.lock();
            let pending = owner.queue(&[(1, &sizes)], Vec::new(), Urgency::Durable);
            all.extend(owner.history.last_commit().appends.iter().flat_map(as_kept));
            pending
        };
        owner.settle(pending).await.expect("published");
        if number == 0 {
            let (engine, topic) = (owner.engine.clone(), owner.topics[1].id);
            let reading = keep_reading(engine, topic, Arc::clone(&all), Arc::clone(&stop));
            reader = Some(std::thread::spawn(move || {
                tokio::runtime::Builder::new_current_thread().build().map(|r| r.block_on(reading))
            }));
        }
        if number % 8 == 7 {
            owner.checkpoint().await.expect("a checkpoint");
            owner.trim().await.expect("a trim");
        }
    }
    stop.store(true, Ordering::SeqCst);
    let read = reader.expect("a reader").join();
    read.expect("the reader saw nothing wrong").expect("a runtime");
}

/// Stops the next read of a log file just before it happens, until told to go on.
fn hold_next_read(bed: &Bed) -> (Receiver<()>, Sender<()>) {
    let (reached, is_reached) = channel();
    let (go_on, may_go_on) = channel();
    let gate = Mutex::new(Some((reached, may_go_on)));
    bed.disk.observe(move |_, call| {
        if call.call == Call::Read && call.name.starts_with("wal/") {
            let gate = gate.lock().take();
            if let Some((reached, may_go_on)) = gate {
                reached.send(()).expect("the test waits");
                may_go_on.recv().expect("the test lets it go on");
            }
        }
    });
    (is_reached, go_on)
}

#[tokio::test]
async fn a_read_whose_file_is_used_again_meanwhile_looks_elsewhere() {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open().expect("a fresh store"));
    script::set_up(&mut owner).await.expect("a working store");
    let mut all = Vec::new();
    for _ in 0..60 {
        let pending = owner.queue(&[(1, &[3_000])], Vec::new(), Urgency::Durable);
        all.extend(owner.history.last_commit().appends.iter().flat_map(as_kept));
        owner.settle(pending).await.expect("published");
    }
    let (is_reached, go_on) = hold_next_read(&bed);
    let (topic, from) = (owner.topics[1].id, owner.topics[1].first.plus(2));
    let (engine, limit) = (owner.engine.clone(), ReadLimit { records: 5, bytes: 1 << 20 });
    let reader = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(engine.log.read(topic, from, limit)).expect("a read")
    });
    is_reached.recv().expect("the read begins");
    // What is read lies in the first file: move it away, and write the file full again.
    owner.checkpoint().await.expect("a checkpoint");
    owner.trim().await.expect("a trim");
    for _ in 0..100 {
        owner.publish(0, &[3_000]).await.expect("published");
    }
    go_on.send(()).expect("the read waits");
    let batch = reader.join().expect("no panic");
    check(&batch, from, limit, &all, &|_| true);
    assert_eq!(batch.records.len(), 5);
}
