//! A gateway's frames: the unsent ones, and the last few that were sent.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::{Offset, TopicId};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::frame::{LiveEvent, LiveFrame, Lost};

/// Maximum number of frames a stream takes at a time.
const TAKEN_FRAMES: usize = 256;
/// Approximate bytes of frames a stream takes at a time.
const TAKEN_BYTES: usize = 256 << 10;

/// What is kept for one gateway, from its first subscription or stream to its last.
pub(super) struct Session {
    pub(super) gateway: Arc<str>,
    state: Mutex<State>,
    /// Notified when there is something to send, or the stream should end.
    pub(super) wake: Notify,
    /// Maximum number of frames kept.
    frames_max: usize,
    memory: Arc<Memory>,
}

/// The memory used by the frames of all gateways.
pub(super) struct Memory {
    bytes: AtomicUsize,
    bytes_max: usize,
    sessions: AtomicUsize,
}

impl Memory {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), bytes_max, sessions: AtomicUsize::new(0) }
    }

    /// Whether a gateway that keeps `own` bytes may keep this many more. It may always have its
    /// even share: a gateway that does not read loses its own frames, and nobody else's.
    fn has_room(&self, own: usize, more: usize) -> bool {
        let share = self.bytes_max / self.sessions.load(Ordering::Relaxed).max(1);
        self.bytes().saturating_add(more) <= self.bytes_max || own.saturating_add(more) <= share
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

struct State {
    frames: VecDeque<Arc<LiveFrame>>,
    /// The number of the first frame kept.
    first: u64,
    /// Frames below this number were taken by a stream.
    taken: u64,
    bytes: usize,
    /// The number of the current stream: a later one replaces an earlier one.
    stream: u64,
    /// The state of topics that a stream asked to go back in.
    topics: Vec<(TopicId, Reading)>,
}

/// Who delivers a topic's messages to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The stream, which has reached this offset; the follower skips the session.
    Behind(Offset),
    /// The follower, from this offset on: everything before it was delivered.
    From(Offset),
}

/// Where a stream starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Resume {
    /// Where the previous one ended.
    #[default]
    Last,
    /// After this frame.
    After(u64),
}

impl Session {
    pub(super) fn new(
        gateway: Arc<str>,
        first: u64,
        frames_max: usize,
        memory: Arc<Memory>,
    ) -> Self {
        memory.sessions.fetch_add(1, Ordering::Relaxed);
        let state = State {
            frames: VecDeque::new(),
            first,
            taken: first,
            bytes: 0,
            stream: 0,
            topics: Vec::new(),
        };
        Self { gateway, state: Mutex::new(state), wake: Notify::new(), frames_max, memory }
    }

    /// Starts a stream, which replaces the previous one: returns its number, the frame it starts
    /// with, and what was lost if that is not the one it asked for.
    pub(super) fn begin(&self, resume: &Resume) -> (u64, u64, Option<Lost>) {
        let mut state = self.state.lock();
        state.stream += 1;
        let end = state.end();
        let (at, lost) = match resume {
            Resume::Last => (state.taken.max(state.first), None),
            Resume::After(sequence) => match sequence.checked_add(1) {
                Some(at) if (state.first..=end).contains(&at) => (at, None),
                _ => (end, Some(Lost::UnknownSequence)),
            },
        };
        let stream = state.stream;
        drop(state);
        self.wake.notify_one();
        (stream, at, lost)
    }

    /// Sends the gateway a message, unless the stream itself delivered or will deliver it. Returns
    /// whether frames were lost.
    pub(super) fn tell(&self, topic: TopicId, offset: Offset, event: LiveEvent) -> bool {
        let mut state = self.state.lock();
        if !state.wants(topic, offset) {
            return false;
        }
        let overflowed = self.push(&mut state, event);
        drop(state);
        self.wake.notify_one();
        overflowed
    }

    /// Sends the gateway an event. Returns whether frames were lost.
    pub(super) fn say(&self, event: LiveEvent) -> bool {
        let overflowed = self.push(&mut self.state.lock(), event);
        self.wake.notify_one();
        overflowed
    }

    fn push(&self, state: &mut State, event: LiveEvent) -> bool {
        let mut overflowed = false;
        let frame = LiveFrame { sequence: state.end(), event };
        let bytes = frame.bytes();
        while !self.has_room(state, bytes) && state.first < state.taken {
            self.drop_first(state);
        }
        if !self.has_room(state, bytes) && !state.frames.is_empty() {
            overflowed = true;
            self.clear(state);
            let lost = LiveEvent::Resync(Lost::Overflow);
            self.put(state, LiveFrame { sequence: state.first, event: lost });
        }
        let frame = LiveFrame { sequence: state.end(), ..frame };
        self.put(state, frame);
        overflowed
    }

    fn has_room(&self, state: &State, bytes: usize) -> bool {
        state.frames.len() < self.frames_max && self.memory.has_room(state.bytes, bytes)
    }

    fn put(&self, state: &mut State, frame: LiveFrame) {
        let bytes = frame.bytes();
        state.bytes += bytes;
        self.memory.bytes.fetch_add(bytes, Ordering::Relaxed);
        state.frames.push_back(Arc::new(frame));
    }

    fn drop_first(&self, state: &mut State) {
        if let Some(frame) = state.frames.pop_front() {
            state.first += 1;
            state.bytes -= frame.bytes();
            self.memory.bytes.fetch_sub(frame.bytes(), Ordering::Relaxed);
        }
    }

    fn clear(&self, state: &mut State) {
        self.memory.bytes.fetch_sub(state.bytes, Ordering::Relaxed);
        state.first = state.end();
        state.bytes = 0;
        state.frames.clear();
    }

    /// The available frames from number `at` on, within limits; `None` = another stream has
    /// replaced this one. One that fell behind lost frames continues after them.
    pub(super) fn take(&self, stream: u64, at: &mut u64) -> Option<Vec<Arc<LiveFrame>>> {
        let mut state = self.state.lock();
        if state.stream != stream {
            // It may have been woken in place of the other.
            self.wake.notify_one();
            return None;
        }
        *at = (*at).max(state.first);
        let skipped = usize::try_from(*at - state.first).unwrap_or(usize::MAX);
        let mut bytes = 0;
        let waiting = state.frames.iter().skip(skipped).take(TAKEN_FRAMES);
        let taken = waiting.take_while(|frame| {
            let fits = bytes < TAKEN_BYTES;
            bytes += frame.bytes();
            fits
        });
        let taken: Vec<_> = taken.cloned().collect();
        *at += taken.len() as u64;
        state.taken = state.taken.max(*at);
        Some(taken)
    }
}

/// Going back in topics.
impl Session {
    /// From now on the stream itself delivers the messages of these topics from these offsets on.
    /// Discards what was kept; returns the frame to continue with.
    pub(super) fn go_back(&self, from: &[(TopicId, Offset)]) -> u64 {
        let mut state = self.state.lock();
        let mut from = from.to_vec();
        // Unsent messages of other topics are delivered again too.
        let unsent = usize::try_from(state.taken.saturating_sub(state.first)).unwrap_or(usize::MAX);
        for (topic, offset) in state.frames.iter().skip(unsent).filter_map(|frame| frame.place()) {
            if !from.iter().any(|(other, _)| *other == topic) {
                from.push((topic, offset));
            }
        }
        self.clear(&mut state);
        state.topics = from.into_iter().map(|(topic, at)| (topic, Reading::Behind(at))).collect();
        state.taken = state.first;
        state.first
    }

    /// A topic whose messages the stream has to deliver, and from where.
    pub(super) fn behind(&self) -> Option<(TopicId, Offset)> {
        self.state.lock().topics.iter().find_map(|(topic, reading)| match reading {
            Reading::Behind(at) => Some((*topic, *at)),
            Reading::From(_) => None,
        })
    }

    /// The stream has delivered a topic's messages below `to`. The follower takes over once that is
    /// as far as it has come.
    pub(super) fn brought(&self, topic: TopicId, to: Offset, follower: impl FnOnce() -> Offset) {
        let mut state = self.state.lock();
        // Checked under the lock that the follower needs to send: whatever it has matched beyond
        // that is sent later.
        let reading = if to >= follower() { Reading::From(to) } else { Reading::Behind(to) };
        if let Some((_, held)) = state.topics.iter_mut().find(|(other, _)| *other == topic) {
            *held = reading;
        }
    }
}

impl State {
    fn end(&self) -> u64 {
        self.first + self.frames.len() as u64
    }

    fn wants(&mut self, topic: TopicId, offset: Offset) -> bool {
        let Some(place) = self.topics.iter().position(|(other, _)| *other == topic) else {
            return true;
        };
        match self.topics.get(place) {
            Some((_, Reading::From(from))) if offset >= *from => {
                // A follower never goes back.
                self.topics.swap_remove(place);
                true
            }
            _ => false,
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let bytes = self.state.get_mut().bytes;
        self.memory.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.memory.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}
