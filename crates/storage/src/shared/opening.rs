//! Opens a shard: takes it, reads the last checkpoint, and replays the chunks after it.
//!
//! Nothing but the epoch is changed, so that a shard that is refused stays as it was found.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use clock::tasks;
use domain::{ClockMark, Epoch, NodeId, ShardId, Timestamp, TopicId};
use tokio::sync::Notify;

use super::Options;
use super::blocks::Block;
use super::chain::{self, Link, corrupt, follow};
use super::chunks::{Chunks, Head, Key};
use super::committer::Committer;
use super::index::{Span, Stretch, Stretches};
use super::log::Handle;
use super::owned::{Own, Owned, Parts, Upkeep};
use super::patience::ask;
use super::rows::{self, Saved, State, TopicRow, block_key, index_key};
use crate::front::format::{AppendFrame, Frame, RecordHead, frames};
use crate::front::{Bounds, Found, Front, Pending, Topics};
use crate::{Error, Listener, Result, Shard};

/// How much is read of the store at a time.
const READ_BYTES: usize = 1 << 20;

/// Opens `shard` for `node`.
pub(super) async fn open(
    chunks: Arc<dyn Chunks>,
    options: Options,
    (shard, node): (ShardId, NodeId),
    listener: Arc<dyn Listener>,
) -> Result<Shard> {
    let head = ask(|| chunks.head(shard)).await?;
    let epoch = Epoch(head.epoch.0 + 1);
    let head = ask(|| chunks.take(shard, node, epoch)).await?;
    match replay(&chunks, &options, shard, head).await {
        Ok(replay) => {
            let parts = Parts { id: shard, epoch, chunks, options };
            Ok(start(parts, replay, head, listener))
        }
        Err(error) => {
            // Whoever tries next need not wait for the lease.
            drop(ask(|| chunks.release(shard, epoch)).await);
            Err(error)
        }
    }
}

/// Starts the committer of a shard that was read.
fn start(parts: Parts, replay: Replay, head: Head, listener: Arc<dyn Listener>) -> Shard {
    let (id, epoch, options) = (parts.id, parts.epoch, parts.options);
    let bounds = Bounds {
        tail_bytes: options.tail_memory_bytes,
        queue_bytes_max: options.queue_bytes_max,
        group_bytes_max: options.group_bytes_max,
        ride_delay: options.ride_delay,
    };
    let found = Found {
        topics: replay.topics,
        pending: replay.pending,
        position: head.last,
        checkpoint: replay.state.position,
    };
    let front = Front::new(id, bounds, found, Arc::new(Notify::new()));
    // A queue that was just made is neither stopped nor at a later epoch.
    drop(front.queue.open(epoch));
    front.listening.begin(epoch, listener);
    let upkeep = Upkeep { state: replay.state, saves: head.saves, stale: replay.stale };
    let owned = Arc::new(Owned::new(parts, front, replay.stretches, upkeep, replay.clock));
    let committer = Committer::new(Arc::clone(&owned), replay.link, replay.bytes);
    drop(tasks::spawn("shard-committer", committer.run()));
    let figures = Arc::clone(&owned.front.figures);
    let handle = Arc::new(Handle(owned));
    let log: Arc<Handle> = Arc::clone(&handle);
    Shard { id, epoch, log, progress: handle, figures }
}

/// The saved rows, as far as they count.
#[derive(Default)]
struct Checkpointed {
    state: State,
    clock: Option<ClockMark>,
    topics: BTreeMap<TopicId, TopicRow>,
    stretches: Vec<Stretch>,
    spans: Vec<(TopicId, Span)>,
    blocks: Vec<(TopicId, Block)>,
    stale: Vec<Key>,
}

/// A shard that was read.
struct Replay {
    shard: ShardId,
    topics: Topics<Own>,
    pending: Pending,
    stretches: Stretches,
    state: State,
    clock: Option<ClockMark>,
    stale: Vec<Key>,
    link: Link,
    /// Bytes of chunks that were replayed.
    bytes: u64,
    /// The topics that the replay found records of.
    replayed: BTreeSet<TopicId>,
}

async fn replay(
    chunks: &Arc<dyn Chunks>,
    options: &Options,
    shard: ShardId,
    head: Head,
) -> Result<Replay> {
    let saved = checkpointed(chunks, shard).await?;
    if saved.state.position.max(saved.state.indexed.number) > head.last {
        return Err(corrupt(shard, head.last + 1, "the log ends before what was saved of it"));
    }
    let rows = saved.topics.clone();
    let mut replay = Replay::new(shard, saved, options.stretch_bytes)?;
    while replay.link.number < head.last {
        let from = replay.link.number + 1;
        let found = ask(|| chunks.read(shard, from, head.last, READ_BYTES)).await?;
        if found.is_empty() {
            return Err(corrupt(shard, from, "the chunk is missing"));
        }
        for (number, bytes) in found {
            replay.chunk(number, &bytes, &rows)?;
        }
    }
    replay.check(&rows)?;
    Ok(replay)
}

/// Reads the saved rows.
async fn checkpointed(chunks: &Arc<dyn Chunks>, shard: ShardId) -> Result<Checkpointed> {
    let mut found = Checkpointed { state: unsaved(), ..Checkpointed::default() };
    let mut from = rows::FIRST;
    loop {
        let read = ask(|| chunks.saved(shard, from, rows::LAST, READ_BYTES)).await?;
        let Some((last, _)) = read.last() else { break };
        from = Key { kind: last.kind, id: last.id };
        let is_last = from >= rows::LAST;
        for (key, bytes) in &read {
            found.add(shard, *key, bytes)?;
        }
        if is_last {
            break;
        }
        from = after(from);
    }
    found.check(shard)?;
    Ok(found)
}

fn after(key: Key) -> Key {
    match key.id.checked_add(1) {
        Some(id) => Key { id, ..key },
        None => Key { kind: key.kind + 1, id: 0 },
    }
}

/// The state of a shard that nothing was saved of.
fn unsaved() -> State {
    State { low: 1, blocks_next: 1, blocks_reserved: 1, ..State::default() }
}

impl Checkpointed {
    /// Takes a row, if it counts. The state comes first.
    fn add(&mut self, shard: ShardId, key: Key, bytes: &Bytes) -> Result<()> {
        let state = &self.state;
        match rows::decode(shard, key, bytes)? {
            Saved::State(state) => self.state = state,
            Saved::Clock(mark) => self.clock = Some(mark),
            Saved::Topic(topic, row) => drop(self.topics.insert(topic, row)),
            Saved::Stretch(stretch, spans) => {
                if stretch.from >= state.low && stretch.from <= state.indexed.number {
                    self.stretches.push(stretch);
                    self.spans.extend(spans);
                } else {
                    self.stale.push(index_key(stretch.from));
                }
            }
            Saved::Block(topic, block) => {
                if block.number < state.blocks_next && !state.doomed.contains(&block.number) {
                    self.blocks.push((topic, block));
                } else {
                    self.stale.push(block_key(block.number));
                }
            }
        }
        Ok(())
    }

    /// The stretches must follow each other.
    fn check(&mut self, shard: ShardId) -> Result<()> {
        let mut next = self.state.low;
        for stretch in &self.stretches {
            if stretch.from != next {
                return Err(corrupt(shard, next, "the index of the chunk is missing"));
            }
            next = stretch.last.number + 1;
        }
        if next != self.state.indexed.number + 1 {
            return Err(corrupt(shard, next, "the index of the chunk is missing"));
        }
        // What an earlier owner has put, or may still be putting, and did not come to name.
        self.state.doomed.extend(self.state.blocks_next..self.state.blocks_reserved);
        self.state.blocks_next = self.state.blocks_reserved;
        self.blocks.sort_unstable_by_key(|(topic, block)| (*topic, block.first));
        Ok(())
    }
}

impl Replay {
    fn new(shard: ShardId, saved: Checkpointed, stretch_bytes: u64) -> Result<Self> {
        let topics: Topics<Own> = Topics::new(u64::from(shard.0));
        for (id, row) in &saved.topics {
            let topic = topics.get_or_make(*id, row.next);
            let mut state = topic.state();
            state.last_time = row.last_time;
            state.own.saved = Some(*row);
        }
        let known = |id: TopicId, what: String| {
            let unknown = "it names a topic that was not saved";
            topics.get(id).ok_or_else(|| Error::corrupt(what, unknown))
        };
        for (id, span) in saved.spans {
            let topic = known(id, format!("the index of shard {}", shard.0))?;
            topic.state().own.spans.adopt(span);
        }
        for (id, block) in saved.blocks {
            let place = format!("block {} of shard {}", block.number, shard.0);
            let topic = known(id, place.clone())?;
            let mut state = topic.state();
            let before = state.own.blocks.last().is_none_or(|before| before.last < block.first);
            let behind = state.own.spans.first().unwrap_or(state.end);
            if !before || block.last >= behind {
                return Err(Error::corrupt(place, "it names records that are elsewhere"));
            }
            state.own.blocks.push(block);
        }
        let link = saved.state.indexed;
        Ok(Self {
            shard,
            topics,
            pending: Pending::default(),
            stretches: Stretches::new(saved.stretches, link, stretch_bytes),
            state: saved.state,
            clock: saved.clock,
            stale: saved.stale,
            link,
            bytes: 0,
            replayed: BTreeSet::new(),
        })
    }

    fn chunk(
        &mut self,
        number: u64,
        bytes: &Bytes,
        rows: &BTreeMap<TopicId, TopicRow>,
    ) -> Result<()> {
        self.link = follow(self.shard, self.link, number, bytes)?;
        self.bytes += bytes.len() as u64;
        let place = self.stretches.push(self.link, bytes.len());
        for (_, frame) in frames(&chain::body(bytes)) {
            match frame {
                Some((Frame::Append(frame), _)) => {
                    let time = self.append(number, &frame, rows.get(&frame.topic))?;
                    self.stretches.note(frame.topic);
                    if let Some(topic) = self.topics.get(frame.topic) {
                        topic.state().own.spans.push(place, frame.first, time);
                    }
                }
                Some((Frame::Change { subscription, change }, _)) => {
                    if number > self.state.position {
                        self.pending.note(subscription, number, change);
                    }
                }
                None => return Err(corrupt(self.shard, number, "not a frame")),
            }
        }
        Ok(())
    }

    /// Moves the end of a topic; returns when the first of the records was published.
    fn append(
        &mut self,
        number: u64,
        frame: &AppendFrame<'_>,
        row: Option<&TopicRow>,
    ) -> Result<Timestamp> {
        let Some(head) = RecordHead::decode(frame.records) else {
            return Err(corrupt(self.shard, number, "a frame without records"));
        };
        let topic = self.topics.get_or_make(frame.topic, frame.first);
        let mut state = topic.state();
        // What was saved of a topic may be ahead of the chunks that are replayed.
        let follows = if self.replayed.insert(frame.topic) {
            row.is_none_or(|row| frame.first <= row.next)
        } else {
            frame.first == state.end
        };
        if !follows {
            let what = "the offsets of a topic do not follow each other";
            return Err(corrupt(self.shard, number, what));
        }
        state.end = frame.end();
        state.last_time = state.last_time.max(last_time(frame).unwrap_or(head.publish_time));
        Ok(head.publish_time)
    }

    /// The log must hold what was saved of its topics.
    fn check(&self, rows: &BTreeMap<TopicId, TopicRow>) -> Result<()> {
        for (id, row) in rows {
            if self.topics.get(*id).is_some_and(|topic| topic.state().end < row.next) {
                let what = "the log ends before what was saved of it";
                return Err(corrupt(self.shard, self.link.number + 1, what));
            }
        }
        Ok(())
    }
}

/// When the last record of a frame was published.
fn last_time(frame: &AppendFrame<'_>) -> Option<Timestamp> {
    let (mut rest, mut last) = (frame.records, None);
    while let Some(head) = RecordHead::decode(rest) {
        last = Some(head.publish_time);
        rest = rest.get(head.length..)?;
    }
    last
}
