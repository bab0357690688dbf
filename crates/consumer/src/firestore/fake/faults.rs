//! What goes wrong in the fake, by chance from a seed or because it was told to.

use std::collections::VecDeque;

use tonic::Code;

/// The calls that can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Reading, alone or at the beginning of a transaction.
    Get,
    /// Beginning a transaction.
    Begin,
    /// Committing.
    Commit,
}

/// What goes wrong.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    seed: u64,
    aborts_percent: u32,
    lost_percent: u32,
    refused: VecDeque<(Call, Code)>,
    lose: u32,
}

impl Faults {
    /// Of a hundred commits so many are aborted for no reason, and of the others so many happen
    /// and are answered with an error.
    pub fn by_chance(seed: u64, aborts_percent: u32, lost_percent: u32) -> Self {
        Self { seed, aborts_percent, lost_percent, ..Self::default() }
    }

    pub(super) fn refuse(&mut self, call: Call, code: Code, times: u32) {
        self.refused.extend((0..times).map(|_| (call, code)));
    }

    pub(super) fn lose(&mut self, times: u32) {
        self.lose += times;
    }

    /// With what this call is answered instead of being done.
    pub(super) fn refusal(&mut self, call: Call) -> Option<Code> {
        let place = self.refused.iter().position(|(refused, _)| *refused == call)?;
        self.refused.remove(place).map(|(_, code)| code)
    }

    pub(super) fn is_aborted(&mut self) -> bool {
        let percent = self.aborts_percent;
        self.happens(percent)
    }

    pub(super) fn is_answer_lost(&mut self) -> bool {
        if self.lose > 0 {
            self.lose -= 1;
            return true;
        }
        let percent = self.lost_percent;
        self.happens(percent)
    }

    fn happens(&mut self, percent: u32) -> bool {
        percent > 0 && self.next() % 100 < u64::from(percent)
    }

    /// The next number of the seed's row (splitmix64).
    fn next(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
