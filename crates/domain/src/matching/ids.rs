//! Lists of numbers that are mostly short and sometimes very long.

use std::collections::HashMap;

/// A list in which who knows the place of a number takes it out in constant time.
#[derive(Clone, Debug, Default)]
pub(super) enum Short {
    #[default]
    None,
    One(u32),
    #[expect(clippy::box_collection, reason = "most lists have one number, and must be small")]
    Many(Box<Vec<u32>>),
}

impl Short {
    pub(super) fn as_slice(&self) -> &[u32] {
        match self {
            Self::None => &[],
            Self::One(number) => std::slice::from_ref(number),
            Self::Many(numbers) => numbers,
        }
    }

    /// Adds a number and tells its place.
    pub(super) fn push(&mut self, number: u32) -> u32 {
        match self {
            Self::None => *self = Self::One(number),
            Self::One(first) => *self = Self::Many(Box::new(vec![*first, number])),
            Self::Many(numbers) => numbers.push(number),
        }
        u32::try_from(self.as_slice().len() - 1).unwrap_or(u32::MAX)
    }

    /// Takes out what is at `place`. The number that was last comes there, and is returned if it
    /// is another one.
    pub(super) fn swap_remove(&mut self, place: u32) -> Option<u32> {
        match self {
            Self::None => None,
            Self::One(_) => {
                *self = Self::None;
                None
            }
            Self::Many(numbers) => {
                let place = place as usize;
                if place < numbers.len() {
                    numbers.swap_remove(place);
                }
                let moved = numbers.get(place).copied();
                match numbers.as_slice() {
                    [] => *self = Self::None,
                    [only] => *self = Self::One(*only),
                    _ if numbers.len() * 4 < numbers.capacity() => numbers.shrink_to_fit(),
                    _ => {}
                }
                moved
            }
        }
    }
}

/// From this length on places are remembered.
const SEARCHED_MAX: usize = 32;

/// A set of numbers, as a list, with a quick way out.
#[derive(Clone, Debug, Default)]
pub(super) struct Set {
    list: Short,
    /// Where each number is, once looking for it would take long.
    places: Option<Box<HashMap<u32, u32>>>,
}

impl Set {
    pub(super) fn as_slice(&self) -> &[u32] {
        self.list.as_slice()
    }

    /// Adds a number that is not inside.
    pub(super) fn insert(&mut self, number: u32) {
        let place = self.list.push(number);
        if let Some(places) = &mut self.places {
            places.insert(number, place);
        } else if self.as_slice().len() > SEARCHED_MAX {
            let places = (0..).zip(self.as_slice()).map(|(place, number)| (*number, place));
            self.places = Some(Box::new(places.collect()));
        }
    }

    /// Whether the number was inside.
    pub(super) fn remove(&mut self, number: u32) -> bool {
        let place = match &mut self.places {
            Some(places) => places.remove(&number),
            None => (0..).zip(self.as_slice()).find(|(_, at)| **at == number).map(|(at, _)| at),
        };
        let Some(place) = place else { return false };
        let moved = self.list.swap_remove(place);
        if let (Some(places), Some(moved)) = (&mut self.places, moved) {
            places.insert(moved, place);
        }
        if self.as_slice().len() <= SEARCHED_MAX / 2 {
            self.places = None;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_holds_what_was_put_in_and_not_taken_out(
            steps in prop::collection::vec((any::<bool>(), 0..90_u32), 0..400),
        ) {
            let (mut set, mut model) = (Set::default(), BTreeSet::new());
            for (insert, number) in steps {
                if !insert {
                    prop_assert_eq!(set.remove(number), model.remove(&number));
                } else if model.insert(number) {
                    set.insert(number);
                }
                let mut held = set.as_slice().to_vec();
                held.sort_unstable();
                prop_assert_eq!(held, model.iter().copied().collect::<Vec<_>>());
            }
        }
    }
}
