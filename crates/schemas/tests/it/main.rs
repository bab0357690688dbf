//! The crate from outside: tables of definitions and messages, hostile input, other libraries'
//! opinions.

#![expect(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]

mod bounds;
mod compatibility;
mod definitions;
mod messages;
mod oracle;
