//! Turns: those of this program who write the same document do so one after the other.
//!
//! Without turns they would all read the same state, and all but one would have to try again. This
//! only saves work: that each effect happens once does not depend on it.

use std::hash::{BuildHasher, RandomState};

use tokio::sync::{Mutex, MutexGuard};

use crate::effects::{Path, Write};

/// So many may write at the same time; those who share a place wait for each other without need.
const PLACES: usize = 1_024;

/// A place for each document, shared by some.
#[derive(Debug)]
pub(super) struct Turns {
    places: Vec<Mutex<()>>,
    hasher: RandomState,
}

impl Default for Turns {
    fn default() -> Self {
        let places = (0..PLACES).map(|_| Mutex::default()).collect();
        Self { places, hasher: RandomState::new() }
    }
}

impl Turns {
    /// Waits until nobody else writes what `write` reads: its note, and its document where an
    /// event time is compared.
    pub(super) async fn take(&self, write: &Write) -> Vec<MutexGuard<'_, ()>> {
        let document = write.event_time.as_ref().map(|_| &write.document);
        let mut wanted: Vec<usize> =
            std::iter::once(&write.dedupe).chain(document).map(|path| self.place(path)).collect();
        // All take their places in the same order, so that no two wait for each other.
        wanted.sort_unstable();
        wanted.dedup();
        let mut taken = Vec::new();
        for place in wanted {
            if let Some(place) = self.places.get(place) {
                taken.push(place.lock().await);
            }
        }
        taken
    }

    fn place(&self, path: &Path) -> usize {
        let hash = self.hasher.hash_one(path);
        usize::try_from(hash % PLACES as u64).unwrap_or_default()
    }
}
