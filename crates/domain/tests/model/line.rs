//! Who waits and who is awake, by the broker's rules: one in line is woken for what anybody may
//! have, a consumer without room only by its name.

use std::collections::{BTreeSet, VecDeque};

#[derive(Default)]
pub(crate) struct Line {
    /// Told that there is nothing for them.
    line: VecDeque<usize>,
    /// Told that they hold all they may.
    full: BTreeSet<usize>,
    /// About to ask.
    awake: VecDeque<usize>,
}

impl Line {
    pub(crate) fn wait_for_records(&mut self, consumer: usize) {
        self.remove(consumer);
        self.line.push_back(consumer);
    }

    pub(crate) fn wait_for_room(&mut self, consumer: usize) {
        self.remove(consumer);
        self.full.insert(consumer);
    }

    /// It will ask by itself.
    pub(crate) fn stay_awake(&mut self, consumer: usize) {
        self.remove(consumer);
        self.awake.push_back(consumer);
    }

    pub(crate) fn wake_one(&mut self) {
        self.awake.extend(self.line.pop_front());
    }

    pub(crate) fn wake(&mut self, consumer: usize) {
        if self.line.contains(&consumer) || self.full.contains(&consumer) {
            self.stay_awake(consumer);
        }
    }

    pub(crate) fn wake_all(&mut self) {
        self.awake.extend(self.line.drain(..));
        self.awake.append(&mut std::mem::take(&mut self.full).into_iter().collect());
    }

    pub(crate) fn remove(&mut self, consumer: usize) {
        self.line.retain(|waiting| *waiting != consumer);
        self.full.remove(&consumer);
        self.awake.retain(|awake| *awake != consumer);
    }

    pub(crate) fn next_awake(&mut self) -> Option<usize> {
        self.awake.pop_front()
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.awake.is_empty()
    }

    pub(crate) fn in_line(&self) -> impl Iterator<Item = usize> {
        self.line.iter().copied()
    }

    pub(crate) fn without_room(&self) -> impl Iterator<Item = usize> {
        self.full.iter().copied()
    }
}
