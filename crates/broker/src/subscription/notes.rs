//! What subscriptions leave for the chores.

use std::sync::Arc;

use super::Subscription;
use super::jobs::Jobs;
use crate::changed::{Changed, ChangedList};
use crate::index::Index;
use crate::timers::Timers;

/// Who is to be ticked, saved, told of room or relieved of a record.
pub(crate) struct Notes {
    pub(crate) timers: Timers<Subscription>,
    pub(crate) changed: ChangedList<Subscription>,
    pub(crate) index: Index<Subscription>,
    pub(crate) given_up: Jobs,
}

impl Notes {
    pub(crate) fn new(changed: Arc<Changed>) -> Self {
        Self {
            timers: Timers::default(),
            changed: ChangedList::new(changed),
            index: Index::default(),
            given_up: Jobs::open(),
        }
    }
}
