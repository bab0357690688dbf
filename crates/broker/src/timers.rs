//! Wake-up times of subscriptions: one task sleeps until the earliest, nothing polls.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Weak};

use clock::Clock;
use domain::Moment;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// When which subscription wants to be ticked. A subscription has at most one entry that counts;
/// one that was overtaken by an earlier entry comes up, finds nothing due, and is gone.
pub(crate) struct Timers<T> {
    entries: Mutex<BinaryHeap<Reverse<Entry<T>>>>,
    earlier: Notify,
}

struct Entry<T> {
    at: Moment,
    subscription: Weak<T>,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self { entries: Mutex::default(), earlier: Notify::new() }
    }
}

impl<T> Timers<T> {
    pub(crate) fn add(&self, at: Moment, subscription: Weak<T>) {
        let mut entries = self.entries.lock();
        let is_first = entries.peek().is_none_or(|Reverse(first)| at < first.at);
        entries.push(Reverse(Entry { at, subscription }));
        if is_first {
            self.earlier.notify_one();
        }
    }

    /// Calls `tick` with each subscription when its time comes, forever.
    pub(crate) async fn run(&self, clock: &dyn Clock, tick: impl Fn(&Arc<T>)) {
        loop {
            let earlier = self.earlier.notified();
            let first = self.entries.lock().peek().map(|Reverse(entry)| entry.at);
            match first {
                None => earlier.await,
                Some(at) => {
                    tokio::select! {
                        biased;
                        () = clock.sleep_until(at) => self.tick_due(clock.now(), &tick),
                        () = earlier => {}
                    }
                }
            }
        }
    }

    fn tick_due(&self, now: Moment, tick: &impl Fn(&Arc<T>)) {
        while let Some(subscription) = self.pop_due(now) {
            if let Some(subscription) = subscription.upgrade() {
                tick(&subscription);
            }
        }
    }

    fn pop_due(&self, now: Moment) -> Option<Weak<T>> {
        let mut entries = self.entries.lock();
        if entries.peek()?.0.at > now {
            return None;
        }
        entries.pop().map(|Reverse(entry)| entry.subscription)
    }
}
