//! Schemas: what messages of a topic must look like.
//!
//! A definition, in Avro or Protocol Buffers, is compiled once (`Compiled`) and kept; each message
//! is then walked along it, in either encoding, without being built. `Schema` is a definition with
//! its revisions and Google's rules about them, `Validator` the revisions that a topic accepts.
//! Nothing here does I/O, reads a clock or draws a random number. Every recursion and all memory
//! that a definition or a message can ask for is bounded (`limits`).
#![warn(missing_docs, clippy::iter_over_hash_type, clippy::indexing_slicing)]

mod avro;
mod bits;
mod compiled;
mod error;
mod json;
pub mod limits;
mod name;
mod problem;
mod protobuf;
mod schema;
mod validator;

pub use compiled::{Compiled, Kind};
pub use domain::{Encoding, RevisionId};
pub use error::{Error, Status};
pub use name::{DELETED_SCHEMA, RevisionName};
pub use problem::{Location, Problem};
pub use schema::{Revision, Schema};
pub use validator::{Bound, Rejection, Settings, Validator};
