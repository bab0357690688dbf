//! What a gateway is told on its stream.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use domain::message::Malformed;
use domain::{Offset, Record, TopicId, TopicName};

use crate::push::envelope::{Spelling, message_json};
use crate::topic::Topic;

/// One frame of a gateway's stream.
#[derive(Clone, Debug)]
pub struct LiveFrame {
    /// Counts the gateway's frames without gaps. It continues from the time when the gateway was
    /// first seen, so that a number from before a restart is never mistaken for another. Heartbeats
    /// and `register` have the number of the frame before them.
    pub sequence: u64,
    /// Its content.
    pub event: LiveEvent,
}

/// The content of a frame.
#[derive(Clone, Debug)]
pub enum LiveEvent {
    /// A matching message.
    Message(LiveMatch),
    /// Sent after a quiet period to show that the server is there.
    Heartbeat,
    /// Subscriptions have expired.
    Expired(LiveIds),
    /// Frames were lost: the gateway must fetch its state again.
    Resync(Lost),
    /// The server knows no subscriptions of the gateway: it must register them, again if it had
    /// before.
    Register,
}

/// A message, and which of the gateway's subscriptions it is for.
#[derive(Clone, Debug)]
pub struct LiveMatch {
    /// The message, shared by all gateways.
    pub message: Arc<LiveMessage>,
    /// The subscriptions.
    pub ids: LiveIds,
    /// How the message changes each of their results, if it includes the previous document.
    pub changes: Option<Box<[Change]>>,
}

/// What a message means for a subscription's results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The document did not match, and does now.
    Enter,
    /// It matched before too.
    Update,
    /// It matched, and no longer does.
    Leave,
}

impl Change {
    /// The API's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enter => "enter",
            Self::Update => "update",
            Self::Leave => "leave",
        }
    }
}

/// Why frames were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The gateway read too slowly.
    Overflow,
    /// Messages were dropped from the log before they were matched.
    NotRetained,
    /// The frame to continue from is no longer kept, or never existed.
    UnknownSequence,
}

impl Lost {
    /// The API's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Overflow => "overflow",
            Self::NotRetained => "not_retained",
            Self::UnknownSequence => "unknown_sequence",
        }
    }
}

/// Ids of subscriptions, in a compact form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveIds(String);

/// No id contains it.
const BETWEEN: char = ',';

impl LiveIds {
    pub(super) fn push(&mut self, id: &str) {
        if !self.0.is_empty() {
            self.0.push(BETWEEN);
        }
        self.0.push_str(id);
    }

    /// The ids.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split(BETWEEN).filter(|id| !id.is_empty())
    }

    fn bytes(&self) -> usize {
        self.0.len()
    }
}

/// A message as it is sent on streams.
#[derive(Debug)]
pub struct LiveMessage {
    /// Where it was published.
    pub topic: TopicName,
    topic_id: TopicId,
    /// A separate copy: it does not pin the log's large buffers.
    record: Record,
    json: OnceLock<Bytes>,
}

impl LiveMessage {
    pub(super) fn new(topic: &Topic, record: &Record) -> Self {
        let record = Record { body: Bytes::copy_from_slice(&record.body), ..record.clone() };
        Self { topic: topic.name().clone(), topic_id: topic.id(), record, json: OnceLock::new() }
    }

    /// Its position in the topic's log.
    pub fn offset(&self) -> Offset {
        self.record.offset
    }

    /// The message as Google encodes it in protobuf.
    pub fn body(&self) -> &Bytes {
        &self.record.body
    }

    /// The message in Google's JSON format, built once for all gateways.
    pub fn json(&self) -> Result<&Bytes, Malformed> {
        if let Some(json) = self.json.get() {
            return Ok(json);
        }
        let json = message_json(&self.record, Spelling::Once)?;
        Ok(self.json.get_or_init(|| json))
    }
}

impl LiveFrame {
    /// Which message it carries.
    pub(super) fn place(&self) -> Option<(TopicId, Offset)> {
        match &self.event {
            LiveEvent::Message(found) => Some((found.message.topic_id, found.message.offset())),
            _ => None,
        }
    }

    /// Approximate memory to keep it.
    pub(super) fn bytes(&self) -> usize {
        // Most messages are converted to JSON, which takes a third more.
        const AROUND: usize = 256;
        AROUND
            + match &self.event {
                LiveEvent::Message(found) => {
                    found.message.record.body.len() * 7 / 3
                        + found.ids.bytes()
                        + found.changes.as_ref().map_or(0, |changes| changes.len())
                }
                LiveEvent::Expired(ids) => ids.bytes(),
                LiveEvent::Heartbeat | LiveEvent::Resync(_) | LiveEvent::Register => 0,
            }
    }
}
