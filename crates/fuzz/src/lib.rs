//! Every parser of input that somebody else wrote, as a function that takes any bytes.
//!
//! A target panics where its parser is wrong: it panicked itself, read back something else than
//! was written, or disagrees with another way of saying the same. It answers with what the parser
//! said, so that a driver can tell inputs apart that were refused for different reasons.
//!
//! Two drivers run them. `driver` is plain Rust: it mutates inputs and keeps those that are
//! answered in a new way. It runs for a second each with the tests. `fuzz/`, a workspace of its
//! own, has libFuzzer, which is guided by coverage; `cargo xtask sim` runs it for a minute each.

pub mod driver;
mod targets;

pub use targets::{TARGETS, Target, find};
