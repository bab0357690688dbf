//! The few Pub/Sub messages that the load itself reads and writes, as lean as they can be: every
//! field is a slice of what was received, so that the load costs little beside the server.

use anyhow::{Context, Result, ensure};
use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

/// Bytes before each message of a gRPC stream: a flag and the length.
pub(crate) const PREFIX: usize = 5;

/// `PublishRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PublishRequest {
    #[prost(string, tag = "1")]
    pub(crate) topic: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) messages: Vec<Outgoing>,
}

/// `PubsubMessage` as it is published.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Outgoing {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) data: Bytes,
    #[prost(message, repeated, tag = "2")]
    pub(crate) attributes: Vec<Attribute>,
    #[prost(string, tag = "5")]
    pub(crate) ordering_key: String,
}

/// An entry of `attributes`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Attribute {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

/// `PubsubMessage` as it is received, with what the load looks at.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PubsubMessage {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) data: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) message_id: Bytes,
}

/// `PullResponse` and `StreamingPullResponse`, which begin alike.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Delivered {
    #[prost(message, repeated, tag = "1")]
    pub(crate) received: Vec<Received>,
}

/// `ReceivedMessage`; `message` is an encoded `PubsubMessage`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Received {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) ack_id: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) message: Bytes,
}

/// `AcknowledgeRequest`; without a subscription also a `StreamingPullRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Acks {
    #[prost(string, tag = "1")]
    pub(crate) subscription: String,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(crate) ack_ids: Vec<Bytes>,
}

/// A message encoded with its gRPC prefix, ready for the socket.
pub(crate) fn frame(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut framed = BytesMut::with_capacity(PREFIX + length);
    framed.put_u8(0);
    // A message over 4 GiB is over every limit of the servers measured here.
    framed.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    framed.put(message.encode_to_vec().as_slice());
    framed.freeze()
}

/// Cuts the DATA frames of a response back into gRPC messages.
#[derive(Default)]
pub(crate) struct Deframer {
    waiting: BytesMut,
}

impl Deframer {
    /// Takes the next piece of the response.
    pub(crate) fn push(&mut self, data: &Bytes) {
        self.waiting.extend_from_slice(data);
    }

    /// The next whole message, or none until more is pushed.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>> {
        let Some((prefix, _)) = self.waiting.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let [flag, length @ ..] = *prefix;
        ensure!(flag == 0, "the server compressed a message although nobody asked it to");
        let length = usize::try_from(u32::from_be_bytes(length)).context("length of a message")?;
        if self.waiting.len() < PREFIX + length {
            self.waiting.reserve(PREFIX + length - self.waiting.len());
            return Ok(None);
        }
        let mut message = self.waiting.split_to(PREFIX + length);
        Ok(Some(message.split_off(PREFIX).freeze()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deframer_gives_messages_back_however_they_were_cut() {
        let first = Acks { ack_ids: vec![Bytes::from_static(b"one")], ..Acks::default() };
        let second = Acks { ack_ids: vec![Bytes::from_static(b"two")], ..Acks::default() };
        let mut wire = frame(&first).to_vec();
        wire.extend_from_slice(&frame(&second));

        for cut in 0..=wire.len() {
            let mut deframer = Deframer::default();
            let mut messages = Vec::new();
            for piece in [&wire[..cut], &wire[cut..]] {
                deframer.push(&Bytes::copy_from_slice(piece));
                while let Some(message) = deframer.next().unwrap() {
                    messages.push(Acks::decode(message).unwrap());
                }
            }
            assert_eq!(messages, [first.clone(), second.clone()], "cut at {cut}");
        }
    }

    #[test]
    fn deframer_refuses_a_compressed_message() {
        let mut deframer = Deframer::default();
        deframer.push(&Bytes::from_static(&[1, 0, 0, 0, 0]));
        assert!(deframer.next().is_err());
    }
}
