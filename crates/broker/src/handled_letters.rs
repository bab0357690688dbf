//! What was done with the records of a topic as dead letters.
//!
//! It is stored as progress: one for the letters that were replayed and one for those that were
//! deleted, created by the first such action, and one for each running replay. They keep no records
//! (LOG-7) and are deleted with their topic. A replay appends the message and records the letter in
//! one commit, so that a crash neither loses nor duplicates it.
//!
//! ```text
//!   dead letter topic   L1  L2  L3  L4  L5          source topic   … M7  M8 │ L1'  L3'
//!   replayed             █       █                                          └ one commit each,
//!   deleted                          █                                        with the note
//!   waiting                  L2          L5
//! ```

mod marks;
mod senders;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::progress::unite;
use domain::{Message, Offset, OffsetRange, Progress, ProgressChange, SubscriptionId};
use parking_lot::Mutex;
use storage::{Commit, MessageLog, Receipt, Urgency};

use self::senders::Senders;
use crate::changed::ChangedList;
use crate::error::{Error, Result};

/// What is known about a topic's records as dead letters.
#[derive(Default)]
pub(crate) struct HandledLetters {
    state: Mutex<State>,
    /// There may be letters that are not counted yet.
    has_news: AtomicBool,
}

#[derive(Default)]
struct State {
    ids: Option<HandledIds>,
    /// What was done in total, and by each running replay, by id. The cursor stays at zero, where
    /// no letter is, so what is acked above it is what was done.
    progress: BTreeMap<SubscriptionId, Progress>,
    /// Those that the next checkpoint saves.
    changed: BTreeSet<SubscriptionId>,
    /// The ids under which it is stored what was received, by the number of the source.
    marks: BTreeMap<u64, SubscriptionId>,
    senders: Senders,
}

/// The ids under which it is stored what was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandledIds {
    pub(crate) replayed: SubscriptionId,
    pub(crate) deleted: SubscriptionId,
}

/// What was done with a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handled {
    No,
    Replayed,
    Deleted,
}

/// A message to be replayed.
#[derive(Clone)]
pub(crate) struct Outgoing {
    /// The letter.
    pub(crate) offset: Offset,
    pub(crate) message: Message,
    pub(crate) addressee: Option<SubscriptionId>,
}

/// Progress that changes together with an append.
pub(crate) type Changes = Vec<(SubscriptionId, ProgressChange)>;

/// Progress with nothing done.
pub(crate) fn nothing_done() -> Progress {
    Progress::starting_at(Offset(0))
}

impl HandledLetters {
    /// The ids under which it is stored what was done; `None` until something was.
    pub(crate) fn ids(&self) -> Option<HandledIds> {
        self.state.lock().ids
    }

    /// Loads what was done, from storage.
    pub(crate) fn open(&self, ids: HandledIds, replayed: Progress, deleted: Progress) {
        let mut state = self.state.lock();
        state.ids = Some(ids);
        state.progress.insert(ids.replayed, replayed);
        state.progress.insert(ids.deleted, deleted);
    }

    /// Loads what the replay `run` has done so far; returns how many letters that is.
    pub(crate) fn open_run(&self, run: SubscriptionId, done: Progress) -> u64 {
        let count = done.acked_above_count();
        self.state.lock().progress.insert(run, done);
        count
    }

    /// What the replay `run` has sent.
    pub(crate) fn run(&self, run: SubscriptionId) -> Progress {
        self.state.lock().progress.get(&run).cloned().unwrap_or_else(nothing_done)
    }

    /// Forgets a replay that has ended.
    pub(crate) fn close_run(&self, run: SubscriptionId) {
        let mut state = self.state.lock();
        state.progress.remove(&run);
        state.changed.remove(&run);
    }

    /// Forgets everything; returns the ids under which it was stored.
    pub(crate) fn clear(&self) -> Vec<SubscriptionId> {
        let state = std::mem::take(&mut *self.state.lock());
        state.progress.into_keys().collect()
    }

    /// What the next checkpoint saves.
    pub(crate) fn capture(&self) -> Vec<(SubscriptionId, Progress)> {
        let mut state = self.state.lock();
        let changed = std::mem::take(&mut state.changed);
        let progress = &state.progress;
        changed.into_iter().filter_map(|id| Some((id, progress.get(&id)?.clone()))).collect()
    }

    /// Notes that these are not in a checkpoint yet.
    pub(crate) fn mark_changed(
        self: &Arc<Self>,
        changed: &ChangedList<Self>,
        ids: impl IntoIterator<Item = SubscriptionId>,
    ) {
        self.note_changed(&mut self.state.lock(), changed, ids);
    }

    /// The same for everything, after it was loaded.
    pub(crate) fn mark_all_changed(self: &Arc<Self>, changed: &ChangedList<Self>) {
        let mut state = self.state.lock();
        let ids: Vec<_> = state.progress.keys().copied().collect();
        self.note_changed(&mut state, changed, ids);
    }

    fn note_changed(
        self: &Arc<Self>,
        state: &mut State,
        changed: &ChangedList<Self>,
        ids: impl IntoIterator<Item = SubscriptionId>,
    ) {
        let was_clean = state.changed.is_empty();
        state.changed.extend(ids);
        if was_clean && !state.changed.is_empty() {
            changed.add(Arc::clone(self));
        }
    }

    /// What was done with each of these letters.
    pub(crate) fn look_up(&self, offsets: &[Offset]) -> Vec<Handled> {
        let state = self.state.lock();
        offsets.iter().map(|&offset| state.look_up(offset)).collect()
    }

    /// Which of these letters the replay `run` has already sent.
    pub(crate) fn sent_by(&self, run: SubscriptionId, offsets: &[Offset]) -> Vec<bool> {
        let state = self.state.lock();
        offsets.iter().map(|&offset| state.is_in(run, offset)).collect()
    }

    /// Calls `append` to append the messages, and records their letters in the same commit. Skips
    /// letters that were deleted and, unless `again`, those that were replayed: returns the number
    /// of the others, with the receipt if there are any. An error means that nothing happened.
    ///
    /// This lock is taken before that of the target's end.
    pub(crate) fn replay(
        self: &Arc<Self>,
        changed: &ChangedList<Self>,
        (run, again): (SubscriptionId, bool),
        mut outgoing: Vec<Outgoing>,
        append: impl FnOnce(Vec<Outgoing>, Changes) -> Result<Receipt>,
    ) -> Result<(usize, Option<Receipt>)> {
        let mut state = self.state.lock();
        outgoing.retain(|one| state.is_due(run, one.offset, again));
        let Some(HandledIds { replayed, .. }) = state.ids else {
            let why = "the dead letter topic was deleted".to_owned();
            return Err(Error::FailedPrecondition(why));
        };
        if outgoing.is_empty() {
            return Ok((0, None));
        }
        let mut done = Vec::new();
        outgoing.iter().for_each(|one| unite(&mut done, OffsetRange::one(one.offset)));
        let change = ProgressChange::Settled(done);
        let count = outgoing.len();
        let ids = [replayed, run];
        let progress = ids.map(|id| (id, change.clone())).into();
        // First, and under the lock: a checkpoint whose position is past the commit must find these
        // among the changed ones, or a crash would bring the letters back.
        self.note_changed(&mut state, changed, ids);
        let receipt = append(outgoing, progress)?;
        for id in ids {
            state.apply(id, &change);
        }
        Ok((count, Some(receipt)))
    }

    /// Those of `outgoing` that `replay` would append now.
    pub(crate) fn due(
        &self,
        (run, again): (SubscriptionId, bool),
        mut outgoing: Vec<Outgoing>,
    ) -> Vec<Outgoing> {
        let state = self.state.lock();
        outgoing.retain(|one| state.is_due(run, one.offset, again));
        outgoing
    }

    /// Records letters as deleted.
    pub(crate) fn delete(
        self: &Arc<Self>,
        log: &dyn MessageLog,
        changed: &ChangedList<Self>,
        letters: Vec<OffsetRange>,
    ) -> Option<Receipt> {
        let mut state = self.state.lock();
        let deleted = state.ids?.deleted;
        let change = ProgressChange::Settled(letters);
        let progress = vec![(deleted, change.clone())];
        let urgency = Urgency::Durable;
        // Before the commit, as in `replay`.
        self.note_changed(&mut state, changed, [deleted]);
        let receipt = log.commit(Commit { appends: Vec::new(), progress, urgency });
        if receipt.refused().is_none() {
            state.apply(deleted, &change);
        }
        Some(receipt)
    }

    /// The parts of these ranges with letters that were neither replayed nor deleted.
    pub(crate) fn unhandled(&self, ranges: Vec<OffsetRange>) -> Vec<OffsetRange> {
        let state = self.state.lock();
        ranges.into_iter().flat_map(|range| state.unhandled_in(range)).collect()
    }

    /// There may be letters that are not counted yet.
    pub(crate) fn note_letters(&self) {
        self.has_news.store(true, Ordering::SeqCst);
    }

    /// Whether there may be uncounted letters; resets the flag.
    pub(crate) fn take_news(&self) -> bool {
        self.has_news.swap(false, Ordering::SeqCst)
    }
}

impl State {
    fn is_in(&self, id: SubscriptionId, offset: Offset) -> bool {
        self.progress.get(&id).is_some_and(|done| done.is_acked(offset))
    }

    fn look_up(&self, offset: Offset) -> Handled {
        let Some(ids) = self.ids else { return Handled::No };
        if self.is_in(ids.deleted, offset) {
            Handled::Deleted
        } else if self.is_in(ids.replayed, offset) {
            Handled::Replayed
        } else {
            Handled::No
        }
    }

    /// Whether the replay `run` has to send a letter.
    fn is_due(&self, run: SubscriptionId, offset: Offset, again: bool) -> bool {
        !self.is_in(run, offset) && self.may_go(offset, again)
    }

    fn may_go(&self, offset: Offset, again: bool) -> bool {
        match self.look_up(offset) {
            Handled::No => true,
            Handled::Replayed => again,
            Handled::Deleted => false,
        }
    }

    fn apply(&mut self, id: SubscriptionId, change: &ProgressChange) {
        self.progress.entry(id).or_insert_with(nothing_done).apply(change);
    }

    /// The parts of `range` with letters that were neither replayed nor deleted.
    fn unhandled_in(&self, range: OffsetRange) -> Vec<OffsetRange> {
        let mut unhandled = vec![range];
        for id in self.ids.iter().flat_map(|ids| [ids.replayed, ids.deleted]) {
            let Some(done) = self.progress.get(&id) else { continue };
            unhandled = unhandled.into_iter().flat_map(|range| done.unacked_in(range)).collect();
        }
        unhandled
    }
}
