//! The broker on the memory engine, with a clock that only the test moves.

mod delivery;
mod fixture;
mod resources;
mod streams;
