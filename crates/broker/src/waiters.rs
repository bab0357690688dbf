//! Consumers that wait: for records, for the disk, or for their own flow control to give way.

use std::collections::BTreeMap;
use std::task::Waker;

use domain::delivery::ConsumerId;

/// Who waits on a subscription. Each consumer waits at most once.
#[derive(Default)]
pub(crate) struct Waiters {
    records: Line,
    disk: Line,
    room: BTreeMap<ConsumerId, Waker>,
}

/// Consumers in the order in which they came.
#[derive(Default)]
struct Line {
    by_turn: BTreeMap<u64, (ConsumerId, Waker)>,
    turns: BTreeMap<ConsumerId, u64>,
    next_turn: u64,
}

impl Waiters {
    /// Puts `consumer` at the end of the line for records, or renews its waker in its place.
    pub(crate) fn wait_for_records(&mut self, consumer: ConsumerId, waker: &Waker) {
        self.records.join(consumer, waker);
    }

    /// Lets `consumer` wait until nobody reads from disk.
    pub(crate) fn wait_for_disk(&mut self, consumer: ConsumerId, waker: &Waker) {
        self.disk.join(consumer, waker);
    }

    /// Lets `consumer` wait until something it holds is settled.
    pub(crate) fn wait_for_room(&mut self, consumer: ConsumerId, waker: &Waker) {
        self.room.insert(consumer, waker.clone());
    }

    /// Wakes the first in line for records.
    pub(crate) fn wake_one(&mut self) {
        if let Some(waker) = self.records.pop() {
            waker.wake();
        }
    }

    /// Wakes the first in line for the disk.
    pub(crate) fn wake_one_for_disk(&mut self) {
        if let Some(waker) = self.disk.pop() {
            waker.wake();
        }
    }

    /// Wakes `consumer`, whatever it waits for.
    pub(crate) fn wake(&mut self, consumer: ConsumerId) {
        if let Some(waker) = self.take(consumer) {
            waker.wake();
        }
    }

    /// Wakes everybody: something changed for all of them.
    pub(crate) fn wake_all(&mut self) {
        while let Some(waker) = self.records.pop().or_else(|| self.disk.pop()) {
            waker.wake();
        }
        while let Some((_, waker)) = self.room.pop_first() {
            waker.wake();
        }
    }

    pub(crate) fn remove(&mut self, consumer: ConsumerId) {
        drop(self.take(consumer));
    }

    /// How many would take records if there were any.
    pub(crate) fn in_line(&self) -> usize {
        self.records.turns.len() + self.disk.turns.len()
    }

    fn take(&mut self, consumer: ConsumerId) -> Option<Waker> {
        let waker = self.records.take(consumer).or_else(|| self.disk.take(consumer));
        waker.or_else(|| self.room.remove(&consumer))
    }
}

impl Line {
    fn join(&mut self, consumer: ConsumerId, waker: &Waker) {
        let turn = *self.turns.entry(consumer).or_insert(self.next_turn);
        self.next_turn = self.next_turn.max(turn + 1);
        self.by_turn.insert(turn, (consumer, waker.clone()));
    }

    fn pop(&mut self) -> Option<Waker> {
        let (_, (consumer, waker)) = self.by_turn.pop_first()?;
        self.turns.remove(&consumer);
        Some(waker)
    }

    fn take(&mut self, consumer: ConsumerId) -> Option<Waker> {
        let turn = self.turns.remove(&consumer)?;
        self.by_turn.remove(&turn).map(|(_, waker)| waker)
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

    fn counts() -> (Vec<Arc<Count>>, impl Fn() -> Vec<usize>) {
        let counts: Vec<_> = (0..2).map(|_| Arc::new(Count::default())).collect();
        let read = counts.clone();
        (counts, move || read.iter().map(|count| count.0.load(Ordering::SeqCst)).collect())
    }

    #[test]
    fn the_first_in_line_is_woken_first_and_only_once() {
        let (counts, woken) = counts();
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
        let (counts, woken) = counts();
        let mut waiters = Waiters::default();
        waiters.wait_for_room(ConsumerId(1), &Arc::clone(&counts[0]).into());
        waiters.wake_one();
        waiters.wake(ConsumerId(2));
        assert_eq!(woken(), [0, 0]);
        waiters.wake(ConsumerId(1));
        assert_eq!(woken(), [1, 0]);
    }

    #[test]
    fn a_consumer_is_found_wherever_it_waits() {
        let (counts, woken) = counts();
        let mut waiters = Waiters::default();
        waiters.wait_for_records(ConsumerId(1), &Arc::clone(&counts[0]).into());
        waiters.wait_for_disk(ConsumerId(2), &Arc::clone(&counts[1]).into());
        waiters.wake(ConsumerId(2));
        assert_eq!(woken(), [0, 1]);
        waiters.wake(ConsumerId(1));
        assert_eq!((woken(), waiters.in_line()), (vec![1, 1], 0));
    }

    #[test]
    fn records_do_not_wake_who_waits_for_the_disk() {
        let (counts, woken) = counts();
        let mut waiters = Waiters::default();
        waiters.wait_for_disk(ConsumerId(1), &Arc::clone(&counts[0]).into());
        waiters.wake_one();
        assert_eq!(woken(), [0, 0]);
        waiters.wake_one_for_disk();
        assert_eq!(woken(), [1, 0]);
    }
}
