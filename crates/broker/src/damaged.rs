//! Unreadable records that were found.

use std::collections::BTreeSet;

use domain::{Offset, TopicId};
use parking_lot::Mutex;

/// Maximum number of records remembered.
const REMEMBERED_MAX: usize = 1_000;

/// Damaged records since the start, each counted once.
#[derive(Default)]
pub(crate) struct Damaged(Mutex<BTreeSet<(TopicId, Offset)>>);

impl Damaged {
    pub(crate) fn note(&self, topic: TopicId, offsets: &[Offset]) {
        if offsets.is_empty() {
            return;
        }
        let mut known = self.0.lock();
        let room = REMEMBERED_MAX.saturating_sub(known.len());
        known.extend(offsets.iter().take(room).map(|&offset| (topic, offset)));
    }

    /// How many there are, and one of them.
    pub(crate) fn seen(&self) -> Option<(usize, TopicId, Offset)> {
        let known = self.0.lock();
        known.first().map(|&(topic, offset)| (known.len(), topic, offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_counted_once_and_few_are_remembered() {
        let damaged = Damaged::default();
        damaged.note(TopicId(1), &[]);
        assert_eq!(damaged.seen(), None);
        for _ in 0..3 {
            damaged.note(TopicId(1), &[Offset(7), Offset(8)]);
        }
        assert_eq!(damaged.seen(), Some((2, TopicId(1), Offset(7))));
        let many: Vec<_> = (0..5_000).map(Offset).collect();
        damaged.note(TopicId(2), &many);
        assert_eq!(damaged.seen().map(|seen| seen.0), Some(REMEMBERED_MAX));
    }
}
