//! Transforms from outside: what scripts may do, what they may not, and what it costs others.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod bounds;
mod definitions;
mod messages;
mod support;
mod workers;
