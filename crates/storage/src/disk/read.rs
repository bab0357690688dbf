//! Reads records from wherever they are: memory, the log, segments.
#![warn(clippy::indexing_slicing)]

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use domain::{Offset, Timestamp};

use super::format::{
    APPEND_HEADER, BLOCK, GROUP_HEADER, GROUP_MARK, PADDING_MARK, RECORD_HEADER, RecordHead,
    append_head_at, record_holds, to_usize,
};
use super::index::Window;
use super::scan::unavailable;
use super::segments::{Reader, Segment};
use super::store::Shared;
use super::tail::Filling;
use super::topic::{State, Topic};
use super::wal::WalFile;
use crate::{Batch, Error, ReadLimit, Result, TailRead};

/// Bytes of the log read at a time, at most, unless a record is longer.
const READ_BYTES_MAX: usize = 1 << 20;
const READ_BYTES_MIN: usize = 64 << 10;

/// Where to look for an offset.
enum Place {
    End,
    Memory(Batch),
    Log(Window),
    Segment(Arc<Segment>),
    /// Nothing is kept below this offset.
    Gap(Offset),
}

/// The answer at the visible end.
pub(super) fn nothing(from: Offset) -> Batch {
    Filling::new(from, ReadLimit { records: 0, bytes: 0 }).batch
}

/// From memory only.
pub(super) fn tail(topic: &Topic, from: Offset, limit: ReadLimit) -> TailRead {
    let state = topic.state();
    if from >= state.end {
        return TailRead::AtEnd;
    }
    match state.chunks.first() {
        Some(first) if first <= from => TailRead::Records(state.chunks.read(from, limit)),
        _ => TailRead::NotInMemory,
    }
}

/// From wherever the records are. Blocks on the disk.
pub(super) fn read(
    shared: &Shared,
    topic: &Topic,
    from: Offset,
    limit: ReadLimit,
) -> Result<Batch> {
    let mut filling = Filling::new(from, limit);
    loop {
        let place = place(&topic.state(), filling.next(), limit);
        match place {
            Place::End => return Ok(filling.batch),
            Place::Memory(batch) => {
                if filling.batch.records.is_empty() && filling.batch.damaged.is_empty() {
                    let covered_from = filling.batch.covered.from;
                    filling.batch = batch;
                    filling.batch.covered.from = covered_from;
                }
                return Ok(filling.batch);
            }
            Place::Gap(to) => filling.cover(to),
            Place::Segment(segment) => {
                if !read_segment(shared, topic, &segment, &mut filling)? {
                    return Ok(filling.batch);
                }
            }
            Place::Log(window) => {
                if !read_log(shared, topic, window, &mut filling)? {
                    return Ok(filling.batch);
                }
            }
        }
        if filling.is_full(0) || filling.batch.damaged.len() >= 65_536 {
            return Ok(filling.batch);
        }
    }
}

fn place(state: &State, from: Offset, limit: ReadLimit) -> Place {
    if from >= state.end {
        return Place::End;
    }
    if state.chunks.first().is_some_and(|first| first <= from) {
        return Place::Memory(state.chunks.read(from, limit));
    }
    if state.log.first().is_some_and(|first| first <= from) {
        let bytes = u32::try_from(limit.bytes.clamp(READ_BYTES_MIN, READ_BYTES_MAX)).unwrap_or(0);
        if let Some(window) = state.log.window(from, state.end, bytes) {
            return Place::Log(window);
        }
    }
    let at = state.segments.partition_point(|segment| segment.last < from);
    if let Some(segment) = state.segments.get(at) {
        return Place::Segment(Arc::clone(segment));
    }
    let first = state.log.first().or_else(|| state.chunks.first());
    Place::Gap(first.filter(|first| *first > from).unwrap_or(state.end))
}

/// Returns whether to go on behind the segment.
fn read_segment(
    shared: &Shared,
    topic: &Topic,
    segment: &Arc<Segment>,
    filling: &mut Filling,
) -> Result<bool> {
    let reader = Reader::open(segment, topic.seed, &shared.files, &shared.database);
    let read = reader.and_then(|mut reader| reader.read(filling));
    match read {
        // A trim may have dropped it since it was looked up; then it is looked up again.
        Err(Error::NotFound) => Ok(true),
        Err(_) if !is_current(topic, segment) => Ok(true),
        other => other,
    }
}

fn is_current(topic: &Topic, segment: &Arc<Segment>) -> bool {
    topic.state().segments.iter().any(|other| other.file == segment.file)
}

/// Returns whether to go on behind the window.
fn read_log(shared: &Shared, topic: &Topic, window: Window, filling: &mut Filling) -> Result<bool> {
    let Some(file) = shared.wal.get(window.sequence) else { return Ok(true) };
    let whole = to_usize(window.end - window.start);
    let mut bytes = whole.min(filling.bytes_left().saturating_mul(2).max(READ_BYTES_MIN));
    let mark = filling.mark();
    loop {
        let mut buffer = vec![0; bytes];
        let read = file.file.read_at(&mut buffer, u64::from(window.start));
        let mut walk = Walk {
            bytes: buffer.into(),
            start: u64::from(window.start),
            expected: window.first,
            topic,
            file: &file,
        };
        let walked = walk.run(filling);
        // The file may have been used again while it was read; then nothing of this counts.
        if file.is_retired() {
            filling.rewind(mark);
            return Ok(true);
        }
        read.map_err(|error| unavailable(io::Error::other(format!("{}: {error}", file.name()))))?;
        let is_stuck = filling.next() == mark.next();
        match walked {
            Walked::CutOff if is_stuck && bytes < whole => bytes = whole.min(bytes * 4),
            Walked::CutOff if !is_stuck => return Ok(false),
            Walked::Full => return Ok(false),
            Walked::Through => {
                filling.cover(window.next);
                return Ok(true);
            }
            Walked::CutOff | Walked::Damaged => {
                report_damage(&file, &walk, window.next, filling);
                return Ok(true);
            }
        }
    }
}

/// Everything in the window behind a damaged frame is unreadable.
fn report_damage(file: &WalFile, walk: &Walk<'_>, end: Offset, batch: &mut Filling) {
    tracing::error!(file = file.name(), at = walk.start, "damaged frames in the log");
    for offset in walk.expected.max(batch.next()).0..end.0 {
        batch.damaged(Offset(offset));
    }
}

enum Walked {
    /// The limit is reached.
    Full,
    /// The bytes end inside a frame.
    CutOff,
    /// All frames were seen.
    Through,
    /// What follows is no frame.
    Damaged,
}

/// A walk through frames, of which those of one topic are taken.
struct Walk<'a> {
    bytes: Bytes,
    /// Where in the file `bytes` start.
    start: u64,
    /// The offset of the topic's next record.
    expected: Offset,
    topic: &'a Topic,
    file: &'a WalFile,
}

impl Walk<'_> {
    fn run(&mut self, filling: &mut Filling) -> Walked {
        let mut at = 0;
        while let Some(mark) = self.bytes.get(at).copied() {
            match mark {
                PADDING_MARK => at += self.to_boundary(at),
                GROUP_MARK => at += GROUP_HEADER,
                _ => {
                    let rest = self.bytes.get(at..).unwrap_or_default();
                    if rest.len() < APPEND_HEADER {
                        return Walked::CutOff;
                    }
                    let Some((frame, length)) = append_head_at(rest) else {
                        return Walked::Damaged;
                    };
                    if let Some(frame) = frame.filter(|frame| frame.topic == self.topic.id) {
                        if frame.first != self.expected {
                            return Walked::Damaged;
                        }
                        let end = frame.end();
                        let records_end = at + length;
                        if !self.take_frame(at + APPEND_HEADER, records_end, end, filling) {
                            return Walked::Full;
                        }
                        if records_end > self.bytes.len() {
                            return Walked::CutOff;
                        }
                        self.expected = end;
                    }
                    at += length;
                }
            }
        }
        if at > self.bytes.len() { Walked::CutOff } else { Walked::Through }
    }

    fn to_boundary(&self, at: usize) -> usize {
        let place = to_usize(self.start) + at;
        (place + 1).next_multiple_of(BLOCK) - place
    }

    /// Takes the records from `at` to `end`, as far as they are in the bytes; `false` once there
    /// is no room.
    fn take_frame(
        &self,
        mut at: usize,
        end: usize,
        end_offset: Offset,
        filling: &mut Filling,
    ) -> bool {
        let mut offset = self.expected;
        while at < end {
            if at + RECORD_HEADER + 8 > self.bytes.len() && end > self.bytes.len() {
                return true;
            }
            let Some(head) = self.bytes.get(at..).and_then(RecordHead::decode) else { break };
            let fits = at.checked_add(head.length).is_some_and(|stop| stop <= end);
            if fits && at + head.length > self.bytes.len() {
                return true;
            }
            if !fits || head.offset != offset {
                break;
            }
            if offset >= filling.next() {
                let record = self.bytes.get(at..at + head.length).unwrap_or_default();
                if record_holds(record, self.topic.seed) {
                    if !filling.take(&self.bytes, at, &head) {
                        return false;
                    }
                } else {
                    let place = self.start + at as u64;
                    tracing::error!(file = self.file.name(), at = place, "damaged record");
                    filling.damaged(offset);
                }
            }
            at += head.length;
            offset = offset.next();
        }
        if at < end {
            // The chain of lengths is broken: the rest of the frame cannot be told apart.
            let place = self.start + at as u64;
            tracing::error!(file = self.file.name(), at = place, "damaged records");
            for lost in offset.max(filling.next()).0..end_offset.0 {
                filling.damaged(Offset(lost));
            }
        }
        true
    }
}

/// The first kept record of `topic` published at `time` or later, or the visible end.
pub(super) fn offset_at(shared: &Shared, topic: &Topic, time: Timestamp) -> Result<Offset> {
    const STEP: ReadLimit = ReadLimit { records: 1_024, bytes: 1 << 20 };
    let mut from = search_start(shared, topic, time)?;
    loop {
        let batch = read(shared, topic, from, STEP)?;
        if let Some(record) = batch.records.iter().find(|record| record.publish_time >= time) {
            return Ok(record.offset);
        }
        if batch.covered.is_empty() {
            return Ok(batch.covered.to);
        }
        from = batch.covered.to;
    }
}

/// An offset at or before the one looked for, by the sparse indexes.
fn search_start(shared: &Shared, topic: &Topic, time: Timestamp) -> Result<Offset> {
    let (segment, log) = {
        let state = topic.state();
        let at = state.segments.partition_point(|segment| segment.time_max < time);
        let segment = state.segments.get(at).cloned();
        (segment, state.log.before(time).unwrap_or_else(|| state.log.first().unwrap_or(state.end)))
    };
    let Some(segment) = segment else { return Ok(log) };
    let marks = match segment.marks(&shared.database) {
        Err(_) if !is_current(topic, &segment) => return Ok(segment.first),
        other => other?,
    };
    let at = marks.partition_point(|mark| mark.time < time).saturating_sub(1);
    Ok(marks.get(at).map_or(segment.first, |mark| mark.offset))
}
