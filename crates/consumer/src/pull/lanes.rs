//! Which messages wait for which: those of one lane are handled one at a time, in order.
//!
//! After a nack the server sends the lane again from there. What it had sent of the lane before
//! it knew of the nack must not be handled, or later messages would overtake the nacked one. Such
//! a message is one that was never seen before; the lane's new beginning is one that was. So a
//! lane that was broken takes nothing until a message comes that it has seen.

use std::collections::{HashMap, HashSet, VecDeque};

/// Broken lanes that are remembered, at most. One that is forgotten takes whatever comes.
const BROKEN_MAX: usize = 10_000;
/// Ids that a broken lane remembers, at most.
const SEEN_MAX: usize = 10_000;

/// The lanes that hold messages, and those that are broken. `T` is a message that waits.
pub(super) struct Lanes<T> {
    lanes: HashMap<String, Lane<T>>,
    broken: Broken,
}

/// A lane with a message that is being handled, and those behind it, with their ids.
struct Lane<T> {
    head: String,
    waiting: VecDeque<(String, T)>,
}

/// Lanes that a nack has broken, by key, with the ids of messages that were given back; the
/// oldest first in `order`, which may name some that are whole again.
#[derive(Default)]
struct Broken {
    seen: HashMap<String, HashSet<String>>,
    order: VecDeque<String>,
}

/// What to do with a message that came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival<T> {
    /// Handle it.
    Start(T),
    /// It waits for those before it.
    Waits,
    /// Give it back: it comes again, behind those before it.
    GiveBack(T),
}

/// What follows when a message of a lane was settled.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<T> {
    /// Handle this one.
    Start(T),
    /// Give these back.
    GiveBack(Vec<T>),
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self { lanes: HashMap::new(), broken: Broken::default() }
    }
}

impl<T> Lanes<T> {
    /// Takes a message of lane `key` that came from the server.
    pub(super) fn arrive(&mut self, key: &str, id: &str, item: T) -> Arrival<T> {
        if !self.broken.takes(key, id) {
            return Arrival::GiveBack(item);
        }
        if let Some(lane) = self.lanes.get_mut(key) {
            lane.waiting.push_back((id.to_owned(), item));
            return Arrival::Waits;
        }
        let lane = Lane { head: id.to_owned(), waiting: VecDeque::new() };
        self.lanes.insert(key.to_owned(), lane);
        Arrival::Start(item)
    }

    /// The message of lane `key` that was handled is acked, or given back.
    pub(super) fn settle(&mut self, key: &str, is_acked: bool) -> Next<T> {
        let Some(mut lane) = self.lanes.remove(key) else { return Next::GiveBack(Vec::new()) };
        if is_acked {
            let Some((id, item)) = lane.waiting.pop_front() else {
                return Next::GiveBack(Vec::new());
            };
            lane.head = id;
            self.lanes.insert(key.to_owned(), lane);
            return Next::Start(item);
        }
        let (ids, items): (Vec<_>, Vec<_>) = lane.waiting.into_iter().unzip();
        self.broken.put(key, std::iter::once(lane.head).chain(ids));
        Next::GiveBack(items)
    }

    /// Takes out all that wait.
    pub(super) fn drain_waiting(&mut self) -> Vec<T> {
        let waiting = self.lanes.values_mut().flat_map(|lane| std::mem::take(&mut lane.waiting));
        waiting.map(|(_, item)| item).collect()
    }
}

impl Broken {
    fn put(&mut self, key: &str, ids: impl Iterator<Item = String>) {
        let seen = self.seen.entry(key.to_owned()).or_default();
        seen.extend(ids.take(SEEN_MAX));
        self.order.push_back(key.to_owned());
        while self.order.len() > BROKEN_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.seen.remove(&oldest);
            }
        }
    }

    /// Whether the lane takes this message; one that it has seen makes it whole again.
    fn takes(&mut self, key: &str, id: &str) -> bool {
        let Some(seen) = self.seen.get_mut(key) else { return true };
        if seen.contains(id) || seen.len() >= SEEN_MAX {
            self.seen.remove(key);
            return true;
        }
        seen.insert(id.to_owned());
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrive(lanes: &mut Lanes<u32>, key: &str, id: u32) -> Arrival<u32> {
        lanes.arrive(key, &id.to_string(), id)
    }

    #[test]
    fn a_lane_goes_one_at_a_time_and_in_order() {
        let mut lanes = Lanes::default();
        assert_eq!(arrive(&mut lanes, "a", 1), Arrival::Start(1));
        assert_eq!(arrive(&mut lanes, "a", 2), Arrival::Waits);
        assert_eq!(arrive(&mut lanes, "a", 3), Arrival::Waits);
        assert_eq!(arrive(&mut lanes, "b", 4), Arrival::Start(4));
        assert_eq!(lanes.settle("a", true), Next::Start(2));
        assert_eq!(lanes.settle("a", true), Next::Start(3));
        assert_eq!(lanes.settle("a", true), Next::GiveBack(vec![]));
        assert_eq!(arrive(&mut lanes, "a", 5), Arrival::Start(5));
    }

    #[test]
    fn a_nack_gives_back_what_waits_and_what_was_on_its_way() {
        let mut lanes = Lanes::default();
        for id in [1, 2, 3] {
            arrive(&mut lanes, "a", id);
        }
        assert_eq!(lanes.settle("a", false), Next::GiveBack(vec![2, 3]));
        assert_eq!(arrive(&mut lanes, "a", 4), Arrival::GiveBack(4), "sent before the nack");
        assert_eq!(arrive(&mut lanes, "b", 9), Arrival::Start(9), "another lane goes on");
        assert_eq!(arrive(&mut lanes, "a", 1), Arrival::Start(1), "the lane begins again");
        assert_eq!(arrive(&mut lanes, "a", 2), Arrival::Waits);
        assert_eq!(arrive(&mut lanes, "a", 5), Arrival::Waits);
    }

    #[test]
    fn a_lane_whose_nacked_message_is_gone_begins_with_the_next_that_was_seen() {
        let mut lanes = Lanes::default();
        arrive(&mut lanes, "a", 1);
        arrive(&mut lanes, "a", 2);
        assert_eq!(lanes.settle("a", false), Next::GiveBack(vec![2]));
        assert_eq!(arrive(&mut lanes, "a", 2), Arrival::Start(2), "1 was dead-lettered");
        assert_eq!(lanes.settle("a", false), Next::GiveBack(vec![]));
        assert_eq!(arrive(&mut lanes, "a", 3), Arrival::GiveBack(3), "2 might still come");
        assert_eq!(arrive(&mut lanes, "a", 3), Arrival::Start(3), "it was dead-lettered too");
    }

    #[test]
    fn what_waits_can_be_taken_out() {
        let mut lanes = Lanes::default();
        for id in [1, 2, 3] {
            arrive(&mut lanes, "a", id);
        }
        assert_eq!(lanes.drain_waiting(), [2, 3]);
        assert_eq!(lanes.settle("a", true), Next::GiveBack(vec![]));
    }

    #[test]
    fn lanes_that_are_broken_for_ever_do_not_pile_up() {
        let mut lanes = Lanes::default();
        for id in 0..=u32::try_from(BROKEN_MAX).unwrap() {
            let key = id.to_string();
            arrive(&mut lanes, &key, id);
            lanes.settle(&key, false);
        }
        assert_eq!(lanes.broken.seen.len(), BROKEN_MAX);
        assert_eq!(arrive(&mut lanes, "0", 77), Arrival::Start(77), "the oldest is forgotten");
    }
}
