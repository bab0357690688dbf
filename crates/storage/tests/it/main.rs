//! The engines against their promises.

mod memory;
