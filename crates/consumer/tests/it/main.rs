//! The consumer against a real server over real sockets, and the stores for real.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that meets the unexpected shall fail and say where"
)]

mod bad_input;
mod emulator;
mod order;
mod postgres;
mod pull;
mod push;
mod rig;
mod schema;
mod stopping;
mod stores;
