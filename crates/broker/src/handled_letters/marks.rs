//! What a topic has received from sources in other shards: one progress for each, over the offsets
//! of the source.

use std::sync::Arc;

use domain::progress::unite;
use domain::{Epoch, Offset, OffsetRange, Progress, ProgressChange, SubscriptionId};
use storage::Receipt;

use super::{Changes, HandledLetters};
use crate::changed::ChangedList;
use crate::error::{Error, Result};
use crate::parcel::Piece;

impl HandledLetters {
    /// The id under which it is stored what came from that source.
    pub(crate) fn mark_of(&self, source: u64) -> Option<SubscriptionId> {
        self.state.lock().marks.get(&source).copied()
    }

    /// Loads what came from a source, from storage.
    pub(crate) fn open_mark(&self, source: u64, mark: SubscriptionId, progress: Progress) {
        let mut state = self.state.lock();
        state.marks.insert(source, mark);
        state.progress.insert(mark, progress);
    }

    /// The sources that something came from.
    pub(crate) fn sources(&self) -> Vec<u64> {
        self.state.lock().marks.keys().copied().collect()
    }

    /// Calls `append` with those of `pieces` that were not received yet, and notes them in the same
    /// commit; no receipt if there are none. An error means that nothing happened.
    ///
    /// The source has settled everything below `settled_below`. A greater generation starts over:
    /// it has gone back since. A smaller one is an earlier owner of the source that is cut off and
    /// does not know it yet.
    pub(crate) fn receive(
        self: &Arc<Self>,
        changed: &ChangedList<Self>,
        mark: SubscriptionId,
        (generation, settled_below): ((Epoch, u64), Offset),
        mut pieces: Vec<Piece>,
        append: impl FnOnce(Vec<Piece>, Changes) -> Result<Receipt>,
    ) -> Result<Option<Receipt>> {
        let mut state = self.state.lock();
        let Some(known) = state.progress.get(&mark) else {
            return Err(Error::FailedPrecondition("the topic was deleted".to_owned()));
        };
        let known_generation = known.void_before();
        if generation < known_generation {
            let why = "the source has gone on elsewhere; this is late".to_owned();
            return Err(Error::FailedPrecondition(why));
        }
        let is_new = generation > known_generation;
        // A source that gives a record up twice, before it has settled it, means one letter.
        pieces.dedup_by_key(|piece| piece.offset);
        pieces.retain(|piece| is_new || !known.is_acked(piece.offset));
        if pieces.is_empty() {
            return Ok(None);
        }
        let mut done = Vec::new();
        unite(&mut done, OffsetRange { from: Offset(0), to: settled_below });
        pieces.iter().for_each(|piece| unite(&mut done, OffsetRange::one(piece.offset)));
        let change = if is_new {
            let mut progress = Progress::starting_at(Offset(0));
            progress.void_ids_before(generation.0, generation.1);
            for range in done {
                progress.ack(range);
            }
            ProgressChange::Replaced(Box::new(progress))
        } else {
            ProgressChange::Settled(done)
        };
        // First, and under the lock, as in `replay`.
        self.note_changed(&mut state, changed, [mark]);
        let receipt = append(pieces, vec![(mark, change.clone())])?;
        state.apply(mark, &change);
        Ok(Some(receipt))
    }
}
