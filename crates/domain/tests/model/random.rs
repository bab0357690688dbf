//! Random numbers from a seed, the same on every machine.

/// A seeded source of numbers (the `splitmix64` sequence).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("it is below a usize")
    }

    pub(crate) fn between(&mut self, from: usize, to: usize) -> usize {
        from + self.below(to - from)
    }

    /// True in so many of a hundred cases.
    pub(crate) fn percent(&mut self, cases: usize) -> bool {
        self.below(100) < cases
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}
