//! What the engine knows about one topic: its visible end and where its records are.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{Offset, Timestamp, TopicId};
use parking_lot::{Mutex, MutexGuard, RwLock};

use super::database::TopicRow;
use super::format::record_seed;
use super::index::WalIndex;
use super::segments::Segment;
use super::tail::Chunks;

/// One topic of the log.
///
/// ```text
/// low ≤ segments (with gaps) < log index (dense) ≤ end
///                                   memory (dense) ≤ end
/// ```
#[derive(Debug)]
pub(super) struct Topic {
    pub id: TopicId,
    /// Seeds the checksums of its records.
    pub seed: u32,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    /// The visible end.
    pub end: Offset,
    /// When the last visible record was published.
    pub last_time: Timestamp,
    /// The newest records, in memory.
    pub chunks: Chunks,
    /// The records in the write-ahead log.
    pub log: WalIndex,
    /// The older records, in segment files, ascending.
    pub segments: Vec<Arc<Segment>>,
    /// What the last checkpoint wrote about it.
    pub saved: Option<TopicRow>,
    /// Whether it was claimed since the store was opened.
    pub claimed: bool,
}

impl Topic {
    pub(super) fn new(id: TopicId, end: Offset, secret: u64) -> Self {
        let state = State {
            end,
            last_time: Timestamp(0),
            chunks: Chunks::default(),
            log: WalIndex::default(),
            segments: Vec::new(),
            saved: None,
            claimed: false,
        };
        Self { id, seed: record_seed(id, secret), state: Mutex::new(state) }
    }

    /// Its state, locked for a moment.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// The lowest offset that is kept, or the end.
    pub(super) fn low(&self) -> Offset {
        let segment = self.segments.first().map(|segment| segment.first);
        segment.or_else(|| self.log.first()).unwrap_or(self.end)
    }
}

/// Every topic the log knows.
#[derive(Debug)]
pub(super) struct Topics {
    known: RwLock<BTreeMap<TopicId, Arc<Topic>>>,
    /// Seeds the checksums of all records of the store.
    secret: u64,
}

impl Topics {
    pub(super) fn new(secret: u64) -> Self {
        Self { known: RwLock::default(), secret }
    }

    pub(super) fn get(&self, id: TopicId) -> Option<Arc<Topic>> {
        self.known.read().get(&id).cloned()
    }

    /// The topic, created with that end if it is unknown.
    pub(super) fn get_or_make(&self, id: TopicId, end: Offset) -> Arc<Topic> {
        if let Some(topic) = self.get(id) {
            return topic;
        }
        let mut topics = self.known.write();
        Arc::clone(topics.entry(id).or_insert_with(|| Arc::new(Topic::new(id, end, self.secret))))
    }

    /// All of them, by id.
    pub(super) fn all(&self) -> Vec<Arc<Topic>> {
        self.known.read().values().cloned().collect()
    }

    pub(super) fn remove(&self, id: TopicId) {
        self.known.write().remove(&id);
    }
}
