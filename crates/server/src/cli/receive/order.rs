//! Whether what arrives is in the order of its lane.

use std::collections::{HashMap, VecDeque};

/// What the headers of a request say: its first message, and the one acked before it in its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) sequence: u64,
    pub(super) previous: Option<u64>,
    pub(super) epoch: Option<u64>,
}

/// Messages of one lane in a request, and where the first of them stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) chain: Chain,
    pub(super) ids: Vec<u64>,
}

/// What is known about the place of a request in its lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is in no lane.
    Free,
    /// The first of its lane that is known here.
    First,
    /// It comes right behind the one acked before.
    InOrder,
    /// It was acked before.
    Repeat,
    /// Why it must not have come.
    Broken(String),
}

impl Verdict {
    /// For programs.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Free => "none",
            Self::First => "first",
            Self::InOrder => "in_order",
            Self::Repeat => "repeat",
            Self::Broken(_) => "broken",
        }
    }

    /// For people; `None` where there is nothing to say.
    pub(super) fn text(&self) -> Option<String> {
        match self {
            Self::Free => None,
            Self::First => Some("first of its lane".to_owned()),
            Self::InOrder => Some("in order".to_owned()),
            Self::Repeat => Some("again".to_owned()),
            Self::Broken(why) => Some(format!("OUT OF ORDER: {why}")),
        }
    }

    pub(super) fn problem(&self) -> Option<String> {
        match self {
            Self::Broken(why) => Some(why.clone()),
            _ => None,
        }
    }
}

/// Acked messages that are remembered.
const REMEMBERED_MAX: usize = 100_000;

/// Follows lanes by their chains alone: which message was acked, and which one came behind it. So
/// it does not need to know what the lanes are.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Acked messages, and the one of their lane that was acked next.
    acked: HashMap<u64, Option<u64>>,
    oldest: VecDeque<u64>,
    /// Messages whose last answer was no ack.
    refused: HashMap<u64, ()>,
}

impl Order {
    /// A request with these pieces, which gets an ack or not. One that is broken is what is said
    /// of the whole.
    pub(super) fn all_arrived(&mut self, pieces: &[Piece], is_acked: bool) -> Verdict {
        let judged = pieces.iter().map(|piece| self.arrived(&piece.chain, &piece.ids, is_acked));
        let judged: Vec<Verdict> = judged.collect();
        let broken = judged.iter().find(|verdict| matches!(verdict, Verdict::Broken(_)));
        broken.or(judged.first()).cloned().unwrap_or(Verdict::Free)
    }

    /// A request with these messages of one lane.
    fn arrived(&mut self, chain: &Chain, ids: &[u64], is_acked: bool) -> Verdict {
        let verdict = self.judge(chain);
        let lone = [chain.sequence];
        let ids = if ids.is_empty() { &lone[..] } else { ids };
        if is_acked {
            self.note_acked(chain.previous, ids);
        } else if verdict != Verdict::Repeat && self.refused.len() < REMEMBERED_MAX {
            self.refused.extend(ids.iter().map(|id| (*id, ())));
        }
        verdict
    }

    fn judge(&self, chain: &Chain) -> Verdict {
        if self.acked.contains_key(&chain.sequence) {
            return Verdict::Repeat;
        }
        let Some(previous) = chain.previous else { return Verdict::First };
        if previous >= chain.sequence {
            return Verdict::Broken(format!("it says it follows {previous}"));
        }
        match self.acked.get(&previous) {
            Some(None) => Verdict::InOrder,
            Some(Some(next)) => Verdict::Broken(format!("{next} was acked after {previous}")),
            None if self.refused.contains_key(&previous) => {
                Verdict::Broken(format!("{previous} before it was not acked here"))
            }
            None => Verdict::First,
        }
    }

    fn note_acked(&mut self, previous: Option<u64>, ids: &[u64]) {
        let mut before = previous;
        for &id in ids {
            if let Some(next) = before.and_then(|before| self.acked.get_mut(&before)) {
                next.get_or_insert(id);
            }
            self.refused.remove(&id);
            if let std::collections::hash_map::Entry::Vacant(place) = self.acked.entry(id) {
                place.insert(None);
                self.oldest.push_back(id);
            }
            before = Some(id);
        }
        while self.oldest.len() > REMEMBERED_MAX {
            if let Some(oldest) = self.oldest.pop_front() {
                self.acked.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(order: &mut Order, sequence: u64, previous: u64, is_acked: bool) -> &'static str {
        let previous = (previous > 0).then_some(previous);
        let chain = Chain { sequence, previous, epoch: Some(1) };
        order.arrived(&chain, &[sequence], is_acked).word()
    }

    #[test]
    fn two_lanes_are_followed_at_once() {
        let mut order = Order::default();
        assert_eq!(take(&mut order, 1, 0, true), "first");
        assert_eq!(take(&mut order, 2, 0, true), "first");
        assert_eq!(take(&mut order, 3, 1, true), "in_order");
        assert_eq!(take(&mut order, 4, 2, true), "in_order");
        assert_eq!(take(&mut order, 4, 2, true), "repeat");
        assert_eq!(take(&mut order, 5, 3, true), "in_order");
    }

    #[test]
    fn a_message_that_overtakes_is_found() {
        let mut order = Order::default();
        take(&mut order, 1, 0, true);
        assert_eq!(take(&mut order, 3, 1, true), "in_order");
        assert_eq!(take(&mut order, 2, 1, true), "broken");
        assert_eq!(take(&mut order, 7, 9, true), "broken");
        assert_eq!(take(&mut order, 20, 0, false), "first");
        assert_eq!(take(&mut order, 21, 20, true), "broken");
    }

    #[test]
    fn a_retry_is_in_order_and_so_is_what_follows_one_given_up() {
        let mut order = Order::default();
        take(&mut order, 1, 0, true);
        assert_eq!(take(&mut order, 2, 1, false), "in_order");
        assert_eq!(take(&mut order, 2, 1, false), "in_order");
        assert_eq!(take(&mut order, 3, 1, true), "in_order");
    }

    #[test]
    fn one_broken_piece_breaks_the_request() {
        let mut order = Order::default();
        let piece = |sequence, previous| Piece {
            chain: Chain { sequence, previous, epoch: None },
            ids: vec![sequence],
        };
        let good = [piece(1, None), piece(2, None)];
        assert_eq!(order.all_arrived(&good, true), Verdict::First);
        assert_eq!(
            order.all_arrived(&[piece(3, Some(1)), piece(4, Some(2))], true).word(),
            "in_order"
        );
        assert_eq!(
            order.all_arrived(&[piece(5, Some(3)), piece(6, Some(2))], true).word(),
            "broken"
        );
        assert_eq!(order.all_arrived(&[], true), Verdict::Free);
    }

    #[test]
    fn a_batch_is_a_piece_of_its_chain() {
        let mut order = Order::default();
        let chain = Chain { sequence: 1, previous: None, epoch: None };
        assert_eq!(order.arrived(&chain, &[1, 2, 3], true), Verdict::First);
        assert_eq!(take(&mut order, 4, 3, true), "in_order");
        assert_eq!(take(&mut order, 5, 2, true), "broken");
    }
}
