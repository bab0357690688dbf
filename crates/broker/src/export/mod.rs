//! Writing messages to objects in buckets, on the same `Delivery` as pull.
//!
//! ```text
//!   exports: which subscriptions?      exporter: one per subscription
//!   room: how much may be in memory ──► lease ─► record ─► open object ─► complete ─► ack
//!                                                  └── layouts: the topic's schema, if asked for
//! ```
//!
//! An exporter is one more consumer. It holds the leases of all messages in its open object, and
//! acks them when the object is complete under its final name, not before: a restart, or a store
//! that fails, costs nothing but writing them again. Leases are given for longer than an object
//! may be open, so that they need not be extended.

mod exporter;
mod exports;
mod layouts;
mod room;

pub(crate) use exports::Exports;
