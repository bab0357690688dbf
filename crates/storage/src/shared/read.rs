//! Reads records from wherever they are: memory, chunks, blocks.

use std::sync::Arc;

use bytes::Bytes;
use domain::{Offset, Timestamp};

use super::blocks::{self, Block};
use super::chain;
use super::index::Window;
use super::owned::{Own, Owned};
use crate::front::format::{APPEND_HEADER, Frame, frames};
use crate::front::{Filling, State, Topic};
use crate::{Batch, ReadLimit, Result};

/// How much is read of the store at a time.
const READ_BYTES_MAX: usize = 1 << 20;
/// About so many bytes of chunks are behind one span.
const SPAN_BYTES: usize = 64 << 10;
/// The most offsets that one read tells to be damaged; the next one goes on after them.
const DAMAGED_MAX: usize = 65_536;

/// Where to look for an offset.
enum Source {
    End,
    Memory(Batch),
    Chunks(Window),
    Block(Block),
    /// Nothing is kept below this offset.
    Gap(Offset),
}

/// Reads from wherever the records are.
pub(super) async fn read(
    owned: &Owned,
    topic: &Topic<Own>,
    from: Offset,
    limit: ReadLimit,
) -> Result<Batch> {
    let mut filling = Filling::new(from, limit);
    loop {
        let place = place(&topic.state(), filling.next(), limit);
        let goes_on = match place {
            Source::End => return Ok(filling.batch),
            Source::Memory(batch) => {
                if filling.batch.records.is_empty() && filling.batch.damaged.is_empty() {
                    let covered_from = filling.batch.covered.from;
                    filling.batch = batch;
                    filling.batch.covered.from = covered_from;
                }
                return Ok(filling.batch);
            }
            Source::Gap(to) => {
                filling.cover(to);
                true
            }
            Source::Block(block) => read_block(owned, topic, block, &mut filling).await?,
            Source::Chunks(window) => read_chunks(owned, topic, window, &mut filling).await?,
        };
        if !goes_on || filling.is_half_full() || filling.batch.damaged.len() >= DAMAGED_MAX {
            return Ok(filling.batch);
        }
    }
}

fn place(state: &State<Own>, from: Offset, limit: ReadLimit) -> Source {
    if from >= state.end {
        return Source::End;
    }
    if state.chunks.first().is_some_and(|first| first <= from) {
        return Source::Memory(state.chunks.read(from, limit));
    }
    let own = &state.own;
    if own.spans.first().is_some_and(|first| first <= from) {
        let spans = (limit.bytes.min(READ_BYTES_MAX) / SPAN_BYTES).max(1);
        if let Some(window) = own.spans.window(from, state.end, spans) {
            return Source::Chunks(window);
        }
    }
    let at = own.blocks.partition_point(|block| block.last < from);
    if let Some(block) = own.blocks.get(at) {
        return Source::Block(*block);
    }
    let first = own.spans.first().or_else(|| state.chunks.first());
    Source::Gap(first.filter(|first| *first > from).unwrap_or(state.end))
}

/// Returns whether to go on after the block.
async fn read_block(
    owned: &Owned,
    topic: &Topic<Own>,
    block: Block,
    filling: &mut Filling,
) -> Result<bool> {
    let read = owned.insist(|| owned.chunks.read_blocks(owned.id, vec![block.number])).await?;
    let Some(bytes) = read.into_iter().next().flatten() else {
        if !topic.state().own.blocks.contains(&block) {
            // A trim has dropped it since; look again.
            return Ok(true);
        }
        still_owner(owned).await?;
        tracing::error!(shard = owned.id.0, block = block.number, "a block is missing");
        return Ok(report(block.first, block.last.next(), filling));
    };
    filling.cover(block.first);
    let mut next = block.first;
    for found in blocks::records(&bytes, topic.seed) {
        let head = found.head;
        if head.offset < next || head.offset > block.last {
            break;
        }
        next = head.offset.next();
        if head.offset < filling.next() {
            continue;
        }
        if !found.holds {
            tracing::error!(shard = owned.id.0, block = block.number, "a damaged record");
            filling.damaged(head.offset);
        } else if !filling.take(&bytes, found.at, &head) {
            return Ok(false);
        }
    }
    // Records that could not be found: which of the offsets they had is not known.
    Ok(report(next, block.last.next(), filling))
}

/// Returns whether to go on after the window.
async fn read_chunks(
    owned: &Owned,
    topic: &Topic<Own>,
    window: Window,
    filling: &mut Filling,
) -> Result<bool> {
    let (mut from, mut expected) = (window.from, window.first);
    while from <= window.to {
        let read = |from| owned.chunks.read(owned.id, from, window.to, READ_BYTES_MAX);
        let chunks = owned.insist(|| read(from)).await?;
        let first = topic.state().own.spans.first();
        if first.is_none_or(|first| first > window.first) {
            // A trim has moved some of it since; look again.
            return Ok(true);
        }
        let Some((last, _)) = chunks.last() else { break };
        from = last + 1;
        for (number, chunk) in &chunks {
            if chain::open(owned.id, chunk).is_none_or(|head| head.number != *number) {
                tracing::error!(shard = owned.id.0, chunk = number, "a damaged chunk");
            }
            if !take(&chain::body(chunk), topic, &mut expected, filling) {
                return Ok(false);
            }
        }
    }
    if expected < window.next {
        still_owner(owned).await?;
        tracing::error!(shard = owned.id.0, from = window.from, to = window.to, "missing records");
    }
    Ok(report(expected, window.next, filling))
}

/// Takes the records of the topic that are in `body`, from `expected` on; `false` once there is no
/// room.
fn take(body: &Bytes, topic: &Topic<Own>, expected: &mut Offset, filling: &mut Filling) -> bool {
    for (at, frame) in frames(body) {
        let Some((Frame::Append(frame), length)) = frame else { continue };
        if frame.topic != topic.id {
            continue;
        }
        let bytes = body.slice(at + APPEND_HEADER..at + length);
        for found in blocks::records(&bytes, topic.seed) {
            let head = found.head;
            if head.offset < *expected || !found.holds {
                continue;
            }
            if !report(*expected, head.offset, filling) {
                return false;
            }
            *expected = head.offset.next();
            if head.offset >= filling.next() && !filling.take(&bytes, found.at, &head) {
                return false;
            }
        }
    }
    true
}

/// Tells that records are damaged or missing; `false` once that is enough for one batch.
fn report(from: Offset, to: Offset, filling: &mut Filling) -> bool {
    for offset in from.max(filling.next()).0..to.0 {
        if filling.batch.damaged.len() >= DAMAGED_MAX {
            return false;
        }
        filling.damaged(Offset(offset));
    }
    filling.cover(to);
    true
}

/// `Fenced` if the records are missing because another owner has moved them.
async fn still_owner(owned: &Owned) -> Result<()> {
    let head = owned.insist(|| owned.chunks.head(owned.id)).await?;
    if head.epoch == owned.epoch {
        return Ok(());
    }
    let fenced = crate::Error::Fenced { shard: owned.id, epoch: owned.epoch };
    owned.lose(&fenced);
    Err(fenced)
}

/// The first kept record of `topic` published at `time` or later, or the visible end.
pub(super) async fn offset_at(
    owned: &Owned,
    topic: &Arc<Topic<Own>>,
    time: Timestamp,
) -> Result<Offset> {
    // Usually it is the very first one, if retention has not passed anything yet.
    const FIRST: ReadLimit = ReadLimit { records: 1, bytes: 1 };
    const STEP: ReadLimit = ReadLimit { records: 1_024, bytes: 1 << 20 };
    let mut from = search_start(&topic.state(), time);
    let mut limit = FIRST;
    loop {
        let batch = read(owned, topic, from, limit).await?;
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

/// An offset at or before the one wanted, as far as spans and blocks tell.
fn search_start(state: &State<Own>, time: Timestamp) -> Offset {
    let own = &state.own;
    let at = own.blocks.partition_point(|block| block.time_max < time);
    let spans = || own.spans.before(time).or_else(|| own.spans.first()).unwrap_or(state.end);
    own.blocks.get(at).map_or_else(spans, |block| block.first)
}
