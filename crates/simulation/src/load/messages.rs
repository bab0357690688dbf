//! Messages as they are published and as they come.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use domain::delivery::Lease;
use domain::letter::{ORIGINAL_MESSAGE_ID, ORIGINAL_SUBSCRIPTION};
use domain::{Message, message};

use crate::history::{History, Id, Seen, Sent};

/// The attribute that filters look at.
const KIND: &str = "kind";
/// Separates a text from what makes the data longer.
const END: u8 = b'|';

/// The data of the message with that text: some are large.
fn expected_data(text: &str) -> Vec<u8> {
    let mut data = text.as_bytes().to_vec();
    let sum: usize = text.bytes().map(usize::from).sum();
    data.push(END);
    data.resize(data.len() + [0, 7, 100, 3_000][sum % 4], b'x');
    data
}

pub(super) fn message(sent: &Sent) -> Message {
    Message {
        data: Bytes::from(expected_data(&sent.text)),
        attributes: BTreeMap::from([(KIND.to_owned(), sent.kind.to_owned())]),
        ordering_key: sent.key.to_owned(),
    }
}

pub(super) fn see(history: &History, lease: &Lease) -> Seen {
    let message = message::decode(&lease.record.body).unwrap_or_default();
    let end = message.data.iter().position(|byte| *byte == END).unwrap_or(message.data.len());
    let text: Id = Arc::from(String::from_utf8_lossy(&message.data[..end]).as_ref());
    let attribute = |name: &str| message.attributes.get(name).cloned();
    Seen {
        lease: history.number_lease(),
        id: lease.ack_id.offset().0,
        is_whole: message.data == expected_data(&text),
        text,
        kind: attribute(KIND).unwrap_or_default(),
        epoch: lease.ack_id.epoch().0,
        attempt: lease.attempt,
        letter_of: attribute(ORIGINAL_SUBSCRIPTION)
            .and_then(|name| name.rsplit('/').next().map(str::to_owned)),
        original: attribute(ORIGINAL_MESSAGE_ID).and_then(|id| id.parse().ok()),
        key: message.ordering_key,
    }
}
