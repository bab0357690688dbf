//! The group being formed: commits are encoded straight into the buffer that will be written.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::{BufMut, BytesMut};
use domain::{Offset, ProgressChange, SubscriptionId, Timestamp};
use tokio::sync::oneshot;

use super::Part;
use super::format::{
    APPEND_HEADER, CHANGE_HEADER, begin_append, finish_append, put_change, put_record, to_u32,
};
use super::topic::Topic;
use crate::{NewRecord, Position, Result};

/// A frame takes no more records beyond this size, so that readers find their position quickly.
const FRAME_BYTES: usize = 16 << 10;
/// A new group starts in the rest of the last buffer if at least this much is left.
const REST_BYTES_MIN: usize = 256 << 10;

/// Answers a commit.
pub(crate) type Answer = oneshot::Sender<Result<Position>>;

/// Where an append frame is in its group.
#[derive(Debug)]
pub(crate) struct FrameRef<S> {
    pub topic: Arc<Topic<S>>,
    pub first: Offset,
    pub count: u32,
    /// When the first record was published.
    pub time: Timestamp,
    /// When the last record was published.
    pub last_time: Timestamp,
    /// The frame in the group's bytes, including its header.
    pub start: usize,
    pub end: usize,
}

impl<S> FrameRef<S> {
    /// The records in the group's bytes.
    pub(crate) fn records(&self) -> Range<usize> {
        self.start + APPEND_HEADER..self.end
    }
}

/// A group that is complete except for the engine's header, for which there is room in front.
#[derive(Debug)]
pub(crate) struct Sealed<S> {
    /// Padded to whole blocks; empty if only answers are pending.
    pub bytes: BytesMut,
    /// Bytes of frames.
    pub body_length: u32,
    pub frames: Vec<FrameRef<S>>,
    /// The encoded changes of progress, as ranges in `bytes`.
    pub changes: Vec<(SubscriptionId, Range<usize>)>,
    pub answers: Vec<Answer>,
    /// How much the group counts toward the queue's limit.
    pub queued_bytes: usize,
}

/// The group that commits are added to.
#[derive(Debug)]
pub(crate) struct Forming<S> {
    arena: Arena,
    bytes: BytesMut,
    frames: Vec<FrameRef<S>>,
    changes: Vec<(SubscriptionId, ProgressChange)>,
    /// The latest change of each subscription.
    latest: HashMap<SubscriptionId, usize>,
    scratch: Vec<u8>,
    /// The callers waiting for it.
    pub answers: Vec<Answer>,
    /// When it has to be written even if nobody is waiting.
    pub deadline: Option<Instant>,
    /// Whether it has to be written at once.
    pub urgent: bool,
    /// How much it counts toward the queue's limit.
    pub queued_bytes: usize,
}

impl<S: Part> Forming<S> {
    /// An empty group, and the buffers for a tail of `tail_bytes`.
    pub(crate) fn new(tail_bytes: usize) -> Self {
        Self {
            arena: Arena::new(tail_bytes),
            bytes: BytesMut::new(),
            frames: Vec::new(),
            changes: Vec::new(),
            latest: HashMap::new(),
            scratch: Vec::new(),
            answers: Vec::new(),
            deadline: None,
            urgent: false,
            queued_bytes: 0,
        }
    }

    /// Whether it has neither frames nor waiting callers.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.changes.is_empty() && self.answers.is_empty()
    }

    /// Makes sure that `bytes` more, plus the padding, fit without moving the group later.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        if self.bytes.is_empty() {
            self.bytes = self.arena.take(S::HEADER + bytes + S::BLOCK);
            self.bytes.put_bytes(0, S::HEADER);
        }
        self.bytes.reserve(bytes + S::BLOCK);
    }

    /// Whether `bytes` more fit without moving the group to another buffer.
    pub(crate) fn has_space(&self, bytes: usize) -> bool {
        self.bytes.is_empty() || self.bytes.capacity() - self.bytes.len() >= bytes + S::BLOCK
    }

    /// Adds records to the end of `topic`.
    pub(crate) fn append(&mut self, topic: &Arc<Topic<S>>, first: Offset, records: &[NewRecord]) {
        let mut offset = first;
        for record in records {
            if !self.frames.last().is_some_and(|frame| takes_more(frame, topic)) {
                self.open_frame(topic, offset, record.publish_time);
            }
            put_record(&mut self.bytes, topic.seed, offset, record);
            if let Some(frame) = self.frames.last_mut() {
                frame.count += 1;
                frame.end = self.bytes.len();
                frame.last_time = record.publish_time;
            }
            offset = offset.next();
        }
    }

    fn open_frame(&mut self, topic: &Arc<Topic<S>>, first: Offset, time: Timestamp) {
        let start = self.bytes.len();
        begin_append(&mut self.bytes);
        let end = self.bytes.len();
        self.frames.push(FrameRef {
            topic: Arc::clone(topic),
            first,
            count: 0,
            time,
            last_time: time,
            start,
            end,
        });
    }

    /// Adds a change of progress; one frame per subscription if changes can be merged.
    pub(crate) fn change(&mut self, subscription: SubscriptionId, change: ProgressChange) {
        let latest = self.latest.get(&subscription).copied();
        let rest = match latest.and_then(|at| self.changes.get_mut(at)) {
            Some((_, earlier)) => earlier.merge(change),
            None => Some(change),
        };
        if let Some(change) = rest {
            self.latest.insert(subscription, self.changes.len());
            self.changes.push((subscription, change));
        }
    }

    /// Ends the group, and starts an empty one.
    pub(crate) fn seal(&mut self) -> Sealed<S> {
        let changes = self.put_changes();
        for frame in &self.frames {
            if let Some(bytes) = self.bytes.get_mut(frame.start..frame.end) {
                finish_append(bytes, frame.topic.id, frame.first, frame.count);
            }
        }
        let body_length = to_u32(self.bytes.len().saturating_sub(S::HEADER));
        let padded = self.bytes.len().next_multiple_of(S::BLOCK);
        self.bytes.put_bytes(0, padded - self.bytes.len());
        let bytes = self.bytes.split();
        if !bytes.is_empty() {
            self.arena.rest = std::mem::take(&mut self.bytes);
        }
        self.deadline = None;
        self.urgent = false;
        Sealed {
            bytes,
            body_length,
            frames: std::mem::take(&mut self.frames),
            changes,
            answers: std::mem::take(&mut self.answers),
            queued_bytes: std::mem::take(&mut self.queued_bytes),
        }
    }

    fn put_changes(&mut self) -> Vec<(SubscriptionId, Range<usize>)> {
        let mut places = Vec::with_capacity(self.changes.len());
        self.latest.clear();
        for (subscription, change) in std::mem::take(&mut self.changes) {
            let mut scratch = std::mem::take(&mut self.scratch);
            scratch.clear();
            change.encode(&mut scratch);
            self.reserve(CHANGE_HEADER + scratch.len());
            let start = self.bytes.len() + CHANGE_HEADER;
            put_change(&mut self.bytes, subscription, &scratch);
            places.push((subscription, start..self.bytes.len()));
            self.scratch = scratch;
        }
        places
    }
}

/// Whether one more record of `topic` goes into `frame`.
fn takes_more<S>(frame: &FrameRef<S>, topic: &Arc<Topic<S>>) -> bool {
    Arc::ptr_eq(&frame.topic, topic) && frame.end - frame.start < FRAME_BYTES
}

/// Buffers for groups. One piece of memory serves many small groups in turn; once all of them have
/// left the tail, and no reader holds a slice, it is reused: fresh memory costs a page fault per 4
/// KiB, more than the copy into it.
#[derive(Debug)]
struct Arena {
    /// The rest of the current piece.
    rest: BytesMut,
    /// The empty ends of earlier pieces, used to reclaim them.
    used: VecDeque<BytesMut>,
    chunk_bytes: usize,
    /// How many earlier pieces are kept for their memory.
    used_max: usize,
}

impl Arena {
    fn new(tail_bytes: usize) -> Self {
        let chunk_bytes = piece_bytes(tail_bytes);
        let used_max = tail_bytes / chunk_bytes;
        Self { rest: BytesMut::new(), used: VecDeque::new(), chunk_bytes, used_max }
    }

    fn take(&mut self, bytes: usize) -> BytesMut {
        let rest = std::mem::take(&mut self.rest);
        if rest.capacity() >= bytes.max(REST_BYTES_MIN.min(self.chunk_bytes / 4)) {
            return rest;
        }
        if rest.capacity() > 0 {
            self.used.push_back(rest);
        }
        while self.used.len() > self.used_max {
            self.used.pop_front();
        }
        self.reclaim(bytes.max(self.chunk_bytes))
    }

    fn reclaim(&mut self, bytes: usize) -> BytesMut {
        let free = self.used.iter_mut().position(|piece| piece.try_reclaim(bytes));
        let piece = free.and_then(|at| self.used.remove(at));
        piece.unwrap_or_else(|| BytesMut::with_capacity(bytes))
    }
}

/// The size of the pieces that make up the memory for a tail of `tail_bytes`.
///
/// Larger than any short-lived buffer, so that the system's allocator keeps them apart from those
/// and returns what it frees.
fn piece_bytes(tail_bytes: usize) -> usize {
    (tail_bytes / 8).clamp(64 << 10, 4 << 20)
}

/// How much the groups in the tail may take together so that their pieces stay within `tail_bytes`:
/// one piece is being filled, one is partly empty.
pub(crate) fn tail_groups_bytes(tail_bytes: usize) -> usize {
    tail_bytes.saturating_sub(2 * piece_bytes(tail_bytes)).max(tail_bytes / 2)
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
