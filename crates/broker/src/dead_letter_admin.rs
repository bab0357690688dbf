//! The desk of a topic: its records as dead letters, and what was done with them.
//!
//! What an operator has dealt with is kept as progress: one that says which letters were replayed
//! and one that says which were deleted, made with the first such act, and one for each replay
//! that runs. They keep no records (LOG-7) and go with their topic. A replay appends the
//! message and marks the letter in one commit, so that a crash neither loses nor doubles it.
//!
//! ```text
//!   dead letter topic   L1  L2  L3  L4  L5          source topic   … M7  M8 │ L1'  L3'
//!   replayed             █       █                                          └ one commit each,
//!   deleted                          █                                        with the mark
//!   waiting                  L2          L5
//! ```

pub(crate) mod counter;
mod letters;
mod removal;
mod replay;
mod replays;
mod run;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::progress::unite;
use domain::{Message, Offset, OffsetRange, Progress, ProgressChange, SubscriptionId};
use parking_lot::Mutex;
use storage::{Commit, MessageLog, Receipt, Urgency};

use self::counter::Index;
pub use self::letters::{
    FoundLetter, LetterPage, LetterPlace, LetterQuery, LetterState, LettersWanted,
};
pub use self::replay::ReplayRequest;
pub(crate) use self::replays::Replays;
use crate::error::{Error, Result};
use crate::runtime::Changed;
use crate::topic::Topic;

/// What is known of a topic's records as dead letters.
#[derive(Default)]
pub(crate) struct Desk {
    state: Mutex<State>,
    /// There may be letters that were not counted yet.
    has_news: AtomicBool,
}

#[derive(Default)]
struct State {
    marks: Option<Marks>,
    /// Of the marks and of each replay that runs, by id. The cursor stays at zero, where no
    /// letter is, so that what is acked above it is what was done.
    progress: BTreeMap<SubscriptionId, Progress>,
    /// Those that the next checkpoint saves.
    changed: BTreeSet<SubscriptionId>,
    index: Index,
}

/// Under which ids a desk's marks are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) replayed: SubscriptionId,
    pub(crate) deleted: SubscriptionId,
}

impl Marks {
    fn ids(self) -> [SubscriptionId; 2] {
        [self.replayed, self.deleted]
    }
}

/// What was done with a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    None,
    Replayed,
    Deleted,
}

/// A message on its way back.
struct Outgoing {
    /// The letter.
    offset: Offset,
    message: Message,
    addressee: Option<SubscriptionId>,
}

/// The progress of marks that were never made.
pub(crate) fn no_marks() -> Progress {
    Progress::starting_at(Offset(0))
}

impl Desk {
    /// Whether anything can be marked yet.
    pub(crate) fn marks(&self) -> Option<Marks> {
        self.state.lock().marks
    }

    /// Takes up the marks, as they were stored.
    pub(crate) fn open(&self, marks: Marks, replayed: Progress, deleted: Progress) {
        let mut state = self.state.lock();
        state.marks = Some(marks);
        state.progress.insert(marks.replayed, replayed);
        state.progress.insert(marks.deleted, deleted);
    }

    /// Takes up what the replay `run` has done so far; says how many letters that is.
    fn open_run(&self, run: SubscriptionId, done: Progress) -> u64 {
        let count = done.acked_above_count();
        self.state.lock().progress.insert(run, done);
        count
    }

    /// What the replay `run` has sent.
    fn run(&self, run: SubscriptionId) -> Progress {
        self.state.lock().progress.get(&run).cloned().unwrap_or_else(no_marks)
    }

    /// Forgets a replay that has ended.
    fn close_run(&self, run: SubscriptionId) {
        let mut state = self.state.lock();
        state.progress.remove(&run);
        state.changed.remove(&run);
    }

    /// Forgets everything; says under which ids it was kept.
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

    /// These are not in a checkpoint yet.
    pub(crate) fn mark_changed(
        self: &Arc<Self>,
        changed: &Changed,
        ids: impl IntoIterator<Item = SubscriptionId>,
    ) {
        self.note_changed(&mut self.state.lock(), changed, ids);
    }

    /// The same for all there is, after it was loaded.
    pub(crate) fn mark_all_changed(self: &Arc<Self>, changed: &Changed) {
        let mut state = self.state.lock();
        let ids: Vec<_> = state.progress.keys().copied().collect();
        self.note_changed(&mut state, changed, ids);
    }

    fn note_changed(
        self: &Arc<Self>,
        state: &mut State,
        changed: &Changed,
        ids: impl IntoIterator<Item = SubscriptionId>,
    ) {
        let was_clean = state.changed.is_empty();
        state.changed.extend(ids);
        if was_clean && !state.changed.is_empty() {
            changed.add_desk(Arc::clone(self));
        }
    }

    /// What was done with each of these letters.
    fn marks_of(&self, offsets: &[Offset]) -> Vec<Mark> {
        let state = self.state.lock();
        offsets.iter().map(|&offset| state.mark(offset)).collect()
    }

    /// Which of these letters the replay `run` has sent already.
    fn sent_by(&self, run: SubscriptionId, offsets: &[Offset]) -> Vec<bool> {
        let state = self.state.lock();
        offsets.iter().map(|&offset| state.is_in(run, offset)).collect()
    }

    /// Appends the messages to `target` and marks their letters, in one commit. Letters that were
    /// deleted, and unless `again` those that were replayed, are left out: the number of those
    /// that go comes back, with the receipt if there are any. An error means that nothing
    /// happened.
    ///
    /// The lock is taken before that of the target's end.
    fn replay(
        self: &Arc<Self>,
        changed: &Changed,
        run: SubscriptionId,
        again: bool,
        mut outgoing: Vec<Outgoing>,
        target: &Topic,
    ) -> Result<(usize, Option<Receipt>)> {
        let mut state = self.state.lock();
        outgoing.retain(|one| !state.is_in(run, one.offset) && state.may_go(one.offset, again));
        let Some(marks) = state.marks else {
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
        let messages = outgoing.into_iter().map(|one| (one.message, one.addressee));
        let ids = [marks.replayed, run];
        let progress = ids.map(|id| (id, change.clone())).into();
        // First, and under the lock: a checkpoint whose position is past the commit must find
        // these among what changed, or a crash would bring the letters back.
        self.note_changed(&mut state, changed, ids);
        let (_, receipt) = target.queue_addressed(messages, progress)?;
        for id in ids {
            state.apply(id, &change);
        }
        Ok((count, Some(receipt)))
    }

    /// Marks letters as deleted.
    fn delete(
        self: &Arc<Self>,
        log: &dyn MessageLog,
        changed: &Changed,
        letters: Vec<OffsetRange>,
    ) -> Option<Receipt> {
        let mut state = self.state.lock();
        let deleted = state.marks?.deleted;
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
    pub(crate) fn unmarked(&self, ranges: Vec<OffsetRange>) -> Vec<OffsetRange> {
        let state = self.state.lock();
        ranges.into_iter().flat_map(|range| state.unmarked_in(range)).collect()
    }

    /// There may be letters that were not counted yet.
    pub(crate) fn note_letters(&self) {
        self.has_news.store(true, Ordering::SeqCst);
    }

    /// Whether there may be, as of now.
    fn take_news(&self) -> bool {
        self.has_news.swap(false, Ordering::SeqCst)
    }
}

impl State {
    fn is_in(&self, id: SubscriptionId, offset: Offset) -> bool {
        self.progress.get(&id).is_some_and(|done| done.is_acked(offset))
    }

    fn mark(&self, offset: Offset) -> Mark {
        let Some(marks) = self.marks else { return Mark::None };
        if self.is_in(marks.deleted, offset) {
            Mark::Deleted
        } else if self.is_in(marks.replayed, offset) {
            Mark::Replayed
        } else {
            Mark::None
        }
    }

    fn may_go(&self, offset: Offset, again: bool) -> bool {
        match self.mark(offset) {
            Mark::None => true,
            Mark::Replayed => again,
            Mark::Deleted => false,
        }
    }

    fn apply(&mut self, id: SubscriptionId, change: &ProgressChange) {
        self.progress.entry(id).or_insert_with(no_marks).apply(change);
    }

    /// The parts of `range` with letters that were neither replayed nor deleted.
    fn unmarked_in(&self, range: OffsetRange) -> Vec<OffsetRange> {
        let mut unmarked = vec![range];
        for id in self.marks.iter().flat_map(|marks| marks.ids()) {
            let Some(done) = self.progress.get(&id) else { continue };
            unmarked = unmarked.into_iter().flat_map(|range| done.unacked_in(range)).collect();
        }
        unmarked
    }
}
