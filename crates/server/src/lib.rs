//! The program `postrider`: settings, gRPC and REST on one port, and the command line.
//!
//! `server::Server` is the whole server in one value; `cli` is what `main` calls. The calls
//! themselves are in `api`, which gRPC and REST share.

mod api;
mod audit;
pub mod cli;
pub mod config;
mod convert;
mod engine;
mod grpc;
mod logging;
mod net;
mod rest;
mod server;
mod status;

pub use server::{Error, Server, Started, StopError};
