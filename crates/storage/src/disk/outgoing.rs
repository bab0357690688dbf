//! Moving records from a log file to the segments of their topics.

use std::io;
use std::sync::{Arc, OnceLock};

use domain::{Offset, OffsetRange, Timestamp};

use super::blocks::Blocks;
use super::format::{AppendFrame, RECORD_HEADER, RecordHead, lost_record};
use super::preallocator::Preallocator;
use super::seam::Disk;
use super::segments::{FOLDER, MARK_BYTES, Mark, Segment};
use super::store::Shared;
use super::topic::Topic;
use super::wal::is_full;
use super::write_behind::WriteBehind;
use crate::{Error, Result};

/// Bytes of the reserve that are freed for one write: as much as is buffered, plus names.
const WRITE_BYTES_MAX: u64 = 2 << 20;

/// What a move needs besides the records.
pub(super) struct Mover<'store> {
    pub shared: &'store Shared,
    pub behind: WriteBehind,
}

impl Mover<'_> {
    /// Returns when everything handed over is written, using the reserve if necessary.
    fn settle(&mut self) -> Result<()> {
        with_reserve(&self.shared.preallocator, WRITE_BYTES_MAX, || self.behind.wait())
    }
}

/// What has to move out of a log file for one topic.
pub(super) struct Outgoing {
    pub topic: Arc<Topic>,
    /// The offsets in the file, without gaps.
    range: OffsetRange,
    /// Maximum bytes of the file that they take.
    bytes: usize,
    /// The offsets that are needed, ascending; finished ones are dropped from the front.
    needed: std::vec::IntoIter<OffsetRange>,
    current: Option<OffsetRange>,
    /// The first offset in the file that was not seen yet.
    next: Offset,
    /// When the record before that, or an earlier one, was published.
    last_time: Timestamp,
    /// The segments written to; the last one is still growing.
    pub segments: Vec<Building>,
    pub moved: u64,
    /// Needed records that were not found, in runs.
    pub lost: Vec<OffsetRange>,
}

/// A new or growing segment.
pub(super) struct Building {
    pub segment: Segment,
    pub marks: Vec<Mark>,
    /// The open file; `None` once everything is in it and durable.
    blocks: Option<Blocks>,
}

impl Outgoing {
    /// What is `needed` of the `range` in a file, which takes at most `bytes` there and was
    /// published at `since` at the earliest.
    pub(super) fn new(
        topic: Arc<Topic>,
        range: OffsetRange,
        (bytes, since): (usize, Timestamp),
        needed: Vec<OffsetRange>,
    ) -> Self {
        let mut needed = needed.into_iter();
        let current = needed.find(|range| !range.is_empty());
        Self {
            topic,
            range,
            bytes,
            needed,
            current,
            next: range.from,
            last_time: since,
            segments: Vec::new(),
            moved: 0,
            lost: Vec::new(),
        }
    }

    /// Whether anything needed from the file has not been taken yet.
    pub(super) fn needs_more(&self) -> bool {
        self.current.is_some()
    }

    /// How many records of the file were not needed.
    pub(super) fn dropped(&self) -> u64 {
        self.range.len() - self.moved - self.lost_records()
    }

    /// How many needed records were not found.
    pub(super) fn lost_records(&self) -> u64 {
        self.lost.iter().map(|range| range.len()).sum()
    }

    /// Whether the record at that offset is in the file and was not seen yet.
    pub(super) fn awaits(&self, offset: Offset) -> bool {
        offset >= self.next && offset < self.range.to
    }

    /// Takes the needed part of a frame; frames come in offset order.
    pub(super) fn take(&mut self, mover: &mut Mover<'_>, frame: &AppendFrame<'_>) -> Result<()> {
        self.miss(mover, frame.first)?;
        self.next = frame.end();
        if self.is_unneeded(frame) {
            return Ok(());
        }
        let mut rest = frame.records;
        while let Some(head) = RecordHead::decode(rest) {
            let Some((record, behind)) = rest.split_at_checked(head.length) else { break };
            self.take_if_needed(mover, &head, record)?;
            rest = behind;
        }
        Ok(())
    }

    /// Takes a record that was found by its own checksum, if it is needed.
    pub(super) fn take_found(
        &mut self,
        mover: &mut Mover<'_>,
        head: &RecordHead,
        record: &[u8],
    ) -> Result<()> {
        self.miss(mover, head.offset)?;
        self.next = head.offset.next();
        self.take_if_needed(mover, head, record)
    }

    fn take_if_needed(
        &mut self,
        mover: &mut Mover<'_>,
        head: &RecordHead,
        record: &[u8],
    ) -> Result<()> {
        if self.is_needed(head.offset) {
            self.put(mover, head, record)?;
            self.moved += 1;
        }
        Ok(())
    }

    /// Notes that no more records below `to` will be found. Needed ones are not forgotten: a gap
    /// would read as acked, so a placeholder is written that reads as damaged.
    fn miss(&mut self, mover: &mut Mover<'_>, to: Offset) -> Result<()> {
        while self.next < to {
            self.pass(self.next);
            let Some(range) = self.current.filter(|range| range.from < to) else { break };
            let offset = self.next.max(range.from);
            let (publish_time, body_at) = (self.last_time, RECORD_HEADER);
            let head =
                RecordHead { length: body_at, offset, publish_time, addressee: None, body_at };
            let record = lost_record(self.topic.seed, offset, publish_time);
            self.put(mover, &head, &record)?;
            self.next = offset.next();
            match self.lost.last_mut() {
                Some(last) if last.to == offset => last.to = self.next,
                _ => self.lost.push(OffsetRange::one(offset)),
            }
        }
        self.next = self.next.max(to);
        Ok(())
    }

    /// Writes what is buffered, syncs every file and closes it.
    pub(super) fn finish(&mut self, mover: &mut Mover<'_>) -> Result<()> {
        self.miss(mover, self.range.to)?;
        self.flush(mover)?;
        mover.settle()?;
        for building in &mut self.segments {
            if let Some(blocks) = building.blocks.take() {
                blocks.sync().map_err(super::scan::unavailable)?;
            }
        }
        Ok(())
    }

    /// Writes what is buffered.
    pub(super) fn flush(&mut self, mover: &mut Mover<'_>) -> Result<()> {
        self.segments.iter_mut().try_for_each(|building| building.flush(mover))
    }

    fn is_needed(&mut self, offset: Offset) -> bool {
        self.pass(offset);
        self.current.is_some_and(|range| range.from <= offset)
    }

    /// Whether nothing in a frame is needed.
    fn is_unneeded(&mut self, frame: &AppendFrame<'_>) -> bool {
        self.pass(frame.first);
        self.current.is_none_or(|range| range.from >= frame.end())
    }

    /// Drops the ranges that end at or before `offset`.
    fn pass(&mut self, offset: Offset) {
        while self.current.is_some_and(|range| range.to <= offset) {
            self.current = self.needed.next();
        }
    }

    fn put(&mut self, mover: &mut Mover<'_>, head: &RecordHead, record: &[u8]) -> Result<()> {
        self.last_time = head.publish_time;
        let shared = mover.shared;
        let bytes_max = shared.options.topic_segment_bytes;
        let full = self.segments.last().is_none_or(|last| last.segment.length >= bytes_max);
        if full {
            let next = match self.segments.last_mut() {
                Some(last) => {
                    last.flush(mover)?;
                    Building::create(shared, &self.topic, head.offset, self.bytes)?
                }
                None => Building::open(shared, &self.topic, head.offset, self.bytes)?,
            };
            self.segments.push(next);
        }
        match self.segments.last_mut() {
            Some(last) => last.put(mover, head, record),
            None => Ok(()),
        }
    }
}

impl Building {
    /// The topic's last segment if it has room, otherwise a new one.
    fn open(shared: &Shared, topic: &Topic, first: Offset, bytes: usize) -> Result<Self> {
        let last = topic.state().own.segments.last().cloned();
        let Some(last) = last.filter(|last| last.length < shared.options.topic_segment_bytes)
        else {
            return Self::create(shared, topic, first, bytes);
        };
        let marks = last.marks(&shared.database)?.to_vec();
        let blocks = (|| {
            let reader = shared.files.get(&last.file)?;
            let file = shared.disk.open_for_blocks(&last.file)?;
            Blocks::new(file, reader.cached.as_ref(), last.length, bytes)
        })();
        let blocks = blocks.map_err(super::scan::unavailable)?;
        Ok(Self { segment: last.as_ref().clone(), marks, blocks: Some(blocks) })
    }

    fn create(shared: &Shared, topic: &Topic, first: Offset, bytes: usize) -> Result<Self> {
        let name = Segment::file_name(topic.id, first);
        // An earlier move that was interrupted may have left a file with that name.
        shared.files.forget(&name);
        let blocks = with_reserve(&shared.preallocator, 1 << 20, || {
            let reader = shared.disk.create(&name)?;
            Blocks::new(shared.disk.open_for_blocks(&name)?, reader.as_ref(), 0, bytes)
        })?;
        let segment = Segment {
            topic: topic.id,
            first,
            last: first,
            file: name,
            length: 0,
            records: 0,
            time_min: Timestamp(u64::MAX),
            time_max: Timestamp(0),
            marks: OnceLock::new(),
        };
        Ok(Self { segment, marks: Vec::new(), blocks: Some(blocks) })
    }

    fn put(&mut self, mover: &mut Mover<'_>, head: &RecordHead, record: &[u8]) -> Result<()> {
        let segment = &mut self.segment;
        if self.marks.last().is_none_or(|mark| segment.length - mark.at >= MARK_BYTES) {
            let (offset, at, time) = (head.offset, segment.length, head.publish_time);
            self.marks.push(Mark { offset, at, time });
        }
        segment.last = head.offset;
        segment.records += 1;
        segment.length += record.len() as u64;
        segment.time_min = segment.time_min.min(head.publish_time);
        segment.time_max = segment.time_max.max(head.publish_time);
        match &mut self.blocks {
            Some(blocks) => blocks.put(record, |blocks| write(blocks, mover)),
            None => Err(super::scan::unavailable(io::Error::other("the segment is closed"))),
        }
    }

    fn flush(&mut self, mover: &mut Mover<'_>) -> Result<()> {
        self.blocks.as_mut().map_or(Ok(()), |blocks| write(blocks, mover))
    }

    /// The segment as SQLite will name it.
    pub(super) fn into_segment(self) -> Arc<Segment> {
        let marks = OnceLock::from(Arc::from(self.marks));
        Arc::new(Segment { marks, ..self.segment })
    }
}

fn write(blocks: &mut Blocks, mover: &mut Mover<'_>) -> Result<()> {
    with_reserve(&mover.shared.preallocator, WRITE_BYTES_MAX, || blocks.write(&mut mover.behind))
}

/// Makes the names of new segment files durable.
pub(super) fn sync_names(disk: &dyn Disk) -> Result<()> {
    disk.sync_folder(FOLDER).map_err(super::scan::unavailable)
}

/// Does something that must succeed even on a full disk, using the reserve if necessary.
pub(super) fn with_reserve<T>(
    preallocator: &Preallocator,
    bytes: u64,
    mut act: impl FnMut() -> io::Result<T>,
) -> Result<T> {
    loop {
        match act() {
            Err(error) if is_full(&error) => {
                if !preallocator.release(bytes) {
                    return Err(Error::Full);
                }
            }
            other => return other.map_err(super::scan::unavailable),
        }
    }
}
