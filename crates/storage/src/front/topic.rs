//! What a log knows about one topic: its visible end, and its newest records in memory. Where the
//! others are is the engine's own part.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{Offset, Timestamp, TopicId};
use parking_lot::{Mutex, MutexGuard, RwLock};

use super::format::record_seed;
use super::tail::Chunks;
use crate::{ReadLimit, TailRead};

/// One topic of a log; `S` is the engine's own part.
///
/// ```text
/// what the engine keeps (with gaps) ≤ end
///                    memory (dense) ≤ end
/// ```
#[derive(Debug)]
pub(crate) struct Topic<S> {
    pub id: TopicId,
    /// Seeds the checksums of its records.
    pub seed: u32,
    state: Mutex<State<S>>,
}

#[derive(Debug)]
pub(crate) struct State<S> {
    /// The visible end.
    pub end: Offset,
    /// When the last visible record was published.
    pub last_time: Timestamp,
    /// The newest records, in memory.
    pub chunks: Chunks,
    /// Where the engine has all of them.
    pub own: S,
}

impl<S: Default> Topic<S> {
    pub(crate) fn new(id: TopicId, end: Offset, secret: u64) -> Self {
        let (last_time, chunks) = (Timestamp(0), Chunks::default());
        let state = State { end, last_time, chunks, own: S::default() };
        Self { id, seed: record_seed(id, secret), state: Mutex::new(state) }
    }
}

impl<S> Topic<S> {
    /// Its state, locked for a moment.
    pub(crate) fn state(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock()
    }

    /// Reads from memory only.
    pub(crate) fn tail(&self, from: Offset, limit: ReadLimit) -> TailRead {
        let state = self.state();
        if from >= state.end {
            return TailRead::AtEnd;
        }
        match state.chunks.first() {
            Some(first) if first <= from => TailRead::Records(state.chunks.read(from, limit)),
            _ => TailRead::NotInMemory,
        }
    }
}

/// Every topic a log knows.
#[derive(Debug)]
pub(crate) struct Topics<S> {
    known: RwLock<BTreeMap<TopicId, Arc<Topic<S>>>>,
    /// Seeds the checksums of all records of the store.
    secret: u64,
}

impl<S: Default> Topics<S> {
    pub(crate) fn new(secret: u64) -> Self {
        Self { known: RwLock::new(BTreeMap::new()), secret }
    }

    pub(crate) fn get(&self, id: TopicId) -> Option<Arc<Topic<S>>> {
        self.known.read().get(&id).cloned()
    }

    /// The topic, created with that end if it is unknown.
    pub(crate) fn get_or_make(&self, id: TopicId, end: Offset) -> Arc<Topic<S>> {
        if let Some(topic) = self.get(id) {
            return topic;
        }
        let mut topics = self.known.write();
        Arc::clone(topics.entry(id).or_insert_with(|| Arc::new(Topic::new(id, end, self.secret))))
    }

    /// All of them, by id.
    pub(crate) fn all(&self) -> Vec<Arc<Topic<S>>> {
        self.known.read().values().cloned().collect()
    }

    pub(crate) fn remove(&self, id: TopicId) {
        self.known.write().remove(&id);
    }

    /// Reads from memory only; an unknown topic has nothing.
    pub(crate) fn tail(&self, id: TopicId, from: Offset, limit: ReadLimit) -> TailRead {
        self.get(id).map_or(TailRead::AtEnd, |topic| topic.tail(from, limit))
    }

    /// The visible end; 0 for an unknown topic.
    pub(crate) fn end(&self, id: TopicId) -> Offset {
        self.get(id).map_or(Offset(0), |topic| topic.state().end)
    }
}
