//! The newest records, in the very buffers they were written from.
//!
//! One ring for all topics, bounded in bytes: the oldest group leaves first. A topic keeps a list
//! of chunks, each with the records of one frame; reads return slices of the group's buffer.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use domain::{Offset, OffsetRange, Record};

use super::format::{RecordHead, to_usize};
use super::topic::Topic;
use crate::{Batch, ReadLimit};

/// The records of one frame.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub first: Offset,
    pub records: Bytes,
}

/// A topic's part of the ring, oldest first. Offsets are dense up to the topic's visible end.
#[derive(Debug, Default)]
pub(crate) struct Chunks(VecDeque<Chunk>);

impl Chunks {
    pub(crate) fn push(&mut self, chunk: Chunk) {
        self.0.push_back(chunk);
    }

    /// Drops the oldest chunk.
    pub(crate) fn pop(&mut self) {
        self.0.pop_front();
        if self.0.is_empty() {
            self.0.shrink_to(0);
        }
    }

    /// The lowest offset in memory; `None` if there is none.
    pub(crate) fn first(&self) -> Option<Offset> {
        self.0.front().map(|chunk| chunk.first)
    }

    /// Records from `from`, which must not be below `first`, up to `limit`.
    pub(crate) fn read(&self, from: Offset, limit: ReadLimit) -> Batch {
        let mut filling = Filling::new(from, limit);
        let start = self.0.partition_point(|chunk| chunk.first <= from).saturating_sub(1);
        for chunk in self.0.range(start..) {
            if !filling.take_records(&chunk.records) {
                break;
            }
        }
        filling.batch
    }
}

/// A batch being filled, up to a limit.
#[derive(Debug)]
pub(crate) struct Filling {
    pub batch: Batch,
    limit: ReadLimit,
    bytes: usize,
}

impl Filling {
    pub(crate) fn new(from: Offset, limit: ReadLimit) -> Self {
        let covered = OffsetRange { from, to: from };
        let batch = Batch { covered, records: Vec::new(), damaged: Vec::new() };
        Self { batch, limit, bytes: 0 }
    }

    /// The first offset not examined yet.
    pub(crate) fn next(&self) -> Offset {
        self.batch.covered.to
    }

    /// Whether there is no room for one more record of `bytes`.
    pub(crate) fn is_full(&self, bytes: usize) -> bool {
        let records = self.batch.records.len();
        records > 0
            && (records >= self.limit.records
                || self.bytes.saturating_add(bytes) > self.limit.bytes)
    }

    /// Bytes that still fit.
    pub(crate) fn bytes_left(&self) -> usize {
        self.limit.bytes.saturating_sub(self.bytes)
    }

    /// Records that still fit.
    pub(crate) fn records_left(&self) -> usize {
        self.limit.records.saturating_sub(self.batch.records.len())
    }

    /// Whether the remaining room is not worth another read.
    pub(crate) fn is_half_full(&self) -> bool {
        let records = self.batch.records.len();
        records > 0 && (records >= self.limit.records / 2 || self.bytes >= self.limit.bytes / 2)
    }

    /// Adds the record at `at` of `bytes` with header `head`; `false` if there is no room.
    pub(crate) fn take(&mut self, bytes: &Bytes, at: usize, head: &RecordHead) -> bool {
        let body_bytes = head.length - head.body_at;
        if self.is_full(body_bytes) {
            return false;
        }
        self.bytes += body_bytes;
        self.batch.records.push(Record {
            offset: head.offset,
            publish_time: head.publish_time,
            addressee: head.addressee,
            body: bytes.slice(at + head.body_at..at + head.length),
        });
        self.batch.covered.to = head.offset.next();
        true
    }

    /// The current fill level, to rewind to.
    pub(crate) fn mark(&self) -> FillMark {
        let batch = &self.batch;
        FillMark {
            records: batch.records.len(),
            damaged: batch.damaged.len(),
            next: batch.covered.to,
            bytes: self.bytes,
        }
    }

    /// Undoes everything since `mark`.
    pub(crate) fn rewind(&mut self, mark: FillMark) {
        self.batch.records.truncate(mark.records);
        self.batch.damaged.truncate(mark.damaged);
        self.batch.covered.to = mark.next;
        self.bytes = mark.bytes;
    }

    /// Notes that everything below `to` was examined.
    pub(crate) fn cover(&mut self, to: Offset) {
        self.batch.covered.to = self.batch.covered.to.max(to);
    }

    /// Notes a record with an invalid checksum.
    pub(crate) fn damaged(&mut self, offset: Offset) {
        self.batch.damaged.push(offset);
        self.cover(offset.next());
    }

    /// Adds the records of a frame that is known to be complete; `false` once there is no room.
    pub(crate) fn take_records(&mut self, records: &Bytes) -> bool {
        let mut at = 0;
        while let Some(head) = records.get(at..).and_then(RecordHead::decode) {
            if head.offset >= self.next() && !self.take(records, at, &head) {
                return false;
            }
            at += head.length;
        }
        true
    }
}

/// The answer to a read at the visible end.
pub(crate) fn nothing(from: Offset) -> Batch {
    Filling::new(from, ReadLimit { records: 0, bytes: 0 }).batch
}

/// How far a batch was filled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FillMark {
    records: usize,
    damaged: usize,
    next: Offset,
    bytes: usize,
}

impl FillMark {
    /// The first offset that was not examined.
    pub(crate) fn next(self) -> Offset {
        self.next
    }
}

/// The newest groups, in memory as they were written. Their numbers are consecutive.
#[derive(Debug)]
pub(crate) struct Ring<S> {
    groups: VecDeque<Held<S>>,
    bytes: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct Held<S> {
    number: u64,
    bytes: Bytes,
    /// The topic of each chunk, in the order in which they were pushed.
    topics: Vec<Arc<Topic<S>>>,
}

impl<S> Ring<S> {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { groups: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// Adds the next group, with one chunk in each of `topics`, and drops the oldest while the
    /// limit is exceeded.
    pub(crate) fn push(&mut self, number: u64, bytes: Bytes, topics: Vec<Arc<Topic<S>>>) {
        self.bytes += bytes.len();
        self.groups.push_back(Held { number, bytes, topics });
        while self.bytes > self.bytes_max {
            let Some(oldest) = self.groups.pop_front() else { break };
            self.bytes -= oldest.bytes.len();
            for topic in oldest.topics {
                topic.state().chunks.pop();
            }
        }
    }

    /// Group `number`, including header and zeros, if it is still in memory.
    pub(crate) fn group(&self, number: u64) -> Option<Bytes> {
        let oldest = self.groups.front()?.number;
        let held = self.groups.get(to_usize(number.checked_sub(oldest)?))?;
        (held.number == number).then(|| held.bytes.clone())
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use domain::{Message, Timestamp, TopicId};

    use super::super::format::put_record;
    use super::*;
    use crate::NewRecord;

    fn chunk(first: u64, count: u64) -> Chunk {
        let mut out = BytesMut::new();
        for offset in first..first + count {
            let message = Message { data: vec![7; 100].into(), ..Message::default() };
            let record = NewRecord { message, publish_time: Timestamp(offset), addressee: None };
            put_record(&mut out, 0, Offset(offset), &record);
        }
        Chunk { first: Offset(first), records: out.freeze() }
    }

    fn offsets(batch: &Batch) -> Vec<u64> {
        batch.records.iter().map(|record| record.offset.0).collect()
    }

    const ALL: ReadLimit = ReadLimit { records: 100, bytes: 1 << 20 };

    #[test]
    fn a_read_starts_inside_a_chunk_and_goes_on_through_the_next() {
        let mut chunks = Chunks::default();
        chunks.push(chunk(10, 3));
        chunks.push(chunk(13, 4));
        assert_eq!(chunks.first(), Some(Offset(10)));
        let batch = chunks.read(Offset(12), ALL);
        assert_eq!(offsets(&batch), [12, 13, 14, 15, 16]);
        assert_eq!(batch.covered, OffsetRange { from: Offset(12), to: Offset(17) });
        chunks.pop();
        assert_eq!(chunks.first(), Some(Offset(13)));
    }

    #[test]
    fn limits_hold_but_one_record_always_comes() {
        let mut chunks = Chunks::default();
        chunks.push(chunk(0, 10));
        let batch = chunks.read(Offset(2), ReadLimit { records: 3, bytes: 1 << 20 });
        assert_eq!(offsets(&batch), [2, 3, 4]);
        assert_eq!(batch.covered.to, Offset(5));
        let batch = chunks.read(Offset(2), ReadLimit { records: 9, bytes: 300 });
        assert_eq!(offsets(&batch), [2, 3]);
        let batch = chunks.read(Offset(2), ReadLimit { records: 9, bytes: 0 });
        assert_eq!(offsets(&batch), [2]);
    }

    #[test]
    fn the_ring_lets_the_oldest_group_go() {
        let topic = Arc::new(Topic::<()>::new(TopicId(1), Offset(0), 0));
        let mut ring = Ring::new(1_000);
        for group in 0..3 {
            topic.state().chunks.push(chunk(group * 2, 2));
            let bytes = Bytes::from(vec![7; 400]);
            ring.push(10 + group, bytes, vec![Arc::clone(&topic)]);
        }
        assert_eq!(topic.state().chunks.first(), Some(Offset(2)));
        let held = (9..14).map(|number| ring.group(number).is_some());
        assert_eq!(held.collect::<Vec<_>>(), [false, false, true, true, false]);
    }
}
