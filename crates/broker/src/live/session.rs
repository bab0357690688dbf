//! A gateway's frames: those it was not sent yet, and the last that it was.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::{Offset, TopicId};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::frame::{LiveEvent, LiveFrame, Lost};

/// Frames that a stream takes at a time, at most.
const TAKEN_FRAMES: usize = 256;
/// Bytes of frames that a stream takes at a time, about.
const TAKEN_BYTES: usize = 256 << 10;

/// What is kept for one gateway, from its first subscription or stream to its last.
pub(super) struct Session {
    pub(super) gateway: Arc<str>,
    state: Mutex<State>,
    /// Told when there is something to send, or the stream is to end.
    pub(super) wake: Notify,
    /// Frames that are kept, at most.
    frames_max: usize,
    memory: Arc<Memory>,
}

/// What all gateways' frames take.
pub(super) struct Memory {
    bytes: AtomicUsize,
    bytes_max: usize,
    sessions: AtomicUsize,
}

impl Memory {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), bytes_max, sessions: AtomicUsize::new(0) }
    }

    /// Whether a gateway that keeps `own` bytes may keep so many more. Its even share it may
    /// always have: what others do not read costs them their frames, and nobody else.
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
    /// Which stream is the present one: a later takes the place of an earlier.
    stream: u64,
    /// How it stands with topics that a stream asked to go back in.
    topics: Vec<(TopicId, Reading)>,
}

/// Who brings a topic's messages to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The stream, which has come to this offset; the follower passes the session over.
    Behind(Offset),
    /// The follower, from this offset on: what is before it was brought.
    From(Offset),
}

/// Where a stream begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Resume {
    /// Where the one before it ended.
    #[default]
    Last,
    /// Behind this frame.
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

    /// Begins a stream, which takes the place of the one before: its number, the frame it begins
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

    /// Tells the gateway of a message, unless that was or will be brought by the stream itself.
    /// Whether frames were lost for it.
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

    /// Tells the gateway something. Whether frames were lost for it.
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

    /// The frames from number `at` on that there are, within bounds; `None` = another stream has
    /// taken the place of this one. One that was overtaken by what was lost goes on behind it.
    pub(super) fn take(&self, stream: u64, at: &mut u64) -> Option<Vec<Arc<LiveFrame>>> {
        let mut state = self.state.lock();
        if state.stream != stream {
            // It may have been woken in the place of the other.
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
    /// From now on the stream itself brings the messages of these topics from these offsets on.
    /// What was kept is void; the frame to go on with.
    pub(super) fn go_back(&self, from: &[(TopicId, Offset)]) -> u64 {
        let mut state = self.state.lock();
        let mut from = from.to_vec();
        // What is not sent yet of other topics is brought again too.
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

    /// A topic whose messages the stream has to bring, and from where on.
    pub(super) fn behind(&self) -> Option<(TopicId, Offset)> {
        self.state.lock().topics.iter().find_map(|(topic, reading)| match reading {
            Reading::Behind(at) => Some((*topic, *at)),
            Reading::From(_) => None,
        })
    }

    /// The stream has brought a topic's messages below `to`. The follower goes on once that is as
    /// far as it has come.
    pub(super) fn brought(&self, topic: TopicId, to: Offset, follower: impl FnOnce() -> Offset) {
        let mut state = self.state.lock();
        // Asked under the lock that the follower needs to tell: what it has matched beyond that
        // is told later.
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
