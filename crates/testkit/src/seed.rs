//! Where a test has its seed from: one environment variable for all of them.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::Range;

/// Runs a test from this seed and from no other.
pub const VARIABLE: &str = "TEST_SEED";

/// The seed of a test that draws anew in each run: that of `TEST_SEED`, or any. It is printed,
/// which shows only when the test fails.
pub fn seed() -> u64 {
    let seed = asked().unwrap_or_else(|| RandomState::new().hash_one(VARIABLE));
    tell(seed);
    seed
}

/// The seed of a test that is the same in each run: that of `TEST_SEED`, or `usual`.
pub fn seed_or(usual: u64) -> u64 {
    let seed = asked().unwrap_or(usual);
    tell(seed);
    seed
}

/// The seeds of a test that tries many: only that of `TEST_SEED`, or all of `usual`.
pub fn seeds(usual: Range<u64>) -> Range<u64> {
    asked().map_or(usual, |seed| seed..seed + 1)
}

/// Says how a run is repeated, where its seed is to be seen beside a failure.
#[expect(clippy::print_stdout, reason = "test runners show it with the test that failed")]
pub fn tell(seed: u64) {
    println!("{VARIABLE}={seed}");
}

/// The number in an environment variable, if it is set.
///
/// # Panics
///
/// Panics if there is something else in it: it was meant for a test.
pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse().ok();
    Some(number.unwrap_or_else(|| panic!("{variable} is no number: {text:?}")))
}

fn asked() -> Option<u64> {
    number(VARIABLE)
}
