//! Sorted bounds, each with a number: the ones a value meets are one run.
//!
//! ```text
//! x > 3, x >= 5, x > 5, x > 9         bounds of one direction, sorted
//! └── x = 5 meets these ┘
//! ```
//!
//! The list is in chunks, so that inserting or removing one moves few others, and the numbers of a
//! run are copied chunk by chunk.

use std::cmp::Ordering;

use crate::filter::{Order, ScalarRef, Seen};
use crate::json::Number;

const PIECE_MAX: usize = 256;

/// The bounds of one field in one direction and of one type.
#[derive(Clone, Debug)]
pub(super) struct Thresholds {
    pub(super) kind: Kind,
    pieces: Vec<Piece>,
}

/// What all bounds of a list share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) path: u32,
    /// Whether the value has to be above the bounds; otherwise below.
    above: bool,
    text: bool,
    /// Whether the numbers are subscriptions that match; otherwise they are groups to be checked.
    pub(super) exact: bool,
}

#[derive(Clone, Debug, Default)]
struct Piece {
    bounds: Vec<Bound>,
    numbers: Vec<u32>,
}

/// Ordered by value; among equal values, the bounds that an equal value meets are on the side of
/// those it meets anyway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bound {
    value: BoundValue,
    edge: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum BoundValue {
    Number(Number),
    Text(Box<[u8]>),
}

/// The list a comparison belongs to, and its bound there.
pub(super) fn bound(path: u32, order: Order, value: ScalarRef<'_>, exact: bool) -> (Kind, Bound) {
    let above = matches!(order, Order::Above | Order::AtLeast);
    let edge = matches!(order, Order::Above | Order::AtMost);
    let (value, text) = match value {
        ScalarRef::Text(text) => (BoundValue::Text(text.into()), true),
        ScalarRef::Number(number) => (BoundValue::Number(number), false),
        // Nothing else has an order: no filter has such a bound.
        ScalarRef::Null | ScalarRef::Bool(_) => (BoundValue::Text([].into()), true),
    };
    (Kind { path, above, text, exact }, Bound { value, edge })
}

impl Thresholds {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, pieces: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(super) fn insert(&mut self, bound: Bound, number: u32) {
        let place = self.piece_of(&bound, number);
        if self.pieces.is_empty() {
            self.pieces.push(Piece::default());
        }
        let Some(piece) = self.pieces.get_mut(place) else { return };
        let at = piece.place_of(&bound, number);
        piece.bounds.insert(at, bound);
        piece.numbers.insert(at, number);
        if piece.numbers.len() > PIECE_MAX {
            let half = PIECE_MAX / 2;
            let upper = Piece {
                bounds: piece.bounds.split_off(half),
                numbers: piece.numbers.split_off(half),
            };
            self.pieces.insert(place + 1, upper);
        }
    }

    pub(super) fn remove(&mut self, bound: &Bound, number: u32) {
        let place = self.piece_of(bound, number);
        let Some(piece) = self.pieces.get_mut(place) else { return };
        let at = piece.place_of(bound, number);
        if piece.numbers.get(at) == Some(&number) && piece.bounds.get(at) == Some(bound) {
            piece.bounds.remove(at);
            piece.numbers.remove(at);
        }
        if piece.numbers.is_empty() {
            self.pieces.remove(place);
        }
    }

    /// The numbers of all bounds that `seen` meets, in runs.
    pub(super) fn met(&self, seen: Seen<'_>) -> impl Iterator<Item = &[u32]> {
        let fits = match seen {
            Seen::Number(_) => !self.kind.text,
            Seen::Text(_) => self.kind.text,
            _ => false,
        };
        // Above: everything up to the value, including its lower edge. Below: from its upper edge.
        let above = self.kind.above;
        let before = move |bound: &Bound| match bound.value.cmp_seen(seen) {
            Ordering::Equal => !bound.edge,
            other => other == Ordering::Less,
        };
        let pieces = if fits { self.pieces.as_slice() } else { &[] };
        let whole = pieces.partition_point(|piece| piece.bounds.last().is_some_and(before));
        let split = pieces.get(whole).map(|piece| {
            let at = piece.bounds.partition_point(before);
            if above { piece.numbers.get(..at) } else { piece.numbers.get(at..) }
        });
        let rest = if above { pieces.get(..whole) } else { pieces.get(whole + 1..) };
        let rest = rest.unwrap_or_default().iter().map(|piece| piece.numbers.as_slice());
        rest.chain(split.flatten())
    }

    fn piece_of(&self, bound: &Bound, number: u32) -> usize {
        let last = self.pieces.len().saturating_sub(1);
        let ends_before = |piece: &Piece| match (piece.bounds.last(), piece.numbers.last()) {
            (Some(end), Some(last)) => (end, last) < (bound, &number),
            _ => false,
        };
        self.pieces.partition_point(ends_before).min(last)
    }
}

impl Piece {
    /// Where the bound with this number is, or would be inserted.
    fn place_of(&self, bound: &Bound, number: u32) -> usize {
        let first = self.bounds.partition_point(|held| held < bound);
        let equal = self.bounds.get(first..).unwrap_or_default();
        let equal = first..first + equal.partition_point(|held| held == bound);
        let numbers = self.numbers.get(equal).unwrap_or_default();
        first + numbers.partition_point(|held| *held < number)
    }
}

impl BoundValue {
    fn cmp_seen(&self, seen: Seen<'_>) -> Ordering {
        match (self, seen) {
            (Self::Number(bound), Seen::Number(number)) => bound.cmp(&number),
            (Self::Text(bound), Seen::Text(text)) => bound.as_ref().cmp(text),
            _ => Ordering::Less,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_order() -> impl Strategy<Value = Order> {
        prop::sample::select(&[Order::Above, Order::AtLeast, Order::Below, Order::AtMost][..])
    }

    proptest! {
        #[test]
        fn exactly_the_bounds_that_are_met_are_found(
            bounds in prop::collection::vec((any_order(), 0..40_i64, 0..2_000_u32), 1..1_500),
            removed in prop::collection::vec(any::<prop::sample::Index>(), 0..900),
            values in prop::collection::vec(-1..41_i64, 1..10),
        ) {
            for above in [true, false] {
                let ours = |order: &Order| matches!(order, Order::Above | Order::AtLeast) == above;
                let mut held: Vec<_> = bounds.iter().filter(|(order, ..)| ours(order)).collect();
                let Some((first, ..)) = held.first() else { continue };
                held.sort();
                held.dedup();
                let make = |order, value: i64| {
                    bound(0, order, ScalarRef::Number(Number::from(value)), true)
                };
                let mut list = Thresholds::new(make(*first, 0).0);
                for (order, value, number) in &held {
                    list.insert(make(*order, *value).1, *number);
                }
                for index in removed.iter().take(held.len() / 2) {
                    let (order, value, number) = held.swap_remove(index.index(held.len()));
                    list.remove(&make(*order, *value).1, *number);
                }
                for value in &values {
                    let seen = Seen::Number(Number::from(*value));
                    let mut found: Vec<u32> = list.met(seen).flatten().copied().collect();
                    let mut expected: Vec<u32> = held
                        .iter()
                        .filter(|(order, bound, _)| {
                            seen.stands(*order, ScalarRef::Number(Number::from(*bound)))
                        })
                        .map(|(.., number)| *number)
                        .collect();
                    found.sort_unstable();
                    expected.sort_unstable();
                    prop_assert_eq!(found, expected);
                }
                prop_assert_eq!(list.met(Seen::Text(b"1")).count(), 0);
                for (order, value, number) in held {
                    list.remove(&make(*order, *value).1, *number);
                }
                prop_assert!(list.is_empty());
            }
        }
    }
}
