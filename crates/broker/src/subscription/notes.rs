//! What subscriptions leave for the chores.

use std::sync::Arc;

use super::Subscription;
use super::jobs::Jobs;
use crate::changed::{Changed, ChangedList};
use crate::remembered::Remembered;
use crate::timers::Timers;

/// Who is to be ticked, saved, told of room or relieved of a record.
pub(crate) struct Notes {
    pub(crate) timers: Timers<Subscription>,
    pub(crate) changed: ChangedList<Subscription>,
    /// Shared by all shards.
    pub(crate) remembered: Arc<Remembered<Subscription>>,
    pub(crate) given_up: Jobs,
}

impl Notes {
    pub(crate) fn new(changed: Arc<Changed>, remembered: Arc<Remembered<Subscription>>) -> Self {
        Self {
            timers: Timers::default(),
            changed: ChangedList::new(changed),
            remembered,
            given_up: Jobs::open(),
        }
    }
}
