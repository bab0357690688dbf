//! A message as a handler sees it, however it was delivered.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use domain::Timestamp;

/// The attribute that names the message a dead letter or a replay was made from.
const ORIGINAL_MESSAGE_ID: &str = "original_message_id";

/// One delivery of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The server's id of it.
    pub id: String,
    /// Its bytes.
    pub data: Bytes,
    /// Its attributes.
    pub attributes: BTreeMap<String, String>,
    /// Empty = none.
    pub ordering_key: String,
    /// When it was published, where that is known.
    pub publish_time: Option<Timestamp>,
    /// Which try this is, from 1; known where the subscription has a dead letter policy.
    pub delivery_attempt: Option<u32>,
    /// The full name of the subscription, where it is known.
    pub subscription: Option<Arc<str>>,
}

impl Message {
    /// What makes two deliveries the same message: also after it was dead-lettered and replayed.
    pub fn dedupe_id(&self) -> &str {
        self.attributes.get(ORIGINAL_MESSAGE_ID).map_or(&self.id, |original| original)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replayed_message_is_the_one_it_was_made_from() {
        let mut message = Message { id: "7".to_owned(), ..Message::default() };
        assert_eq!(message.dedupe_id(), "7");
        message.attributes.insert(ORIGINAL_MESSAGE_ID.to_owned(), "3".to_owned());
        assert_eq!(message.dedupe_id(), "3");
    }
}
