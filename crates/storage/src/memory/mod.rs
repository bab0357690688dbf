//! The engine without a disk: for tests and throw-away servers.
//!
//! A commit is visible at once and lives as long as the process. The only limit is the number of
//! bytes of retained messages; appends beyond it answer `Full` until a trim makes room.

mod attempts;
mod catalogue;
mod herald;
mod log;
mod progress;
mod shard;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use domain::{
    ClockMark, Epoch, Offset, OffsetRange, Progress, ProgressChange, Record, SubscriptionId,
    Timestamp, TopicId,
};

use crate::{AttemptHistory, Catalogue, Engine, HISTORY_BYTES_DEFAULT, Position};

/// How much the engine may use.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Maximum bytes of retained record bodies; appends beyond it answer `Full`.
    pub bytes_max: usize,
    /// Size limit of the history of attempts.
    pub attempt_bytes_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { bytes_max: 1 << 30, attempt_bytes_max: HISTORY_BYTES_DEFAULT }
    }
}

/// Opens an empty store with the default options.
pub fn open() -> Engine {
    open_with(Options::default())
}

/// Opens an empty store.
pub fn open_with(options: Options) -> Engine {
    let attempt_bytes_max = usize::try_from(options.attempt_bytes_max).unwrap_or(usize::MAX);
    Engine {
        shards: Arc::new(shard::OneShard::new(options)),
        catalogue: Arc::new(catalogue::Definitions::default()),
        attempts: Arc::new(attempts::History::new(attempt_bytes_max)),
        members: None,
    }
}

/// The definitions of a store that a shared engine keeps in memory.
pub(crate) fn definitions() -> Arc<dyn Catalogue> {
    Arc::new(catalogue::Definitions::default())
}

/// The history of attempts of a store that a shared engine keeps in memory.
pub(crate) fn history() -> Arc<dyn AttemptHistory> {
    let bytes_max = usize::try_from(HISTORY_BYTES_DEFAULT).unwrap_or(usize::MAX);
    Arc::new(attempts::History::new(bytes_max))
}

/// Messages and progress: what one commit changes together, under one lock.
#[derive(Default)]
struct State {
    /// Of the current owner.
    epoch: Epoch,
    /// The topics it has begun.
    begun: BTreeSet<TopicId>,
    topics: BTreeMap<TopicId, Topic>,
    progress: BTreeMap<SubscriptionId, Saved>,
    /// Number of commits so far.
    position: Position,
    /// The log position of the last checkpoint.
    checkpoint: Position,
    /// Bytes of all record bodies kept.
    bytes: usize,
    /// The clock mark, as last saved.
    clock: Option<ClockMark>,
}

/// One topic's records, with gaps where a trim dropped some.
struct Topic {
    next: Offset,
    last_publish_time: Timestamp,
    kept: VecDeque<StoredRecord>,
}

struct StoredRecord {
    position: Position,
    record: Record,
}

impl Topic {
    /// The index in `kept` of the first record at or after `offset`.
    fn place_of(&self, offset: Offset) -> usize {
        self.kept.partition_point(|kept| kept.record.offset < offset)
    }

    fn covered(&self) -> OffsetRange {
        let first = self.kept.front().map_or(self.next, |kept| kept.record.offset);
        OffsetRange { from: first, to: self.next }
    }
}

/// What is stored for a subscription: a checkpoint, and the changes since then.
#[derive(Default)]
struct Saved {
    checkpoint: Option<Progress>,
    changes: Vec<(Position, ProgressChange)>,
}

impl Saved {
    /// Adds a change, merging it into the last one if possible.
    fn add(&mut self, position: Position, change: ProgressChange) {
        let rest = match self.changes.last_mut() {
            Some((last, earlier)) => {
                let rest = earlier.merge(change);
                if rest.is_none() {
                    *last = position;
                }
                rest
            }
            None => Some(change),
        };
        self.changes.extend(rest.map(|change| (position, change)));
    }

    fn progress(&self, start: Progress) -> Progress {
        let mut progress = self.checkpoint.clone().unwrap_or(start);
        for (_, change) in &self.changes {
            progress.apply(change);
        }
        progress
    }
}
