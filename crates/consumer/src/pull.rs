//! The pull runner: a stream of messages, handled, settled and kept on lease meanwhile.
//!
//! ```text
//!   server ══stream══▶ Link ──▶ Lanes ──▶ Hands ──▶ Outbox ──▶ Link ══▶ server
//!                                 (order)  (handlers) (acks, nacks, extensions)
//! ```
//!
//! One loop owns all state (`runner`); a handler that waits continues in its own task.

mod hands;
mod lanes;
mod leases;
mod link;
mod outbox;
mod runner;

use std::future::Future;
use std::time::Duration;

use crate::forward::Forwarder;
use crate::rules::Poison;
use crate::{Connection, Consumer, Handler, StartError};
use runner::Runner;

/// How messages are pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// At most this many messages are on lease; the server is told, and it is kept to here too.
    pub outstanding_messages_max: usize,
    /// At most this many bytes of messages are on lease.
    pub outstanding_bytes_max: usize,
    /// At most this many messages are handled at the same time.
    pub handlers_max: usize,
    /// How long a lease lasts, 10 to 600 s; it is extended while the message is held.
    pub ack_deadline: Duration,
    /// A lease is extended until it is this old. What takes longer may be delivered again.
    pub lease_max: Duration,
    /// How long handlers may continue once the consumer is stopped.
    pub shutdown_grace: Duration,
    /// The wait before a lost stream is opened again, doubled with each try, and its most.
    pub reconnect: (Duration, Duration),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            outstanding_messages_max: 1_000,
            outstanding_bytes_max: 100 << 20,
            handlers_max: 100,
            ack_deadline: Duration::from_secs(60),
            lease_max: Duration::from_secs(60 * 60),
            shutdown_grace: Duration::from_secs(30),
            reconnect: (Duration::from_millis(100), Duration::from_secs(60)),
        }
    }
}

impl Options {
    fn check(&self) -> Result<(), StartError> {
        let refused =
            |field, problem: &str| Err(StartError::Setting { field, problem: problem.to_owned() });
        if self.outstanding_messages_max == 0 {
            return refused("outstanding_messages_max", "0, must be 1 or more");
        }
        if self.outstanding_bytes_max == 0 {
            return refused("outstanding_bytes_max", "0, must be 1 or more");
        }
        if self.handlers_max == 0 {
            return refused("handlers_max", "0, must be 1 or more");
        }
        if !(10..=600).contains(&self.ack_deadline.as_secs()) {
            return refused("ack_deadline", "must be from 10 s to 600 s");
        }
        Ok(())
    }
}

/// Why pulling ended on its own.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The server refuses the stream, and would again.
    #[error("{subscription}: {} ({})", status.message(), status.code())]
    Refused {
        /// The subscription.
        subscription: String,
        /// What the server said.
        status: Box<tonic::Status>,
    },
}

/// Pulls and handles messages until `stop` resolves. Then what is being handled may finish within
/// the grace time, and the rest is given back. Lost streams are opened again.
pub async fn run<H: Handler>(
    connection: Connection,
    consumer: Consumer<H>,
    options: Options,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), Error> {
    options.check()?;
    let Some(subscription) = consumer.known().subscription.clone() else {
        let problem = "unknown: name the subscription to pull from".to_owned();
        return Err(StartError::Setting { field: "subscription", problem }.into());
    };
    let forwarder = forwarder(&connection, &consumer, &subscription)?;
    Runner::new(connection, consumer, subscription, forwarder, options).run(stop).await
}

/// Where poison goes; `None` where the rules never send it there.
fn forwarder<H: Handler>(
    connection: &Connection,
    consumer: &Consumer<H>,
    subscription: &str,
) -> Result<Option<Forwarder>, StartError> {
    let (rules, known) = (consumer.rules(), consumer.known());
    let forwards =
        rules.has_dead_letter_policy && rules.poison == Poison::Forward && !rules.nack_on_any_error;
    if !forwards {
        return Ok(None);
    }
    let Some(topic) = known.dead_letter_topic.clone() else {
        let problem = "unknown, and poison = forward needs it: name the dead letter topic, or set \
                       poison = nack";
        let problem = problem.to_owned();
        return Err(StartError::Setting { field: "dead_letter_topic", problem });
    };
    let metrics = std::sync::Arc::clone(consumer.metrics());
    Ok(Some(Forwarder::new(connection.clone(), topic, subscription.to_owned(), metrics)))
}
