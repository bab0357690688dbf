//! Frees log files: moves what is needed to segments, drops the rest (LOG-4, LOG-7).

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use domain::{Offset, OffsetRange, TopicId};

use super::database::{Meta, TopicRow, drop_segment, put_meta, put_segment, put_topic};
use super::format::{BLOCK_BYTES, Frame, body_of, frames, to_usize};
use super::outgoing::{Mover, Outgoing, sync_names};
use super::salvage::salvage;
use super::scan::{Scanner, corrupt};
use super::segments::Segment;
use super::store::Shared;
use super::topic::Topic;
use super::wal::WalFile;
use super::write_behind::WriteBehind;
use crate::{Keep, Kind, Need, Result, Trimmed};

/// How much is buffered for all topics before it is written.
const GATHERED_BYTES_MAX: usize = 16 << 20;

/// Trims on this thread, which may block.
pub(super) fn trim_on_thread(shared: &Shared, keep: &dyn Keep) -> Result<Trimmed> {
    let _one_at_a_time = shared.trimming.lock();
    block_on(trim(shared, keep))
}

/// Trims as a task, which never blocks: for a simulation.
pub(super) async fn trim_as_task(shared: &Shared, keep: &dyn Keep) -> Result<Trimmed> {
    let _one_at_a_time = shared.trimming_task.lock().await;
    trim(shared, keep).await
}

/// Frees what `keep` allows, oldest log file first, then segments.
async fn trim(shared: &Shared, keep: &dyn Keep) -> Result<Trimmed> {
    let _spending = shared.preallocator.spend();
    shared.front.relieve();
    let mut trimmed = Trimmed::default();
    let mut mover = Mover { shared, behind: WriteBehind::default() };
    while let Some((file, last_group)) = shared.wal.oldest_filled() {
        if last_group > shared.front.checkpoint().0 {
            break;
        }
        move_file(&mut mover, keep, &file, last_group, &mut trimmed).await?;
        shared.front.notify_room();
    }
    drop_segments(shared, keep, &mut trimmed).await?;
    forget_topics(shared, keep)?;
    shared.front.notify_room();
    if trimmed.bytes_freed > 0 && !shared.has_log_room() {
        shared.front.press();
    }
    Ok(trimmed)
}

async fn move_file(
    mover: &mut Mover<'_>,
    keep: &dyn Keep,
    file: &WalFile,
    last_group: u64,
    trimmed: &mut Trimmed,
) -> Result<()> {
    let shared = mover.shared;
    let mut topics = outgoing(shared, keep, file.header.sequence);
    // The acks that `keep` relied on may still be in the queue. They need not be durable before
    // something is copied, only before something is dropped.
    let acks = shared.front.queue.barrier();
    copy_in_batches(mover, file, last_group, &mut topics)?;
    if topics.values().any(|outgoing| !outgoing.segments.is_empty()) {
        sync_names(shared.disk.as_ref())?;
    }
    acks.await?;
    record_move(shared, file, &topics)?;
    let mut is_damaged = false;
    for outgoing in topics.into_values() {
        is_damaged |= !outgoing.lost.is_empty();
        trimmed.records_moved += outgoing.moved;
        trimmed.records_dropped += outgoing.dropped();
        trimmed.records_damaged += outgoing.lost_records();
        publish(outgoing, file);
    }
    trimmed.bytes_freed += file.header.length;
    shared.wal.retire(file);
    let preallocator = &shared.preallocator;
    let freed = if is_damaged { preallocator.set_aside(file) } else { preallocator.recycle(file) };
    if let Err(error) = freed {
        // SQLite says that it is not needed; the next start removes it.
        tracing::warn!(file = file.name(), %error, "cannot reuse a log file");
    }
    Ok(())
}

/// What is in file `sequence` and needed, by topic.
fn outgoing(shared: &Shared, keep: &dyn Keep, sequence: u64) -> BTreeMap<TopicId, Outgoing> {
    let mut topics = BTreeMap::new();
    for topic in shared.front.topics.all() {
        let (range, bytes, since) = {
            let state = topic.state();
            let (log, end) = (&state.own.log, state.end);
            (log.within(sequence, end), log.bytes_within(sequence), log.time_within(sequence))
        };
        if let Some(range) = range {
            let needed = needed(keep, topic.id, range);
            let expected = (bytes, since.unwrap_or_default());
            topics.insert(topic.id, Outgoing::new(topic, range, expected, needed));
        }
    }
    topics
}

/// What must be kept of `range`: all of it, if nobody knows better.
fn needed(keep: &dyn Keep, topic: TopicId, range: OffsetRange) -> Vec<OffsetRange> {
    match keep.needed(topic, range) {
        Need::Only(needed) => needed,
        Need::Gone => Vec::new(),
        Need::Unknown => vec![range],
    }
}

/// Copies what is needed, for only as many topics at a time as can have their files open, and makes
/// it durable.
fn copy_in_batches(
    mover: &mut Mover<'_>,
    file: &WalFile,
    last_group: u64,
    topics: &mut BTreeMap<TopicId, Outgoing>,
) -> Result<()> {
    let needing = topics.iter().filter(|(_, outgoing)| outgoing.needs_more());
    let needing: Vec<TopicId> = needing.map(|(id, _)| *id).collect();
    for ids in needing.chunks(mover.shared.disk.open_files_max().max(1)) {
        let taken = ids.iter().filter_map(|id| topics.remove_entry(id));
        let mut some: BTreeMap<TopicId, Outgoing> = taken.collect();
        copy(mover, file, last_group, &mut some)?;
        for outgoing in some.values_mut() {
            outgoing.finish(mover)?;
        }
        topics.append(&mut some);
    }
    Ok(())
}

/// Scans the file and hands every frame to its topic.
///
/// A group still in memory is taken from there: its records are the very bytes that were synced,
/// and each carries its own checksum into the segment. Any other is read back and checked; from a
/// damaged one, only the valid records are taken.
fn copy(
    mover: &mut Mover<'_>,
    file: &WalFile,
    last_group: u64,
    topics: &mut BTreeMap<TopicId, Outgoing>,
) -> Result<()> {
    let mut scanner = Scanner::new(file);
    let (mut number, mut at) = (file.header.first_group, BLOCK_BYTES);
    let mut gathered = 0;
    while number <= last_group {
        let held = mover.shared.front.ring.lock().group(number);
        let bytes = match held.as_ref().and_then(|group| Some((group.len(), body_of(group)?))) {
            Some((bytes, body)) => {
                copy_group(mover, file, at, body, topics)?;
                number += 1;
                bytes
            }
            None => match scanner.group(at, |found| found == number)? {
                Some(group) => {
                    copy_group(mover, file, at, group.body, topics)?;
                    number += 1;
                    group.bytes.len()
                }
                None => {
                    let later = scanner.later_group(at, number)?;
                    let end = later.map_or(file.header.length, |(at, _)| at);
                    salvage(mover, &mut scanner, (at, end), topics)?;
                    number = later.map_or(last_group + 1, |(_, number)| number);
                    to_usize(end - at)
                }
            },
        };
        at += bytes as u64;
        gathered += bytes;
        if gathered >= GATHERED_BYTES_MAX {
            gathered = 0;
            for outgoing in topics.values_mut() {
                outgoing.flush(mover)?;
            }
        }
    }
    Ok(())
}

fn copy_group(
    mover: &mut Mover<'_>,
    file: &WalFile,
    at: u64,
    body: &[u8],
    topics: &mut BTreeMap<TopicId, Outgoing>,
) -> Result<()> {
    for (place, frame) in frames(body) {
        match frame {
            Some((Frame::Append(frame), _)) => {
                if let Some(outgoing) = topics.get_mut(&frame.topic) {
                    outgoing.take(mover, &frame)?;
                }
            }
            Some((Frame::Change { .. }, _)) => {}
            None => return Err(corrupt(file.name(), at + place as u64, "not a frame")),
        }
    }
    Ok(())
}

/// One transaction: from now on the file is not needed.
fn record_move(
    shared: &Shared,
    file: &WalFile,
    topics: &BTreeMap<TopicId, Outgoing>,
) -> Result<()> {
    // Read before the transaction makes sure that the log is synced: SQLite must not name an offset
    // that is not.
    let rows: Vec<_> = topics.values().map(row).collect();
    shared.write(|transaction| {
        for building in topics.values().flat_map(|outgoing| &outgoing.segments) {
            put_segment(transaction, &building.segment, &building.marks)?;
        }
        for row in &rows {
            put_topic(transaction, *row)?;
        }
        put_meta(transaction, Meta::LowestFile, file.header.sequence + 1)
    })
}

/// The topic's row once its records have left the file.
fn row(outgoing: &Outgoing) -> TopicRow {
    let moved = outgoing.segments.first().map(|building| building.segment.first);
    let row = TopicRow::of(&outgoing.topic);
    let low = moved.map_or(row.low, |moved| moved.min(row.low));
    TopicRow { low, ..row }
}

/// Lets readers find the records in their new place.
fn publish(outgoing: Outgoing, file: &WalFile) {
    for lost in &outgoing.lost {
        let (topic, first, last) = (outgoing.topic.id.0, lost.from.0, lost.to.0.saturating_sub(1));
        tracing::error!(
            file = file.name(),
            topic,
            first,
            last,
            "damaged records in the log; all others were moved, and the file is kept aside"
        );
    }
    let mut state = outgoing.topic.state();
    for building in outgoing.segments {
        let segment = building.into_segment();
        if state.own.segments.last().is_some_and(|last| last.file == segment.file) {
            state.own.segments.pop();
        }
        state.own.segments.push(segment);
    }
    state.own.log.forget(file.header.sequence);
}

/// Drops segments that contain nothing needed.
async fn drop_segments(shared: &Shared, keep: &dyn Keep, trimmed: &mut Trimmed) -> Result<()> {
    let mut dropped = Vec::new();
    for topic in shared.front.topics.all() {
        let segments = topic.state().own.segments.clone();
        for segment in segments {
            let range = OffsetRange { from: segment.first, to: segment.last.next() };
            if needed(keep, topic.id, range).iter().all(|range| range.is_empty()) {
                dropped.push((Arc::clone(&topic), segment));
            }
        }
    }
    if dropped.is_empty() {
        return Ok(());
    }
    shared.front.queue.barrier().await?;
    record_drop(shared, &dropped)?;
    for (topic, segment) in &dropped {
        topic.state().own.segments.retain(|other| other.file != segment.file);
        shared.files.forget(&segment.file);
        if let Err(error) = shared.disk.remove(&segment.file) {
            tracing::warn!(file = segment.file, %error, "cannot remove a segment");
        }
        trimmed.bytes_freed += segment.length;
        trimmed.records_dropped += segment.records;
    }
    Ok(())
}

fn record_drop(shared: &Shared, dropped: &[(Arc<Topic>, Arc<Segment>)]) -> Result<()> {
    let rows: Vec<_> = dropped.iter().map(|(topic, _)| TopicRow::of(topic)).collect();
    shared.write(|transaction| {
        for ((_, segment), row) in dropped.iter().zip(&rows) {
            drop_segment(transaction, segment)?;
            put_topic(transaction, *row)?;
        }
        Ok(())
    })
}

/// Forgets topics that have no records, no definition and nobody who appends. The next offset of
/// any other topic is never forgotten: offsets must not be assigned twice.
fn forget_topics(shared: &Shared, keep: &dyn Keep) -> Result<()> {
    let mut gone = Vec::new();
    for topic in shared.front.topics.all() {
        let range = {
            let state = topic.state();
            let empty = state.own.segments.is_empty() && state.own.log.first().is_none();
            empty.then_some(OffsetRange { from: Offset(0), to: state.end })
        };
        if let Some(range) = range
            && !shared.front.queue.is_begun(topic.id)
            && keep.needed(topic.id, range) == Need::Gone
            && !shared.database.has_entry(Kind::Topic, topic.id.0)?
        {
            gone.push(topic);
        }
    }
    if gone.is_empty() {
        return Ok(());
    }
    shared.forget_topics(&gone, |ids| {
        shared.write(|transaction| {
            let mut delete = transaction.prepare_cached("DELETE FROM topics WHERE id = ?1")?;
            for id in ids {
                delete.execute([id.0.cast_signed()])?;
            }
            Ok(())
        })
    })
}

/// Runs `work` to its end on this thread.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    struct Sleeper(Thread);
    impl Wake for Sleeper {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Sleeper(thread::current())));
    let mut work = pin!(work);
    loop {
        match work.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}
