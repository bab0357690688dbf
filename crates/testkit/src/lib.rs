//! What the tests of all crates share: a disk that fails on demand, and a checker of histories.
//!
//! Everything here is deterministic: what is random is drawn from a seed that a test prints.

pub mod checker;
pub mod disk;
mod random;

pub use checker::Checker;
pub use disk::SimDisk;
pub use random::Random;
