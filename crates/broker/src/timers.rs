//! Wake-up times of subscriptions: one task sleeps until the earliest, nothing polls.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Weak};

use domain::Moment;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::subscription::Subscription;

/// When which subscription wants to be ticked. A subscription has at most one entry that counts;
/// one that was overtaken by an earlier entry comes up, finds nothing due, and is gone.
#[derive(Default)]
pub(crate) struct Timers {
    entries: Mutex<BinaryHeap<Reverse<Entry>>>,
    earlier: Notify,
}

struct Entry {
    at: Moment,
    subscription: Weak<Subscription>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

impl Timers {
    pub(crate) fn add(&self, at: Moment, subscription: Weak<Subscription>) {
        let mut entries = self.entries.lock();
        let is_first = entries.peek().is_none_or(|Reverse(first)| at < first.at);
        entries.push(Reverse(Entry { at, subscription }));
        if is_first {
            self.earlier.notify_one();
        }
    }

    /// Ticks subscriptions when their time comes, for ever.
    pub(crate) async fn run(&self, clock: Arc<dyn Clock>) {
        loop {
            let earlier = self.earlier.notified();
            let first = self.entries.lock().peek().map(|Reverse(entry)| entry.at);
            match first {
                None => earlier.await,
                Some(at) => {
                    tokio::select! {
                        () = earlier => {}
                        () = clock.sleep_until(at) => self.tick(clock.now()),
                    }
                }
            }
        }
    }

    fn tick(&self, now: Moment) {
        while let Some(subscription) = self.pop_due(now) {
            if let Some(subscription) = subscription.upgrade() {
                subscription.tick();
            }
        }
    }

    fn pop_due(&self, now: Moment) -> Option<Weak<Subscription>> {
        let mut entries = self.entries.lock();
        if entries.peek()?.0.at > now {
            return None;
        }
        entries.pop().map(|Reverse(entry)| entry.subscription)
    }
}
