//! The latest changes of definitions, for those who follow them.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Change, Changes};
use crate::{Error, Result};

/// How many changes are remembered one by one.
const CHANGES_MAX: usize = 1_024;

/// The latest changes, in their order. Whoever is further behind has to list everything.
#[derive(Debug)]
pub(crate) struct Recent {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    changes: VecDeque<(u64, Change)>,
    /// Changes up to this serial number are not known one by one.
    forgotten: u64,
    /// The serial number of the last change.
    last: u64,
    /// Why there will be no more.
    ended: Option<Error>,
}

impl Recent {
    /// Knows of no change up to `serial`.
    pub(crate) fn new(serial: u64) -> Self {
        let changes = VecDeque::new();
        let state = State { changes, forgotten: serial, last: serial, ended: None };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    /// The serial number of the last change.
    pub(crate) fn serial(&self) -> u64 {
        self.state.lock().last
    }

    /// Notes a change that was made; serial numbers ascend.
    pub(crate) fn note(&self, serial: u64, change: Change) {
        let mut state = self.state.lock();
        state.last = serial;
        state.changes.push_back((serial, change));
        if state.changes.len() > CHANGES_MAX
            && let Some((oldest, _)) = state.changes.pop_front()
        {
            state.forgotten = oldest;
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Ends everybody's changes.
    pub(crate) fn end(&self, why: Error) {
        self.state.lock().ended = Some(why);
        self.changed.notify_waiters();
    }

    /// Every change with a serial number above `after`.
    pub(crate) fn changes(self: &Arc<Self>, after: u64) -> Changes {
        let start = Some((Arc::clone(self), after));
        let next = |at: Option<(Arc<Self>, u64)>| async move {
            let (recent, after) = at?;
            let found = recent.next(after).await;
            let at = found.as_ref().ok().map(|(serial, _)| (recent, *serial));
            Some((found, at))
        };
        stream::unfold(start, next).boxed()
    }

    async fn next(&self, after: u64) -> Result<(u64, Change)> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = self.state.lock().after(after) {
                return found;
            }
            changed.await;
        }
    }
}

impl State {
    /// What comes after that serial number; `None` = nothing yet.
    fn after(&self, after: u64) -> Option<Result<(u64, Change)>> {
        if let Some(error) = &self.ended {
            return Some(Err(error.clone()));
        }
        if after < self.forgotten {
            return Some(Ok((self.last, Change::Resync)));
        }
        let at = self.changes.partition_point(|(serial, _)| *serial <= after);
        self.changes.get(at).cloned().map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::Kind;

    fn deleted(id: u64) -> Change {
        Change::Deleted { kind: Kind::Topic, name: id.to_string(), id }
    }

    fn next(changes: &mut Changes) -> Option<Option<(u64, Change)>> {
        changes.next().now_or_never().map(|next| next.and_then(Result::ok))
    }

    #[test]
    fn changes_come_once_and_in_order_and_more_is_waited_for() {
        let recent = Arc::new(Recent::new(10));
        recent.note(12, deleted(1));
        let mut changes = recent.changes(10);
        recent.note(13, deleted(2));
        assert_eq!(next(&mut changes), Some(Some((12, deleted(1)))));
        assert_eq!(next(&mut changes), Some(Some((13, deleted(2)))));
        assert_eq!(next(&mut changes), None);
        recent.note(20, deleted(3));
        assert_eq!(next(&mut changes), Some(Some((20, deleted(3)))));
        assert_eq!(next(&mut recent.changes(12)), Some(Some((13, deleted(2)))));
        assert_eq!(recent.serial(), 20);
        recent.end(Error::NotFound);
        assert_eq!(next(&mut changes), Some(None));
        assert!(changes.next().now_or_never().is_some_and(|end| end.is_none()));
    }

    #[test]
    fn who_is_too_far_behind_begins_anew() {
        let recent = Arc::new(Recent::new(10));
        assert_eq!(next(&mut recent.changes(9)), Some(Some((10, Change::Resync))));
        for serial in 11..=11 + CHANGES_MAX as u64 {
            recent.note(serial, deleted(serial));
        }
        let last = recent.serial();
        let mut changes = recent.changes(10);
        assert_eq!(next(&mut changes), Some(Some((last, Change::Resync))));
        assert_eq!(next(&mut changes), None);
        assert_eq!(next(&mut recent.changes(11)), Some(Some((12, deleted(12)))));
    }
}
