//! Live subscriptions from outside: their filters, the index that matches them, the registry that
//! keeps them and the summary of what they want.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is a failed test")]
#![allow(clippy::indexing_slicing, reason = "a panic is a failed test")]

#[path = "live/filters.rs"]
mod filters;
#[path = "live/generate.rs"]
mod generate;
#[path = "live/index.rs"]
mod index;
#[path = "live/naive.rs"]
mod naive;
#[path = "live/registry.rs"]
mod registry;
#[path = "live/registry_model.rs"]
mod registry_model;
