//! Effects in memory: gone at the end, for tests and for what can be made again.

use std::collections::HashMap;
use std::hash::RandomState;

use domain::Timestamp;
use hashbrown::hash_map::EntryRef;
use parking_lot::Mutex;

use super::document::{Fields, put};
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
    notes: HashMap<String, Notes>,
    notes_count: usize,
}

/// Until when each dedupe record of a collection is kept, by id. Looked up once for each message,
/// and then mostly to be added.
type Notes = hashbrown::HashMap<String, Timestamp, RandomState>;

impl Default for Memory {
    fn default() -> Self {
        Self::with_notes_max(NOTES_MAX)
    }
}

impl Memory {
    /// A store that keeps at most this many dedupe records. Further messages are transient until
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
        let State { notes, notes_count, .. } = &mut *self.state.lock();
        notes.retain(|_, notes| {
            notes.retain(|_, until| *until > now);
            !notes.is_empty()
        });
        let left = notes.values().map(Notes::len).sum();
        let before = std::mem::replace(notes_count, left);
        (before - left) as u64
    }

    fn apply_now(&self, write: &Write) -> Result<Applied, StoreError> {
        let State { documents, notes, notes_count } = &mut *self.state.lock();
        let Path { collection, id } = &write.dedupe;
        if !notes.contains_key(collection) {
            notes.insert(collection.clone(), Notes::default());
        }
        let note = match notes.get_mut(collection).map(|notes| notes.entry_ref(id.as_str())) {
            Some(EntryRef::Vacant(note)) => note,
            Some(EntryRef::Occupied(_)) | None => return Ok(Applied::Duplicate),
        };
        if *notes_count >= self.notes_max {
            let problem = "too many dedupe records in memory: purge those that have expired";
            return Err(StoreError::Transient(Failure::new("Full", problem)));
        }
        let is_put = match documents.get_mut(&write.document) {
            Some(fields) => put(fields, write)?,
            None => {
                let mut fields = Fields::new();
                let is_put = put(&mut fields, write)?;
                documents.insert(write.document.clone(), fields);
                is_put
            }
        };
        note.insert(write.dedupe_until);
        *notes_count += 1;
        Ok(if is_put { Applied::Applied } else { Applied::Stale })
    }
}

impl Effects for Memory {
    async fn apply(&self, write: &Write) -> Result<Applied, StoreError> {
        self.apply_now(write)
    }
}
