//! What a program that consumes has to say: how to decode a message, and what to do with it.

use std::future::Future;

use crate::{Failure, Handled, Message};

/// Handles messages. One value handles many at a time.
///
/// ```text
/// message ──decode──▶ event ──handle──▶ Handled ──rules──▶ ack, nack or an HTTP status
///            │ Err                  │ panics, or takes too long
///            ▼                      ▼
///          Poison                Transient
/// ```
pub trait Handler: Send + Sync + 'static {
    /// What a message is decoded to.
    type Event: Send + 'static;

    /// Reads the message. A failure is poison: the message is what it is, and trying again does
    /// not help.
    fn decode(&self, message: &Message) -> Result<Self::Event, Failure>;

    /// Makes the effect of the message, once: `effects` has stores that do. It may be dropped at
    /// any await: when it takes longer than `Settings::handle_timeout`, and when the consumer is
    /// stopped. A panic is caught, and the message is tried again. It must not block its thread to
    /// wait for something.
    fn handle(&self, event: Self::Event, message: &Message)
    -> impl Future<Output = Handled> + Send;
}
