//! Gives log files back: moves what is needed to segments, drops the rest (RULES A4, A7).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use domain::{Offset, OffsetRange, TopicId};

use super::database::{Meta, TopicRow, drop_segment, put_meta, put_segment, put_topic};
use super::format::{BLOCK_BYTES, Frame, body_of};
use super::outgoing::{Mover, Outgoing, sync_names};
use super::scan::{Scanner, corrupt, frames};
use super::segments::Segment;
use super::store::Shared;
use super::topic::Topic;
use super::wal::WalFile;
use super::write_behind::WriteBehind;
use crate::{Commit, Keep, Kind, Result, Trimmed};

/// Bytes gathered for all topics before they are written.
const GATHERED_BYTES_MAX: usize = 16 << 20;

/// Frees what `keep` allows, oldest log file first, then segments.
pub(super) fn trim(shared: &Shared, keep: &dyn Keep) -> Result<Trimmed> {
    let _one_at_a_time = shared.trimming.lock();
    let _spending = shared.keeper.spend();
    shared.pressed.store(false, Ordering::Relaxed);
    let mut trimmed = Trimmed::default();
    let mut mover = Mover { shared, behind: WriteBehind::default() };
    while let Some((file, last_group)) = shared.wal.oldest_filled() {
        if last_group > shared.checkpoint.load(Ordering::Acquire) {
            break;
        }
        move_file(&mut mover, keep, &file, last_group, &mut trimmed)?;
        shared.notify_room();
    }
    drop_segments(shared, keep, &mut trimmed)?;
    forget_topics(shared, keep)?;
    shared.notify_room();
    if trimmed.bytes_freed > 0 && !shared.has_log_room() {
        shared.press();
    }
    Ok(trimmed)
}

fn move_file(
    mover: &mut Mover<'_>,
    keep: &dyn Keep,
    file: &WalFile,
    last_group: u64,
    trimmed: &mut Trimmed,
) -> Result<()> {
    let shared = mover.shared;
    let mut topics = BTreeMap::new();
    for topic in shared.topics.all() {
        let sequence = file.header.sequence;
        let (range, bytes) = {
            let state = topic.state();
            (state.log.within(sequence, state.end), state.log.bytes_within(sequence))
        };
        if let Some(range) = range {
            let needed = keep.needed(topic.id, range);
            topics.insert(topic.id, Outgoing::new(topic, range, bytes, needed));
        }
    }
    // The acks that `keep` went by may still be riding in the queue. They need not be durable
    // before something is copied, only before something is dropped.
    let acks = shared.commit(Commit::barrier());
    if topics.values().any(Outgoing::needs_more) {
        copy(mover, file, last_group, &mut topics)?;
    }
    let mut wrote = false;
    for outgoing in topics.values_mut() {
        outgoing.finish(mover)?;
        wrote |= !outgoing.segments.is_empty();
        trimmed.records_moved += outgoing.moved;
        trimmed.records_dropped += outgoing.dropped();
    }
    if wrote {
        sync_names(shared.disk.as_ref())?;
    }
    acks.wait()?;
    record_move(shared, file, &topics)?;
    for outgoing in topics.into_values() {
        publish(outgoing, file.header.sequence);
    }
    trimmed.bytes_freed += file.header.length;
    shared.wal.retire(file);
    if let Err(error) = shared.keeper.recycle(file) {
        // SQLite says that it is not needed; the next start removes it.
        tracing::warn!(file = file.name(), %error, "cannot reuse a log file");
    }
    Ok(())
}

/// Goes through the file and hands every frame to its topic.
///
/// A group that is still in memory is taken from there: its records are the very bytes that were
/// synced, and each carries its own checksum into the segment. Any other is read back and checked.
fn copy(
    mover: &mut Mover<'_>,
    file: &WalFile,
    last_group: u64,
    topics: &mut BTreeMap<TopicId, Outgoing>,
) -> Result<()> {
    let mut scanner = Scanner::new(file);
    let mut at = BLOCK_BYTES;
    let mut gathered = 0;
    for number in file.header.first_group..=last_group {
        let held = mover.shared.ring.lock().group(number);
        let bytes = match held.as_ref().and_then(|group| Some((group.len(), body_of(group)?))) {
            Some((bytes, body)) => {
                copy_group(mover, file, at, body, topics)?;
                bytes
            }
            None => {
                let Some(group) = scanner.group(at, |found| found == number)? else {
                    return Err(corrupt(file.name(), at, "a group of the log is damaged"));
                };
                copy_group(mover, file, at, group.body, topics)?;
                group.bytes.len()
            }
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
    shared.write(|transaction| {
        for outgoing in topics.values() {
            for building in &outgoing.segments {
                put_segment(transaction, &building.segment, &building.marks)?;
            }
            let moved = outgoing.segments.first().map(|building| building.segment.first);
            let row = TopicRow::of(&outgoing.topic);
            let low = moved.map_or(row.low, |moved| moved.min(row.low));
            put_topic(transaction, TopicRow { low, ..row })?;
        }
        put_meta(transaction, Meta::LowestFile, file.header.sequence + 1)
    })
}

/// Lets readers find the records in their new place.
fn publish(outgoing: Outgoing, sequence: u64) {
    let mut state = outgoing.topic.state();
    for building in outgoing.segments {
        let segment = building.into_segment();
        if state.segments.last().is_some_and(|last| last.file == segment.file) {
            state.segments.pop();
        }
        state.segments.push(segment);
    }
    state.log.forget(sequence);
}

/// Drops segments of which nothing is needed.
fn drop_segments(shared: &Shared, keep: &dyn Keep, trimmed: &mut Trimmed) -> Result<()> {
    let mut dropped = Vec::new();
    for topic in shared.topics.all() {
        let segments = topic.state().segments.clone();
        for segment in segments {
            let range = OffsetRange { from: segment.first, to: segment.last.next() };
            if keep.needed(topic.id, range).iter().all(|range| range.is_empty()) {
                dropped.push((Arc::clone(&topic), segment));
            }
        }
    }
    if dropped.is_empty() {
        return Ok(());
    }
    shared.commit(Commit::barrier()).wait()?;
    record_drop(shared, &dropped)?;
    for (topic, segment) in &dropped {
        topic.state().segments.retain(|other| other.file != segment.file);
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
    shared.write(|transaction| {
        for (topic, segment) in dropped {
            drop_segment(transaction, segment)?;
            put_topic(transaction, TopicRow::of(topic))?;
        }
        Ok(())
    })
}

/// Forgets topics that have no records, no definition and no holder. The next offset of any other
/// topic is never forgotten: offsets must not be given twice.
fn forget_topics(shared: &Shared, keep: &dyn Keep) -> Result<()> {
    let mut gone = Vec::new();
    for topic in shared.topics.all() {
        let range = {
            let state = topic.state();
            let empty = state.segments.is_empty() && state.log.first().is_none();
            let range = OffsetRange { from: Offset(0), to: state.end };
            (empty && !state.claimed).then_some(range)
        };
        if let Some(range) = range
            && keep.needed(topic.id, range).is_empty()
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
