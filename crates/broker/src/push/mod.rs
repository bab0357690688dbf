//! Pushing messages to HTTP endpoints, on the same `Delivery` as pull.
//!
//! ```text
//!   scheduler: who may send now?        pusher: one per subscription
//!   window, breaker, rate, budget ──►  lease ─► envelope ─► sender ─► outcome ─► ack or nack
//!                                                 │ token, signature      └─► attempt history
//! ```
//!
//! What follows from an outcome is the domain's rule, with a picture, in `domain/push/outcome.rs`.
//! Nothing is leased before it may be sent, so holding back costs no attempt. Nothing is stored
//! here that a restart could lose: what to send is derived from the log and the progress.

pub(crate) mod attempts;
pub(crate) mod batch;
pub(crate) mod breaker;
pub(crate) mod budget;
pub(crate) mod chain;
mod drivers;
pub(crate) mod endpoint;
pub(crate) mod envelope;
pub(crate) mod exchange;
mod flight;
pub(crate) mod guard;
pub(crate) mod memory;
pub(crate) mod outcome;
pub(crate) mod plan;
pub(crate) mod pusher;
pub(crate) mod rate;
mod request_builder;
pub(crate) mod scheduler;
pub(crate) mod sender;
pub(crate) mod signature;
pub(crate) mod token;
pub(crate) mod window;
