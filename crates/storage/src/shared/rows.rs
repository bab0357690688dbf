//! The rows of a checkpoint, each with a checksum of its own.
//!
//! | Kind | Id | Holds |
//! |---|---|---|
//! | state | 0 | how far the others go: saved after what it names, before what it passes |
//! | clock | 0 | the last trusted time |
//! | topic | topic | next offset, time of the last record |
//! | index | first chunk | a stretch of chunks, and which topics have records where in it |
//! | block | number | whose records it holds |
//! | progress | subscription | its progress |
//!
//! A save may end after any row. What the state row does not name yet (a stretch past `indexed`, a
//! block from `blocks_next` on) is as if it were not there; what it has done with (a stretch below
//! `low`, a doomed block) as well. Topics and progress may be ahead of it: replay comes to the
//! same.
#![warn(clippy::indexing_slicing)]

use bytes::{Buf, BufMut, Bytes};
use domain::{
    ClockMark, Moment, Offset, Progress, ShardId, SubscriptionId, Timestamp, TopicId, Uptime,
};

use super::blocks::Block;
use super::chain::Link;
use super::chunks::{Key, Row};
use super::index::{Span, Stretch};
use crate::{Error, Result};

const STATE: u8 = 1;
const CLOCK: u8 = 2;
const TOPIC: u8 = 3;
const INDEX: u8 = 4;
const BLOCK: u8 = 5;
const PROGRESS: u8 = 6;

/// The newest format this version reads, and the one it writes.
const FORMAT: u32 = 1;

/// Everything but progress lies between these.
pub(super) const FIRST: Key = Key { kind: STATE, id: 0 };
pub(super) const LAST: Key = Key { kind: BLOCK, id: u64::MAX };

/// How far the other rows go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Progress includes every change in chunks up to this one.
    pub position: u64,
    /// The stretches end here, and the chain goes on from here.
    pub indexed: Link,
    /// The lowest chunk that is needed.
    pub low: u64,
    /// Blocks with this number and above do not count.
    pub blocks_next: u64,
    /// Blocks below this number may be there, though they do not count.
    pub blocks_reserved: u64,
    /// Blocks that are still to be dropped.
    pub doomed: Vec<u64>,
}

/// What is saved about a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TopicRow {
    pub next: Offset,
    pub last_time: Timestamp,
}

/// A row that was read.
#[derive(Debug)]
pub(super) enum Saved {
    State(State),
    Clock(ClockMark),
    Topic(TopicId, TopicRow),
    Stretch(Stretch, Vec<(TopicId, Span)>),
    Block(TopicId, Block),
}

/// The key of a subscription's progress.
pub(super) fn progress_key(subscription: SubscriptionId) -> Key {
    Key { kind: PROGRESS, id: subscription.0 }
}

/// The key of a topic's row.
pub(super) fn topic_key(topic: TopicId) -> Key {
    Key { kind: TOPIC, id: topic.0 }
}

/// The key of the stretch that begins with chunk `from`.
pub(super) fn index_key(from: u64) -> Key {
    Key { kind: INDEX, id: from }
}

/// The key of a block's row.
pub(super) fn block_key(number: u64) -> Key {
    Key { kind: BLOCK, id: number }
}

pub(super) fn progress_row(subscription: SubscriptionId, progress: &Progress) -> Row {
    row(progress_key(subscription), |out| progress.encode(out))
}

pub(super) fn state_row(state: &State) -> Row {
    row(FIRST, |out| {
        out.put_u32_le(FORMAT);
        out.put_u32_le(state.indexed.checksum);
        let numbers = [state.position, state.indexed.number, state.low];
        let numbers = numbers.into_iter().chain([state.blocks_next, state.blocks_reserved]);
        numbers.for_each(|value| out.put_u64_le(value));
        state.doomed.iter().for_each(|number| out.put_u64_le(*number));
    })
}

pub(super) fn clock_row(mark: &ClockMark) -> Row {
    row(Key { kind: CLOCK, id: 0 }, |out| {
        out.put_u64_le(mark.wall.0);
        if let Some(uptime) = mark.uptime {
            out.put_u64_le(uptime.boot);
            out.put_u64_le(uptime.time.0);
        }
    })
}

pub(super) fn topic_row(topic: TopicId, saved: TopicRow) -> Row {
    row(topic_key(topic), |out| {
        out.put_u64_le(saved.next.0);
        out.put_u64_le(saved.last_time.0);
    })
}

pub(super) fn index_row(stretch: &Stretch, spans: &[(TopicId, Span)]) -> Row {
    row(index_key(stretch.from), |out| {
        out.put_u64_le(stretch.last.number);
        out.put_u32_le(stretch.last.checksum);
        out.put_u64_le(stretch.bytes);
        for (topic, span) in spans {
            for value in [topic.0, span.from, span.to, span.at, span.first.0, span.time.0] {
                out.put_u64_le(value);
            }
        }
    })
}

pub(super) fn block_row(topic: TopicId, block: &Block) -> Row {
    row(block_key(block.number), |out| {
        let Block { first, last, records, bytes, time_min, time_max, .. } = *block;
        let fields = [topic.0, first.0, last.0, records, bytes, time_min.0, time_max.0];
        fields.into_iter().for_each(|value| out.put_u64_le(value));
    })
}

fn row(key: Key, encode: impl FnOnce(&mut Vec<u8>)) -> Row {
    let mut out = Vec::new();
    encode(&mut out);
    let checksum = checksum(key, &out);
    out.put_u32_le(checksum);
    (key, Some(out.into()))
}

fn checksum(key: Key, value: &[u8]) -> u32 {
    let seed = crc32c::crc32c_append(u32::from(key.kind), &key.id.to_le_bytes());
    crc32c::crc32c_append(seed, value)
}

/// The value of a row without its checksum; `Corrupt` if that is wrong.
fn value(shard: ShardId, key: Key, row: &[u8]) -> Result<&[u8]> {
    let split = row.len().checked_sub(4).and_then(|at| row.split_at_checked(at));
    let checked = split.filter(|(value, sum)| checksum(key, value).to_le_bytes() == **sum);
    checked.map(|(value, _)| value).ok_or_else(|| corrupt(shard, key))
}

fn corrupt(shard: ShardId, key: Key) -> Error {
    let place = format!("row {}/{} of shard {}", key.kind, key.id, shard.0);
    Error::corrupt(place, "its bytes are not those that were written")
}

/// The progress in a row.
pub(super) fn progress(shard: ShardId, key: Key, row: &Bytes) -> Result<Progress> {
    Progress::decode(value(shard, key, row)?).map_err(|_| corrupt(shard, key))
}

/// What is in a row.
pub(super) fn decode(shard: ShardId, key: Key, row: &Bytes) -> Result<Saved> {
    let value = value(shard, key, row)?;
    let decoded = match key.kind {
        STATE => return state(value).unwrap_or_else(|| Err(corrupt(shard, key))),
        CLOCK => clock(value).map(Saved::Clock),
        TOPIC => topic(value).map(|row| Saved::Topic(TopicId(key.id), row)),
        INDEX => index(key.id, value),
        BLOCK => block(key.id, value),
        _ => None,
    };
    decoded.ok_or_else(|| corrupt(shard, key))
}

fn state(mut value: &[u8]) -> Option<Result<Saved>> {
    let found = value.try_get_u32_le().ok()?;
    if found != FORMAT {
        return Some(Err(Error::Format { found, known: FORMAT }));
    }
    let checksum = value.try_get_u32_le().ok()?;
    let position = value.try_get_u64_le().ok()?;
    let number = value.try_get_u64_le().ok()?;
    let low = value.try_get_u64_le().ok()?;
    let blocks_next = value.try_get_u64_le().ok()?;
    let blocks_reserved = value.try_get_u64_le().ok()?;
    let (indexed, doomed) = (Link { number, checksum }, numbers(value)?);
    let state = State { position, indexed, low, blocks_next, blocks_reserved, doomed };
    Some(Ok(Saved::State(state)))
}

/// Numbers up to the end.
fn numbers(mut value: &[u8]) -> Option<Vec<u64>> {
    let mut numbers = Vec::with_capacity(value.len() / 8);
    while !value.is_empty() {
        numbers.push(value.try_get_u64_le().ok()?);
    }
    Some(numbers)
}

fn clock(mut value: &[u8]) -> Option<ClockMark> {
    let wall = Timestamp(value.try_get_u64_le().ok()?);
    let uptime = match numbers(value)?.as_slice() {
        [] => None,
        [boot, time] => Some(Uptime { boot: *boot, time: Moment(*time) }),
        _ => return None,
    };
    Some(ClockMark { wall, uptime })
}

fn topic(mut value: &[u8]) -> Option<TopicRow> {
    let next = Offset(value.try_get_u64_le().ok()?);
    Some(TopicRow { next, last_time: Timestamp(value.try_get_u64_le().ok()?) })
}

fn index(from: u64, mut value: &[u8]) -> Option<Saved> {
    let number = value.try_get_u64_le().ok()?;
    let checksum = value.try_get_u32_le().ok()?;
    let bytes = value.try_get_u64_le().ok()?;
    let mut spans = Vec::new();
    while !value.is_empty() {
        let topic = TopicId(value.try_get_u64_le().ok()?);
        let span = Span {
            from: value.try_get_u64_le().ok()?,
            to: value.try_get_u64_le().ok()?,
            at: value.try_get_u64_le().ok()?,
            first: Offset(value.try_get_u64_le().ok()?),
            time: Timestamp(value.try_get_u64_le().ok()?),
        };
        spans.push((topic, span));
    }
    let last = Link { number, checksum };
    let stretch = Stretch { from, last, bytes, is_saved: true, ..Stretch::default() };
    Some(Saved::Stretch(stretch, spans))
}

fn block(number: u64, mut value: &[u8]) -> Option<Saved> {
    let mut field = || value.try_get_u64_le().ok();
    let topic = TopicId(field()?);
    let block = Block {
        number,
        first: Offset(field()?),
        last: Offset(field()?),
        records: field()?,
        bytes: field()?,
        time_min: Timestamp(field()?),
        time_max: Timestamp(field()?),
    };
    value.is_empty().then_some(Saved::Block(topic, block))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARD: ShardId = ShardId(5);

    fn again((key, value): &Row) -> Saved {
        decode(SHARD, *key, value.as_ref().unwrap()).unwrap()
    }

    #[test]
    fn rows_come_back_as_they_were_saved() {
        let state = State {
            position: 9,
            indexed: Link { number: 7, checksum: 77 },
            low: 3,
            blocks_next: 12,
            blocks_reserved: 14,
            doomed: vec![1, 4],
        };
        assert!(matches!(again(&state_row(&state)), Saved::State(found) if found == state));
        let uptime = Some(Uptime { boot: 3, time: Moment(4) });
        for uptime in [None, uptime] {
            let mark = ClockMark { wall: Timestamp(99), uptime };
            assert!(matches!(again(&clock_row(&mark)), Saved::Clock(found) if found == mark));
        }
        let saved = TopicRow { next: Offset(8), last_time: Timestamp(80) };
        let found = again(&topic_row(TopicId(2), saved));
        assert!(matches!(found, Saved::Topic(TopicId(2), found) if found == saved));
        let last = Link { number: 7, checksum: 77 };
        let stretch = Stretch { from: 3, last, bytes: 5, is_saved: true, ..Stretch::default() };
        let span = Span { from: 3, to: 4, at: 0, first: Offset(6), time: Timestamp(1) };
        let found = again(&index_row(&stretch, &[(TopicId(2), span)]));
        let Saved::Stretch(one, spans) = found else { panic!("{found:?}") };
        assert_eq!((one, spans), (stretch, vec![(TopicId(2), span)]));
        let block = Block {
            number: 6,
            first: Offset(1),
            last: Offset(2),
            records: 2,
            bytes: 60,
            time_min: Timestamp(10),
            time_max: Timestamp(20),
        };
        let found = again(&block_row(TopicId(2), &block));
        assert!(matches!(found, Saved::Block(TopicId(2), found) if found == block));
    }

    #[test]
    fn a_row_with_other_bytes_or_under_another_key_is_corrupt() {
        let (key, value) =
            topic_row(TopicId(2), TopicRow { next: Offset(8), last_time: Timestamp(0) });
        let value = value.unwrap();
        let other = topic_key(TopicId(3));
        assert!(matches!(decode(SHARD, other, &value), Err(Error::Corrupt { .. })));
        for place in 0..value.len() {
            let mut flipped = value.to_vec();
            if let Some(byte) = flipped.get_mut(place) {
                *byte ^= 4;
            }
            let found = decode(SHARD, key, &flipped.into());
            assert!(matches!(found, Err(Error::Corrupt { .. })));
        }
    }
}
