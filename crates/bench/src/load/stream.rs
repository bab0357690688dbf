//! Receiving by streaming pull, with the acks on the stream.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use prost::Message;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::clock;
use crate::grpc::{Channel, Receiver, Sender};
use crate::lean::{self, Acks, Delivered, PubsubMessage};

/// Outstanding messages and bytes that a subscriber asks for.
pub(crate) const OUTSTANDING_MESSAGES_MAX: i64 = 10_000;
pub(crate) const OUTSTANDING_BYTES_MAX: i64 = 64 << 20;

/// Longest ack deadline there is: nothing expires while it is measured.
const ACK_DEADLINE_S: i32 = 600;

/// A stream that hears nothing for so long has failed.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// What a subscriber waits for.
pub(crate) struct Wanted {
    /// Distinct messages.
    pub(crate) messages: u64,
    /// Gets a permit back for each message received.
    pub(crate) lead: Option<Arc<Semaphore>>,
}

/// What a subscriber received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Distinct messages.
    pub(crate) messages: u64,
    /// Messages received more than once.
    pub(crate) again: u64,
    /// When the last message was there.
    pub(crate) end: Instant,
}

/// An open streaming pull.
pub(crate) struct Subscriber {
    sender: Sender,
    receiver: Receiver,
}

impl Subscriber {
    /// Opens a stream on a subscription.
    pub(crate) async fn open(channel: &Channel, subscription: &str) -> Result<Self> {
        let first = wire::pubsub::StreamingPullRequest {
            subscription: subscription.to_owned(),
            stream_ack_deadline_seconds: ACK_DEADLINE_S,
            max_outstanding_messages: OUTSTANDING_MESSAGES_MAX,
            max_outstanding_bytes: OUTSTANDING_BYTES_MAX,
            ..Default::default()
        };
        let mut caller = channel.caller(1, "Subscriber/StreamingPull")?;
        let open = caller.stream(lean::frame(&first));
        let (sender, receiver) = timeout(SILENCE_MAX, open).await.context("open a stream")??;
        Ok(Self { sender, receiver })
    }

    /// Receives and acks until every wanted message has come.
    pub(crate) async fn receive(&mut self, wanted: &Wanted) -> Result<Received> {
        let mut seen = Seen::default();
        let mut again = 0;
        while seen.count < wanted.messages {
            let delivered = self.next().await?;
            let count = delivered.received.len();
            for received in &delivered.received {
                let message = PubsubMessage::decode(received.message.clone())?;
                again += u64::from(!seen.add(message_id(&message)?));
            }
            self.ack(delivered)?;
            if let Some(lead) = &wanted.lead {
                lead.add_permits(count);
            }
        }
        Ok(Received { messages: seen.count, again, end: clock::now() })
    }

    /// Ends the stream and waits until the server has ended it too: then it has every ack. A
    /// stream that is dropped may leave some behind, and their ordering keys wait for them.
    pub(crate) async fn close(mut self) -> Result<()> {
        self.sender.end()?;
        let end = async {
            while self.receiver.next().await?.is_some() {}
            Ok(())
        };
        timeout(SILENCE_MAX, end).await.context("the stream did not end")?
    }

    /// The next messages of the stream.
    pub(crate) async fn next(&mut self) -> Result<Delivered> {
        let next = timeout(SILENCE_MAX, self.receiver.next()).await;
        let message = next.context("the stream fell silent")??.context("the stream ended")?;
        Ok(Delivered::decode(message)?)
    }

    /// Acks messages on the stream.
    pub(crate) fn ack(&mut self, delivered: Delivered) -> Result<()> {
        let ack_ids = delivered.received.into_iter().map(|received| received.ack_id).collect();
        self.sender.send(lean::frame(&Acks { subscription: String::new(), ack_ids }))
    }
}

/// The message id, which is a number on every server measured here.
pub(crate) fn message_id(message: &PubsubMessage) -> Result<u64> {
    let id = &message.message_id;
    ensure!(!id.is_empty(), "a message without an id");
    id.iter().try_fold(0, |number: u64, digit| {
        ensure!(digit.is_ascii_digit(), "a message id that is not a number");
        Ok(number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
    })
}

/// Message ids received, as bits from the first one's neighbourhood on.
#[derive(Default)]
pub(crate) struct Seen {
    base: Option<u64>,
    bits: Vec<u64>,
    pub(crate) count: u64,
}

impl Seen {
    /// Ids this far below the first one still fit; streams begin nearly in order.
    const BELOW_MAX: u64 = 1 << 20;
    /// Ids further above are taken as new without being remembered.
    const ABOVE_MAX: u64 = 1 << 26;

    /// Whether the id is new.
    pub(crate) fn add(&mut self, id: u64) -> bool {
        let base = *self.base.get_or_insert(id.saturating_sub(Self::BELOW_MAX) & !63);
        let place = id.wrapping_sub(base);
        if place >= Self::ABOVE_MAX {
            self.count += 1;
            return true;
        }
        let word = usize::try_from(place / 64).unwrap_or(usize::MAX);
        if word >= self.bits.len() {
            self.bits.resize(word + 1024, 0);
        }
        let bit = 1 << (place % 64);
        let new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        self.count += u64::from(new);
        new
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn seen_counts_each_id_once_in_any_order() {
        let mut seen = Seen::default();
        let first = 1_700_000_000_000_000;
        for id in [first, first + 5, first - 3, first + 5, first, first + 100_000] {
            seen.add(id);
        }
        assert_eq!(seen.count, 4);
        assert!(!seen.add(first - 3));
        assert!(seen.add(first + 1));
    }

    #[test]
    fn message_id_is_read_as_a_number() {
        let with_id = |id: &'static str| {
            let message = PubsubMessage { data: Bytes::new(), message_id: Bytes::from(id) };
            message_id(&message)
        };
        assert_eq!(with_id("1702").unwrap(), 1702);
        assert!(with_id("abc").is_err());
        assert!(with_id("").is_err());
    }
}
