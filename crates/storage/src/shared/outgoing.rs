//! The records that a trim moves out of chunks, topic by topic.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use domain::{Offset, OffsetRange, Timestamp, TopicId};

use super::blocks::{self, Block, Builder};
use super::chain;
use super::owned::{Own, Owned};
use crate::front::Topic;
use crate::front::format::{APPEND_HEADER, Frame, RecordHead, frames};
use crate::{Keep, Need, Result, Trimmed};

/// How much is read at a time.
const STEP_BYTES: usize = 4 << 20;
/// A block is joined with what follows if that is at least this part of it.
const JOIN_FACTOR: u64 = 4;

/// What is needed of `range`.
pub(super) fn needed(keep: &dyn Keep, topic: TopicId, range: OffsetRange) -> Vec<OffsetRange> {
    match keep.needed(topic, range) {
        Need::Only(ranges) => ranges,
        Need::Gone => Vec::new(),
        Need::Unknown => vec![range],
    }
}

/// Whether `offset` is in one of some ascending ranges.
fn contains(ranges: &[OffsetRange], offset: Offset) -> bool {
    let at = ranges.partition_point(|range| range.to <= offset);
    ranges.get(at).is_some_and(|range| range.contains(offset))
}

/// One topic's records on their way out of some chunks.
pub(super) struct Outgoing {
    pub topic: Arc<Topic<Own>>,
    /// What is in the chunks.
    range: OffsetRange,
    needed: Vec<OffsetRange>,
    /// Everything below was seen.
    next: Offset,
    /// When the last of that was published.
    time: Timestamp,
    pub builder: Builder,
    moved: u64,
    lost: u64,
    /// Blocks that the new ones take the place of.
    pub joined: Vec<Block>,
}

impl Outgoing {
    /// Takes a record that follows those before.
    fn take(&mut self, head: &RecordHead, record: &[u8], block_bytes: usize) {
        self.miss(head.offset, block_bytes);
        self.time = self.time.max(head.publish_time);
        if contains(&self.needed, head.offset) {
            self.builder.add(head, record, block_bytes);
            self.moved += 1;
        }
        self.next = head.offset.next();
    }

    /// Adds it to what the trim did.
    pub(super) fn count(&self, trimmed: &mut Trimmed) {
        trimmed.records_moved += self.moved;
        trimmed.records_damaged += self.lost;
        trimmed.records_dropped += self.range.len() - self.moved - self.lost;
    }

    /// Notes that what is needed below `to` and was not seen is lost.
    fn miss(&mut self, to: Offset, block_bytes: usize) {
        let (from, seed, time) = (self.next, self.topic.seed, self.time);
        for range in &self.needed {
            for offset in range.from.max(from).0..range.to.min(to).0 {
                self.builder.add_lost(seed, (Offset(offset), time), block_bytes);
                self.lost += 1;
            }
        }
        self.next = self.next.max(to);
    }
}

/// What is in chunks up to `cut`, by topic.
pub(super) fn outgoing(owned: &Owned, keep: &dyn Keep, cut: u64) -> BTreeMap<TopicId, Outgoing> {
    let mut topics = BTreeMap::new();
    for topic in owned.front.topics.all() {
        let (range, last) = {
            let state = topic.state();
            (state.own.spans.up_to(cut, state.end), state.own.blocks.last().copied())
        };
        let Some(range) = range else { continue };
        let needed = needed(keep, topic.id, range);
        let outgoing = Outgoing {
            range,
            needed,
            next: range.from,
            time: last.map_or(Timestamp(0), |block| block.time_max),
            builder: Builder::default(),
            moved: 0,
            lost: 0,
            joined: Vec::new(),
            topic,
        };
        topics.insert(outgoing.topic.id, outgoing);
    }
    topics
}

/// Hands every record of chunks `from..=to` to its topic. A chunk that is still in memory is taken
/// from there. Of a damaged one, the records are taken that hold by themselves.
pub(super) async fn copy(
    owned: &Owned,
    (from, to): (u64, u64),
    topics: &mut BTreeMap<TopicId, Outgoing>,
) -> Result<()> {
    let block_bytes = owned.options.block_bytes;
    let is_needed = topics.values().any(|outgoing| !outgoing.needed.is_empty());
    let (mut read, mut number) = (VecDeque::new(), from);
    while is_needed && number <= to {
        let held = owned.front.ring.lock().group(number);
        let chunk = match held {
            Some(chunk) => Some(chunk),
            None => next_of(owned, &mut read, (number, to)).await?,
        };
        match chunk {
            Some(chunk) => copy_chunk(&chain::body(&chunk), topics, block_bytes),
            None => tracing::error!(shard = owned.id.0, chunk = number, "a chunk is missing"),
        }
        number += 1;
    }
    for outgoing in topics.values_mut() {
        let end = outgoing.range.to;
        outgoing.miss(end, block_bytes);
    }
    Ok(())
}

/// Chunk `number` of the store; `None` if it is missing. `read` are those that were read ahead.
async fn next_of(
    owned: &Owned,
    read: &mut VecDeque<(u64, Bytes)>,
    (number, to): (u64, u64),
) -> Result<Option<Bytes>> {
    while read.front().is_some_and(|(other, _)| *other < number) {
        read.pop_front();
    }
    if read.is_empty() {
        let ask = || owned.chunks.read(owned.id, number, to, STEP_BYTES);
        *read = owned.insist(ask).await?.into();
    }
    let is_next = read.front().is_some_and(|(other, _)| *other == number);
    Ok(if is_next { read.pop_front().map(|(_, chunk)| chunk) } else { None })
}

fn copy_chunk(body: &Bytes, topics: &mut BTreeMap<TopicId, Outgoing>, block_bytes: usize) {
    for (at, frame) in frames(body) {
        let Some((Frame::Append(frame), length)) = frame else { continue };
        let Some(outgoing) = topics.get_mut(&frame.topic) else { continue };
        let bytes = body.get(at + APPEND_HEADER..at + length).unwrap_or_default();
        for found in blocks::records(bytes, outgoing.topic.seed) {
            let record = bytes.get(found.at..found.at + found.head.length).unwrap_or_default();
            if found.holds && found.head.offset >= outgoing.next {
                outgoing.take(&found.head, record, block_bytes);
            }
        }
    }
}

/// Joins small blocks at the end of a topic with what follows them, so that a topic with few
/// records at a time does not come to have ever more blocks.
pub(super) async fn join(
    owned: &Owned,
    keep: &dyn Keep,
    topics: &mut BTreeMap<TopicId, Outgoing>,
) -> Result<()> {
    for outgoing in topics.values_mut() {
        outgoing.joined = joined(outgoing, owned.options.block_bytes as u64);
    }
    let numbers = topics.values().flat_map(|outgoing| &outgoing.joined);
    let numbers: Vec<u64> = numbers.map(|block| block.number).collect();
    let mut bodies = BTreeMap::new();
    for some in numbers.chunks(64) {
        let read = owned.insist(|| owned.chunks.read_blocks(owned.id, some.to_vec())).await?;
        let found = some.iter().zip(read).filter_map(|(number, body)| Some((*number, body?)));
        bodies.extend(found);
    }
    for outgoing in topics.values_mut().filter(|outgoing| !outgoing.joined.is_empty()) {
        rebuild(outgoing, keep, &bodies, owned.options.block_bytes);
    }
    Ok(())
}

/// The last blocks of a topic that are to be joined with what goes out.
fn joined(outgoing: &Outgoing, block_bytes: u64) -> Vec<Block> {
    let mut bytes = outgoing.builder.bytes();
    let state = outgoing.topic.state();
    let mut joined: Vec<Block> = Vec::new();
    for block in state.own.blocks.iter().rev() {
        if bytes + block.bytes > block_bytes || block.bytes > bytes * JOIN_FACTOR {
            break;
        }
        bytes += block.bytes;
        joined.push(*block);
    }
    joined.reverse();
    joined
}

/// Puts what is needed of the joined blocks in front of what goes out. Where a block is damaged,
/// all stay as they are.
fn rebuild(
    outgoing: &mut Outgoing,
    keep: &dyn Keep,
    bodies: &BTreeMap<u64, Bytes>,
    block_bytes: usize,
) {
    let mut builder = Builder::default();
    for block in &outgoing.joined {
        let needed = needed(keep, outgoing.topic.id, block.range());
        let body = bodies.get(&block.number).cloned().unwrap_or_default();
        let mut seen = 0;
        for found in blocks::records(&body, outgoing.topic.seed).take_while(|found| found.holds) {
            seen += 1;
            let offset = found.head.offset;
            let record = body.get(found.at..found.at + found.head.length).unwrap_or_default();
            if contains(&needed, offset) {
                builder.add(&found.head, record, block_bytes);
            }
        }
        if seen != block.records {
            outgoing.joined.clear();
            return;
        }
    }
    for (_, body) in std::mem::take(&mut outgoing.builder).finish() {
        for found in blocks::records(&body, outgoing.topic.seed) {
            let record = body.get(found.at..found.at + found.head.length).unwrap_or_default();
            builder.add(&found.head, record, block_bytes);
        }
    }
    outgoing.builder = builder;
}
