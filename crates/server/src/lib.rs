//! The program `postrider`: settings, gRPC and REST on one port, and the command line.
//!
//! `server::Server` is the whole server in one value; `cli` is what `main` calls. The calls
//! themselves are in `api`, which gRPC and REST share.

mod api;
mod audit;
pub mod cli;
pub mod config;
mod convert;
mod descriptors;
mod engine;
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod grpc;
mod live_api;
mod logging;
mod metrics;
mod net;
#[cfg(test)]
mod operating;
mod rest;
mod server;
#[cfg(test)]
mod settings_tests;
mod status;
mod terminal;

/// The version, with the commit it was built from.
pub(crate) const VERSION: &str = env!("POSTRIDER_VERSION");

pub use server::{Error, Server, Started, StopError};
