//! Topic segments: files of the records that are still needed after their log file is reused.
//!
//! ```text
//! file    | record | record | … | record |  garbage
//! marks     ^ every 64 KiB                ^ valid length in SQLite
//! ```
//!
//! A file's bytes are durable before SQLite names them, and anything SQLite does not name is
//! garbage that the next move overwrites. Offsets ascend, with gaps where a record was not needed.
#![warn(clippy::indexing_slicing)]

use std::sync::{Arc, OnceLock};

use bytes::{Buf, BufMut};
use domain::{Offset, Timestamp, TopicId};

use super::database::Database;
use super::files::{DIRECT_BYTES_MIN, Files, SegmentFile, Window};
use super::format::{RECORD_HEADER, RecordHead, record_holds, to_usize};
use super::scan::{at_end, unavailable};
use super::seam::File;
use crate::front::Filling;
use crate::{Error, Result};

/// The folder of segment files.
pub(super) const FOLDER: &str = "topics";
/// Bytes of records between two marks.
pub(super) const MARK_BYTES: u64 = 64 << 10;
/// Maximum bytes per read, unless a record is longer.
const READ_BYTES_MAX: u64 = 1 << 20;
/// Maximum offsets reported as damaged by one read; the next read continues after them.
const DAMAGED_MAX: u64 = 65_536;

/// A position in a segment where a record starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub offset: Offset,
    pub at: u64,
    pub time: Timestamp,
}

/// One segment file, as far as SQLite names it.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub topic: TopicId,
    /// The lowest offset in it.
    pub first: Offset,
    /// The highest offset in it.
    pub last: Offset,
    pub file: String,
    /// Valid bytes.
    pub length: u64,
    pub records: u64,
    pub time_min: Timestamp,
    pub time_max: Timestamp,
    /// The sparse index, once it has been needed.
    pub marks: OnceLock<Arc<[Mark]>>,
}

impl Segment {
    /// The name of a segment that starts with `first`.
    pub(super) fn file_name(topic: TopicId, first: Offset) -> String {
        format!("{FOLDER}/{:020}-{:020}", topic.0, first.0)
    }

    /// The sparse index, from memory or from SQLite.
    pub(super) fn marks(&self, database: &Database) -> Result<Arc<[Mark]>> {
        if let Some(marks) = self.marks.get() {
            return Ok(Arc::clone(marks));
        }
        let mut marks = match database.marks(self.topic, self.first) {
            Err(error @ Error::Corrupt { .. }) => {
                // They only make reading faster: the segment can be read from its beginning as
                // well.
                tracing::warn!(%error, file = self.file, "the index of a segment is damaged");
                vec![Mark { offset: self.first, at: 0, time: self.time_min }]
            }
            other => other?,
        };
        // The segment may have grown since this was read.
        marks.retain(|mark| mark.at < self.length);
        let marks: Arc<[Mark]> = marks.into();
        Ok(Arc::clone(self.marks.get_or_init(|| marks)))
    }
}

pub(super) fn encode_marks(marks: &[Mark]) -> Vec<u8> {
    let mut out = Vec::with_capacity(marks.len() * 24);
    for mark in marks {
        out.put_u64_le(mark.offset.0);
        out.put_u64_le(mark.at);
        out.put_u64_le(mark.time.0);
    }
    out
}

pub(super) fn decode_marks(mut bytes: &[u8]) -> Vec<Mark> {
    let mut marks = Vec::with_capacity(bytes.len() / 24);
    while bytes.len() >= 24 {
        marks.push(Mark {
            offset: Offset(bytes.get_u64_le()),
            at: bytes.get_u64_le(),
            time: Timestamp(bytes.get_u64_le()),
        });
    }
    marks
}

/// Reads one segment.
pub(super) struct Reader<'a> {
    segment: &'a Segment,
    file: Arc<SegmentFile>,
    marks: Arc<[Mark]>,
    seed: u32,
    /// Bytes of the file from `at` on.
    window: Window,
    at: u64,
    /// No record below this one is left to read.
    next: Offset,
}

impl<'a> Reader<'a> {
    pub(super) fn open(
        segment: &'a Segment,
        seed: u32,
        files: &Files,
        database: &Database,
    ) -> Result<Self> {
        let file = files.get(&segment.file).map_err(unavailable)?;
        let marks = segment.marks(database)?;
        let next = segment.first;
        Ok(Self { segment, file, marks, seed, window: Window::default(), at: 0, next })
    }

    /// Adds the segment's records to `filling`, from its next offset on. Returns whether the
    /// segment's end was reached.
    pub(super) fn read(&mut self, filling: &mut Filling) -> Result<bool> {
        let start = self.marks.partition_point(|mark| mark.offset <= filling.next());
        if let Some(mark) = self.marks.get(start.saturating_sub(1)) {
            (self.at, self.next) = (mark.at, mark.offset);
        }
        let record_bytes = self.segment.length / self.segment.records.max(1) + 1;
        while self.at < self.segment.length {
            if self.window.bytes.is_empty() && filling.is_half_full() {
                return Ok(false);
            }
            let records_bytes = (filling.records_left() as u64).saturating_mul(record_bytes);
            match self.record(records_bytes.min(filling.bytes_left() as u64))? {
                Some(head) if head.offset < filling.next() => self.pass(&head),
                Some(head) => {
                    if !filling.take(&self.window.bytes, 0, &head) {
                        return Ok(false);
                    }
                    self.pass(&head);
                }
                None => {
                    if !self.skip_damage(filling)? {
                        return Ok(false);
                    }
                }
            }
        }
        filling.cover(self.segment.last.next());
        Ok(true)
    }

    fn pass(&mut self, head: &RecordHead) {
        self.window.advance(head.length);
        self.at += head.length as u64;
        self.next = head.offset.next();
    }

    /// The record at `at`, complete in the window; `None` if its checksum is invalid.
    fn record(&mut self, wanted: u64) -> Result<Option<RecordHead>> {
        self.fill(RECORD_HEADER + 8, wanted)?;
        let Some(head) = RecordHead::decode(&self.window.bytes) else { return Ok(None) };
        if head.length as u64 > self.segment.length - self.at {
            return Ok(None);
        }
        self.fill(head.length, wanted)?;
        let is_next = head.offset >= self.next && head.offset <= self.segment.last;
        let holds = head.length <= self.window.checked
            || (self.window.bytes.get(..head.length))
                .is_some_and(|record| record_holds(record, self.seed));
        Ok((is_next && holds).then_some(head))
    }

    /// Fills the window with `needed` bytes, or everything up to the segment's end.
    fn fill(&mut self, needed: usize, wanted: u64) -> Result<()> {
        let rest = self.segment.length - self.at;
        if self.window.bytes.len() as u64 >= rest.min(needed as u64) {
            return Ok(());
        }
        let least = rest.min(needed as u64);
        let end = self.window_end(self.at, wanted).max(self.at + least);
        // A short read usually ends inside a record, where nobody will continue.
        let goes_on = wanted >= DIRECT_BYTES_MIN as u64;
        let next = |at: u64| if goes_on { to_usize(self.window_end(at, wanted) - at) } else { 0 };
        let lengths = (to_usize(least), to_usize(end - self.at));
        let read = self.file.read(self.at, lengths, self.seed, next);
        self.window = read.map_err(|error| at_end(&self.segment.file, self.at, error))?;
        Ok(())
    }

    /// Where to end a read of `wanted` bytes from `at`. A long one ends at a mark, so that the next
    /// one starts where it ended; a short one adds the headers of records, and what is between the
    /// mark and the first record.
    fn window_end(&self, at: u64, wanted: u64) -> u64 {
        let length = self.segment.length;
        if wanted < DIRECT_BYTES_MIN as u64 {
            return length.min(at + wanted + wanted / 8 + MARK_BYTES);
        }
        let most = at + wanted.min(READ_BYTES_MAX);
        let behind = self.marks.partition_point(|mark| mark.at <= most);
        let near = [behind.saturating_sub(1), behind].map(|place| self.marks.get(place));
        let end = near.into_iter().flatten().map(|mark| mark.at).find(|end| *end > at);
        end.filter(|_| length > most).unwrap_or(length)
    }

    /// Reports the damage at `at` and continues after it; `false` once that is enough for one
    /// batch.
    ///
    /// We do not know for sure which offsets were in the damaged bytes, so everything between the
    /// good records around them is reported: nobody needs a gap among them anyway.
    fn skip_damage(&mut self, filling: &mut Filling) -> Result<bool> {
        tracing::error!(file = self.segment.file, at = self.at, "damaged record in a segment");
        let (at, offset) = self.next_good()?;
        let first = filling.next().max(self.next);
        let last = offset.0.min(first.0.saturating_add(DAMAGED_MAX));
        for damaged in first.0..last {
            filling.damaged(Offset(damaged));
        }
        (self.at, self.next) = (at, offset);
        self.window = Window::default();
        Ok(last >= offset.0)
    }

    /// The position and offset of the next good record after a damaged one; the segment's end if
    /// there is none.
    fn next_good(&mut self) -> Result<(u64, Offset)> {
        let next_mark = self.marks.iter().find(|mark| mark.at > self.at);
        let (end, end_offset) = next_mark
            .map_or((self.segment.length, self.segment.last.next()), |mark| (mark.at, mark.offset));
        self.fill(to_usize(end - self.at), 0)?;
        let window = self.window.bytes.get(..to_usize(end - self.at)).unwrap_or_default();
        for place in 1..window.len().saturating_sub(RECORD_HEADER) {
            let bytes = window.get(place..).unwrap_or_default();
            let Some(head) = RecordHead::decode(bytes) else { continue };
            let plausible = head.offset >= self.next && head.offset < end_offset;
            let record = bytes.get(..head.length).filter(|_| plausible);
            if record.is_some_and(|record| record_holds(record, self.seed)) {
                return Ok((self.at + place as u64, head.offset));
            }
        }
        Ok((end, end_offset))
    }
}

/// Checks every record of a segment; calls `fault` with the position of each bad one.
pub(super) fn verify(
    segment: &Segment,
    file: Arc<dyn File>,
    seed: u32,
    marks: Vec<Mark>,
    mut fault: impl FnMut(u64),
) -> Result<u64, Error> {
    let (marks, window) = (marks.into(), Window::default());
    let file = Arc::new(SegmentFile::cached(file));
    let mut reader = Reader { segment, file, marks, seed, window, at: 0, next: segment.first };
    let mut records = 0;
    while reader.at < segment.length {
        if let Some(head) = reader.record(READ_BYTES_MAX)? {
            reader.pass(&head);
            records += 1;
        } else {
            fault(reader.at);
            (reader.at, reader.next) = reader.next_good()?;
            reader.window = Window::default();
        }
    }
    Ok(records)
}
