//! Single message transforms: JavaScript functions that change messages, or drop them.
//!
//! A `Udf` is a function with the code that defines it, a `Chain` the functions of one topic or
//! subscription in their order. A `Sandbox` has a chain loaded and runs messages through it, within
//! `Bounds` of time, memory and stack; scripts see the built-ins of JavaScript and nothing else.
//!
//! The interpreter is written in C. It can be crashed, and it can be kept busy where it does not
//! look at the time, so a server has it run in helper processes, which can be killed: `Workers` are
//! a few threads with a helper each, and see to it that no owner's scripts hold up another's.
//! `serve` is what a helper does. The only clock here is the one that ends scripts.
#![warn(missing_docs, clippy::iter_over_hash_type, clippy::indexing_slicing)]

mod chain;
mod clock;
mod error;
pub mod fuzzing;
mod helper;
pub mod limits;
mod message;
mod sandbox;
mod text;
mod workers;

pub use chain::{Chain, Transform, Udf};
pub use error::{Cause, Failure, Field, Invalid};
pub use helper::serve;
pub use limits::Bounds;
pub use message::{Input, Metadata, Outcome};
pub use sandbox::{Sandbox, run};
pub use workers::{Options, Program, Refused, Workers};
