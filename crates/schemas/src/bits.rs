//! Which fields of a record were seen.

/// A set of small numbers. The first 64 need no memory; more is taken when one is put in.
#[derive(Debug, Default)]
pub(crate) struct Bits {
    first: u64,
    more: Vec<u64>,
    count: usize,
}

impl Bits {
    /// Puts a number in; whether it was not there yet.
    pub(crate) fn put(&mut self, number: usize) -> bool {
        let bit = 1_u64 << (number % 64);
        let word = match (number / 64).checked_sub(1) {
            None => &mut self.first,
            Some(index) => {
                if self.more.len() <= index {
                    self.more.resize(index + 1, 0);
                }
                match self.more.get_mut(index) {
                    Some(word) => word,
                    None => return false,
                }
            }
        };
        let is_new = *word & bit == 0;
        *word |= bit;
        self.count += usize::from(is_new);
        is_new
    }

    /// Whether a number is in.
    pub(crate) fn has(&self, number: usize) -> bool {
        let word = match (number / 64).checked_sub(1) {
            None => Some(&self.first),
            Some(index) => self.more.get(index),
        };
        word.is_some_and(|word| word & (1_u64 << (number % 64)) != 0)
    }

    /// How many numbers are in.
    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_new_once() {
        let mut bits = Bits::default();
        for number in [0, 63, 64, 200, 9_999] {
            assert!(!bits.has(number));
            assert!(bits.put(number));
            assert!(!bits.put(number));
            assert!(bits.has(number));
        }
        assert_eq!(bits.count(), 5);
        assert!(!bits.has(65) && !bits.has(100_000));
    }
}
