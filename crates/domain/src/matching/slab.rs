//! A table by number, in chunks: growing copies nothing and wastes little.

const PIECE: usize = 1_024;

/// A table that reuses its slots.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    pieces: Vec<Vec<Slot<T>>>,
    /// The next slot to use; `None` = a new one.
    free: Option<u32>,
    len: usize,
}

#[derive(Clone, Debug)]
enum Slot<T> {
    Taken(T),
    Free(Option<u32>),
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { pieces: Vec::new(), free: None, len: 0 }
    }
}

impl<T> Slab<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// One more than the highest number ever in use.
    pub(crate) fn bound(&self) -> usize {
        match self.pieces.split_last() {
            Some((last, full)) => full.len() * PIECE + last.len(),
            None => 0,
        }
    }

    pub(crate) fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        if let Some(number) = self.free
            && let Some(place) = self.place_mut(number)
        {
            let before = std::mem::replace(place, Slot::Taken(value));
            self.free = match before {
                Slot::Free(next) => next,
                Slot::Taken(_) => None,
            };
            return number;
        }
        self.push(value)
    }

    fn push(&mut self, value: T) -> u32 {
        let number = self.bound();
        match self.pieces.last_mut() {
            Some(last) if last.len() < PIECE => last.push(Slot::Taken(value)),
            _ => {
                let mut piece = Vec::new();
                // The first chunk grows as needed: most tables stay small.
                if !self.pieces.is_empty() {
                    piece.reserve_exact(PIECE);
                }
                piece.push(Slot::Taken(value));
                self.pieces.push(piece);
            }
        }
        u32::try_from(number).unwrap_or(u32::MAX)
    }

    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        let number = number as usize;
        match self.pieces.get(number / PIECE)?.get(number % PIECE)? {
            Slot::Taken(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        match self.place_mut(number)? {
            Slot::Taken(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let free = self.free;
        let place = self.place_mut(number)?;
        if matches!(place, Slot::Free(_)) {
            return None;
        }
        let Slot::Taken(value) = std::mem::replace(place, Slot::Free(free)) else { return None };
        self.free = Some(number);
        self.len -= 1;
        Some(value)
    }

    /// The entries, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let places = self.pieces.iter().flatten();
        (0..).zip(places).filter_map(|(number, place)| match place {
            Slot::Taken(value) => Some((number, value)),
            Slot::Free(_) => None,
        })
    }

    fn place_mut(&mut self, number: u32) -> Option<&mut Slot<T>> {
        let number = number as usize;
        self.pieces.get_mut(number / PIECE)?.get_mut(number % PIECE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_numbers_stay() {
        let mut slab = Slab::default();
        let numbers: Vec<u32> = (0..3_000).map(|value| slab.insert(value)).collect();
        assert_eq!(numbers, (0..3_000).collect::<Vec<_>>());
        assert_eq!(slab.remove(1_500), Some(1_500));
        assert_eq!((slab.remove(1_500), slab.get(1_500), slab.len()), (None, None, 2_999));
        assert_eq!(slab.remove(7), Some(7));
        assert_eq!((slab.insert(1), slab.insert(2), slab.insert(3)), (7, 1_500, 3_000));
        assert_eq!((slab.get(7), slab.bound(), slab.len()), (Some(&1), 3_001, 3_001));
        assert_eq!(slab.iter().count(), 3_001);
    }
}
