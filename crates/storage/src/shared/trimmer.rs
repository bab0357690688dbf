//! Frees chunks: moves what is needed into blocks, drops the rest.
//!
//! ```text
//! survivors ─▶ save: these numbers are used ─▶ blocks (durable)
//!     ─▶ save: the blocks count, chunks up to the cut do not ─▶ readers look there
//!     ─▶ chunks are trimmed
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use domain::{Offset, OffsetRange};

use super::blocks::Block;
use super::chunks::Row;
use super::outgoing::{Outgoing, copy, join, needed, outgoing};
use super::owned::{Own, Owned, Upkeep};
use super::rows::{self, State, TopicRow};
use crate::front::{Topic, closed};
use crate::{Keep, Need, Result, Trimmed};

/// About so many bytes of chunks are moved at a time.
const MOVE_BYTES: u64 = 16 << 20;
/// How much is written at a time.
const STEP_BYTES: usize = 4 << 20;

/// Frees what `keep` allows, oldest chunks first, then blocks.
pub(super) async fn trim(owned: &Owned, keep: &dyn Keep) -> Result<Trimmed> {
    let mut upkeep = owned.upkeep.lock().await;
    owned.front.check_open()?;
    owned.front.queue.check(owned.epoch)?;
    owned.front.relieve();
    // An earlier trim may not have come to this; and whoever is fenced finds out, though there is
    // nothing to move.
    trim_below(owned, upkeep.state.low).await?;
    let mut trimmed = Trimmed::default();
    loop {
        let oldest = owned.stretches.lock().oldest(MOVE_BYTES, owned.options.kept_bytes);
        let Some((stretches, cut, bytes)) = oldest else { break };
        if owned.is_closed.load(Ordering::Acquire) {
            return Err(closed());
        }
        move_chunks(owned, &mut upkeep, keep, (&stretches, cut), &mut trimmed).await?;
        trimmed.bytes_freed += bytes;
        owned.front.notify_room();
    }
    drop_blocks(owned, &mut upkeep, keep, &mut trimmed).await?;
    forget_topics(owned, &mut upkeep, keep).await?;
    sweep(owned, &mut upkeep).await?;
    owned.front.notify_room();
    Ok(trimmed)
}

/// Where one topic's records went.
struct Moved {
    topic: Arc<Topic<Own>>,
    row: TopicRow,
    blocks: Vec<Block>,
    /// Blocks whose place those take.
    joined: Vec<Block>,
}

async fn move_chunks(
    owned: &Owned,
    upkeep: &mut Upkeep,
    keep: &dyn Keep,
    (stretches, cut): (&[u64], u64),
    trimmed: &mut Trimmed,
) -> Result<()> {
    let mut topics = outgoing(owned, keep, cut);
    // The acks that `keep` relied on may still be in the queue. They need not be durable before
    // something is copied, only before something is dropped.
    let acks = owned.front.queue.barrier();
    copy(owned, (upkeep.state.low, cut), &mut topics).await?;
    join(owned, keep, &mut topics).await?;
    let mut state = upkeep.state.clone();
    let (mut bodies, mut moved) = (Vec::new(), Vec::new());
    for outgoing in topics.into_values() {
        outgoing.count(trimmed);
        moved.push(number(outgoing, &mut state.blocks_next, &mut bodies));
    }
    state.blocks_reserved = state.blocks_next;
    state.low = cut + 1;
    state.doomed.extend(moved.iter().flat_map(|moved| &moved.joined).map(|block| block.number));
    if !bodies.is_empty() {
        let reserved = State { blocks_reserved: state.blocks_next, ..upkeep.state.clone() };
        let row = rows::state_row(&reserved);
        owned.save(upkeep, reserved, vec![row]).await?;
        put(owned, bodies).await?;
    }
    acks.await?;
    let rows = move_rows(&state, stretches, &moved);
    owned.save(upkeep, state, rows).await?;
    show(owned, cut, moved);
    trim_below(owned, cut + 1).await
}

/// Gives the blocks of a topic their numbers.
fn number(outgoing: Outgoing, next: &mut u64, bodies: &mut Vec<(u64, Bytes)>) -> Moved {
    let Outgoing { topic, builder, joined, .. } = outgoing;
    let mut blocks = Vec::new();
    for (block, body) in builder.finish() {
        bodies.push((*next, body));
        blocks.push(Block { number: *next, ..block });
        *next += 1;
    }
    Moved { row: TopicRow::of(&topic), topic, blocks, joined }
}

/// What is saved of a move: what counts from now on, the state, and then what no longer does.
fn move_rows(state: &State, stretches: &[u64], moved: &[Moved]) -> Vec<Row> {
    let mut rows = Vec::new();
    for Moved { topic, row, blocks, .. } in moved {
        rows.extend(blocks.iter().map(|block| rows::block_row(topic.id, block)));
        rows.push(rows::topic_row(topic.id, *row));
    }
    rows.push(rows::state_row(state));
    rows.extend(stretches.iter().map(|from| (rows::index_key(*from), None)));
    let joined = moved.iter().flat_map(|moved| &moved.joined);
    rows.extend(joined.map(|block| (rows::block_key(block.number), None)));
    rows
}

/// Lets readers find the records in their new place.
fn show(owned: &Owned, cut: u64, moved: Vec<Moved>) {
    for Moved { topic, row, blocks, joined } in moved {
        let mut state = topic.state();
        state.own.blocks.retain(|block| !joined.contains(block));
        state.own.blocks.extend(blocks);
        state.own.spans.forget(cut);
        state.own.saved = Some(row);
    }
    let log_bytes = {
        let mut stretches = owned.stretches.lock();
        stretches.forget(cut);
        stretches.bytes()
    };
    owned.log_bytes.store(log_bytes, Ordering::Relaxed);
    owned.front.figures.log_bytes.store(log_bytes, Ordering::Relaxed);
}

async fn trim_below(owned: &Owned, low: u64) -> Result<()> {
    owned.insist(|| owned.chunks.trim(owned.id, owned.epoch, low)).await
}

/// Makes blocks durable.
async fn put(owned: &Owned, blocks: Vec<(u64, Bytes)>) -> Result<()> {
    let mut step: Vec<(u64, Bytes)> = Vec::new();
    let mut bytes = 0;
    for block in blocks {
        if !step.is_empty() && bytes + block.1.len() > STEP_BYTES {
            put_some(owned, std::mem::take(&mut step)).await?;
            bytes = 0;
        }
        bytes += block.1.len();
        step.push(block);
    }
    if step.is_empty() { Ok(()) } else { put_some(owned, step).await }
}

async fn put_some(owned: &Owned, blocks: Vec<(u64, Bytes)>) -> Result<()> {
    owned.insist(|| owned.chunks.put_blocks(owned.id, owned.epoch, blocks.clone())).await
}

/// Lets go of blocks that contain nothing needed.
async fn drop_blocks(
    owned: &Owned,
    upkeep: &mut Upkeep,
    keep: &dyn Keep,
    trimmed: &mut Trimmed,
) -> Result<()> {
    let mut dropped = Vec::new();
    for topic in owned.front.topics.all() {
        let blocks = topic.state().own.blocks.clone();
        let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else { continue };
        let range = OffsetRange { from: first.first, to: last.last.next() };
        let needed = needed(keep, topic.id, range);
        let is_needed = |block: &Block| {
            let at = needed.partition_point(|range| range.to <= block.first);
            needed.get(at).is_some_and(|range| range.from <= block.last && !range.is_empty())
        };
        let needless = blocks.into_iter().filter(|block| !is_needed(block));
        dropped.extend(needless.map(|block| (Arc::clone(&topic), block)));
    }
    if dropped.is_empty() {
        return Ok(());
    }
    owned.front.queue.barrier().await?;
    let mut state = upkeep.state.clone();
    state.doomed.extend(dropped.iter().map(|(_, block)| block.number));
    let mut rows = vec![rows::state_row(&state)];
    rows.extend(dropped.iter().map(|(_, block)| (rows::block_key(block.number), None)));
    owned.save(upkeep, state, rows).await?;
    for (topic, block) in dropped {
        topic.state().own.blocks.retain(|other| other.number != block.number);
        trimmed.bytes_freed += block.bytes;
        trimmed.records_dropped += block.records;
    }
    Ok(())
}

/// Forgets topics that are gone for good and have no records. The next offset of any other topic is
/// never forgotten: offsets must not be assigned twice.
async fn forget_topics(owned: &Owned, upkeep: &mut Upkeep, keep: &dyn Keep) -> Result<()> {
    let is_gone = |topic: &Arc<Topic<Own>>| {
        let range = {
            let state = topic.state();
            let is_empty = state.own.blocks.is_empty() && state.own.spans.first().is_none();
            is_empty.then_some(OffsetRange { from: Offset(0), to: state.end })
        };
        let is_gone = range.is_some_and(|range| keep.needed(topic.id, range) == Need::Gone);
        is_gone && !owned.front.queue.is_begun(topic.id)
    };
    let gone: Vec<_> = owned.front.topics.all().into_iter().filter(is_gone).collect();
    if gone.is_empty() {
        return Ok(());
    }
    let rows = gone.iter().map(|topic| (rows::topic_key(topic.id), None)).collect();
    let state = upkeep.state.clone();
    owned.save(upkeep, state, rows).await?;
    owned.front.while_none_begins(|| {
        for topic in &gone {
            topic.state().own.saved = None;
            if !owned.front.queue.is_begun(topic.id) {
                owned.front.topics.remove(topic.id);
            }
        }
    });
    Ok(())
}

/// Drops the bodies of blocks that no row names any more. The next save tells that they are gone.
async fn sweep(owned: &Owned, upkeep: &mut Upkeep) -> Result<()> {
    let doomed = upkeep.state.doomed.clone();
    if doomed.is_empty() || !upkeep.stale.is_empty() {
        return Ok(());
    }
    owned.insist(|| owned.chunks.drop_blocks(owned.id, owned.epoch, doomed.clone())).await?;
    upkeep.state.doomed.clear();
    Ok(())
}
