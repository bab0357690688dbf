//! Effects in memory: gone at the end, for tests and for what can be made again.

use std::collections::HashMap;

use domain::Timestamp;
use parking_lot::Mutex;

use super::document::{Change, Fields, change};
use super::{Applied, Effects, Path, StoreError, Write};
use crate::Failure;

/// Dedupe records that are kept, at most, unless it is set.
const NOTES_MAX: usize = 1_000_000;

/// A store in memory.
#[derive(Debug)]
pub struct Memory {
    state: Mutex<State>,
    notes_max: usize,
}

#[derive(Debug, Default)]
struct State {
    documents: HashMap<Path, Fields>,
    notes: HashMap<Path, Timestamp>,
}

impl Default for Memory {
    fn default() -> Self {
        Self::with_notes_max(NOTES_MAX)
    }
}

impl Memory {
    /// A store that keeps at most so many dedupe records. Further messages are transient until
    /// `purge` has made room.
    pub fn with_notes_max(notes_max: usize) -> Self {
        Self { state: Mutex::default(), notes_max }
    }

    /// The fields of a document.
    pub fn document(&self, path: &Path) -> Option<Fields> {
        self.state.lock().documents.get(path).cloned()
    }

    /// Forgets dedupe records that have expired by `now`, and says how many.
    pub fn purge(&self, now: Timestamp) -> u64 {
        let mut state = self.state.lock();
        let before = state.notes.len();
        state.notes.retain(|_, until| *until > now);
        (before - state.notes.len()) as u64
    }

    fn apply_now(&self, write: &Write) -> Result<Applied, StoreError> {
        let mut state = self.state.lock();
        if state.notes.contains_key(&write.dedupe) {
            return Ok(Applied::Duplicate);
        }
        if state.notes.len() >= self.notes_max {
            let problem = "too many dedupe records in memory: purge those that have expired";
            return Err(StoreError::Transient(Failure::new("Full", problem)));
        }
        let current = state.documents.get(&write.document).cloned();
        let applied = match change(current, write)? {
            Change::Put(fields) => {
                state.documents.insert(write.document.clone(), fields);
                Applied::Applied
            }
            Change::Stale => Applied::Stale,
        };
        state.notes.insert(write.dedupe.clone(), write.dedupe_until);
        Ok(applied)
    }
}

impl Effects for Memory {
    async fn apply(&self, write: &Write) -> Result<Applied, StoreError> {
        self.apply_now(write)
    }
}
