//! The null server's messages: a bounded queue in memory.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use prost::Message;
use wire::ReceivedMessage;
use wire::protobuf::Timestamp;
use wire::pubsub::PubsubMessage;

/// Messages kept; a publish beyond waits until some are handed out.
pub(super) const MESSAGES_MAX: usize = 1_000_000;

/// Numbers messages and, if asked to, keeps them until they are handed out.
pub(super) struct Queue {
    keeps: bool,
    next: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    messages: VecDeque<Queued>,
    consumers: Vec<Waker>,
    publishers: Vec<Waker>,
}

struct Queued {
    id: u64,
    message: Bytes,
}

impl Queue {
    pub(super) fn new(keeps: bool) -> Self {
        Self { keeps, next: AtomicU64::new(1), state: Mutex::default() }
    }

    /// Whether published messages are to be kept at all.
    pub(super) fn keeps(&self) -> bool {
        self.keeps
    }

    /// The id of the first of so many messages; the others follow it.
    pub(super) fn number(&self, count: usize) -> u64 {
        self.next.fetch_add(count as u64, Ordering::Relaxed)
    }

    /// Ready when there is room for more.
    pub(super) fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.messages.len() < MESSAGES_MAX {
            return Poll::Ready(());
        }
        state.publishers.push(context.waker().clone());
        Poll::Pending
    }

    /// Keeps messages, encoded as they will be delivered.
    pub(super) fn push(&self, first: u64, messages: Vec<PubsubMessage>) {
        let encoded = encode(first, messages);
        let mut state = self.state.lock();
        state.messages.extend(encoded);
        let consumers = std::mem::take(&mut state.consumers);
        drop(state);
        consumers.into_iter().for_each(Waker::wake);
    }

    /// The next messages, as many as are there up to a bound; pending while there are none.
    pub(super) fn poll_take(
        &self,
        context: &mut Context<'_>,
        messages_max: usize,
    ) -> Poll<Vec<ReceivedMessage>> {
        let mut state = self.state.lock();
        if state.messages.is_empty() {
            state.consumers.push(context.waker().clone());
            return Poll::Pending;
        }
        let count = state.messages.len().min(messages_max);
        let taken: Vec<Queued> = state.messages.drain(..count).collect();
        let publishers = std::mem::take(&mut state.publishers);
        drop(state);
        publishers.into_iter().for_each(Waker::wake);
        Poll::Ready(taken.into_iter().map(Queued::into_received).collect())
    }
}

impl Queued {
    fn into_received(self) -> ReceivedMessage {
        // About as long as an ack id that names subscription, offset, epoch and lease.
        let ack_id = format!("{:032x}", self.id);
        ReceivedMessage { ack_id, message: self.message, delivery_attempt: 0 }
    }
}

/// Copies the messages of a request into one buffer: slices of what was received would pin the
/// transport's buffers.
fn encode(first: u64, messages: Vec<PubsubMessage>) -> Vec<Queued> {
    let mut buffer = BytesMut::new();
    let mut queued = Vec::with_capacity(messages.len());
    for (id, mut message) in (first..).zip(messages) {
        message.message_id = id.to_string();
        message.publish_time = Some(Timestamp { seconds: 1_700_000_000, nanos: 1000 });
        let start = buffer.len();
        buffer.reserve(message.encoded_len());
        if message.encode(&mut buffer).is_ok() {
            queued.push((id, start..buffer.len()));
        }
    }
    let buffer = buffer.freeze();
    let slice = |(id, range)| Queued { id, message: buffer.slice(range) };
    queued.into_iter().map(slice).collect()
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    fn message(data: &'static str) -> PubsubMessage {
        PubsubMessage { data: data.into(), ..PubsubMessage::default() }
    }

    #[tokio::test]
    async fn what_is_published_is_handed_out_once_in_order() {
        let queue = Queue::new(true);
        let first = queue.number(3);
        queue.push(first, vec![message("a"), message("b"), message("c")]);
        let two = poll_fn(|context| queue.poll_take(context, 2)).await;
        let rest = poll_fn(|context| queue.poll_take(context, 2)).await;
        let decoded = two
            .iter()
            .chain(&rest)
            .map(|received| PubsubMessage::decode(received.message.clone()).unwrap());
        let decoded: Vec<_> = decoded.map(|one| (one.message_id, one.data)).collect();
        assert_eq!(decoded[0], ("1".to_owned(), "a".into()));
        assert_eq!(decoded[2], ("3".to_owned(), "c".into()));
        assert_eq!(decoded.len(), 3);
        assert!(futures::poll!(poll_fn(|context| queue.poll_take(context, 2))).is_pending());
    }

    #[tokio::test]
    async fn a_waiting_consumer_is_woken_by_a_publish() {
        let queue = Queue::new(true);
        let take = poll_fn(|context| queue.poll_take(context, 10));
        let publish = async { queue.push(1, vec![message("a")]) };
        let (taken, ()) = tokio::join!(take, publish);
        assert_eq!(taken.len(), 1);
    }
}
