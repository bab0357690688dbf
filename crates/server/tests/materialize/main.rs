//! `postrider materialize` for real: the built server, the built consumer, and Firestore, as a
//! fake in this process and as Google's emulator where that is installed.
#![expect(
    clippy::unwrap_used,
    reason = "a test that meets the unexpected shall fail and say where"
)]

#[path = "../built/mod.rs"]
mod built;
mod command;
mod once;
mod program;
mod traffic;
