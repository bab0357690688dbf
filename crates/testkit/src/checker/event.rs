//! What clients of a server see and do.

use std::collections::BTreeSet;

/// What a message holds, as far as the checker needs it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Content {
    /// The ordering key; empty = none.
    pub key: String,
    /// A digest of all of the message: data, attributes, key. Unique for each message sent.
    pub digest: u64,
}

/// One step of a history. Topics, subscriptions and resources go by name; times are microseconds
/// on one clock of the caller's; ack ids are any number that stands for the real one.
#[derive(Clone, Debug)]
pub enum Event {
    /// A creation was answered OK.
    Created {
        /// What was created.
        resource: String,
    },
    /// A deletion is about to be asked for.
    DeleteSent {
        /// What may be gone from now on.
        resource: String,
    },
    /// Everything that a server lists, for instance after a restart.
    Found {
        /// What is there.
        resources: BTreeSet<String>,
    },
    /// A subscription exists: it gets every message sent from now on.
    Subscribed {
        /// Its name.
        subscription: String,
        /// Its topic.
        topic: String,
        /// Whether an ack answered OK is durable and final.
        exactly_once: bool,
    },
    /// A publish is about to be sent.
    PublishSent {
        /// A number of its own for each request.
        request: u64,
        /// Where to.
        topic: String,
        /// The messages in order.
        messages: Vec<Content>,
    },
    /// A publish was answered OK.
    PublishAnswered {
        /// Which one.
        request: u64,
        /// The ids in the order of the messages.
        ids: Vec<u64>,
    },
    /// A message arrived.
    Delivered {
        /// At which subscription.
        subscription: String,
        /// The message id.
        id: u64,
        /// What it held.
        content: Content,
        /// The ack id it came with.
        ack_id: u64,
    },
    /// An ack is about to be sent.
    AckSent {
        /// At which subscription.
        subscription: String,
        /// With which ack id.
        ack_id: u64,
    },
    /// An ack was answered.
    AckAnswered {
        /// At which subscription.
        subscription: String,
        /// Which one.
        ack_id: u64,
        /// Whether it was accepted.
        accepted: bool,
        /// When.
        at: u64,
    },
    /// The server was killed or lost its power.
    Crashed {
        /// When.
        at: u64,
    },
    /// A consumer that acks all it gets found nothing more.
    Drained {
        /// At which subscription.
        subscription: String,
    },
}
