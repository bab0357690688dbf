//! Makes durable groups visible.

use std::collections::BTreeMap;

use bytes::Bytes;
use domain::{Offset, TopicId};

use super::group::{Answer, FrameRef, Sealed};
use super::log::Front;
use super::tail::Chunk;
use super::{Part, State};
use crate::{Position, Result};

/// Whoever makes the groups of a log visible, one after the other. There is only one.
#[derive(Debug, Default)]
pub(crate) struct Publisher {
    /// The visible ends that a group moved, kept to reuse its memory.
    ends: Vec<(TopicId, Offset)>,
}

impl Publisher {
    /// Makes group `number`, which is durable, visible, then answers, then notifies the listener: a
    /// publisher gets its answer before any waiting consumer is woken. `place` notes where the
    /// engine has a frame; `bytes` are those of the group, as they were written.
    pub(crate) fn publish<S: Part>(
        &mut self,
        front: &Front<S>,
        group: Sealed<S>,
        bytes: Bytes,
        number: u64,
        mut place: impl FnMut(&mut State<S>, &FrameRef<S>),
    ) {
        if !group.changes.is_empty() {
            let mut pending = front.pending.lock();
            for (subscription, place) in group.changes {
                let change = bytes.get(place).unwrap_or_default();
                pending.note(subscription, number, change);
            }
        }
        let mut topics = Vec::with_capacity(group.frames.len());
        for frame in group.frames {
            let end = frame.first.plus(u64::from(frame.count));
            let mut state = frame.topic.state();
            state.chunks.push(Chunk { first: frame.first, records: bytes.slice(frame.records()) });
            place(&mut state, &frame);
            state.end = end;
            state.last_time = frame.last_time;
            drop(state);
            self.note_end(frame.topic.id, end);
            topics.push(frame.topic);
        }
        front.ring.lock().push(number, bytes, topics);
        front.set_position(number);
        self.answer(front, group.answers, group.queued_bytes);
        if !self.ends.is_empty() {
            front.listening.tell(|listener| listener.visible(&self.ends));
        }
        self.ends.clear();
    }

    fn note_end(&mut self, topic: TopicId, end: Offset) {
        const SEARCHED_MAX: usize = 16;
        match self.ends.iter_mut().rev().take(SEARCHED_MAX).find(|(other, _)| *other == topic) {
            Some((_, noted)) => *noted = end,
            None => self.ends.push((topic, end)),
        }
        if self.ends.len() > 4 * SEARCHED_MAX {
            // Many topics in one group: drop the duplicates that the short search missed.
            let ends: BTreeMap<_, _> = self.ends.drain(..).collect();
            self.ends.extend(ends);
        }
    }

    /// Answers commits that are durable, or that had nothing to be made durable.
    pub(crate) fn answer<S: Part>(
        &self,
        front: &Front<S>,
        answers: Vec<Answer>,
        queued_bytes: usize,
    ) {
        let bound = front.bounds.queue_bytes_max;
        let left = front.queue.done(queued_bytes);
        let position = front.position();
        for answer in answers {
            // The caller may be gone; the commit is durable anyway.
            drop(answer.send(Ok(position)));
        }
        if left < bound && left.saturating_add(queued_bytes) >= bound {
            front.notify_room();
        }
    }

    /// Answers commits of a group whose outcome is `answer`.
    pub(crate) fn refuse(answers: Vec<Answer>, answer: &Result<Position>) {
        for waiting in answers {
            drop(waiting.send(answer.clone()));
        }
    }
}
