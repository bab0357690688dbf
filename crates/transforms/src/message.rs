//! Messages on their way in and out.

use std::collections::BTreeMap;

use bytes::Bytes;

/// A message as it comes to a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// Its data, which scripts see as a string.
    pub data: Bytes,
    /// Its attributes.
    pub attributes: BTreeMap<String, String>,
    /// What scripts see of it besides, and cannot change.
    pub metadata: Metadata,
}

impl Input {
    /// About what it takes of the memory.
    pub(crate) fn weight(&self) -> usize {
        const BASE: usize = 256;
        let pairs = self.attributes.iter().map(|(key, value)| key.len() + value.len());
        self.data.len() + pairs.sum::<usize>() + BASE
    }
}

/// What a script sees beside the message, each where it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The message's id, which a message that is being published does not have yet.
    pub message_id: Option<String>,
    /// When it was published, in RFC 3339.
    pub publish_time: Option<String>,
    /// Its ordering key.
    pub ordering_key: Option<String>,
}

/// What a chain made of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A message.
    Message {
        /// Its data.
        data: Bytes,
        /// All its attributes.
        attributes: BTreeMap<String, String>,
    },
    /// Nothing: the message is dropped.
    Filtered,
}
