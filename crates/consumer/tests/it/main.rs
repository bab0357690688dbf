//! The consumer against a real server over real sockets, and the stores for real.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails and says where, or says why it is skipped"
)]

mod bad_input;
mod chaos;
mod emulator;
mod gateway;
mod hands;
mod order;
mod postgres;
mod pull;
mod push;
mod rig;
mod schema;
mod stopping;
mod stores;
