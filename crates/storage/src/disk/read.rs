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
use super::topic::{State, Topic};
use crate::front::Filling;
use crate::{Batch, Error, ReadLimit, Result};

/// Maximum bytes of the log per read, unless a record is longer.
const READ_BYTES_MAX: usize = 1 << 20;
const READ_BYTES_MIN: usize = 64 << 10;

/// Where to look for an offset.
enum Source {
    End,
    Memory(Batch),
    Log(Window),
    Segment(Arc<Segment>),
    /// Nothing is kept below this offset.
    Gap(Offset),
}

/// Reads from wherever the records are. Blocks on the disk.
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
            Source::End => return Ok(filling.batch),
            Source::Memory(batch) => {
                if filling.batch.records.is_empty() && filling.batch.damaged.is_empty() {
                    let covered_from = filling.batch.covered.from;
                    filling.batch = batch;
                    filling.batch.covered.from = covered_from;
                }
                return Ok(filling.batch);
            }
            Source::Gap(to) => filling.cover(to),
            Source::Segment(segment) => {
                if !read_segment(shared, topic, &segment, &mut filling)? {
                    return Ok(filling.batch);
                }
            }
            Source::Log(window) => {
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

fn place(state: &State, from: Offset, limit: ReadLimit) -> Source {
    if from >= state.end {
        return Source::End;
    }
    if state.chunks.first().is_some_and(|first| first <= from) {
        return Source::Memory(state.chunks.read(from, limit));
    }
    if state.own.log.first().is_some_and(|first| first <= from) {
        let bytes = u32::try_from(limit.bytes.clamp(READ_BYTES_MIN, READ_BYTES_MAX)).unwrap_or(0);
        if let Some(window) = state.own.log.window(from, state.end, bytes) {
            return Source::Log(window);
        }
    }
    let at = state.own.segments.partition_point(|segment| segment.last < from);
    if let Some(segment) = state.own.segments.get(at) {
        return Source::Segment(Arc::clone(segment));
    }
    let first = state.own.log.first().or_else(|| state.chunks.first());
    Source::Gap(first.filter(|first| *first > from).unwrap_or(state.end))
}

/// Returns whether to continue after the segment.
fn read_segment(
    shared: &Shared,
    topic: &Topic,
    segment: &Arc<Segment>,
    filling: &mut Filling,
) -> Result<bool> {
    let reader = Reader::open(segment, topic.seed, &shared.files, &shared.database);
    let read = reader.and_then(|mut reader| reader.read(filling));
    match read {
        // A trim may have dropped it since the lookup; then look it up again.
        Err(Error::NotFound) => Ok(true),
        Err(_) if !is_current(topic, segment) => Ok(true),
        other => other,
    }
}

fn is_current(topic: &Topic, segment: &Arc<Segment>) -> bool {
    topic.state().own.segments.iter().any(|other| other.file == segment.file)
}

/// Returns whether to continue after the window.
fn read_log(shared: &Shared, topic: &Topic, window: Window, filling: &mut Filling) -> Result<bool> {
    let Some(file) = shared.wal.get(window.sequence) else { return Ok(true) };
    let whole = to_usize(window.end - window.start);
    let mut bytes = whole.min(filling.bytes_left().saturating_mul(2).max(READ_BYTES_MIN));
    let mark = filling.mark();
    loop {
        let mut buffer = vec![0; bytes];
        let read = file.file.read_at(&mut buffer, u64::from(window.start));
        let mut walk = Walk::new(buffer.into(), window, topic);
        let walked = walk.run(filling);
        // The file may have been reused while it was read; then discard all of this.
        if file.is_retired() {
            filling.rewind(mark);
            return Ok(true);
        }
        read.map_err(|error| unavailable(io::Error::other(format!("{}: {error}", file.name()))))?;
        match walked {
            Walked::Full => return Ok(false),
            Walked::CutOff if filling.next() > mark.next() => return Ok(false),
            Walked::CutOff if bytes < whole => bytes = whole.min(bytes * 4),
            Walked::Through => {
                filling.cover(window.next);
                return Ok(true);
            }
            Walked::CutOff | Walked::Damaged => {
                filling.rewind(mark);
                if bytes == whole {
                    tracing::error!(file = file.name(), at = window.start, "damage in the log");
                    return Ok(walk.salvage(filling));
                }
                bytes = whole;
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Walked {
    /// The limit is reached.
    Full,
    /// The bytes end inside a frame.
    CutOff,
    /// Everything was seen.
    Through,
    /// Something differs from what was written.
    Damaged,
}

/// A scan of a window of the log that takes the records of one topic.
struct Walk<'a> {
    bytes: Bytes,
    window: Window,
    /// The offset of the topic's next record.
    expected: Offset,
    topic: &'a Topic,
}

impl<'a> Walk<'a> {
    fn new(bytes: Bytes, window: Window, topic: &'a Topic) -> Self {
        Self { bytes, window, expected: window.first, topic }
    }

    fn run(&mut self, filling: &mut Filling) -> Walked {
        let mut at = 0;
        while let Some(mark) = self.bytes.get(at).copied() {
            at += match mark {
                PADDING_MARK => self.to_boundary(at),
                GROUP_MARK => GROUP_HEADER,
                _ => match self.frame(at, filling) {
                    Ok(length) => length,
                    Err(walked) => return walked,
                },
            };
        }
        // If a damaged length skipped frames, they are missing at the end.
        match at > self.bytes.len() || self.expected < self.window.next {
            true if to_usize(self.window.end - self.window.start) > self.bytes.len() => {
                Walked::CutOff
            }
            true => Walked::Damaged,
            false => Walked::Through,
        }
    }

    fn to_boundary(&self, at: usize) -> usize {
        let place = to_usize(self.window.start) + at;
        (place + 1).next_multiple_of(BLOCK) - place
    }

    /// Takes the frame at `at` if it belongs to the topic; returns its length.
    fn frame(&mut self, at: usize, filling: &mut Filling) -> Result<usize, Walked> {
        let rest = self.bytes.get(at..).unwrap_or_default();
        if rest.len() < APPEND_HEADER {
            return Err(Walked::CutOff);
        }
        let (frame, length) = append_head_at(rest).ok_or(Walked::Damaged)?;
        if let Some(frame) = frame.filter(|frame| frame.topic == self.topic.id) {
            let (first, end) = (frame.first, frame.end());
            if first != self.expected {
                return Err(Walked::Damaged);
            }
            self.records(at + APPEND_HEADER, at + length, filling)?;
            if self.expected != end {
                return Err(Walked::Damaged);
            }
        }
        Ok(length)
    }

    /// Takes the records from `at` to `end`.
    fn records(&mut self, mut at: usize, end: usize, filling: &mut Filling) -> Result<(), Walked> {
        while at < end {
            let rest = self.bytes.get(at..).unwrap_or_default();
            if rest.len() < RECORD_HEADER + 8 && end > self.bytes.len() {
                return Err(Walked::CutOff);
            }
            let head = RecordHead::decode(rest)
                .filter(|head| head.offset == self.expected && head.length <= end - at);
            let head = head.ok_or(Walked::Damaged)?;
            let Some(record) = rest.get(..head.length) else { return Err(Walked::CutOff) };
            if head.offset >= filling.next() {
                if !record_holds(record, self.topic.seed) {
                    return Err(Walked::Damaged);
                }
                if !filling.take(&self.bytes, at, &head) {
                    return Err(Walked::Full);
                }
            }
            at += head.length;
            self.expected = head.offset.next();
        }
        Ok(())
    }

    /// Takes every record in the window that can be found by its own checksum, and reports the
    /// offsets of the others; `false` once there is no room.
    fn salvage(&self, filling: &mut Filling) -> bool {
        let mut at = 0;
        let mut next = self.window.first;
        while let Some(rest) = self.bytes.get(at..).filter(|rest| rest.len() >= RECORD_HEADER) {
            let found = RecordHead::decode(rest).filter(|head| {
                let wanted = head.offset >= next && head.offset < self.window.next;
                let record = rest.get(..head.length).filter(|_| wanted);
                record.is_some_and(|record| record_holds(record, self.topic.seed))
            });
            let Some(head) = found else {
                at += 1;
                continue;
            };
            report(next, head.offset, filling);
            if head.offset >= filling.next() && !filling.take(&self.bytes, at, &head) {
                return false;
            }
            next = head.offset.next();
            at += head.length;
        }
        report(next, self.window.next, filling);
        filling.cover(self.window.next);
        true
    }
}

/// Reports the missing offsets between two good records.
fn report(from: Offset, to: Offset, filling: &mut Filling) {
    for offset in from.max(filling.next()).0..to.0 {
        filling.damaged(Offset(offset));
    }
}

/// The first kept record of `topic` published at `time` or later, or the visible end.
pub(super) fn offset_at(shared: &Shared, topic: &Topic, time: Timestamp) -> Result<Offset> {
    // Usually it is the very first one, if retention has not passed anything yet.
    const FIRST: ReadLimit = ReadLimit { records: 1, bytes: 1 };
    const STEP: ReadLimit = ReadLimit { records: 1_024, bytes: 1 << 20 };
    let mut from = search_start(shared, topic, time)?;
    let mut limit = FIRST;
    loop {
        let batch = read(shared, topic, from, limit)?;
        limit = STEP;
        if let Some(record) = batch.records.iter().find(|record| record.publish_time >= time) {
            return Ok(record.offset);
        }
        if batch.covered.is_empty() {
            return Ok(batch.covered.to);
        }
        from = batch.covered.to;
    }
}

/// An offset at or before the one wanted, from the sparse indexes.
fn search_start(shared: &Shared, topic: &Topic, time: Timestamp) -> Result<Offset> {
    let (segment, log) = {
        let state = topic.state();
        let at = state.own.segments.partition_point(|segment| segment.time_max < time);
        let segment = state.own.segments.get(at).cloned();
        (
            segment,
            state
                .own
                .log
                .before(time)
                .unwrap_or_else(|| state.own.log.first().unwrap_or(state.end)),
        )
    };
    let Some(segment) = segment else { return Ok(log) };
    let marks = match segment.marks(&shared.database) {
        Err(_) if !is_current(topic, &segment) => return Ok(segment.first),
        other => other?,
    };
    let at = marks.partition_point(|mark| mark.time < time).saturating_sub(1);
    Ok(marks.get(at).map_or(segment.first, |mark| mark.offset))
}
