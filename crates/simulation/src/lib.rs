//! The whole program in one thread, from one seed: brokers, their store, clients and faults.
//!
//! [`Scenario::draw`] says what is to happen, [`run`] lets it happen and gives the history of what
//! clients asked for and were answered, and [`checks`] says which promises it breaks. A scenario
//! that fails is shortened by [`shrink`] as long as it fails in the same way.
#![expect(clippy::expect_used, reason = "for tests only, as theirs")]

pub mod checks;
mod cluster;
pub mod executor;
mod explore;
pub mod history;
mod load;
mod net;
pub mod node_clock;
pub mod scenario;
pub mod shrink;
mod store;
mod world;

pub use explore::{Finding, explore, find};
pub use scenario::{Kind, Scenario};
pub use world::{Outcome, run};
