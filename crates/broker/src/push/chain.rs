//! Which message of a lane was acked last, so that a receiver can verify the order.

use std::collections::HashMap;
use std::sync::Arc;

use domain::Offset;

use super::envelope::Link;

/// Minimum number of lanes remembered; for others the header is omitted.
const LANES_MAX: usize = 10_000;

/// The last acked message of each recently used lane.
#[derive(Default)]
pub(crate) struct Chains {
    recent: HashMap<Arc<str>, Offset>,
    /// The previous `recent`; dropped when `recent` is full.
    older: HashMap<Arc<str>, Offset>,
}

impl Chains {
    /// The lane with this key, and its last acked message if still known.
    pub(crate) fn find(&self, key: &str) -> (Arc<str>, Option<Offset>) {
        let known = self.recent.get_key_value(key).or_else(|| self.older.get_key_value(key));
        match known {
            Some((lane, last)) => (Arc::clone(lane), Some(*last)),
            None => (key.into(), None),
        }
    }

    /// The positions of the messages of one request in their lanes, given their lanes and offsets.
    /// Empty if all are in one lane: then each follows the one before it.
    pub(crate) fn links<'lane>(
        &self,
        messages: impl Iterator<Item = (Option<&'lane str>, Offset)> + Clone,
    ) -> Vec<Link> {
        let first = messages.clone().next().map(|(lane, _)| lane);
        if messages.clone().all(|(lane, _)| Some(lane) == first) {
            return Vec::new();
        }
        let mut sent: HashMap<&str, Offset> = HashMap::new();
        let mut links = Vec::new();
        for (lane, offset) in messages {
            links.push(match lane {
                None => Link::Free,
                Some(lane) => {
                    let before = sent.insert(lane, offset).or_else(|| self.find(lane).1);
                    before.map_or(Link::First, Link::After)
                }
            });
        }
        links
    }

    /// `offset` of `lane` was acked.
    pub(crate) fn note(&mut self, lane: &Arc<str>, offset: Offset) {
        if let Some(last) = self.recent.get_mut(lane) {
            *last = offset;
            return;
        }
        if self.recent.len() >= LANES_MAX {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(Arc::clone(lane), offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_several_lanes_says_for_each_message_which_one_was_before() {
        let mut chains = Chains::default();
        chains.note(&"a".into(), Offset(1));
        let of = |lane: &'static str, offset| (Some(lane), Offset(offset));
        let mixed = [of("b", 3), of("a", 4), (None, Offset(5)), of("b", 6), of("a", 7)];
        let expected = [
            Link::First,
            Link::After(Offset(1)),
            Link::Free,
            Link::After(Offset(3)),
            Link::After(Offset(4)),
        ];
        assert_eq!(chains.links(mixed.iter().copied()), expected);
        for one_lane in [&[of("a", 4), of("a", 7)][..], &[(None, Offset(5)); 2], &[]] {
            assert_eq!(chains.links(one_lane.iter().copied()), []);
        }
    }

    #[test]
    fn the_lanes_used_last_are_remembered() {
        let mut chains = Chains::default();
        assert_eq!(chains.find("a").1, None);
        for offset in 0..LANES_MAX as u64 + 1 {
            chains.note(&format!("lane {offset}").into(), Offset(offset));
        }
        assert_eq!(chains.find("lane 0").1, Some(Offset(0)));
        chains.note(&"lane 0".into(), Offset(77));
        assert_eq!(chains.find("lane 0").1, Some(Offset(77)));
        for offset in 0..2 * LANES_MAX as u64 {
            chains.note(&format!("other {offset}").into(), Offset(offset));
        }
        assert_eq!(chains.find("lane 0").1, None);
        assert!(chains.recent.len() + chains.older.len() <= 2 * LANES_MAX);
    }
}
