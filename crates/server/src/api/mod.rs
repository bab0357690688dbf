//! What the server can do, whichever way a call comes in: gRPC and REST both call this.

mod acks;
mod paging;
mod subscriptions;
mod topics;

use std::sync::Arc;
use std::time::Duration;

use broker::Broker;

pub(crate) use acks::ack_ids;
pub(crate) use subscriptions::Warned;

/// The calls of the API over one broker.
#[derive(Clone)]
pub(crate) struct Api {
    broker: Arc<Broker>,
    /// How long a Pull waits for a message.
    pull_wait: Duration,
}

impl Api {
    pub(crate) fn new(broker: Arc<Broker>, pull_wait: Duration) -> Self {
        Self { broker, pull_wait }
    }

    pub(crate) fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }
}
