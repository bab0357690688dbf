//! A subscription looked at from outside. Nothing changes by it, not even when it was last used.

use domain::delivery::{RecordView, Waits};
use domain::{Offset, OffsetRange, Record};

use super::{LOOKED_UP_AT_ONCE, Subscription};

impl Subscription {
    /// The offsets inside `range` that are not settled, ascending and disjoint.
    pub(crate) fn unsettled_in(&self, range: OffsetRange) -> Vec<OffsetRange> {
        let state = self.state.lock();
        if range.is_empty() || state.is_deleted || state.settings.detached {
            return Vec::new();
        }
        state.delivery.progress().unacked_in(range)
    }

    /// The lowest offset from `from` on that is not settled.
    pub(crate) fn next_unsettled(&self, from: Offset) -> Offset {
        self.state.lock().delivery.progress().next_unacked(from)
    }

    /// How each record stands; `None` where it is settled or not meant for this subscription.
    pub(crate) fn view_records(&self, records: &[Record]) -> Vec<Option<RecordView>> {
        let now = self.runtime.now();
        let own = self.settings().message_retention;
        let since = self.topic.leasable_since(self.runtime.retention_at(now), own);
        let mut views = Vec::with_capacity(records.len());
        for some in records.chunks(LOOKED_UP_AT_ONCE) {
            let state = self.state.lock();
            let view = |record: &Record| {
                let is_kept = record.publish_time >= since && !state.settings.detached;
                state.delivery.view_record(now, record).filter(|_| is_kept)
            };
            views.extend(some.iter().map(view));
        }
        views
    }

    /// What it waits for.
    pub(crate) fn waits(&self) -> Waits {
        let now = self.runtime.now();
        self.state.lock().delivery.waits(now)
    }

    /// How many records are known to wait.
    pub(crate) fn indexed(&self) -> usize {
        self.state.lock().delivery.indexed()
    }

    /// How many messages are not settled. Gaps, and messages that its filter will turn out to
    /// leave out, count until they are read; dead letters that were handled do not.
    pub fn backlog(&self) -> u64 {
        self.open().count
    }

    /// What waits for its consumers. On a dead letter topic that is not what an operator has
    /// replayed or deleted there: it can still be read, but nobody needs to be told of it.
    pub(super) fn open(&self) -> Open {
        let end = self.runtime.log.end(self.topic.id());
        let (first, count) = {
            let state = self.state.lock();
            let is_detached = state.settings.detached || state.is_deleted;
            let count = if is_detached { 0 } else { state.delivery.backlog(end) };
            (state.delivery.progress().cursor(), count)
        };
        if count == 0 || !self.topic.is_dead_letter() || self.topic.letters().ids().is_none() {
            return Open { first, count };
        }
        // One lock after the other: whoever replays wakes others while it holds the letters' own.
        let unsettled = self.unsettled_in(OffsetRange { from: first, to: end });
        let open = self.topic.letters().unhandled(unsettled);
        let first = open.first().map_or(first, |range| range.from);
        Open { first, count: open.into_iter().map(OffsetRange::len).sum() }
    }
}

/// What waits for the consumers of a subscription.
pub(super) struct Open {
    /// The lowest offset, if there is any.
    pub(super) first: Offset,
    pub(super) count: u64,
}
