//! Which subscriptions' letters are in a dead letter topic, as far as it was read.

use std::collections::BTreeMap;

use domain::{Offset, OffsetRange, Progress, SubscriptionName};

use super::{HandledLetters, nothing_done};

/// Letters by subscription. Subscriptions that do not exist are not in it.
#[derive(Default)]
pub(super) struct Senders {
    /// What was read.
    read: Option<OffsetRange>,
    /// Each subscription's letters, stored as acked offsets from the first one kept.
    by_subscription: BTreeMap<SubscriptionName, Progress>,
}

impl Senders {
    fn note(&mut self, name: SubscriptionName, offset: Offset) {
        let letters = self.by_subscription.entry(name).or_insert_with(nothing_done);
        letters.ack(OffsetRange::one(offset));
    }

    fn drop_below(&mut self, from: Offset, is_known: impl Fn(&SubscriptionName) -> bool) {
        if let Some(read) = &mut self.read {
            read.from = read.from.max(from);
        }
        self.by_subscription.retain(|name, _| is_known(name));
        for letters in self.by_subscription.values_mut() {
            letters.ack(OffsetRange { from: Offset(0), to: from });
        }
    }
}

impl HandledLetters {
    /// What was read.
    pub(crate) fn read(&self) -> Option<OffsetRange> {
        self.state.lock().senders.read
    }

    /// What was read, if it contains a letter of `name`.
    pub(crate) fn read_for(&self, name: &SubscriptionName) -> Option<OffsetRange> {
        let state = self.state.lock();
        state.senders.by_subscription.get(name)?;
        state.senders.read
    }

    /// Notes that all of `read` has been read, with these letters in the new part.
    pub(crate) fn note_read(&self, letters: Vec<(SubscriptionName, Offset)>, read: OffsetRange) {
        let senders = &mut self.state.lock().senders;
        letters.into_iter().for_each(|(name, offset)| senders.note(name, offset));
        senders.read = Some(read);
    }

    /// Forgets what is below `from`, which is no longer kept, and unknown subscriptions.
    pub(crate) fn drop_below(&self, from: Offset, is_known: impl Fn(&SubscriptionName) -> bool) {
        self.state.lock().senders.drop_below(from, is_known);
    }

    /// How many letters of `name` in these ranges were neither replayed nor deleted.
    pub(crate) fn count(&self, name: &SubscriptionName, ranges: Vec<OffsetRange>) -> u64 {
        let state = self.state.lock();
        let Some(letters) = state.senders.by_subscription.get(name) else { return 0 };
        let unhandled = ranges.into_iter().flat_map(|range| state.unhandled_in(range));
        unhandled.map(|range| members(letters, range)).sum()
    }
}

/// How many offsets of `range` are in `set`.
fn members(set: &Progress, range: OffsetRange) -> u64 {
    let others: u64 = set.unacked_in(range).into_iter().map(OffsetRange::len).sum();
    range.len() - others
}
