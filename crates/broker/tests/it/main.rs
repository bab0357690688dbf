//! The broker on the memory engine, with a clock that only the test moves.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod delivery;
mod fixture;
mod resources;
mod streams;
