//! Lists of numbers that are usually short and sometimes very long.

use std::collections::HashMap;

/// A list that removes a number in constant time given its position.
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

    /// Adds a number and returns its position.
    pub(super) fn push(&mut self, number: u32) -> u32 {
        match self {
            Self::None => *self = Self::One(number),
            Self::One(first) => *self = Self::Many(Box::new(vec![*first, number])),
            Self::Many(numbers) => numbers.push(number),
        }
        u32::try_from(self.as_slice().len() - 1).unwrap_or(u32::MAX)
    }

    /// Removes the number at `place`. The last number takes its place, and is returned if it is a
    /// different one.
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
                    _ if numbers.len() * 4 < numbers.capacity() => {
                        numbers.shrink_to(numbers.len() * 2)
                    }
                    _ => {}
                }
                moved
            }
        }
    }
}

/// From this length on, positions are stored.
const SEARCHED_MAX: usize = 32;

/// A set of numbers, as a list with fast removal.
#[derive(Clone, Debug, Default)]
pub(super) enum Set {
    #[default]
    None,
    One(u32),
    Many(Box<Many>),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Many {
    list: Vec<u32>,
    /// The position of each number, once searching would take long.
    places: Option<HashMap<u32, u32>>,
}

impl Set {
    pub(super) fn as_slice(&self) -> &[u32] {
        match self {
            Self::None => &[],
            Self::One(number) => std::slice::from_ref(number),
            Self::Many(many) => &many.list,
        }
    }

    /// Adds a number that must not be in the set.
    pub(super) fn insert(&mut self, number: u32) {
        match self {
            Self::None => *self = Self::One(number),
            Self::One(first) => {
                let list = vec![*first, number];
                *self = Self::Many(Box::new(Many { list, places: None }));
            }
            Self::Many(many) => many.insert(number),
        }
    }

    /// Returns whether the number was in the set.
    pub(super) fn remove(&mut self, number: u32) -> bool {
        match self {
            Self::None => false,
            Self::One(only) => {
                let inside = *only == number;
                if inside {
                    *self = Self::None;
                }
                inside
            }
            Self::Many(many) => {
                let inside = many.remove(number);
                if let [only] = many.list.as_slice() {
                    *self = Self::One(*only);
                }
                inside
            }
        }
    }
}

impl Many {
    fn insert(&mut self, number: u32) {
        let place = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        self.list.push(number);
        if let Some(places) = &mut self.places {
            places.insert(number, place);
        } else if self.list.len() > SEARCHED_MAX {
            self.places = Some(self.list.iter().copied().zip(0..).collect());
        }
    }

    fn remove(&mut self, number: u32) -> bool {
        let place = match &mut self.places {
            Some(places) => places.remove(&number).map(|place| place as usize),
            None => self.list.iter().position(|held| *held == number),
        };
        let Some(place) = place.filter(|place| *place < self.list.len()) else { return false };
        self.list.swap_remove(place);
        let moved = self.list.get(place).copied();
        if let (Some(places), Some(moved)) = (&mut self.places, moved) {
            places.insert(moved, u32::try_from(place).unwrap_or(u32::MAX));
        }
        if self.list.len() <= SEARCHED_MAX / 2 {
            self.places = None;
        }
        if self.list.len() * 4 < self.list.capacity() {
            self.list.shrink_to(self.list.len() * 2);
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
