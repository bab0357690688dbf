//! What the tests of all crates share: a clock in the test's hand, a disk that fails on demand, a
//! checker of histories, seeds, and Google's Firestore emulator where it is installed.
//!
//! Everything else here is deterministic: what is random is drawn from a seed that a test prints.

pub mod checker;
pub mod disk;
mod fake_clock;
mod firestore_emulator;
mod random;
pub mod seed;

pub use checker::Checker;
pub use disk::SimDisk;
pub use fake_clock::FakeClock;
pub use firestore_emulator::FirestoreEmulator;
pub use random::Random;
