//! Consumers that wait: in line for records, or for their own flow control to give way.

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;

use domain::delivery::ConsumerId;

/// Who waits on a subscription. Each consumer waits at most once.
#[derive(Default)]
pub(crate) struct Waiters {
    line: VecDeque<(ConsumerId, Waker)>,
    full: BTreeMap<ConsumerId, Waker>,
}

impl Waiters {
    /// Puts `consumer` at the end of the line for records, or renews its waker in its place.
    pub(crate) fn wait_for_records(&mut self, consumer: ConsumerId, waker: &Waker) {
        match self.line.iter_mut().find(|(waiting, _)| *waiting == consumer) {
            Some((_, kept)) => kept.clone_from(waker),
            None => self.line.push_back((consumer, waker.clone())),
        }
    }

    /// Lets `consumer` wait until something it holds is settled.
    pub(crate) fn wait_for_room(&mut self, consumer: ConsumerId, waker: &Waker) {
        self.full.insert(consumer, waker.clone());
    }

    /// Wakes the first in line.
    pub(crate) fn wake_one(&mut self) {
        if let Some((_, waker)) = self.line.pop_front() {
            waker.wake();
        }
    }

    /// Wakes `consumer` if it waits for room.
    pub(crate) fn wake_full(&mut self, consumer: ConsumerId) {
        if let Some(waker) = self.full.remove(&consumer) {
            waker.wake();
        }
    }

    /// Wakes everybody: something changed for all of them.
    pub(crate) fn wake_all(&mut self) {
        while !self.line.is_empty() {
            self.wake_one();
        }
        while let Some((_, waker)) = self.full.pop_first() {
            waker.wake();
        }
    }

    pub(crate) fn remove(&mut self, consumer: ConsumerId) {
        self.line.retain(|(waiting, _)| *waiting != consumer);
        self.full.remove(&consumer);
    }

    /// How many are in line for records.
    pub(crate) fn in_line(&self) -> usize {
        self.line.len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn the_first_in_line_is_woken_first_and_only_once() {
        let counts: Vec<_> = (0..2).map(|_| Arc::new(Count::default())).collect();
        let woken = || counts.iter().map(|c| c.0.load(Ordering::SeqCst)).collect::<Vec<_>>();
        let mut waiters = Waiters::default();
        for (id, count) in (0..).zip(&counts) {
            let waker = Arc::clone(count).into();
            waiters.wait_for_records(ConsumerId(id), &waker);
            waiters.wait_for_records(ConsumerId(id), &waker);
        }
        assert_eq!(waiters.in_line(), 2);
        waiters.wake_one();
        assert_eq!(woken(), [1, 0]);
        waiters.wake_one();
        waiters.wake_one();
        assert_eq!(woken(), [1, 1]);
    }

    #[test]
    fn a_full_consumer_is_not_woken_by_records() {
        let count = Arc::new(Count::default());
        let mut waiters = Waiters::default();
        waiters.wait_for_room(ConsumerId(1), &Arc::clone(&count).into());
        waiters.wake_one();
        waiters.wake_full(ConsumerId(2));
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
        waiters.wake_full(ConsumerId(1));
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }
}
