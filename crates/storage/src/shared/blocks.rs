//! Blocks: records of one topic that are still needed after their chunks are gone.
//!
//! A block is its records, one after the other, as they were in their frames. Offsets ascend, with
//! gaps where a record was not needed.
#![warn(clippy::indexing_slicing)]

use bytes::Bytes;
use domain::{Offset, OffsetRange, Timestamp};

use crate::front::format::{RECORD_HEADER, RecordHead, lost_record, record_holds};

/// What is known about a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub number: u64,
    /// The lowest and the highest offset in it.
    pub first: Offset,
    pub last: Offset,
    pub records: u64,
    pub bytes: u64,
    pub time_min: Timestamp,
    pub time_max: Timestamp,
}

impl Block {
    /// The offsets it spans.
    pub(super) fn range(&self) -> OffsetRange {
        OffsetRange { from: self.first, to: self.last.next() }
    }
}

/// A record in a stretch of bytes.
pub(super) struct Found {
    pub at: usize,
    pub head: RecordHead,
    /// Whether its checksum is right.
    pub holds: bool,
}

/// The records in `bytes`, up to their end or to where no record can be found.
pub(super) fn records(bytes: &[u8], seed: u32) -> impl Iterator<Item = Found> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(at..)?;
        let head = RecordHead::decode(rest)?;
        let holds = record_holds(rest.get(..head.length)?, seed);
        let found = Found { at, head, holds };
        at += head.length;
        Some(found)
    })
}

/// Records on their way into blocks.
#[derive(Debug, Default)]
pub(super) struct Builder {
    done: Vec<(Block, Bytes)>,
    bytes: Vec<u8>,
    block: Option<Block>,
}

impl Builder {
    /// Adds a record; a block that has `block_bytes` takes no more.
    pub(super) fn add(&mut self, head: &RecordHead, record: &[u8], block_bytes: usize) {
        if self.bytes.len() + record.len() > block_bytes {
            self.end();
        }
        let (offset, time) = (head.offset, head.publish_time);
        let block = self.block.get_or_insert(Block {
            number: 0,
            first: offset,
            last: offset,
            records: 0,
            bytes: 0,
            time_min: time,
            time_max: time,
        });
        block.last = offset;
        block.time_max = block.time_max.max(time);
        block.records += 1;
        block.bytes += record.len() as u64;
        self.bytes.extend_from_slice(record);
    }

    /// Adds a mark in place of a record that is lost, so that a reader knows that one was there.
    pub(super) fn add_lost(
        &mut self,
        seed: u32,
        (offset, time): (Offset, Timestamp),
        block_bytes: usize,
    ) {
        let record = lost_record(seed, offset, time);
        let (length, addressee) = (record.len(), None);
        let head =
            RecordHead { length, offset, publish_time: time, addressee, body_at: RECORD_HEADER };
        self.add(&head, &record, block_bytes);
    }

    /// How many bytes it has.
    pub(super) fn bytes(&self) -> u64 {
        self.done.iter().map(|(block, _)| block.bytes).sum::<u64>() + self.bytes.len() as u64
    }

    /// The blocks, without numbers.
    pub(super) fn finish(mut self) -> Vec<(Block, Bytes)> {
        self.end();
        self.done
    }

    fn end(&mut self) {
        if let Some(block) = self.block.take() {
            self.done.push((block, std::mem::take(&mut self.bytes).into()));
        }
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test may panic")]
mod tests {
    use bytes::BytesMut;
    use domain::Message;

    use super::*;
    use crate::NewRecord;
    use crate::front::format::put_record;

    fn record(offset: u64) -> Bytes {
        let mut out = BytesMut::new();
        let message = Message { data: vec![7; 100].into(), ..Message::default() };
        let new = NewRecord { message, publish_time: Timestamp(offset * 10), addressee: None };
        put_record(&mut out, 9, Offset(offset), &new);
        out.freeze()
    }

    #[test]
    fn records_go_into_blocks_and_come_out_again() {
        let mut builder = Builder::default();
        for offset in [3, 5, 6, 9] {
            let record = record(offset);
            builder.add(&RecordHead::decode(&record).unwrap(), &record, 320);
        }
        builder.add_lost(9, (Offset(11), Timestamp(90)), 320);
        let blocks = builder.finish();
        let ranges: Vec<_> =
            blocks.iter().map(|(block, _)| (block.first.0, block.last.0)).collect();
        assert_eq!(ranges, [(3, 5), (6, 11)]);
        let found = blocks.iter().flat_map(|(_, bytes)| {
            let records: Vec<_> = records(bytes, 9).collect();
            records.into_iter().map(|found| (found.head.offset.0, found.holds))
        });
        let found: Vec<_> = found.collect();
        assert_eq!(found, [(3, true), (5, true), (6, true), (9, true), (11, false)]);
        assert_eq!((blocks[1].0.time_min, blocks[1].0.time_max), (Timestamp(60), Timestamp(90)));
        assert_eq!(blocks[1].0.records, 3);
    }
}
