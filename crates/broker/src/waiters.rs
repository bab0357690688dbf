//! Consumers that wait: for records, for the disk, or for room in their own flow control.
//!
//! A consumer that is woken need not ask: a stream whose client stops reading is never polled
//! again. So every consumer called out of the queue is remembered until it asks. The owner of the
//! waiters checks on them now and then (`check`), and those that did not ask are dropped: others in
//! the queue are called in their place, twice as many each time.

use std::collections::BTreeMap;
use std::task::Waker;

use domain::delivery::ConsumerId;

/// Who waits on a subscription. Each consumer waits at most once.
#[derive(Default)]
pub(crate) struct Waiters {
    records: Queue,
    disk: Queue,
    room: BTreeMap<ConsumerId, Waker>,
    /// Called, and have not asked since.
    called: Vec<Noted>,
    /// Called at the second check from now on: they gave back the available records themselves.
    owed: Vec<Noted>,
    /// How many did not ask when called, since one last did.
    silent: usize,
}

/// Consumers in order of arrival.
#[derive(Default)]
struct Queue {
    by_turn: BTreeMap<u64, (ConsumerId, Waker)>,
    turns: BTreeMap<ConsumerId, u64>,
    next_turn: u64,
}

/// A consumer, and whether a check has seen it.
struct Noted {
    consumer: ConsumerId,
    is_seen: bool,
}

impl Waiters {
    /// Puts `consumer` at the end of the queue for records, or renews its waker in its place.
    pub(crate) fn wait_for_records(&mut self, consumer: ConsumerId, waker: &Waker) {
        self.records.join(consumer, waker);
    }

    /// Makes `consumer` wait until a disk read is done.
    pub(crate) fn wait_for_disk(&mut self, consumer: ConsumerId, waker: &Waker) {
        self.disk.join(consumer, waker);
    }

    /// Makes `consumer` wait until something it holds is settled.
    pub(crate) fn wait_for_room(&mut self, consumer: ConsumerId, waker: &Waker) {
        self.room.insert(consumer, waker.clone());
    }

    /// Calls the first in the queue for records.
    pub(crate) fn wake_one(&mut self) {
        if let Some((consumer, waker)) = self.records.pop() {
            self.expect(consumer);
            waker.wake();
        }
    }

    /// Calls the first in the queue for the disk.
    pub(crate) fn wake_one_for_disk(&mut self) {
        if let Some((consumer, waker)) = self.disk.pop() {
            self.expect(consumer);
            waker.wake();
        }
    }

    /// Calls the first in a queue, whatever it waits for.
    pub(crate) fn wake_any(&mut self) {
        match self.disk.turns.is_empty() {
            true => self.wake_one(),
            false => self.wake_one_for_disk(),
        }
    }

    /// Calls a consumer other than `giver`, which gave back what is available. If nobody else is in
    /// the queue `giver` itself is called, but not at once: clients that shut down give back what
    /// they hold as their last act, and would take it with them.
    pub(crate) fn wake_another(&mut self, giver: ConsumerId) {
        match self.records.first_but(giver) {
            Some(other) => self.call(other),
            None => self.owe(giver),
        }
    }

    /// Wakes `consumer`, whatever it waits for.
    pub(crate) fn wake(&mut self, consumer: ConsumerId) {
        if let Some(waker) = self.take(consumer) {
            waker.wake();
        }
    }

    /// Wakes `consumer`, if it waits, at the second check from now.
    pub(crate) fn owe(&mut self, consumer: ConsumerId) {
        let waits = self.room.contains_key(&consumer) || self.records.has(consumer);
        if waits && !self.owed.iter().any(|owed| owed.consumer == consumer) {
            self.owed.push(Noted { consumer, is_seen: false });
        }
    }

    /// Wakes `consumer`, whatever it waits for, and expects it to ask.
    pub(crate) fn call(&mut self, consumer: ConsumerId) {
        self.expect(consumer);
        self.wake(consumer);
    }

    /// `consumer` is about to ask: if it does not, another is called in its place.
    pub(crate) fn expect(&mut self, consumer: ConsumerId) {
        if !self.is_called(consumer) {
            self.called.push(Noted { consumer, is_seen: false });
        }
    }

    /// Wakes everyone: something changed for all of them.
    pub(crate) fn wake_all(&mut self) {
        while let Some((_, waker)) = self.records.pop().or_else(|| self.disk.pop()) {
            waker.wake();
        }
        while let Some((_, waker)) = self.room.pop_first() {
            waker.wake();
        }
    }

    /// `consumer` asks: it no longer waits, and counts as having answered its call.
    pub(crate) fn answer(&mut self, consumer: ConsumerId) {
        if self.is_called(consumer) {
            self.silent = 0;
        }
        self.remove(consumer);
    }

    pub(crate) fn remove(&mut self, consumer: ConsumerId) {
        drop(self.take(consumer));
        self.called.retain(|called| called.consumer != consumer);
        self.owed.retain(|owed| owed.consumer != consumer);
    }

    /// `consumer` no longer wants anything from disk.
    pub(crate) fn leave_disk(&mut self, consumer: ConsumerId) {
        if self.disk.take(consumer).is_some() {
            self.called.retain(|called| called.consumer != consumer);
        }
    }

    /// How many would take records if there were any.
    pub(crate) fn in_line(&self) -> usize {
        self.records.turns.len() + self.disk.turns.len()
    }

    /// Whether a consumer other than `consumer` would take records if there were any.
    pub(crate) fn has_others_in_line(&self, consumer: ConsumerId) -> bool {
        let own = usize::from(self.records.has(consumer)) + usize::from(self.disk.has(consumer));
        self.in_line() > own
    }

    /// Whether someone depends on a `check` soon.
    pub(crate) fn needs_check(&self) -> bool {
        !self.owed.is_empty() || (!self.called.is_empty() && self.in_line() > 0)
    }

    /// Drops those that were called before the last check and have not asked since, and calls
    /// others in their place. Returns those it dropped.
    pub(crate) fn check(&mut self) -> Vec<ConsumerId> {
        for owed in seen_before(&mut self.owed) {
            self.call(owed);
        }
        let given_up = seen_before(&mut self.called);
        if !given_up.is_empty() {
            self.silent = self.silent.saturating_add(given_up.len());
            (0..self.silent.min(self.in_line())).for_each(|_| self.wake_any());
        }
        given_up
    }

    fn is_called(&self, consumer: ConsumerId) -> bool {
        self.called.iter().any(|called| called.consumer == consumer)
    }

    fn take(&mut self, consumer: ConsumerId) -> Option<Waker> {
        let waker = self.records.take(consumer).or_else(|| self.disk.take(consumer));
        waker.or_else(|| self.room.remove(&consumer))
    }
}

/// Removes those that the previous check has seen; the others are seen now.
fn seen_before(noted: &mut Vec<Noted>) -> Vec<ConsumerId> {
    let seen = noted.iter().filter(|noted| noted.is_seen).map(|noted| noted.consumer).collect();
    noted.retain(|noted| !noted.is_seen);
    noted.iter_mut().for_each(|noted| noted.is_seen = true);
    seen
}

impl Queue {
    fn join(&mut self, consumer: ConsumerId, waker: &Waker) {
        let turn = *self.turns.entry(consumer).or_insert(self.next_turn);
        self.next_turn = self.next_turn.max(turn + 1);
        self.by_turn.insert(turn, (consumer, waker.clone()));
    }

    fn has(&self, consumer: ConsumerId) -> bool {
        self.turns.contains_key(&consumer)
    }

    fn first_but(&self, consumer: ConsumerId) -> Option<ConsumerId> {
        let mut in_line = self.by_turn.values().map(|(consumer, _)| *consumer);
        in_line.find(|&other| other != consumer)
    }

    fn pop(&mut self) -> Option<(ConsumerId, Waker)> {
        let (_, (consumer, waker)) = self.by_turn.pop_first()?;
        self.turns.remove(&consumer);
        Some((consumer, waker))
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

    /// Waiters with `count` in the queue, and how often each was woken.
    fn line(count: u64) -> (Waiters, impl Fn() -> Vec<usize>) {
        let counts: Vec<_> = (0..count).map(|_| Arc::new(Count::default())).collect();
        let mut waiters = Waiters::default();
        for (id, count) in (0..).zip(&counts) {
            waiters.wait_for_records(ConsumerId(id), &Arc::clone(count).into());
        }
        (waiters, move || counts.iter().map(|count| count.0.load(Ordering::SeqCst)).collect())
    }

    #[test]
    fn another_is_called_in_place_of_one_that_does_not_ask() {
        let (mut waiters, woken) = line(2);
        assert!(!waiters.needs_check(), "nobody was called");
        waiters.wake_one();
        assert!(waiters.needs_check());
        assert_eq!((waiters.check(), woken()), (vec![], vec![1, 0]), "it has had no time yet");
        assert_eq!((waiters.check(), woken()), (vec![ConsumerId(0)], vec![1, 1]));
        assert!(!waiters.needs_check(), "there is nobody left to call");
    }

    #[test]
    fn one_that_asks_is_not_passed_over() {
        let (mut waiters, woken) = line(2);
        waiters.wake_one();
        waiters.answer(ConsumerId(0));
        assert!(!waiters.needs_check());
        assert_eq!((waiters.check(), waiters.check(), woken()), (vec![], vec![], vec![1, 0]));
    }

    #[test]
    fn one_that_looks_on_and_stays_away_is_passed_over() {
        let (mut waiters, woken) = line(1);
        waiters.expect(ConsumerId(7));
        waiters.check();
        assert_eq!((waiters.check(), woken()), (vec![ConsumerId(7)], vec![1]));
    }

    #[test]
    fn one_that_is_gone_is_not_waited_for() {
        let (mut waiters, _) = line(2);
        waiters.wake_one();
        waiters.remove(ConsumerId(0));
        assert!(!waiters.needs_check());
    }

    #[test]
    fn a_thousand_that_do_not_ask_are_passed_over_in_a_few_checks() {
        let (mut waiters, woken) = line(1_000);
        waiters.wake_one();
        let mut checks = 0;
        while woken().last() == Some(&0) {
            waiters.check();
            checks += 1;
        }
        assert!(checks <= 2 * 10 + 2, "{checks} checks");
        assert_eq!(woken().iter().max(), Some(&1), "each was called once");
        waiters.answer(ConsumerId(999));
        waiters.wait_for_records(ConsumerId(1_000), &Arc::new(Count::default()).into());
        waiters.wait_for_records(ConsumerId(1_001), &Arc::new(Count::default()).into());
        waiters.wake_one();
        waiters.check();
        waiters.check();
        assert_eq!(waiters.in_line(), 0, "one more for one that stayed away");
    }

    #[test]
    fn what_a_consumer_gave_back_is_for_another_first() {
        let (mut waiters, woken) = line(2);
        waiters.wake_another(ConsumerId(0));
        assert_eq!(woken(), [0, 1]);
        waiters.answer(ConsumerId(1));
        waiters.wake_another(ConsumerId(0));
        assert_eq!(woken(), [0, 1], "not at once");
        waiters.check();
        assert_eq!(woken(), [0, 1]);
        waiters.check();
        assert_eq!(woken(), [1, 1], "there is nobody else");
        waiters.answer(ConsumerId(0));
        assert!(!waiters.needs_check());
    }

    #[test]
    fn a_full_consumer_that_gave_something_back_is_woken_a_little_later() {
        let (counts, woken) = counts();
        let mut waiters = Waiters::default();
        waiters.owe(ConsumerId(1));
        assert!(!waiters.needs_check(), "it does not wait");
        waiters.wait_for_room(ConsumerId(1), &Arc::clone(&counts[0]).into());
        waiters.owe(ConsumerId(1));
        assert_eq!(woken(), [0, 0]);
        waiters.check();
        waiters.check();
        assert_eq!(woken(), [1, 0]);
    }
}
